"""What CloudFormation does with each resource when one template follows another.

Sources: CloudFormation user guide, "Update behaviors of stack resources"; the create-only properties of the resource
types' schemas (``create_only.json``, from the copy that cfn-lint bundles). What is known only at deployment, for
instance a custom resource's attributes, counts as what may change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from constructs_optim.templates.json_values import as_array, is_array, is_object
from constructs_optim.templates.references import references
from constructs_optim.templates.resource_types import JOBS, OPTIMIZED_ARTIFACT, OPTIMIZED_MODEL, WAITING
from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

from .formatting import listed
from .report import Action, ResourceReport

# How a handler is invoked, and what it changes in place.
_INVOCATION = frozenset({"ServiceTimeout", "ServiceToken", "Tags"})
# What decides the attributes of this library's custom resources (handlers/job_handler.py, artifact_handler.py).
_DECISIVE = {
    name: frozenset({"ArtifactKey", "Bucket", "Reads", "RecipeKey", "Source", "WaitHandle"})
    for name in (*JOBS, OPTIMIZED_ARTIFACT)
}
_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
# What the CDK notes for itself; `cdk diff` leaves it out as well.
_CDK_METADATA = "AWS::CDK::Metadata"
# Parts of a declaration, besides its properties, that affect the resource.
_ATTRIBUTES = ("Condition", "CreationPolicy", "DeletionPolicy", "UpdatePolicy", "UpdateReplacePolicy")
# Policies are reported as permissions.
_POLICY_PROPERTIES = frozenset(
    {"AssumeRolePolicyDocument", "ManagedPolicyArns", "PermissionsBoundary", "Policies", "PolicyDocument", "KeyPolicy"}
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LONGEST_VALUE = 80
_MOST_VALUES = 8


@dataclass(frozen=True)
class ResourceChange:
    """What a deployment does with one resource.

    Attributes:
        before: as it was; None for one that is new.
        after: as it will be; None for one that is removed.
        action: what CloudFormation does. ``keep``: it leaves the stack and stays. ``refuse``: CloudFormation cannot.
        properties: names of the properties that change, also those whose text stays and whose value does not.
        replacing: those among them that cannot change in place.
        causes: logical ids of the changed resources it refers to.
        attributes: the parts beside its properties that change.
        is_certain: False where it changes only if something it refers to has another value then.
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
        """The resource after the change, or before where it is removed."""
        resource = self.after or self.before
        assert resource is not None  # noqa: S101 - one of the two is set
        return resource

    @property
    def logical_id(self) -> str:
        """The resource's logical id."""
        return self.resource.logical_id


def compare(before: Template | None, after: Template | None, *, deployed: bool = False) -> dict[str, ResourceChange]:
    """Compare two templates.

    Args:
        before: the old template; None for nothing.
        after: the new template; None for nothing.
        deployed: whether ``before`` comes from CloudFormation, which returns a question mark for every character that
            is not ASCII.

    Returns:
        The resources that change by logical id: those of ``after`` in its order, then those that are gone.
    """
    old, new = (template.resources if template is not None else {} for template in (before, after))
    changes: dict[str, ResourceChange] = {}
    for name, resource in new.items():
        change = _compared(old[name], resource, deployed) if name in old else ResourceChange(None, resource, "create")
        if change is not None:
            changes[name] = change
    for name, resource in old.items():
        if name not in new:
            changes[name] = ResourceChange(resource, None, "keep" if resource.is_retained else "remove")
    if before is not None and after is not None:
        _propagate(changes, before, after)
    ordered = dict.fromkeys([*new, *old])
    return {name: changes[name] for name in ordered if name in changes and not _is_cdk_metadata(changes[name])}


def same_value(before: object, after: object, *, deployed: bool = False) -> bool:
    """Whether two values of templates are the same to CloudFormation; ``deployed`` as for :func:`compare`."""
    return _canonical(before) == _canonical(after, ascii_only=deployed)


