"""CloudFormation's requests to the function of a custom resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def custom_resource_event(
    kind: str,
    response_url: str,
    *,
    stack_id: str,
    logical_id: str,
    request_id: str,
    properties: Mapping[str, Any],
    physical_id: str | None = None,
    old_properties: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a request (CloudFormation user guide, "Custom resource request objects"): ``kind`` is Create, Update or
    Delete, and the answer is put to the ``response_url``.
    """
    return {
        "RequestType": kind,
        "ResponseURL": response_url,
        "StackId": stack_id,
        "RequestId": request_id,
        "LogicalResourceId": logical_id,
        "ResourceProperties": properties,
        **({"PhysicalResourceId": physical_id} if physical_id else {}),
        **({"OldResourceProperties": old_properties} if old_properties is not None else {}),
    }
