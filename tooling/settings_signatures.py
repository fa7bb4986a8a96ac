"""The signatures of settings on the site: their fields, which constructors take by name (an extension of griffe)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import (
    Attribute,
    Class,
    ExprCall,
    ExprKeyword,
    Extension,
    Function,
    Module,
    Parameter,
    ParameterKind,
    Parameters,
)

_BASE = "constructs_optim.recipe.settings.Settings"
_ATTRIBUTES = re.compile(r"^Attributes:\n", re.MULTILINE)
_DESCRIPTION = re.compile(r"^    (\w+): .*(?:\n {5,}.*)*", re.MULTILINE)


class SettingsSignatures(Extension):
    """Gives each class of settings the constructor that pydantic gives it."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Change all classes, when their bases are known."""
        for cls in _classes(pkg):
            bases = [base for base in cls.mro() if base.path != _BASE]
            if len(bases) < len(cls.mro()):
                fields = {name: field for base in reversed([cls, *bases]) for name, field in _fields(base)}
                made = Function("__init__", parameters=Parameters(Parameter("self"), *map(_parameter, fields.values())))
                cls.set_member("__init__", made)
                _describe(cls, bases, fields)


def _describe(cls: Class, bases: list[Class], fields: dict[str, Attribute]) -> None:
    """Have the class's docstring describe the fields of its bases, too."""
    texts = [base.docstring.value if base.docstring is not None else "" for base in (*reversed(bases), cls)]
    described = {
        found[1]: found[0] for text in texts for found in _DESCRIPTION.finditer(_ATTRIBUTES.split(text, 1)[-1])
    }
    listed = "\n".join(described[name].rstrip() for name in fields if name in described)
    if cls.docstring is not None and listed:
        cls.docstring.value = f"{_ATTRIBUTES.split(cls.docstring.value, 1)[0].rstrip()}\n\nAttributes:\n{listed}\n"


def _classes(scope: Module | Class) -> Iterator[Class]:
    for member in scope.members.values():
        if not member.is_alias and isinstance(member, Module | Class):
            if isinstance(member, Class):
                yield member
            yield from _classes(member)


def _fields(cls: Class) -> Iterator[tuple[str, Attribute]]:
    for name, member in cls.members.items():
        is_field = isinstance(member, Attribute) and member.annotation is not None and "property" not in member.labels
        if is_field and not name.startswith("_") and "ClassVar" not in str(member.annotation):
            yield name, member


def _parameter(field: Attribute) -> Parameter:
    default = field.value
    if isinstance(default, ExprCall) and str(default.function) == "Field":
        given = {each.name: each.value for each in default.arguments if isinstance(each, ExprKeyword)}
        default = "..." if "default_factory" in given else given.get("default")
    return Parameter(field.name, annotation=field.annotation, kind=ParameterKind.keyword_only, default=default)