def value_differences(change: ResourceChange, without: Collection[str] = ()) -> list[str]:
    """The values that change, ``Request.StoppingCondition.MaxRuntimeInSeconds: 36000 becomes 7200``, at most eight.

    References to other resources are left out, as those resources are reported; of long values only the name is shown.

    Args:
        change: the resource's change.
        without: properties that are reported elsewhere.
    """
    if change.before is None or change.after is None:
        return []
    old, new = change.before.properties, change.after.properties
    names = [name for name in change.properties if name not in without]
    texts = list(dict.fromkeys(text for name in names for text in _differences(name, old.get(name), new.get(name))))
    return (
        texts
        if len(texts) <= _MOST_VALUES
        else [*texts[:_MOST_VALUES], f"{len(texts) - _MOST_VALUES} more values change"]
    )


def other_resources(changes: Mapping[str, ResourceChange], reported: Collection[str]) -> Iterator[ResourceReport]:
    """The changed resources that are not ``reported`` elsewhere: as part of an endpoint, or as permissions."""
    for name, change in changes.items():
        is_policy_alone = (
            change.action == "update" and not change.attributes and {*change.properties} <= _POLICY_PROPERTIES
        )
        # A job's wait condition comes and goes with the job's artifact.
        is_waiting = change.resource.type in WAITING and change.action in ("create", "remove")
        if name not in reported and not is_waiting and not is_policy_alone:
            yield ResourceReport(
                name=change.resource.label,
                logical_id=name,
                type=change.resource.type,
                action=change.action,
                certain=change.is_certain,
                properties=change.properties,
                sentence=_sentence(change),
            )


def _sentence(change: ResourceChange) -> str:
    names = listed([*change.properties, *change.attributes])
    match change.action:
        case "create":
            return "is created"
        case "remove":
            return "is deleted"
        case "keep":
            return "leaves the stack and stays as it is, by its DeletionPolicy"
        case "refuse":
            return f"cannot change so ({names or 'its type'}): CloudFormation refuses the deployment"
        case "replace":
            return f"is replaced: {listed(change.replacing)} cannot be changed in place"
        case "may_replace":
            return f"may be replaced, for {listed(change.replacing)}"
        case "update" if not change.is_known:
            return f"changes ({names}); whether it is replaced is not known here, and `cdk diff` tells"
        case "update":
            return f"is updated in place ({names})" if change.is_certain else f"may be updated in place ({names})"


def _is_cdk_metadata(change: ResourceChange) -> bool:
    return change.resource.type == _CDK_METADATA


