"""An endpoint's current state: its status, its configuration, and its variants' instance types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..aws import client
from ..jobs.sagemaker_jobs import is_not_found

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.type_defs import DescribeEndpointOutputTypeDef

_SETTLED = ("InService", "Failed", "OutOfService", "UpdateRollbackFailed")


@dataclass(frozen=True)
class ServingEndpoint:
    """An endpoint and its configuration's creation time.

    ``variants`` are the instance types of each production variant, in order.
    """

    described: DescribeEndpointOutputTypeDef
    config_name: str
    config_created: dt.datetime
    variants: Mapping[str, tuple[str, ...]]

    @property
    def is_settled(self) -> bool:
        """Whether the endpoint is not changing."""
        return self.described["EndpointStatus"] in _SETTLED

    @property
    def as_lists(self) -> dict[str, list[str]]:
        """The variants as JSON values."""
        return {name: list(types) for name, types in self.variants.items()}


def serving_endpoint(name: str) -> ServingEndpoint | None:
    """Return the endpoint with this name; None if there is none."""
    sagemaker = client("sagemaker")
    try:
        endpoint = sagemaker.describe_endpoint(EndpointName=name)
    except ClientError as error:
        if not is_not_found(error):
            raise
        return None
    config_name = endpoint["EndpointConfigName"]
    config = sagemaker.describe_endpoint_config(EndpointConfigName=config_name)
    variants = {
        variant["VariantName"]: (variant["InstanceType"],)
        if "InstanceType" in variant
        else tuple(pool["InstanceType"] for pool in variant.get("InstancePools", ()))
        for variant in config["ProductionVariants"]
    }
    return ServingEndpoint(endpoint, config_name, config["CreationTime"], variants)


def stack_status(stack_id: str) -> str | None:
    """Return a stack's status; None if the stack is deleted."""
    try:
        found = client("cloudformation").describe_stacks(StackName=stack_id)
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        return None
    return found["Stacks"][0]["StackStatus"]


def is_rolling_back(stack_id: str) -> bool:
    """Return whether the stack is rolling back a failed or canceled operation."""
    return "ROLLBACK" in (stack_status(stack_id) or "")
