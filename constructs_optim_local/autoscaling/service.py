"""Application Auto Scaling: moto stores targets and policies, and ``engine`` scales.

This module checks requests against the API's model. It adds to moto scaling activities, the alarms of target tracking
policies, and these rules of the API reference: DeregisterScalableTarget deletes policies and scheduled actions;
PutScalingPolicy requires a registered target and keeps the ARN of an existing policy.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.api.model import ApiModel
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch.alarms import Alarms
from constructs_optim_local.faults import Faults

from .decisions import Breach, tracking_alarms
from .engine import (
    Location,
    Scalable,
    ScalingEngine,
    Target,
)
from .refusals import action_problems, policy_problems

_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_PATIENCE_SECONDS, _TICK_SECONDS = 60, 0.1
_HOST = "http://application-autoscaling.{region}.amazonaws.com/"


class ApplicationAutoScaling:
    """Application Auto Scaling, for any calling account and Region."""

    name = "application-autoscaling"

    def __init__(
        self,
        faults: Faults,
        calls: CallLog,
        resources: Scalable,
        alarms: Alarms,
        scale: float,
        clock: Clock,
    ) -> None:
        self.model = ApiModel(self.name)
        self._faults, self._calls, self._alarms = faults, calls, alarms
        # Names and ARNs of target tracking policies' alarms, by location and the policy's ARN.
        self._policy_alarms: dict[tuple[Location, str], list[dict[str, str]]] = {}
        # Tags of scalable targets by ARN, which moto does not store.
        self._tags: dict[str, dict[str, str]] = {}
        self._lock = threading.RLock()
        self._engine = ScalingEngine(self, resources, scale, self._lock, clock)

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run an operation.

        Raises:
            ApiError: the error that AWS would return.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            with self._lock:
                return self._respond(operation, request, (account, region))

    @functools.cached_property
    def _moto(self) -> tuple[Any, Any]:
        """Moto's models and responses, imported on demand: they import EC2's, which takes a second."""
        from moto.applicationautoscaling import models, responses

        # moto's list of dimensions is older than the API's, against which every request is checked first.
        known = self.model.enum("RegisterScalableTarget", "ScalableDimension")
        dimensions = Enum("ScalableDimensionValueSet", {value: value for value in known})
        for module in (models, responses):
            vars(module)["ScalableDimensionValueSet"] = dimensions
        return models, responses

    def alarm_fired(
        self,
        policy_arn: str,
        alarm: dict[str, Any],
        value: float | None,
        holds: Callable[[], bool] = lambda: True,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        """Run the policy that is an alarm's action, if it still exists.

        While ``holds`` is true, wait for a changing resource: AWS repeats the action as long as the alarm stays in its
        state, each time with the current datapoint.
        """
        region, account = policy_arn.split(":")[3:5]
        location = (account, region)
        with self._lock:
            found = self._call("DescribeScalingPolicies", {"ServiceNamespace": "sagemaker"}, account, region)
        policy = next((item for item in found["ScalingPolicies"] if item["PolicyARN"] == policy_arn), None)
        deadline = time.monotonic() + patience_seconds
        while policy is not None and not self._engine.run_policy(location, policy, alarm, value):
            if time.monotonic() > deadline:
                return
            time.sleep(_TICK_SECONDS)
            if not holds():
                return

    def targets(self, location: Location) -> list[Target]:
        """Return the scalable targets of SageMaker."""
        return self._list("DescribeScalableTargets", "ScalableTargets", location)

    def scheduled(self, location: Location) -> list[dict[str, Any]]:
        """Return the scheduled actions on these targets."""
        return self._list("DescribeScheduledActions", "ScheduledActions", location)

    def limit(self, location: Location, target: Target, limits: Mapping[str, int]) -> None:
        """Change a target's limits."""
        request = {name: target[name] for name in _KEY}
        with self._lock:
            self._call("RegisterScalableTarget", {**request, **limits}, *location)

    def policies(self, location: Location, target: Target) -> list[dict[str, Any]]:
        """Return a target's policies."""
        key = {name: target[name] for name in _KEY}
        with self._lock:
            return self._matching("DescribeScalingPolicies", "ScalingPolicies", key, location)

    def breaches(self, location: Location, policies: Sequence[Mapping[str, Any]]) -> list[Breach]:
        """Return the alarms that are in ALARM because of their datapoints, and call one of the policies."""
        account, region = location
        return [
            Breach(policy, alarm, value)
            for policy in policies
            for alarm, value in self._alarms.calling(policy["PolicyARN"], account=account, region=region)
        ]

    def _list(self, operation: str, member: str, location: Location) -> list[dict[str, Any]]:
        with self._lock:
            return self._call(operation, {"ServiceNamespace": "sagemaker"}, *location)[member]

    def _respond(self, operation: str, request: dict[str, Any], location: Location) -> dict[str, Any]:
        match operation:
            case "RegisterScalableTarget":
                response = self._registered(request, location)
            case "DeregisterScalableTarget":
                for target in self._matching("DescribeScalableTargets", "ScalableTargets", request, location):
                    self._tags.pop(target["ScalableTargetARN"], None)
                response = self._call(operation, request, *location)
                self._forget(request, location)
            case "PutScalingPolicy":
                response = self._put_policy(request, location)
            case "DeleteScalingPolicy":
                policy = self._policy(request, location)
                response = self._call(operation, request, *location)
                self._drop_alarms(policy, location)
            case "DescribeScalingPolicies":
                response = self._call(operation, request, *location)
                for policy in response["ScalingPolicies"]:
                    policy["Alarms"] = self._policy_alarms.get((location, policy["PolicyARN"]), [])
            case "PutScheduledAction":
                response = self._put_scheduled_action(request, location)
            case "DeleteScheduledAction":
                # moto's delete succeeds for a missing action.
                if not self._matching("DescribeScheduledActions", "ScheduledActions", request, location):
                    raise ApiError("ObjectNotFoundException", f"No scheduled action found for {_named(request)}")
                response = self._call(operation, request, *location)
            case "ListTagsForResource":
                response = {"Tags": self._tags_of(request)}
            case "TagResource":
                self._tags_of(request).update(request["Tags"])
                response = {}
            case "UntagResource":
                for key in request["TagKeys"]:
                    self._tags_of(request).pop(key, None)
                response = {}
            case "DescribeScalingActivities":
                response = self._engine.activities(location, request)
            case _:
                response = self._call(operation, request, *location)
        return response

    def _registered(self, request: dict[str, Any], location: Location) -> dict[str, Any]:
        known = next(iter(self._matching("DescribeScalableTargets", "ScalableTargets", request, location)), {})
        low, high = (request.get(name, known.get(name)) for name in ("MinCapacity", "MaxCapacity"))
        if low is None or high is None:
            raise validation_error("MinCapacity and MaxCapacity are required to register a new scalable target")
        if low > high:
            raise validation_error(f"Maximum capacity cannot be less than minimum capacity: {high} is less than {low}")
        if known and request.get("Tags"):
            # Source of the message: https://github.com/hashicorp/terraform-provider-aws/issues/31839.
            raise validation_error(
                "The scalable target that you tried to tag already exists. To update tags on an existing scalable "
                "target, use the TagResource API."
            )
        response = self._call("RegisterScalableTarget", request, *location)
        self._tags.setdefault(response["ScalableTargetARN"], {}).update(request.get("Tags", {}))
        self._engine.registered(location, request)
        return response

    def _tags_of(self, request: dict[str, Any]) -> dict[str, str]:
        arn = request["ResourceARN"]
        if arn not in self._tags:
            raise ApiError("ResourceNotFoundException", f"The resource {arn} doesn't exist")
        return self._tags[arn]

    def _put_policy(self, request: dict[str, Any], location: Location) -> dict[str, Any]:
        self._needs_target(request, location)
        tracking = request.get("TargetTrackingScalingPolicyConfiguration")
        before = self._policy(request, location)
        _refuse(policy_problems(request, is_new=before is None))
        others = self._matching(
            "DescribeScalingPolicies", "ScalingPolicies", {name: request[name] for name in _KEY}, location
        )
        if tracking is not None and any(
            other["PolicyName"] != request["PolicyName"]
            and _metric(other.get("TargetTrackingScalingPolicyConfiguration") or {}) == _metric(tracking)
            for other in others
        ):
            # Also if CloudFormation replaces a policy: https://github.com/aws/aws-cdk/issues/17956.
            raise validation_error("Only one TargetTrackingScaling policy for a given metric specification is allowed.")
        self._call("PutScalingPolicy", request, *location)
        if before is not None:
            models, _ = self._moto
            backend = models.applicationautoscaling_backends[location[0]][location[1]]
            key = models.FakeApplicationAutoscalingPolicy.formulate_key(
                request["ServiceNamespace"], request["ResourceId"], request["ScalableDimension"], request["PolicyName"]
            )
            backend.policies[key].policy_arn = before["PolicyARN"]
            self._drop_alarms(before, location)
        policy = self._policy(request, location) or {}
        created = list[dict[str, str]]()
        if policy["PolicyType"] == "TargetTrackingScaling" and policy["ServiceNamespace"] == "sagemaker":
            for alarm in tracking_alarms(policy):
                arn = self._alarms.put(alarm, account=location[0], region=location[1])
                created.append({"AlarmName": alarm["AlarmName"], "AlarmARN": arn})
        self._policy_alarms[(location, policy["PolicyARN"])] = created
        return {"PolicyARN": policy["PolicyARN"], "Alarms": created}

    def _put_scheduled_action(self, request: dict[str, Any], location: Location) -> dict[str, Any]:
        self._needs_target(request, location)
        known = next(iter(self._matching("DescribeScheduledActions", "ScheduledActions", request, location)), {})
        action = {**known, **request}
        try:
            self._engine.check_schedule(action)
        except (ValueError, KeyError) as error:
            raise validation_error(f"Invalid schedule: {error}") from None
        _refuse(action_problems(action))
        response = self._call("PutScheduledAction", request, *location)
        self._engine.scheduled(location)
        return response

    def _needs_target(self, request: dict[str, Any], location: Location) -> None:
        if not self._matching("DescribeScalableTargets", "ScalableTargets", request, location):
            raise ApiError("ObjectNotFoundException", f"No scalable target registered for {_named(request)}")

    def _policy(self, request: dict[str, Any], location: Location) -> dict[str, Any] | None:
        return next(iter(self._matching("DescribeScalingPolicies", "ScalingPolicies", request, location)), None)

    def _matching(
        self, operation: str, member: str, request: dict[str, Any], location: Location
    ) -> list[dict[str, Any]]:
        """Return the described items that match the names in the request."""
        names = [name for name in (*_KEY, "PolicyName", "ScheduledActionName") if name in request]
        found = self._call(operation, {"ServiceNamespace": request["ServiceNamespace"]}, *location)[member]
        return [item for item in found if all(item.get(name, request[name]) == request[name] for name in names)]

    def _forget(self, request: dict[str, Any], location: Location) -> None:
        key = {name: request[name] for name in _KEY}
        for policy in self._matching("DescribeScalingPolicies", "ScalingPolicies", key, location):
            self._call("DeleteScalingPolicy", {**key, "PolicyName": policy["PolicyName"]}, *location)
            self._drop_alarms(policy, location)
        for action in self._matching("DescribeScheduledActions", "ScheduledActions", key, location):
            named = {**key, "ScheduledActionName": action["ScheduledActionName"]}
            self._call("DeleteScheduledAction", named, *location)
        self._engine.deregistered(location, key)

    def _drop_alarms(self, policy: dict[str, Any] | None, location: Location) -> None:
        for alarm in self._policy_alarms.pop((location, (policy or {}).get("PolicyARN", "")), []):
            self._alarms.delete(alarm["AlarmName"], account=location[0], region=location[1])

    def _call(self, operation: str, request: dict[str, Any], account: str, region: str) -> dict[str, Any]:
        url = _HOST.format(region=region)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{self.model.target_prefix}.{operation}",
            "x-moto-account-id": account,
        }
        from moto.core.request import Request

        call = Request.from_primitives("POST", url, headers, json.dumps(request).encode())
        try:
            returned = self._moto[1].ApplicationAutoScalingResponse.dispatch(call, url, headers)
        except NotImplementedError:
            raise ApiError("UnknownOperationException", f"moto has no {operation}") from None
        status, _, body = returned
        content = json.loads(body or "{}")
        if status >= 400:
            code = str(content.get("__type", "InternalFailure")).rpartition("#")[2]
            message = content.get("message") or content.get("Message") or ""
            # moto returns ValidationException where the API reference has ObjectNotFoundException.
            missing = message.startswith(("No scalable target found", "No scaling policy found"))
            raise ApiError("ObjectNotFoundException" if missing else code, message, status)
        return content


def _refuse(problems: Iterator[str]) -> None:
    if found := "; ".join(problems):
        raise validation_error(found)


def _metric(tracking: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the metric that a target tracking policy tracks."""
    return tracking.get("PredefinedMetricSpecification"), tracking.get("CustomizedMetricSpecification")


def _named(request: Mapping[str, Any]) -> str:
    names = {
        "ServiceNamespace": "service namespace",
        "ResourceId": "resource ID",
        "ScalableDimension": "scalable dimension",
    }
    return ", ".join(f"{words}: {request[name]}" for name, words in names.items())
