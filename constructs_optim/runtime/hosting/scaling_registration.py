"""The registration of a variant with Application Auto Scaling: described, taken away, and put back as it was.

DeregisterScalableTarget "deletes the scaling policies and the scheduled actions that are associated with it"
(Application Auto Scaling API reference), and with a target tracking policy its alarms. A policy that is put again has
another ARN, which the alarms that run it have to name.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..errors import code_of
from ..requests.hosting_properties import Registration
from ..telemetry import log

if TYPE_CHECKING:
    from ..aws import ScalableTargets

_DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def registration_of(endpoint_name: str, variant_name: str) -> Registration | None:
    """What is registered of a variant; None if nothing is."""
    scaling, key = client("application-autoscaling"), _key(f"endpoint/{endpoint_name}/variant/{variant_name}")
    target = _target(key)
    if target is None:
        return None
    arn = target.get("ScalableTargetARN")
    tags: Mapping[str, str] = scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] if arn else {}
    policies = _described(scaling, "describe_scaling_policies", "ScalingPolicies", key)
    return Registration(
        resource_id=key["ResourceId"],
        target=_as_json(target),
        # AWS's own tags cannot be set.
        tags={name: value for name, value in tags.items() if not name.startswith("aws:")},
        policies=[_as_json(policy) for policy in policies],
        scheduled_actions=[
            _as_json(action) for action in _described(scaling, "describe_scheduled_actions", "ScheduledActions", key)
        ],
        alarms=[
            alarm["AlarmName"]
            for policy in policies
            if policy["PolicyType"] == "StepScaling"
            for page in client("cloudwatch").get_paginator("describe_alarms").paginate(ActionPrefix=policy["PolicyARN"])
            for alarm in page["MetricAlarms"]
            if "AlarmName" in alarm
        ],
    )


def deregister(registration: Registration) -> None:
    """Take a registration away, if it is there."""
    try:
        client("application-autoscaling").deregister_scalable_target(**_key(registration.resource_id))
        log("deregistered", resource_id=registration.resource_id)
    except ClientError as error:
        if code_of(error) != "ObjectNotFoundException":
            raise


def register(registration: Registration, *, keeps: Callable[[str], bool] = lambda name: True) -> None:
    """Put back what is missing of a registration, with those policies whose names ``keeps`` accepts."""
    scaling, key = client("application-autoscaling"), _key(registration.resource_id)
    if _target(key) is None:
        # Without RoleARN, which is that of the service-linked role.
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
    _connect_alarms(registration, key)


def _schedule(scaling: ScalableTargets, action: Mapping[str, Any]) -> None:
    try:
        scaling.put_scheduled_action(**action)
    except ClientError as error:
        if code_of(error) != "ValidationException" or not str(action["Schedule"]).startswith("at("):
            raise
        # Its only time has passed.
        log("schedule is over", schedule=action["ScheduledActionName"])


def _connect_alarms(registration: Registration, key: Mapping[str, str]) -> None:
    """Have alarms run the policies that are there now, in place of those of the same names that they ran."""
    if not registration.alarms:
        return
    scaling, cloudwatch = client("application-autoscaling"), client("cloudwatch")
    now = {
        policy["PolicyName"]: policy["PolicyARN"]
        for policy in _described(scaling, "describe_scaling_policies", "ScalingPolicies", key)
    }
    arns = {
        policy["PolicyARN"]: now[policy["PolicyName"]]
        for policy in registration.policies
        if policy["PolicyName"] in now
    }
    # Those that were deleted with their stack are not described.
    for alarm in cloudwatch.describe_alarms(AlarmNames=registration.alarms)["MetricAlarms"]:
        actions = [arns.get(action, action) for action in alarm.get("AlarmActions", [])]
        if actions != alarm.get("AlarmActions", []):
            known = cloudwatch.meta.service_model.operation_model("PutMetricAlarm").input_shape
            assert known is not None  # noqa: S101 - the operation has input
            members: dict[str, Any] = {
                name: value for name, value in {**alarm, "AlarmActions": actions}.items() if name in known.members
            }
            cloudwatch.put_metric_alarm(**members)
            log("connected", alarm=alarm.get("AlarmName"))


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


def _members(scaling: ScalableTargets, operation: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a request, of what was described."""
    known = scaling.meta.service_model.operation_model(operation).input_shape
    return {name: value for name, value in described.items() if known is not None and name in known.members}


def _as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """A description with its times as text, which requests take as well."""
    return json.loads(json.dumps(value, default=dt.datetime.isoformat))
