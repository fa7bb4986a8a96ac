"""Changes that AWS refuses to deploy, each with what works instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from constructs_optim.templates.json_values import literal

from .endpoint_changes import EndpointChanges
from .hosted_endpoints import HostedEndpoint
from .resource_changes import NEVER_UPDATED, Action, ResourceChange
from .words import listed

_DEPLOY_TWICE = (
    "Deploy twice: first without auto_scale(...) and with nothing else changed, which deregisters the variant; then "
    "with the change, and with auto_scale(...) again."
)


def refusals(changes: Mapping[str, ResourceChange], endpoints: Iterable[EndpointChanges]) -> Iterator[str]:
    """What AWS refuses of a stack's changes, a sentence or two each."""
    for change in changes.values():
        if change.action is Action.refuse:
            yield _by_cloudformation(change)
    for endpoint in endpoints:
        yield from _by_sagemaker(endpoint)


def _by_cloudformation(change: ResourceChange) -> str:
    label = change.resource.label
    if change.resource.type in NEVER_UPDATED:
        # CloudFormation template reference, AWS::CloudFormation::WaitCondition: "Update requires: Updates are not
        # supported."
        return (
            f"CloudFormation refuses the deployment: it cannot update wait conditions, and {listed(change.properties)} "
            f"of {label} changes. Give the construct another id, which replaces the wait condition."
        )
    old, new = (each.type for each in (change.before, change.after) if each is not None)
    # "Update of resource type is not permitted. The new template modifies resource type of the following resources"
    return (
        f"CloudFormation refuses the deployment: {label} changes its type from {old} to {new}. Give the construct "
        "another id: CloudFormation then creates the new resource and deletes the old one."
    )


def _by_sagemaker(changes: EndpointChanges) -> Iterator[str]:
    """An update that changes the instances of a scaled variant, or takes the variant away.

    Source: SageMaker developer guide, "Update endpoints that use auto scaling". CloudFormation updates the endpoint
    before it deletes a scaling target, so the same deployment cannot deregister the variant.
    """
    before, after, own = changes.before, changes.after, changes.own
    # Another endpoint has no targets yet.
    if before is None or after is None or before.target is None or (own is not None and own.action is Action.replace):
        return
    new = _instances(after)
    for name, types in _instances(before).items():
        if name not in new:
            what = f"the variant {name} is removed"
        elif None in (*types, *new[name]) or types == new[name]:
            continue
        else:
            what = f"the instance type of {name} changes from {_named(types)} to {_named(new[name])}"
        yield (
            f"SageMaker refuses the update of {changes.endpoint.resource.label}: {what} while Application Auto Scaling "
            f"scales it. {_DEPLOY_TWICE}"
        )


def _instances(endpoint: HostedEndpoint) -> dict[str, tuple[str | None, ...]]:
    """The instance types of each variant by its name; None for a type that only the deployment knows."""
    return {
        str(variant.properties.get("VariantName")): tuple(literal(value) for _, value in variant.instance_types)
        or (None,)
        for variant in endpoint.variants
    }


def _named(types: Iterable[str | None]) -> str:
    return listed([name for name in types if name is not None])
