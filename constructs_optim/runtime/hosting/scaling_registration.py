"""A variant's registration with Application Auto Scaling: described, removed, and restored.

DeregisterScalableTarget "deletes the scaling policies and the scheduled actions that are associated with it"
(Application Auto Scaling API reference), and the alarms of target tracking policies. A restored policy has another ARN,
so the alarms that run it must be changed.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..errors import code_of
from ..requests.hosting_properties import DeclaredTarget, Registration
from ..telemetry import log

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.client import CloudWatchClient

    from ..aws import ScalableTargets

# The most names in a request (DescribeAlarms, Amazon CloudWatch API reference).
_MOST_ALARMS = 100
_DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def resource_id_of(endpoint_name: str, variant_name: str) -> str:
    """Return a variant's resource ID."""
    return f"endpoint/{endpoint_name}/variant/{variant_name}"


def policies_of_stack(stack_id: str, resource_id: str) -> dict[str, str]:
    """Return the ARNs that CloudFormation knows for a stack's own policies of a resource, by policy name."""
    arns, mark = _resources(stack_id, "AWS::ApplicationAutoScaling::ScalingPolicy"), _policy_mark(resource_id)
    return {arn.partition(mark)[2]: arn for arn in arns if mark in arn}


def is_declared(stack_id: str, resource_id: str) -> bool:
    """Return whether a stack declares the scalable target of a variant.

    Its physical ID is ``<resource ID>|<dimension>|<namespace>``: AWS CloudFormation user guide,
    AWS::ApplicationAutoScaling::ScalableTarget, "Return values".
    """
    targets = _resources(stack_id, "AWS::ApplicationAutoScaling::ScalableTarget")
    return any(target.startswith(f"{resource_id}|") for target in targets)


def is_registered(resource_id: str) -> bool:
    """Return whether a variant is registered."""
    return _target(_key(resource_id)) is not None


def registration_of(resource_id: str) -> Registration | None:
    """Return a variant's registration; None if it is not registered."""
    scaling, key = client("application-autoscaling"), _key(resource_id)
    target = _target(key)
    if target is None:
        return None
    arn = target.get("ScalableTargetARN")
    tags: Mapping[str, str] = scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] if arn else {}
    policies = _described(scaling, "describe_scaling_policies", "ScalingPolicies", key)
    return Registration(
        resource_id=key["ResourceId"],
        target=_as_json(target),
        # AWS's tags cannot be set.
        tags={name: value for name, value in tags.items() if not name.startswith("aws:")},
        policies=[_as_json(policy) for policy in policies],
        scheduled_actions=[
            _as_json(action) for action in _described(scaling, "describe_scheduled_actions", "ScheduledActions", key)
        ],
    )


def declared_registration(resource_id: str, target: DeclaredTarget) -> Registration:
    """Return a registration of what a stack declares, without policies."""
    members, key = target.model_dump(by_alias=True, exclude_none=True), _key(resource_id)
    schedules = [{**key, **schedule} for schedule in members.pop("ScheduledActions")]
    return Registration(resource_id=resource_id, target=members, scheduled_actions=schedules)


def deregister(registration: Registration) -> None:
    """Remove a registration if it exists."""
    try:
        client("application-autoscaling").deregister_scalable_target(**_key(registration.resource_id))
        log("deregistered", resource_id=registration.resource_id)
    except ClientError as error:
        if code_of(error) != "ObjectNotFoundException":
            raise


