"""Whether the stacks that own artifacts are still there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from constructs_optim.runtime.store.artifact_store import Owner
from constructs_optim.runtime.store.json_records import in_threads


@dataclass(frozen=True)
class Fate:
    """What became of a stack.

    ``deleted_at`` is known for 90 days (CloudFormation API reference, DescribeStacks). ``unknown`` says why the stack
    could not be looked up; it then counts as there.
    """

    gone: bool
    deleted_at: dt.datetime | None = None
    unknown: str | None = None


class Stacks:
    """The stacks of one account, in all regions."""

    def __init__(self, account: str, cloudformation: Callable[[str], Any]) -> None:
        """Prepare to look.

        Args:
            account: whose stacks can be looked up.
            cloudformation: gives a CloudFormation client of a region.
        """
        self._account, self._cloudformation = account, cloudformation
        self._clients: dict[str, Any] = {}
        self._fates: dict[str, Fate] = {}

    def look_up(self, owners: Iterable[Owner]) -> None:
        """Find out what became of the stacks of many owners, for :meth:`fate` to know: several at a time."""
        stack_ids = sorted({owner.stack_id for owner in owners} - self._fates.keys())
        for stack_id in stack_ids:
            if _is_stack_id(parts := stack_id.split(":", 5)) and parts[4] == self._account:
                # Clients are made one after the other: boto3's session is not made for threads.
                self._client(parts[3])
        self._fates.update(zip(stack_ids, in_threads(self._looked_up, stack_ids), strict=True))

    def fate(self, owner: Owner) -> Fate:
        """What became of the owner's stack. Whatever is not known for certain counts as there."""
        stack_id = owner.stack_id
        if stack_id not in self._fates:
            self._fates[stack_id] = self._looked_up(stack_id)
        return self._fates[stack_id]

    def _looked_up(self, stack_id: str) -> Fate:
        parts = stack_id.split(":", 5)
        if not _is_stack_id(parts):
            return Fate(gone=False, unknown=f"{stack_id} is no stack id")
        region, account = parts[3], parts[4]
        if account != self._account:
            return Fate(gone=False, unknown=f"stacks of account {account} can be looked up only there")
        try:
            # By its id: a stack of the same name that was created since is another one.
            stacks = self._client(region).describe_stacks(StackName=stack_id)["Stacks"]
        except ClientError as error:
            said = error.response.get("Error", {})
            if said.get("Code") == "ValidationError" and "does not exist" in said.get("Message", ""):
                return Fate(gone=True)
            return Fate(gone=False, unknown=f"stacks of {region} cannot be looked up: {said.get('Code')}")
        except BotoCoreError as error:
            return Fate(gone=False, unknown=f"stacks of {region} cannot be looked up: {error}")
        if stacks and all(stack["StackStatus"] == "DELETE_COMPLETE" for stack in stacks):
            return Fate(gone=True, deleted_at=stacks[0].get("DeletionTime"))
        return Fate(gone=False)

    def _client(self, region: str) -> Any:
        if region not in self._clients:
            self._clients[region] = self._cloudformation(region)
        return self._clients[region]


def _is_stack_id(parts: list[str]) -> bool:
    return len(parts) == 6 and parts[2] == "cloudformation"
