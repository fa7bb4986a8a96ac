"""CloudFormation stacks: whether owners of artifacts still exist, and deployed templates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from constructs_optim.runtime.documents import json_value, object_in
from constructs_optim.runtime.errors import DeploymentError, code_of, message_of
from constructs_optim.runtime.store.artifact_store import Owner
from constructs_optim.runtime.store.json_records import in_threads
from constructs_optim.templates.template import Template

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient

# Statuses of stacks without resources.
_ABSENT = frozenset({"REVIEW_IN_PROGRESS", "DELETE_COMPLETE"})
# What DescribeStacks returns for parameters with NoEcho (CloudFormation user guide, "Parameters").
_MASKED = "****"


@dataclass(frozen=True)
class StackState:
    """Whether a stack is deleted. A stack that cannot be described counts as existing; ``unknown`` is the reason."""

    gone: bool
    # Known for 90 days (CloudFormation API reference, DescribeStacks).
    deleted_at: dt.datetime | None = None
    unknown: str | None = None


class Stacks:
    """The stacks of one account, in all Regions."""

    def __init__(self, account: str, cloudformation: Callable[[str], CloudFormationClient]) -> None:
        """Store the account of the stacks, and the function that creates a client of a Region."""
        self._account, self._client = account, cache(cloudformation)
        self._states: dict[str, StackState] = {}

    def look_up(self, owners: Iterable[Owner]) -> None:
        """Describe the stacks of many owners concurrently, for ``state``."""
        stack_ids = sorted({owner.stack_id for owner in owners} - self._states.keys())
        for region in {parts[3] for parts in map(_parts, stack_ids) if parts and parts[4] == self._account}:
            # Clients are created sequentially: boto3's session is not thread-safe.
            self._client(region)
        self._states.update(zip(stack_ids, in_threads(self._look_up, stack_ids), strict=True))

    def state(self, owner: Owner) -> StackState:
        """Return the state of the owner's stack."""
        if owner.stack_id not in self._states:
            self._states[owner.stack_id] = self._look_up(owner.stack_id)
        return self._states[owner.stack_id]

    def _look_up(self, stack_id: str) -> StackState:
        parts = _parts(stack_id)
        if parts is None:
            return StackState(gone=False, unknown=f"{stack_id} is not a stack ID")
        region, account = parts[3], parts[4]
        if account != self._account:
            return StackState(gone=False, unknown=f"only credentials of account {account} can look up its stacks")
        try:
            # By ID, because a later stack can have the same name.
            stacks = self._client(region).describe_stacks(StackName=stack_id)["Stacks"]
        except ClientError as error:
            if _is_missing(error):
                return StackState(gone=True)
            return StackState(gone=False, unknown=f"stacks in {region} cannot be looked up: {code_of(error)}")
        except BotoCoreError as error:
            return StackState(gone=False, unknown=f"stacks in {region} cannot be looked up: {error}")
        if stacks and all(stack["StackStatus"] == "DELETE_COMPLETE" for stack in stacks):
            return StackState(gone=True, deleted_at=stacks[0].get("DeletionTime"))
        return StackState(gone=False)


