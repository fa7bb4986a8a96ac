"""The properties of ``Custom::ServedConfiguration`` and ``Custom::VariantScaling``, and recorded registrations."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from .properties import (
    Bucket,
    InstanceType,
    KeyArn,
    Properties,
    ResourceName,
    Sha256,
    StackId,
    Watch,
    WatchedProperties,
)


class Registration(BaseModel):
    """A variant's registration: the API's description as JSON.

    ``own`` are the names of the policies that the stack declares.
    """

    resource_id: str
    target: dict[str, Any]
    tags: dict[str, str] = Field(default_factory=dict[str, str])
    policies: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    scheduled_actions: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    own: list[str] = Field(default_factory=list[str])

    @property
    def variant_name(self) -> str:
        """The variant's name."""
        return self.resource_id.rpartition("/")[2]

    @property
    def policy_names(self) -> set[str]:
        """The names of all policies."""
        return {policy["PolicyName"] for policy in self.policies}

    def joined(self, other: Registration, *, without: set[str]) -> Registration:
        """Return a copy with the policies and schedules that only ``other`` has, except the policies ``without``."""
        scheduled = {action["ScheduledActionName"] for action in self.scheduled_actions}
        policies = [each for each in other.policies if each["PolicyName"] not in self.policy_names | without]
        actions = [each for each in other.scheduled_actions if each["ScheduledActionName"] not in scheduled]
        return self.model_copy(
            update={"policies": [*self.policies, *policies], "scheduled_actions": [*self.scheduled_actions, *actions]}
        )


class ScheduledRange(Properties):
    """The range that a schedule sets; None leaves a limit as it is."""

    min_capacity: int | None = None
    max_capacity: int | None = None


class DeclaredSchedule(Properties):
    """A scheduled action as the stack declares it; times are text in ISO 8601."""

    scheduled_action_name: str
    schedule: str
    timezone: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    scalable_target_action: ScheduledRange


class DeclaredTarget(Properties):
    """The scalable target of a variant as the stack declares it."""

    min_capacity: int
    max_capacity: int
    scheduled_actions: list[DeclaredSchedule] = Field(default_factory=list[DeclaredSchedule])


class ServedProperties(Properties):
    """One ``Custom::ServedConfiguration``: an endpoint, and the configuration that it must serve.

    With a ``variant_name``, it also has the ``ScalingProperties`` of a scaled variant.
    """

    endpoint_name: ResourceName
    endpoint_config_name: ResourceName
    variant_name: ResourceName | None = None


class ScalingProperties(WatchedProperties):
    """The requested state of a scaled variant.

    ``policies_hash`` is the hash of the stack's policies and their alarms, and ``target`` the stack's scalable target.
    The resource that has them depends on the endpoint, and target and policies depend on the resource. ``bucket`` is
    the store that keeps the registration while scaling is suspended.
    """

    endpoint_name: ResourceName
    variant_name: ResourceName
    instance_types: Annotated[list[InstanceType], Field(min_length=1, max_length=5)]
    policies_hash: Sha256 | None = None
    target: DeclaredTarget | None = None
    bucket: Bucket
    kms_key_arn: KeyArn | None = None


class ScalingWatch(Watch):
    """The input of the execution that watches an endpoint's suspended scaling."""

    stack_id: StackId
    endpoint_name: ResourceName
    bucket: Bucket
    kms_key_arn: KeyArn | None = None
