"""What CloudFormation does with each resource when one template follows another.

Sources: CloudFormation user guide, "Update behaviors of stack resources"; the create-only properties of the resource
types' schemas (``create_only.json``, from the copy that cfn-lint bundles). What is known only when it happens, for
instance what a custom resource answers, counts as what may change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from constructs_optim.templates.references import references
from constructs_optim.templates.resource_types import JOBS, OPTIMIZED_ARTIFACT, OPTIMIZED_MODEL, WAITING
from constructs_optim.templates.template import Resource, Template

# Its handler makes another model for another definition: SageMaker cannot change one (handlers/model_handler.py).
_ALWAYS_REPLACED = frozenset({OPTIMIZED_MODEL})
# How a handler is asked, and what it changes in place.
_OF_THE_REQUEST = frozenset({"ServiceTimeout", "ServiceToken", "Tags"})
# What this library's custom resources answer follows from these alone (handlers/job_handler.py, artifact_handler.py).
_DECIDE_THE_ANSWER = {
    name: frozenset({"ArtifactKey", "Bucket", "Reads", "RecipeKey", "Source", "WaitHandle"})
    for name in (*JOBS, OPTIMIZED_ARTIFACT)
}
# What the CDK notes for itself; `cdk diff` leaves it out as well.
_NOTES = frozenset({"AWS::CDK::Metadata"})
NEVER_UPDATED = frozenset(WAITING)
_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
# Parts of a declaration, besides its properties, that say what becomes of a resource.
_ATTRIBUTES = ("Condition", "CreationPolicy", "DeletionPolicy", "UpdatePolicy", "UpdateReplacePolicy")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class Action(Enum):
    """What becomes of a resource, from the least to the most."""

    update = "update"
    may_replace = "may_replace"
    replace = "replace"
    create = "create"
    keep = "keep"
    remove = "remove"
    refuse = "refuse"


@dataclass(frozen=True)
class ResourceChange:
    """What a deployment does with one resource.

    Attributes:
        before: as it was; None for one that is new.
        after: as it will be; None for one that is removed.
        action: what CloudFormation does. ``keep``: it leaves the stack and stays. ``refuse``: no deployment does that.
        properties: the names of the properties that change, also those whose text stays and whose value does not.
        replacing: those among them that cannot change in place.
        causes: the logical ids of what it refers to and what changes for that reason.
        attributes: the parts beside its properties that change.
        is_certain: whether it changes at all for sure; not where it only refers to what may answer otherwise.
        is_known: whether its type's schema is known here; where not, it may be replaced as well.
    """

    before: Resource | None
    after: Resource | None
    action: Action
    properties: tuple[str, ...] = ()
    replacing: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    is_certain: bool = True
    is_known: bool = True

    @property
    def resource(self) -> Resource:
        """As it will be, or was where it is removed."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - a change is of something
        return found

    @property
    def logical_id(self) -> str:
        """The resource's."""
        return self.resource.logical_id

    @property
    def is_replaced(self) -> bool:
        """Whether another resource certainly takes its place."""
        return self.action is Action.replace


def compare(before: Template | None, after: Template | None, *, deployed: bool = False) -> dict[str, ResourceChange]:
    """The resources that change, by logical id: first those of ``after`` in its order, then those that are gone.

    Args:
        before: what is there; None for nothing.
        after: what is wanted; None for nothing.
        deployed: whether ``before`` is what CloudFormation gave back, which has a question mark for every character
            that is not ASCII.
    """
    old, new = (template.resources if template is not None else {} for template in (before, after))
    read = _as_cloudformation_gives_back if deployed else _same
    found: dict[str, ResourceChange] = {}
    for name, wanted in new.items():
        change = _compared(old[name], wanted, read) if name in old else ResourceChange(None, wanted, Action.create)
        if change is not None:
            found[name] = change
    for name, gone in old.items():
        if name not in new:
            found[name] = ResourceChange(gone, None, Action.keep if gone.is_retained else Action.remove)
    if before is not None and after is not None:
        _follow(found, before, after)
    found = {name: change for name, change in found.items() if change.resource.type not in _NOTES}
    order = {name: place for place, name in enumerate([*new, *(name for name in old if name not in new)])}
    return dict(sorted(found.items(), key=lambda item: order[item[0]]))


def same_value(before: Any, after: Any, *, deployed: bool = False) -> bool:
    """Whether two values of templates are the same to CloudFormation; ``deployed`` as for :func:`compare`."""
    return _equal(before, after, _as_cloudformation_gives_back if deployed else _same)


def _compared(before: Resource, after: Resource, read: Callable[[Any], Any]) -> ResourceChange | None:
    if before.type != after.type:
        return ResourceChange(before, after, Action.refuse)
    names = dict.fromkeys([*before.properties, *after.properties])
    changed = tuple(name for name in names if not _equal(before.properties.get(name), after.properties.get(name), read))
    attributes = tuple(
        name for name in _ATTRIBUTES if not _equal(before.declaration.get(name), after.declaration.get(name), read)
    )
    if not changed and not attributes:
        return None
    if changed and after.type in NEVER_UPDATED:
        return ResourceChange(before, after, Action.refuse, changed)
    certain, perhaps = _replacing(before, after, changed, read)
    action = Action.replace if certain else Action.may_replace if perhaps else Action.update
    return ResourceChange(
        before, after, action, changed, certain or perhaps, attributes=attributes, is_known=_is_known(after.type)
    )