@dataclass(frozen=True)
class DeployedStack:
    """A deployed stack: what its template declares, and its resources' physical IDs by logical ID.

    ``parameters`` are the values of its parameters, without secret ones.
    """

    name: str
    status: str
    account: str
    region: str
    template: Template = field(repr=False)
    physical_ids: Mapping[str, str] = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class DeployedTemplates:
    """The templates, resources, and exports of deployed stacks."""

    def __init__(self, cloudformation: Callable[[str | None], CloudFormationClient]) -> None:
        """Store the function that creates a client of a Region; None is the configured Region."""
        self._client = cache(cloudformation)
        self._exports: dict[str | None, dict[str, str]] = {}

    def template(self, stack_name: str, region: str | None, parents: Sequence[str] = ()) -> Mapping[str, Any] | None:
        """Return the template of a stack, or of a nested stack (``parents``: logical IDs); None if it does not exist.

        CloudFormation returns question marks for non-ASCII characters (AWS CDK issue 10523).
        """
        stack_id = self._stack(stack_name, region, parents)
        if stack_id is None:
            return None
        body: object = self._client(region).get_template(StackName=stack_id, TemplateStage="Original")["TemplateBody"]
        if isinstance(body, Mapping):
            return body  # boto3 parses JSON templates
        try:
            return object_in(json_value(str(body)))
        except ValueError:
            raise DeploymentError(
                f"the template of the stack {stack_name} is not JSON, so the CDK did not deploy it: compare with a "
                "synthesized app instead (--against FOLDER)"
            ) from None

    def physical_id(
        self, stack_name: str, region: str | None, logical_id: str, parents: Sequence[str] = ()
    ) -> str | None:
        """Return the physical ID of a stack's resource; None if it does not exist."""
        return self._resource(self._stack(stack_name, region, parents), region, logical_id)

    def stack_of(self, physical_id: str, region: str | None) -> DeployedStack | None:
        """Return the stack that has a resource with this physical ID; None if none in the Region has it."""
        try:
            # Tags do not name it: CloudFormation's schemas of endpoints have no system tags (``tagging``).
            found = self._client(region).describe_stack_resources(PhysicalResourceId=physical_id)["StackResources"]
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        return self.stack(found[0].get("StackId", ""), region) if found else None

    def stack(self, stack_name: str, region: str | None, parents: Sequence[str] = ()) -> DeployedStack | None:
        """Return a stack, given by name or ID, with its template and resources; None if it does not exist."""
        stack_id, template = self._stack(stack_name, region, parents), self.template(stack_name, region, parents)
        if stack_id is None or template is None:
            return None
        (described,) = self._client(region).describe_stacks(StackName=stack_id)["Stacks"]
        pages = self._client(region).get_paginator("list_stack_resources").paginate(StackName=stack_id)
        resources = [summary for page in pages for summary in page["StackResourceSummaries"]]
        parts = _parts(stack_id)
        return DeployedStack(
            name=parts[5].split("/")[1] if parts is not None else stack_name,
            status=described["StackStatus"],
            account=parts[4] if parts is not None else "",
            region=parts[3] if parts is not None else region or "",
            template=Template(template),
            physical_ids={
                summary["LogicalResourceId"]: summary.get("PhysicalResourceId", "")
                for summary in resources
                if summary["ResourceStatus"] != "DELETE_COMPLETE"
            },
            parameters={
                given.get("ParameterKey", ""): value
                for given in described.get("Parameters", [])
                if (value := given.get("ResolvedValue", given.get("ParameterValue", _MASKED))) != _MASKED
            },
        )

    def exported(self, name: str, region: str | None) -> str | None:
        """Return the value of an export; None if it does not exist."""
        if region not in self._exports:
            pages = self._client(region).get_paginator("list_exports").paginate()
            exports = (export for page in pages for export in page["Exports"])
            self._exports[region] = {export.get("Name", ""): export.get("Value", "") for export in exports}
        return self._exports[region].get(name)

    def _stack(self, stack_name: str, region: str | None, parents: Sequence[str]) -> str | None:
        """Return the ID of a stack; None if it does not exist."""
        try:
            (stack,) = self._client(region).describe_stacks(StackName=stack_name)["Stacks"]
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        stack_id = None if stack["StackStatus"] in _ABSENT else stack.get("StackId")
        for logical_id in parents:
            stack_id = self._resource(stack_id, region, logical_id)
        return stack_id

    def _resource(self, stack_id: str | None, region: str | None, logical_id: str) -> str | None:
        if stack_id is None:
            return None
        try:
            resource = self._client(region).describe_stack_resource(StackName=stack_id, LogicalResourceId=logical_id)
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        return resource["StackResourceDetail"].get("PhysicalResourceId")


def _parts(stack_id: str) -> list[str] | None:
    parts = stack_id.split(":", 5)
    return parts if len(parts) == 6 and parts[2] == "cloudformation" else None


def _is_missing(error: ClientError) -> bool:
    return code_of(error) == "ValidationError" and "does not exist" in message_of(error)
