"""Custom resources: tags, properties, and wait conditions for the jobs that they start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsii
from aws_cdk import CfnResource, CfnWaitCondition, CfnWaitConditionHandle, Duration, ITaggableV2, TagManager, TagType
from constructs import Construct

from constructs_optim.recipe.keys import sha256

from .arguments import DURATION

RESPONSE_SECONDS = 900
"""How long CloudFormation waits for a handler's response (``ServiceTimeout``)."""
COMPONENT_SECONDS = 3600
"""How long CloudFormation waits for an inference component that a handler creates: the maximum."""
LONGEST_WAIT_SECONDS = 12 * 60 * 60
"""The maximum timeout of a wait condition."""
SIGNALED_VALUES: dict[str, object] = {
    "config": {"ignore_checks": ["E1017"]},
    "reason": "The resource schema of AWS::CloudFormation::WaitCondition calls Data an object; Fn::GetAtt gives the "
    "text of a JSON object (CloudFormation user guide), which Fn::Split takes apart.",
}
"""The ``cfn-lint`` metadata of a resource that uses a part of a signal's data."""


def drop_none(**properties: Any) -> dict[str, Any]:
    """Return the properties that are not None."""
    return {name: value for name, value in properties.items() if value is not None}


@jsii.implements(ITaggableV2)
class TaggedResource(CfnResource):
    """A custom resource whose handler tags what it creates with its ``Tags`` property."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        type: str,
        properties: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Declare the resource; ``tags`` are its own tags."""
        # CfnResource renders the tag manager's tags as the property that the manager names.
        self._tag_manager = TagManager(TagType.KEY_VALUE, type, tags, tag_property_name="Tags")
        super().__init__(scope, id, type=type, properties=properties)

    @property
    def cdk_tag_manager(self) -> TagManager:
        """The CDK's tag manager."""
        return self._tag_manager


def wait_seconds(timeout: Duration | None, default: int, *, instead: str, name: str = "timeout") -> int:
    """Return ``timeout`` in seconds; refuse more than CloudFormation can wait, and suggest ``instead``."""
    DURATION.check(name, timeout)
    seconds = int(timeout.to_seconds()) if timeout is not None else default
    if timeout is not None and seconds > LONGEST_WAIT_SECONDS:
        raise ValueError(
            f"{name} is {timeout.to_human_string()}, and a wait condition lasts at most 12 hours: {instead}"
        )
    if seconds < 1:
        raise ValueError(
            f"{name} is {seconds} s, and the deployment would fail before a job ends: Duration.hours(12), for instance"
        )
    return seconds


class JobSignal:
    """A wait condition and its handle: resources that use the signal's data wait until the job ends.

    Neither can be updated, so their IDs contain a hash that changes with the job.
    """

    def __init__(self, scope: Construct, *, job: str, seconds: int, prefix: str = "", name: str = "Ready") -> None:
        """Declare the handle; ``job`` is text that changes with the job, and ``prefix`` is the prefix of both IDs."""
        self._scope, self._seconds, digits = scope, seconds, sha256(job)[:8]
        self._condition_id = f"{prefix}{name}{digits}"
        self._handle: str = CfnWaitConditionHandle(scope, f"{prefix}Handle{digits}").ref

    @property
    def properties(self) -> dict[str, Any]:
        """The properties that make a handler signal."""
        return {"WaitHandle": self._handle, "WaitSeconds": self._seconds}

    def await_from(self, resource: CfnResource) -> None:
        """Declare the condition, which waits for the handler of ``resource``."""
        condition = CfnWaitCondition(self._scope, self._condition_id, handle=self._handle, timeout=str(self._seconds))
        condition.add_resource_dependency(resource)
        self._data = condition.attr_data

    def part(self, index: int) -> dict[str, Any]:
        """Return a part of the signal's data, ``|first|second|...``, which CloudFormation wraps in JSON."""
        return {"Fn::Select": [index, {"Fn::Split": ["|", self._data]}]}
