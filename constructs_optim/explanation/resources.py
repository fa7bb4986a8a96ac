"""The resources that CloudFormation creates, updates, replaces and deletes when a template changes.

Sources: CloudFormation user guide, "Update behaviors of stack resources"; the create-only properties of the resource
types' schemas (``create_only.json``, from the copy that cfn-lint bundles). Values that are resolved at deployment, such
as a custom resource's attributes, can change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from constructs_optim.templates.json_values import as_array, as_object, is_array, is_object
from constructs_optim.templates.references import references
from constructs_optim.templates.resource_types import (
    JOBS,
    OPTIMIZED_ARTIFACT,
    OPTIMIZED_ENDPOINT_CONFIG,
    OPTIMIZED_INFERENCE_COMPONENT,
    OPTIMIZED_MODEL,
    SERVED_CONFIGURATION,
    VARIANT_SCALING,
    WAITING,
)
from constructs_optim.templates.template import Resource, Template

from .formatting import listed
from .report import Action, ResourceReport

# Attributes of a declaration that affect the resource.
_ATTRIBUTES = ("Condition", "CreationPolicy", "DeletionPolicy", "UpdatePolicy", "UpdateReplacePolicy")
# Properties that a custom resource's attributes do not depend on.
_INDECISIVE = frozenset({"ServiceTimeout", "ServiceToken", "Tags", *_ATTRIBUTES})
# Properties that determine the attributes of this library's custom resources (handlers/job_handler.py).
_DECISIVE = {
    name: frozenset({"ArtifactKey", "Bucket", "Reads", "RecipeKey", "Source", "WaitHandle"})
    for name in (*JOBS, OPTIMIZED_ARTIFACT)
} | {
    # PolicyEnding changes if the variant was deregistered (runtime/variant_scaling.py).
    name: frozenset({"EndpointName", "InstanceTypes", "VariantName"})
    for name in (SERVED_CONFIGURATION, VARIANT_SCALING)
}
_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
_SCHEMAS: dict[str, list[str]] = json.loads(Path(__file__).with_name("create_only.json").read_text(encoding="utf-8"))
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True)
class ResourceChange:
    """The change of a resource; ``resource`` is its new version, or the old one of a removed resource."""

    resource: Resource
    action: Action
    properties: tuple[str, ...] = ()
    # The properties that cannot be updated in place.
    replacing: tuple[str, ...] = ()
    # False if the change depends on a value that is resolved at deployment.
    is_certain: bool = True
    # Why CloudFormation refuses the change, and the fix.
    refusal: str = ""

    @property
    def report(self) -> ResourceReport:
        """The change in a report."""
        return ResourceReport(
            name=self.resource.label,
            logical_id=self.resource.logical_id,
            type=self.resource.type,
            action=self.action,
            certain=self.is_certain and self.action != "may_replace",
            properties=self.replacing or self.properties,
        )


def compare(before: Template, after: Template, *, deployed: bool = False) -> dict[str, ResourceChange]:
    """Return the resources that change, by logical ID. If ``deployed``, AWS replaced non-ASCII with ``?``."""
    old, new = before.resources, after.resources
    changes: dict[str, ResourceChange] = {}
    for name, resource in {**old, **new}.items():
        if name not in old:
            changes[name] = ResourceChange(resource, "create")
        elif name not in new:
            changes[name] = ResourceChange(resource, "keep" if resource.is_retained else "remove")
        elif change := _compared(old[name], resource, deployed):
            changes[name] = change
    _propagate(changes, before, after)
    # `cdk diff` also omits the CDK's own metadata.
    return {
        name: changes[name]
        for name in dict.fromkeys([*new, *old])
        if name in changes and changes[name].resource.type != "AWS::CDK::Metadata"
    }


def same_value(before: object, after: object, *, deployed: bool = False) -> bool:
    """Return whether two template values are equal for CloudFormation; ``deployed`` as for ``compare``."""
    return _canonical(before, ascii_only=False) == _canonical(after, ascii_only=deployed)


def _compared(before: Resource, after: Resource, deployed: bool) -> ResourceChange | None:
    fix = "Give the construct another ID"
    if before.type != after.type:
        # "Update of resource type is not permitted. The new template modifies resource type of the following resources"
        refusal = (
            f"CloudFormation refuses the deployment: {after.label} changes its type from {before.type} to "
            f"{after.type}. {fix}: CloudFormation then creates the new resource and deletes the old one."
        )
        return ResourceChange(after, "refuse", refusal=refusal)
    old, new = ({**side.declaration, **side.properties} for side in (before, after))
    names = dict.fromkeys([*before.properties, *after.properties, *_ATTRIBUTES])
    changed = tuple(name for name in names if not same_value(old.get(name), new.get(name), deployed=deployed))
    if not changed:
        return None
    if after.type in WAITING and {*changed} - {*_ATTRIBUTES}:
        # CloudFormation template reference, AWS::CloudFormation::WaitCondition: "Update requires: Updates are not
        # supported."
        refusal = (
            f"CloudFormation refuses the deployment: it cannot update wait conditions, but {listed(changed)} of "
            f"{after.label} changes. {fix}, which replaces the wait condition."
        )
        return ResourceChange(after, "refuse", changed, refusal=refusal)
    certain: dict[str, None] = {}
    possible: dict[str, None] = {}
    for path in dict.fromkeys([*_create_only(before), *_create_only(after)]):
        steps = path.removeprefix("?").split("/")
        values = ([*_values(resource.properties, steps)] for resource in (before, after))
        if steps[0] in changed and not same_value(*values, deployed=deployed):
            (possible if path.startswith("?") else certain)[steps[0]] = None
    action: Action = "replace" if certain else "may_replace" if possible else "update"
    return ResourceChange(after, action, changed, tuple(certain or possible))


def _propagate(changes: dict[str, ResourceChange], before: Template, after: Template) -> None:
    """Add the changes of resources that refer to changed resources, transitively."""
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
                        change = _affected(resource, change, property_name, certain)
            if change is not None and change != previous:
                changes[name] = change
                is_settled = False


def _effect(source: ResourceChange | None) -> bool | None:
    """Return whether references to a resource certainly change (True) or might change (False); None if they do not."""
    if source is None:
        return None
    if source.action in ("replace", "may_replace"):
        return source.is_certain and source.action == "replace"
    if source.action != "update" or not source.resource.type.startswith(_CUSTOM):
        return None
    # An in-place update can change the attributes of a custom resource.
    changed = {*source.properties}
    decisive = _DECISIVE.get(source.resource.type, changed - _INDECISIVE)
    return False if decisive & changed else None


def _affected(resource: Resource, change: ResourceChange | None, name: str, certain: bool) -> ResourceChange:
    """Return the change of a resource with a property that refers to a changed resource."""
    previous = change or ResourceChange(resource, "update", is_certain=False)
    action, replacing = previous.action, previous.replacing
    if any(path.split("/")[0] == name for path in _create_only(resource)):
        replacing = tuple(dict.fromkeys([*replacing, name]))
        action = "replace" if certain or action == "replace" else "may_replace"
    return replace(
        previous,
        action=action,
        properties=tuple(dict.fromkeys([*previous.properties, name])),
        replacing=replacing,
        is_certain=previous.is_certain or certain,
    )


def _changed_inputs(before: Template, after: Template) -> Iterator[str]:
    """Find parameters and mappings with changed values, by their names in references."""
    old, new = before.section("Parameters"), after.section("Parameters")
    yield from (name for name in old.keys() & new.keys() if _default(old[name]) != _default(new[name]))
    old, new = before.section("Mappings"), after.section("Mappings")
    for name in old.keys() & new.keys():
        # An additional key does not change existing references.
        had, has = as_object(old[name]), as_object(new[name])
        if any(had[key] != has[key] for key in had.keys() & has.keys()):
            yield f"Mappings.{name}"


def _default(parameter: object) -> object:
    return as_object(parameter).get("Default")


def _create_only(resource: Resource) -> list[str]:
    """Return the paths of the properties that replace a resource; ``?`` marks paths that might replace it."""
    if resource.type in (OPTIMIZED_MODEL, OPTIMIZED_ENDPOINT_CONFIG):
        return [name for name in resource.properties if name not in _INDECISIVE]
    if resource.type == OPTIMIZED_INFERENCE_COMPONENT:
        return ["InferenceComponentName"]
    return _SCHEMAS.get(resource.type, [])


def _values(value: object, names: list[str]) -> Iterator[object]:
    """Find the values at a schema's path, with ``*`` for every item of a list."""
    if not names:
        yield value
    elif names[0] == "*":
        for item in as_array(value):
            yield from _values(item, names[1:])
    elif is_object(value) and names[0] in value:
        yield from _values(value[names[0]], names[1:])


def _canonical(value: object, ascii_only: bool) -> object:
    """Return a value as CloudFormation compares it: numbers and booleans equal their text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case int():
            return str(value)
        case str():
            return _NOT_ASCII.sub("?", value) if ascii_only else value
        case Mapping():
            return {_canonical(name, ascii_only): _canonical(item, ascii_only) for name, item in value.items()}
        case _ if is_array(value):
            return [_canonical(item, ascii_only) for item in value]
        case _:
            return value
