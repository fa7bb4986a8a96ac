"""The templates that stacks were deployed with, and the names of what they made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError

# A stack in these has no resources: it was never created, or is gone.
_NOT_THERE = frozenset({"REVIEW_IN_PROGRESS", "DELETE_COMPLETE"})


class DeployedTemplates:
    """What CloudFormation knows of an app's stacks. Needs ``cloudformation:DescribeStacks``, ``GetTemplate``,
    ``DescribeStackResource`` and ``ListExports``.
    """

    def __init__(self, cloudformation: Callable[[str | None], Any]) -> None:
        """Prepare to look.

        Args:
            cloudformation: gives a CloudFormation client of a region; None for the region that is configured.
        """
        self._cloudformation = cloudformation
        self._clients: dict[str | None, Any] = {}
        self._exports: dict[str | None, dict[str, str]] = {}

    def template(self, stack_name: str, region: str | None, parents: Sequence[str] = ()) -> Mapping[str, Any] | None:
        """The template of a stack, or of one nested in it; None where it is not there.

        Non-ASCII characters come back as question marks (AWS CDK issue 10523).

        Args:
            stack_name: the stack, or the outermost of those that the nested stack is in.
            region: where it is.
            parents: a nested stack's logical id, after those of the nested stacks that it is in.

        Raises:
            DeploymentError: for a template that is not JSON, which the CDK's are.
        """
        found = self._stack(stack_name, region, parents)
        if found is None:
            return None
        answer = self._client(region).get_template(StackName=found, TemplateStage="Original")
        body = answer["TemplateBody"]
        if isinstance(body, Mapping):
            return body
        try:
            return json.loads(body)
        except ValueError:
            raise DeploymentError(
                f"the template of the stack {stack_name} is not JSON, so the CDK did not deploy it: compare with a "
                "synthesized app instead (--against FOLDER)"
            ) from None

    def physical_id(
        self, stack_name: str, region: str | None, logical_id: str, parents: Sequence[str] = ()
    ) -> str | None:
        """What a resource is called in the account; None where it is not there."""
        found = self._stack(stack_name, region, parents)
        return self._resource(found, region, logical_id) if found is not None else None

    def exported(self, name: str, region: str | None) -> str | None:
        """The value of an export; None where there is none of that name."""
        if region not in self._exports:
            pages = self._client(region).get_paginator("list_exports").paginate()
            self._exports[region] = {each["Name"]: each["Value"] for page in pages for each in page["Exports"]}
        return self._exports[region].get(name)

    def _stack(self, stack_name: str, region: str | None, parents: Sequence[str]) -> str | None:
        """What the stack is asked for by; None where it is not there."""
        try:
            (stack,) = self._client(region).describe_stacks(StackName=stack_name)["Stacks"]
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        found: str | None = None if stack["StackStatus"] in _NOT_THERE else stack["StackId"]
        for logical_id in parents:
            found = self._resource(found, region, logical_id) if found is not None else None
        return found

    def _resource(self, stack: str, region: str | None, logical_id: str) -> str | None:
        try:
            answer = self._client(region).describe_stack_resource(StackName=stack, LogicalResourceId=logical_id)
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        return answer["StackResourceDetail"].get("PhysicalResourceId")

    def _client(self, region: str | None) -> Any:
        if region not in self._clients:
            self._clients[region] = self._cloudformation(region)
        return self._clients[region]


def _is_missing(error: ClientError) -> bool:
    said = error.response.get("Error", {})
    return said.get("Code") == "ValidationError" and "does not exist" in said.get("Message", "")
