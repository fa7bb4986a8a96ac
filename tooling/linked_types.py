"""Types in signatures on the site, as a reader can look them up (an extension of griffe).

A class has the place of its definition, wherever it was imported from. A type alias, which has no page, is what it
stands for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from griffe import (
    AliasResolutionError,
    Attribute,
    Class,
    CyclicAliasError,
    Expr,
    ExprBinOp,
    ExprName,
    ExprSubscript,
    ExprTuple,
    Extension,
    Function,
    Module,
)


class LinkedTypes(Extension):
    """Changes the types of all parameters, results, and attributes."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Change them when all modules are known."""
        for member in _members(pkg):
            if isinstance(member, Function):
                for parameter in member.parameters:
                    parameter.annotation = _linked(parameter.annotation, pkg)
                member.returns = _linked(member.returns, pkg)
            else:
                member.annotation = _linked(member.annotation, pkg)


def _members(scope: Module | Class) -> Iterator[Function | Attribute]:
    for member in scope.members.values():
        if isinstance(member, Function | Attribute):
            yield member
        elif isinstance(member, Module | Class):
            yield from _members(member)


def _linked(value: Any, package: Module) -> Any:
    if isinstance(value, ExprName):
        match _definition(value, package):
            case Class() as found:
                return ExprName(value.name, found.parent)
            case Attribute(value=(ExprSubscript() | ExprBinOp()) as meaning):
                return _linked(meaning, package)
            case _:
                return value
    if isinstance(value, ExprSubscript) and str(value.left) == "Annotated" and isinstance(value.slice, ExprTuple):
        # What pydantic checks of the type is in the parameter's description.
        return _linked(value.slice.elements[0], package)
    if isinstance(value, list):
        return [_linked(each, package) for each in value]
    if isinstance(value, Expr):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: _linked(getattr(value, name), package) for name in fields})
    return value


def _definition(name: ExprName, package: Module) -> object:
    """What a name of the package stands for; None for other names."""
    root, _, path = name.canonical_path.partition(".")
    if root != package.name or not path:
        return None
    try:
        found = package[path]
        return found.final_target if found.is_alias else found
    except (KeyError, AliasResolutionError, CyclicAliasError):
        return None
