"""A synthesized template as rules read it: resources, what they refer to, and what they say of their recipes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from constructs_optim.recipe.given import is_list

METADATA_KEY = "constructs-optim"
"""Under which this library's resources say what they are made of (``constructs.recipe_metadata``)."""

MODEL_TYPES = ("AWS::SageMaker::Model", "Custom::OptimizedModel")
JOB_TYPES = ("Custom::OptimizationJob", "Custom::TrainingJob")

_PLACEHOLDER = re.compile(r"\$\{([^!.}][^.}]*)(?:\.[^}]*)?\}")


@dataclass(frozen=True)
class DeclaredResource:
    """One resource of a template."""

    logical_id: str
    type: str
    properties: Mapping[str, Any] = field(hash=False)
    metadata: Mapping[str, Any] = field(hash=False)

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What this library wrote of its recipe; empty where it is not one of this library's."""
        return mapping(self.metadata.get(METADATA_KEY))

    def get(self, *path: str) -> Any:
        """A property by its path; None where there is none."""
        found: Any = self.properties
        for name in path:
            found = mapping(found).get(name)
        return found


class Template:
    """A template's resources, by logical id."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self.resources: dict[str, DeclaredResource] = {
            logical_id: DeclaredResource(
                logical_id,
                str(declared.get("Type", "")),
                mapping(declared.get("Properties")),
                mapping(declared.get("Metadata")),
            )
            for logical_id, declared in mapping(template.get("Resources")).items()
            if is_object(declared)
        }

    def of_type(self, *types: str) -> Iterator[DeclaredResource]:
        """All resources of these types, in the template's order."""
        return (resource for resource in self.resources.values() if resource.type in types)


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the value is an object of the template's JSON, in which every name is text."""
    return isinstance(value, Mapping)


def mapping(value: object) -> Mapping[str, Any]:
    """The value where it is a mapping, and an empty one where it is anything else."""
    return value if is_object(value) else {}


def listed(value: object) -> list[Any]:
    """The value where it is a list, and an empty one where it is anything else."""
    return value if is_list(value) else []


def references(value: Any) -> frozenset[str]:
    """The logical ids that a value refers to, by ``Ref``, ``Fn::GetAtt`` or ``Fn::Sub``."""
    match value:
        case {"Ref": str() as name}:
            return frozenset({name})
        case {"Fn::GetAtt": [str() as name, *_]}:
            return frozenset({name})
        case {"Fn::GetAtt": str() as text}:
            return frozenset({text.partition(".")[0]})
        case {"Fn::Sub": text}:
            parts = listed(text) or [text]
            named = frozenset[str](_PLACEHOLDER.findall(str(parts[0])))
            return named.union(*(references(part) for part in parts[1:]))
        case _:
            within = listed(value) or mapping(value).values()
            return frozenset[str]().union(*(references(item) for item in within))


def names(resource: DeclaredResource, name_property: str, value: Any) -> bool:
    """Whether a value is the name of a resource, or made of a reference to it."""
    given = resource.properties.get(name_property)
    return resource.logical_id in references(value) or (given is not None and given == value)


def shown(value: Any) -> str:
    """A value as a finding shows it: what is known only at deployment, as the template has it."""
    if isinstance(value, (Mapping, list)):
        text = json.dumps(value, separators=(", ", ": "), sort_keys=True)
        return text if len(text) <= 120 else f"{text[:117]}..."
    return "not given" if value is None else repr(value)
