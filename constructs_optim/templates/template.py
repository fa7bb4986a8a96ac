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
    """A resource, as declared in its template."""

    logical_id: str
    declaration: Mapping[str, Any] = field(hash=False)

    @property
    def type(self) -> str:
        """The resource's type, such as ``AWS::SageMaker::Endpoint``."""
        return str(self.declaration.get("Type", ""))

    @property
    def properties(self) -> Mapping[str, Any]:
        """The resource's properties; empty if it has none."""
        return as_object(self.declaration.get("Properties"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The resource's metadata; empty if it has none."""
        return as_object(self.declaration.get("Metadata"))

    @property
    def recipe(self) -> Mapping[str, Any]:
        """This library's metadata about the resource's recipe; empty for resources of other libraries."""
        return as_object(self.metadata.get(METADATA_KEY))

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The resources in ``DependsOn``, which are created before this one."""
        value = self.declaration.get("DependsOn")
        return (value,) if isinstance(value, str) else tuple(as_array(value))

    @property
    def is_retained(self) -> bool:
        """Whether CloudFormation keeps the resource when the stack removes it."""
        return self.declaration.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")

    @cached_property
    def references(self) -> frozenset[str]:
        """The logical IDs that the resource's properties refer to."""
        return referenced_ids(self.properties)

    @property
    def label(self) -> str:
        """The resource's readable name: its construct path within the stack if the CDK wrote one, or its logical ID."""
        path = self.metadata.get("aws:cdk:path")
        if isinstance(path, str) and "/" in path:
            return path.partition("/")[2].removesuffix("/Resource")
        return readable_id(self.logical_id)

    def get(self, *path: str) -> Any:
        """Return the property at a path; None if there is none."""
        value: Any = self.properties
        for name in path:
            value = as_object(value).get(name)
        return value


@dataclass(frozen=True)
class Template:
    """A stack's template."""

    content: Mapping[str, Any] = field(hash=False)

    @cached_property
    def resources(self) -> dict[str, Resource]:
        """The resources by logical ID, in the template's order."""
        return {
            logical_id: Resource(logical_id, declaration)
            for logical_id, declaration in self.section("Resources").items()
            if is_object(declaration)
        }

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a section such as ``Parameters``; empty if there is none."""
        return as_object(self.content.get(name))

    def of_type(self, *types: str) -> list[Resource]:
        """Return the resources of these types, in the template's order."""
        return [resource for resource in self.resources.values() if resource.type in types]

    def referred(self, value: Any, *types: str) -> list[Resource]:
        """Return the resources of these types that a value refers to, each once."""
        targets = dict.fromkeys(reference.target for reference in references(value))
        return [self.resources[t] for t in targets if t in self.resources and self.resources[t].type in types]
