"""Which of the stacks that share an artifact are still there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from ..errors import message_of
from .owner_records import Owner

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient


def gone(owners: Iterable[Owner], asking: Owner, cloudformation: CloudFormationClient) -> frozenset[Owner]:
    """Those of ``owners`` whose stack does not exist any more.

    Only stacks of the asking one's own account and region can be looked up; an owner that cannot be, or about which
    CloudFormation gives no clear answer, counts as there.
    """
    return frozenset(
        owner
        for owner in owners
        if owner.stack_id != asking.stack_id
        and _place(owner) == _place(asking)
        and _is_gone(owner.stack_id, cloudformation)
    )


def _place(owner: Owner) -> list[str]:
    """Partition, region and account of the stack."""
    return owner.stack_id.split(":")[:5]


def _is_gone(stack_id: str, cloudformation: CloudFormationClient) -> bool:
    try:
        stacks = cloudformation.describe_stacks(StackName=stack_id)["Stacks"]
    except ClientError as error:
        return "does not exist" in message_of(error)
    except BotoCoreError:
        return False
    return all(stack["StackStatus"] == "DELETE_COMPLETE" for stack in stacks)
