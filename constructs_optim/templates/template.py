"""A template's resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .json_values import as_array, as_object, is_object
from .references import readable_id, referenced_ids, references
from .resource_types import METADATA_KEY


@dataclass(frozen=True)
class Resource:
    """A resource as its template declares it."""

    logical_id: str
    declaration: Mapping[str, Any] = field(hash=False)

    @property
    def type(self) -> str:
        """For instance ``AWS::SageMaker::Endpoint``."""
        return str(self.declaration.get("Type", ""))

    @property
    def properties(self) -> Mapping[str, Any]:
        """Its properties; empty where it has none."""
        return as_object(self.declaration.get("Properties"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata; empty where it has none."""
        return as_object(self.declaration.get("Metadata"))

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The metadata that this library writes about its recipe; empty where it is not one of this library's."""
        return as_object(self.metadata.get(METADATA_KEY))

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The resources that are created before it, besides those it refers to."""
        value = self.declaration.get("DependsOn")
        return (value,) if isinstance(value, str) else tuple(as_array(value))

    @property
    def is_retained(self) -> bool:
        """Whether CloudFormation keeps it when it is removed from the stack."""
        return self.declaration.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")

    @cached_property
    def references(self) -> frozenset[str]:
        """The logical ids that its properties refer to."""
        return referenced_ids(self.properties)

    @property
    def label(self) -> str:
        """Its name for readers: its construct path within the stack where the CDK wrote one, or its logical id."""
        path = self.metadata.get("aws:cdk:path")
        if isinstance(path, str) and "/" in path:
            return path.partition("/")[2].removesuffix("/Resource")
        return readable_id(self.logical_id)

    def get(self, *path: str) -> Any:
        """A property by its path; None where there is none."""
        value: Any = self.properties
        for name in path:
            value = as_object(value).get(name)
        return value


@dataclass(frozen=True)
class Template:
    """One stack's template."""

    content: Mapping[str, Any] = field(hash=False)

    @cached_property
    def resources(self) -> dict[str, Resource]:
        """By logical id, in the template's order."""
        return {
            logical_id: Resource(logical_id, declaration)
            for logical_id, declaration in self.section("Resources").items()
            if is_object(declaration)
        }

    def section(self, name: str) -> Mapping[str, Any]:
        """A section such as ``Parameters``; empty where there is none."""
        return as_object(self.content.get(name))

    def of_type(self, *types: str) -> list[Resource]:
        """The resources of these types, in the template's order."""
        return [resource for resource in self.resources.values() if resource.type in types]

    def referred(self, value: Any, *types: str) -> list[Resource]:
        """The resources of these types that a value refers to, each once."""
        targets = dict.fromkeys(reference.target for reference in references(value))
        return [self.resources[t] for t in targets if t in self.resources and self.resources[t].type in types]
