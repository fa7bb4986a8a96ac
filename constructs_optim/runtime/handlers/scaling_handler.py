"""``Custom::VariantScaling``: precedes a scaled endpoint, so that its variant can change."""

from __future__ import annotations

from ..custom_resource import Event, custom_resource
from ..variant_scaling import make_way


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    return event.get("PhysicalResourceId") or event["LogicalResourceId"], make_way(event)


def _delete(event: Event) -> None:
    """Nothing to delete: CloudFormation deletes the scalable target and its policies."""


handler = custom_resource(ensure=_ensure, delete=_delete)