def _replacing(
    before: Resource, after: Resource, changed: tuple[str, ...], read: Callable[[Any], Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The changed properties that replace it for certain, and those that may."""
    if after.type in _ALWAYS_REPLACED:
        return tuple(name for name in changed if name not in _OF_THE_REQUEST), ()
    certain, perhaps = [], []
    for path in _paths(after.type):
        parts = path.removeprefix("?").split("/")
        if parts[0] not in changed:
            continue
        old, new = (list(_values(each.properties, parts)) for each in (before, after))
        if not _equal(old, new, read):
            (perhaps if path.startswith("?") else certain).append(parts[0])
    return tuple(dict.fromkeys(certain)), tuple(dict.fromkeys(perhaps))


@dataclass
class _Follower:
    """Carries a change on to what refers to it, until nothing more changes."""

    found: dict[str, ResourceChange]
    after: Template
    changed_text: frozenset[str] = field(default=frozenset())

    def step(self) -> bool:
        """One round; whether it came upon anything."""
        moved = False
        for resource in self.after.resources.values():
            change = self.found.get(resource.logical_id)
            if change is not None and change.action in (Action.create, Action.refuse):
                continue
            followed = self._followed(resource, change)
            if followed != change and followed is not None:
                self.found[resource.logical_id] = followed
                moved = True
        return moved

    def _followed(self, resource: Resource, change: ResourceChange | None) -> ResourceChange | None:
        for name, value in resource.properties.items():
            for certain, cause in self._sources(value):
                change = self._with(resource, change, name, cause, certain)
        return change

    def _sources(self, value: Any) -> Iterator[tuple[bool, str]]:
        """What a value refers to and what changes, and whether it does for certain."""
        for found in references(value):
            if found.target in self.changed_text:
                yield False, found.target
                continue
            source = self.found.get(found.target)
            if source is None:
                continue
            if source.action in (Action.replace, Action.may_replace):
                yield source.is_certain and source.is_replaced, found.target
            elif source.action is Action.update and _may_answer_otherwise(source):
                yield False, found.target

    def _with(
        self, resource: Resource, change: ResourceChange | None, name: str, cause: str, certain: bool
    ) -> ResourceChange:
        was = change or ResourceChange(
            resource, resource, Action.update, is_certain=False, is_known=_is_known(resource.type)
        )
        by_definition = resource.type in _ALWAYS_REPLACED and name not in _OF_THE_REQUEST
        cannot = by_definition or any(path.split("/")[0] == name for path in _paths(resource.type))
        action = was.action
        if cannot and action is not Action.replace:
            action = Action.replace if certain else Action.may_replace
        return replace(
            was,
            action=action,
            properties=tuple(dict.fromkeys([*was.properties, name])),
            replacing=tuple(dict.fromkeys([*was.replacing, *([name] if cannot else [])])),
            causes=tuple(dict.fromkeys([*was.causes, cause])),
            is_certain=was.is_certain or certain,
        )


def _may_answer_otherwise(change: ResourceChange) -> bool:
    """Whether a custom resource that is updated in place may have other attributes then."""
    name = change.resource.type
    if name in _DECIDE_THE_ANSWER:
        return bool(_DECIDE_THE_ANSWER[name] & set(change.properties))
    return name.startswith(_CUSTOM) and not set(change.properties) <= _OF_THE_REQUEST


def _follow(found: dict[str, ResourceChange], before: Template, after: Template) -> None:
    follower = _Follower(found, after, frozenset(_changed_text(before, after)))
    while follower.step():
        pass


def _changed_text(before: Template, after: Template) -> Iterator[str]:
    """Parameters with another default, and mappings with another value, by the names that references give them."""
    old, new = (template.section("Parameters") for template in (before, after))
    for name in old.keys() & new.keys():
        if old[name].get("Default") != new[name].get("Default"):
            yield name
    old, new = (template.section("Mappings") for template in (before, after))
    for name in old.keys() & new.keys():
        # A key more changes nothing for those that were there.
        if any(old[name][key] != new[name][key] for key in old[name].keys() & new[name].keys()):
            yield f"Mappings.{name}"


@cache
def _schemas() -> dict[str, list[str]]:
    return json.loads((Path(__file__).parent / "create_only.json").read_text(encoding="utf-8"))


def _paths(type_name: str) -> list[str]:
    return _schemas().get(type_name, [])


def _is_known(type_name: str) -> bool:
    return type_name in _schemas() or type_name.startswith("Custom::")


def _values(value: Any, parts: list[str]) -> Iterator[Any]:
    """What is found below a schema's path, with ``*`` for every item of a list."""
    if not parts:
        yield value
    elif parts[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _values(item, parts[1:])
    elif isinstance(value, Mapping) and parts[0] in value:
        yield from _values(value[parts[0]], parts[1:])


def _equal(before: Any, after: Any, read: Callable[[Any], Any]) -> bool:
    return _canonical(before) == _canonical(read(after)) if before is not after else True


def _canonical(value: Any) -> Any:
    """CloudFormation takes numbers and booleans as text as well."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case Mapping():
            return {name: _canonical(item) for name, item in value.items()}
        case list() | tuple():
            return [_canonical(item) for item in value]
        case _:
            return value


def _same(value: Any) -> Any:
    return value


def _as_cloudformation_gives_back(value: Any) -> Any:
    match value:
        case str():
            return _NOT_ASCII.sub("?", value)
        case Mapping():
            return {
                _as_cloudformation_gives_back(key): _as_cloudformation_gives_back(item) for key, item in value.items()
            }
        case list() | tuple():
            return [_as_cloudformation_gives_back(item) for item in value]
        case _:
            return value