def register(registration: Registration, *, keeps: Callable[[str], bool] = lambda name: True) -> None:
    """Restore the missing parts of a registration, with the policies whose names ``keeps`` accepts."""
    scaling, key = client("application-autoscaling"), _key(registration.resource_id)
    if _target(key) is None:
        # Without RoleARN: the default is the service-linked role.
        members = {name: registration.target[name] for name in ("MinCapacity", "MaxCapacity")}
        if suspended := registration.target.get("SuspendedState"):
            members["SuspendedState"] = suspended
        tags = {"Tags": registration.tags} if registration.tags else {}
        scaling.register_scalable_target(**key, **members, **tags)
        log("registered", resource_id=registration.resource_id)
    there = {
        policy["PolicyName"] for policy in _described(scaling, "describe_scaling_policies", "ScalingPolicies", key)
    }
    for policy in registration.policies:
        if policy["PolicyName"] not in there and keeps(policy["PolicyName"]):
            scaling.put_scaling_policy(**_members(scaling, "PutScalingPolicy", policy))
            log("registered", resource_id=registration.resource_id, policy=policy["PolicyName"])
    actions = _described(scaling, "describe_scheduled_actions", "ScheduledActions", key)
    scheduled = {action["ScheduledActionName"] for action in actions}
    for action in registration.scheduled_actions:
        if action["ScheduledActionName"] not in scheduled:
            _schedule(scaling, _members(scaling, "PutScheduledAction", action))


def _schedule(scaling: ScalableTargets, action: Mapping[str, Any]) -> None:
    try:
        scaling.put_scheduled_action(**action)
    except ClientError as error:
        if code_of(error) != "ValidationException" or not str(action["Schedule"]).startswith("at("):
            raise
        # The action was to run once, at a time in the past.
        log("schedule is over", schedule=action["ScheduledActionName"])


def connect_alarms(stack_id: str, resource_id: str) -> None:
    """Make a stack's alarms call the existing policies instead of deleted policies with the same names."""
    prefix = f"{stack_id.split('/')[1]}-"
    # Scaling alarms have names that CloudFormation generates.
    names = [name for name in _resources(stack_id, "AWS::CloudWatch::Alarm") if name.startswith(prefix)]
    scaling, cloudwatch = client("application-autoscaling"), client("cloudwatch")
    policies = _described(scaling, "describe_scaling_policies", "ScalingPolicies", _key(resource_id))
    now = {policy["PolicyName"]: policy["PolicyARN"] for policy in policies}
    mark = _policy_mark(resource_id)
    for start in range(0, len(names), _MOST_ALARMS):
        asked = names[start : start + _MOST_ALARMS]
        # A page has 50 by default.
        for alarm in cloudwatch.describe_alarms(AlarmNames=asked, MaxRecords=_MOST_ALARMS)["MetricAlarms"]:
            before = alarm.get("AlarmActions", [])
            actions = [now.get(action.partition(mark)[2], action) if mark in action else action for action in before]
            if actions != before:
                cloudwatch.put_metric_alarm(
                    **_members(cloudwatch, "PutMetricAlarm", {**alarm, "AlarmActions": actions})
                )
                log("connected", alarm=alarm.get("AlarmName"))


def _resources(stack_id: str, resource_type: str) -> list[str]:
    """Return the physical IDs of a stack's resources of a type."""
    pages = client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack_id)
    return [
        resource.get("PhysicalResourceId", "")
        for page in pages
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == resource_type
    ]


def _policy_mark(resource_id: str) -> str:
    """Return the part before the name in a policy's ARN (ScalingPolicy, Application Auto Scaling API reference)."""
    return f":resource/sagemaker/{resource_id}:policyName/"


def _key(resource_id: str) -> dict[str, str]:
    return {"ServiceNamespace": "sagemaker", "ResourceId": resource_id, "ScalableDimension": _DIMENSION}


def _target(key: Mapping[str, str]) -> Mapping[str, Any] | None:
    found = client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace=key["ServiceNamespace"],
        ResourceIds=[key["ResourceId"]],
        ScalableDimension=key["ScalableDimension"],
    )
    return next(iter(found["ScalableTargets"]), None)


def _described(
    scaling: ScalableTargets, operation: str, member: str, key: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    return [item for page in scaling.get_paginator(operation).paginate(**key) for item in page[member]]


def _members(
    service: ScalableTargets | CloudWatchClient, operation: str, described: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the members of a request from a description."""
    known = service.meta.service_model.operation_model(operation).input_shape
    return {name: value for name, value in described.items() if known is not None and name in known.members}


def _as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with its times as text, which requests accept."""
    return json.loads(json.dumps(value, default=dt.datetime.isoformat))