def _compared(before: Resource, after: Resource, deployed: bool) -> ResourceChange | None:
    if before.type != after.type:
        return ResourceChange(before, after, "refuse")

    def changed(names: Sequence[str], old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
        return tuple(name for name in names if not same_value(old.get(name), new.get(name), deployed=deployed))

    properties = changed([*{**before.properties, **after.properties}], before.properties, after.properties)
    attributes = changed(_ATTRIBUTES, before.declaration, after.declaration)
    if not properties and not attributes:
        return None
    if properties and after.type in WAITING:
        return ResourceChange(before, after, "refuse", properties)
    certain, possible = _replacing(before, after, properties, deployed)
    return ResourceChange(
        before,
        after,
        "replace" if certain else "may_replace" if possible else "update",
        properties,
        certain or possible,
        attributes=attributes,
        is_known=_is_known(after.type),
    )


def _replacing(
    before: Resource, after: Resource, changed: tuple[str, ...], deployed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The changed properties that replace the resource for certain, and those that may."""
    if after.type == OPTIMIZED_MODEL:
        return tuple(name for name in changed if name not in _INVOCATION), ()
    certain: dict[str, None] = {}
    possible: dict[str, None] = {}
    for path in _create_only(after.type):
        names = path.removeprefix("?").split("/")
        old, new = ([*_values(resource.properties, names)] for resource in (before, after))
        if names[0] in changed and not same_value(old, new, deployed=deployed):
            (possible if path.startswith("?") else certain)[names[0]] = None
    return tuple(certain), tuple(possible)


def _propagate(changes: dict[str, ResourceChange], before: Template, after: Template) -> None:
    """Add the changes of resources that refer to what changes, until nothing more follows."""
    inputs = frozenset(_changed_inputs(before, after))
    is_settled = False
    while not is_settled:
        is_settled = True
        for name, resource in after.resources.items():
            previous = change = changes.get(name)
            if previous is not None and previous.action in ("create", "refuse"):
                continue
            for property_name, value in resource.properties.items():
                for reference in references(value):
                    certain = False if reference.target in inputs else _effect(changes.get(reference.target))
                    if certain is not None:
                        change = _affected(resource, change, property_name, reference.target, certain)
            if change is not None and change != previous:
                changes[name] = change
                is_settled = False


def _effect(source: ResourceChange | None) -> bool | None:
    """Whether references to a changed resource certainly have another value (True), or may have (False); else None."""
    if source is None:
        return None
    if source.action in ("replace", "may_replace"):
        return source.is_certain and source.action == "replace"
    if source.action != "update":
        return None
    # A custom resource that is updated in place may have other attributes then.
    if (decisive := _DECISIVE.get(source.resource.type)) is not None:
        return False if decisive & {*source.properties} else None
    return False if source.resource.type.startswith(_CUSTOM) and not {*source.properties} <= _INVOCATION else None


def _affected(
    resource: Resource, change: ResourceChange | None, name: str, cause: str, certain: bool
) -> ResourceChange:
    """The change of a resource one of whose properties refers to ``cause``."""
    previous = change or ResourceChange(
        resource, resource, "update", is_certain=False, is_known=_is_known(resource.type)
    )
    action = previous.action
    is_create_only = (resource.type == OPTIMIZED_MODEL and name not in _INVOCATION) or any(
        path.split("/")[0] == name for path in _create_only(resource.type)
    )
    if is_create_only and action != "replace":
        action = "replace" if certain else "may_replace"
    return replace(
        previous,
        action=action,
        properties=tuple(dict.fromkeys([*previous.properties, name])),
        replacing=tuple(dict.fromkeys([*previous.replacing, *([name] if is_create_only else [])])),
        causes=tuple(dict.fromkeys([*previous.causes, cause])),
        is_certain=previous.is_certain or certain,
    )


def _changed_inputs(before: Template, after: Template) -> Iterator[str]:
    """Parameters with another default, and mappings with another value, by the names that references give them."""
    old, new = before.section("Parameters"), after.section("Parameters")
    yield from (name for name in old.keys() & new.keys() if old[name].get("Default") != new[name].get("Default"))
    old, new = before.section("Mappings"), after.section("Mappings")
    for name in old.keys() & new.keys():
        # An additional key changes nothing for those that were there.
        if any(old[name][key] != new[name][key] for key in old[name].keys() & new[name].keys()):
            yield f"Mappings.{name}"


@cache
def _schemas() -> dict[str, list[str]]:
    return json.loads((Path(__file__).parent / "create_only.json").read_text(encoding="utf-8"))


def _create_only(type_name: str) -> list[str]:
    """The paths of the properties that replace a resource, with a question mark where they may."""
    return _schemas().get(type_name, [])


def _is_known(type_name: str) -> bool:
    return type_name in _schemas() or type_name.startswith("Custom::")


def _values(value: object, names: list[str]) -> Iterator[object]:
    """The values below a schema's path, with ``*`` for every item of a list."""
    if not names:
        yield value
    elif names[0] == "*":
        for item in as_array(value):
            yield from _values(item, names[1:])
    elif is_object(value) and names[0] in value:
        yield from _values(value[names[0]], names[1:])


def _canonical(value: object, *, ascii_only: bool = False) -> object:
    """A value as CloudFormation compares it: numbers and booleans are the same as their text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case int():
            return str(value)
        case str():
            return _NOT_ASCII.sub("?", value) if ascii_only else value
        case _ if is_object(value):
            return {
                _canonical(name, ascii_only=ascii_only): _canonical(item, ascii_only=ascii_only)
                for name, item in value.items()
            }
        case _ if is_array(value):
            return [_canonical(item, ascii_only=ascii_only) for item in value]
        case _:
            return value


def _differences(path: str, before: object, after: object) -> Iterator[str]:
    if is_object(before) and is_object(after) and not (_is_function(before) or _is_function(after)):
        for name in {**before, **after}:
            yield from _differences(f"{path}.{name}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(path if len(before) == 1 else f"{path}[{index}]", old, new)
    else:
        old, new = text_of(before), text_of(after)
        if old == new or old.startswith("${") or new.startswith("${"):
            return
        if max(len(old), len(new)) > _LONGEST_VALUE:
            yield f"{path} changes"
        elif old == "none":
            yield f"{path} is set to {new}"
        elif new == "none":
            yield f"{path} is no longer set (it was {old})"
        else:
            yield f"{path}: {old} becomes {new}"


def _is_function(value: Mapping[str, object]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))
