"""A template as something to ask: its resources, what refers to what, and its values as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_SUBSTITUTED = re.compile(r"\$\{([^!][^}]*)\}")
# The CDK ends logical ids with eight digits of a hash.
_HASH = re.compile(r"[0-9A-F]{8}$")
_RETAINED = frozenset({"Retain", "RetainExceptOnCreate"})


@dataclass(frozen=True)
class Reference:
    """What a value takes from another part of the template.

    ``target`` is a logical id, or ``Mappings.<name>``; ``attribute`` is None for a ``Ref``.
    """

    target: str
    attribute: str | None = None


@dataclass(frozen=True)
class Resource:
    """A resource as its template declares it."""

    logical_id: str
    declaration: Mapping[str, Any]

    @property
    def type(self) -> str:
        """For instance ``AWS::SageMaker::Endpoint``."""
        return str(self.declaration.get("Type", ""))

    @property
    def properties(self) -> Mapping[str, Any]:
        """Its properties; empty where it has none."""
        return self.declaration.get("Properties") or {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata; empty where it has none."""
        return self.declaration.get("Metadata") or {}

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The resources that are there before it, besides those it refers to."""
        given = self.declaration.get("DependsOn") or ()
        return (given,) if isinstance(given, str) else tuple(given)

    @property
    def is_kept(self) -> bool:
        """Whether what it stands for stays when it is removed from the stack."""
        return self.declaration.get("DeletionPolicy") in _RETAINED

    @cached_property
    def references(self) -> frozenset[str]:
        """The logical ids that its properties refer to."""
        return frozenset(found.target for found in references(self.properties))

    @property
    def label(self) -> str:
        """Its name for readers: its place in the app where the CDK wrote that down, otherwise its logical id."""
        path = self.metadata.get("aws:cdk:path")
        if isinstance(path, str) and "/" in path:
            return path.partition("/")[2].removesuffix("/Resource")
        return _HASH.sub("", self.logical_id) or self.logical_id


@dataclass(frozen=True)
class Template:
    """One stack's template."""

    content: Mapping[str, Any]

    @cached_property
    def resources(self) -> dict[str, Resource]:
        """By logical id, in the template's order."""
        return {name: Resource(name, given) for name, given in (self.content.get("Resources") or {}).items()}

    def of_type(self, *types: str) -> list[Resource]:
        """The resources of these types."""
        return [resource for resource in self.resources.values() if resource.type in types]

    def referred(self, value: Any, *types: str) -> list[Resource]:
        """The resources of these types that a value refers to, each once."""
        targets = dict.fromkeys(found.target for found in references(value))
        found = [self.resources[target] for target in targets if target in self.resources]
        return [resource for resource in found if resource.type in types]


def references(value: Any) -> Iterator[Reference]:
    """All that a value takes from elsewhere in its template. What CloudFormation knows by itself is left out."""
    match value:
        case {"Ref": str(name)} if len(value) == 1:
            yield from _reference(name)
        case {"Fn::GetAtt": [name, *attribute]} if len(value) == 1:
            yield Reference(str(name), ".".join(str(part) for part in attribute))
        case {"Fn::GetAtt": str(name)} if len(value) == 1:
            yield from _reference(name)
        case {"Fn::FindInMap": [str(name), *keys]} if len(value) == 1:
            yield Reference(f"Mappings.{name}")
            yield from references(keys)
        case {"Fn::Sub": pattern} if len(value) == 1:
            yield from _substituted(pattern)
        case dict():
            for item in value.values():
                yield from references(item)
        case list() | tuple():
            for item in value:
                yield from references(item)
        case _:
            pass


def _reference(name: str) -> Iterator[Reference]:
    target, _, attribute = name.partition(".")
    if not target.startswith("AWS::"):
        yield Reference(target, attribute or None)


def _substituted(pattern: Any) -> Iterator[Reference]:
    text, variables = pattern if isinstance(pattern, list) else (pattern, {})
    for name in _SUBSTITUTED.findall(str(text)):
        if name not in variables:
            yield from _reference(name)
    yield from references(variables)


def text_of(value: Any) -> str:
    """A value for readers: ``${Name}`` stands for what only a deployment knows."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case {"Ref": name} if len(value) == 1:
            return f"${{{_short(str(name))}}}"
        case {"Fn::GetAtt": [name, *attribute]} if len(value) == 1:
            return f"${{{'.'.join([_short(str(name)), *(str(part) for part in attribute)])}}}"
        case {"Fn::Join": [separator, list() as parts]} if len(value) == 1:
            return str(separator).join(text_of(part) for part in parts)
        case {"Fn::Sub": [pattern, dict() as variables]} if len(value) == 1:
            return _SUBSTITUTED.sub(
                lambda found: text_of(variables[found[1]]) if found[1] in variables else f"${{{_short(found[1])}}}",
                str(pattern),
            )
        case {"Fn::Sub": str(pattern)} if len(value) == 1:
            return _SUBSTITUTED.sub(lambda found: f"${{{_short(found[1])}}}", pattern)
        case {"Fn::FindInMap": [name, *_]} if len(value) == 1:
            return f"${{{name}}}"
        case {"Fn::Select": [_, inner]} | {"Fn::Split": [_, inner]} | {"Fn::ImportValue": inner} if len(value) == 1:
            return text_of(inner)
        case dict():
            return "{" + ", ".join(f"{name}: {text_of(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return ", ".join(text_of(item) for item in value)
        case _:
            return str(value)


def _short(name: str) -> str:
    head, dot, rest = name.partition(".")
    return name if "::" in name else (_HASH.sub("", head) or head) + dot + rest


def literal(value: Any) -> str | None:
    """A value that is known before the deployment, as text; None for one that is not."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def number(value: Any) -> int | None:
    """A whole number that is known before the deployment; CloudFormation takes its digits as well."""
    text = literal(value)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
