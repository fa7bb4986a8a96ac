"""An endpoint as it serves now: its status, its configuration, and the instance types of its variants."""

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
    """An endpoint, and when its configuration was created.

    ``variants`` are the instance types of each production variant, in their order.
    """

    described: DescribeEndpointOutputTypeDef
    config_name: str
    config_created: dt.datetime
    variants: Mapping[str, tuple[str, ...]]

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is changing."""
        return self.described["EndpointStatus"] in _SETTLED

    @property
    def as_lists(self) -> dict[str, list[str]]:
        """The variants as JSON has them."""
        return {name: list(types) for name, types in self.variants.items()}


def serving_endpoint(name: str) -> ServingEndpoint | None:
    """The endpoint of that name; None if there is none."""
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
    """The status of a stack; None if it is gone."""
    try:
        found = client("cloudformation").describe_stacks(StackName=stack_id)
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        return None
    return found["Stacks"][0]["StackStatus"]


def is_rolling_back(stack_id: str) -> bool:
    """Whether the stack's operation has failed, or was cancelled, and goes back."""
    return "ROLLBACK" in (stack_status(stack_id) or "")
