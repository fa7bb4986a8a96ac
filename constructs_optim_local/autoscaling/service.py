"""Application Auto Scaling: moto keeps what is registered, and :mod:`.engine` scales.

Requests are checked against the API's model. Added to moto: scaling activities, the alarms of target tracking
policies, and what the API reference says of deregistering (DeregisterScalableTarget: it deletes policies and scheduled
actions) and of putting a policy (PutScalingPolicy: the target is registered; a policy that is put again keeps its
ARN).
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from moto.applicationautoscaling import models, responses
from moto.core.request import Request

from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.api.model import ApiModel
from constructs_optim_local.cloudwatch.alarms import Alarms
from constructs_optim_local.faults import Faults

from .decisions import tracking_alarms
from .engine import (
    Place,
    Scalable,
    ScalingEngine,
    Target,
)

NextCron = Callable[[str, dt.datetime], dt.datetime | None]
_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_PATIENCE_SECONDS, _TICK_SECONDS = 60, 0.1
_HOST = "http://application-autoscaling.{region}.amazonaws.com/"


class ApplicationAutoScaling:
    """Application Auto Scaling, for any account and region that calls it."""

    name = "application-autoscaling"

    def __init__(
        self, faults: Faults, calls: CallLog, resources: Scalable, alarms: Alarms, next_cron: NextCron, scale: float
    ) -> None:
        self.model = ApiModel(self.name)
        self._faults, self._calls, self._alarms = faults, calls, alarms
        # The names and ARNs of the alarms of a target tracking policy, by place and the policy's ARN.
        self._policy_alarms: dict[tuple[Place, str], list[dict[str, str]]] = {}
        self._lock = threading.RLock()
        self._engine = ScalingEngine(self, resources, scale, next_cron, self._lock)
        # moto's list of dimensions is older than the API's, which every request is checked against first.
        known = self.model.enum("RegisterScalableTarget", "ScalableDimension")
        dimensions = Enum("ScalableDimensionValueSet", {value: value for value in known})
        for module in (models, responses):
            vars(module)["ScalableDimensionValueSet"] = dimensions

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Carry an operation out.

        Raises:
            ApiError: as AWS would answer.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            with self._lock:
                return self._carried_out(operation, request, (account, region))

    def alarm_fired(self, policy_arn: str, alarm: dict[str, Any], value: float | None) -> None:
        """Carry out the policy that is an action of an alarm; one that is gone is no longer carried out.

        A resource that is changing is waited for: AWS invokes the action again as long as the alarm is in its state.
        """
        region, account = policy_arn.split(":")[3:5]
        place = (account, region)
        with self._lock:
            found = self._answer("DescribeScalingPolicies", {"ServiceNamespace": "sagemaker"}, account, region)
        policy = next((item for item in found["ScalingPolicies"] if item["PolicyARN"] == policy_arn), None)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while policy is not None and not self._engine.carry_out(place, policy, alarm, value):
            if time.monotonic() > deadline:
                return
            time.sleep(_TICK_SECONDS)

    def targets(self, place: Place) -> list[Target]:
        """The scalable targets of SageMaker's."""
        return self._list("DescribeScalableTargets", "ScalableTargets", place)

    def scheduled(self, place: Place) -> list[dict[str, Any]]:
        """The scheduled actions on them."""
        return self._list("DescribeScheduledActions", "ScheduledActions", place)

    def limit(self, place: Place, target: Target, limits: Mapping[str, int]) -> None:
        """Give a target other limits."""
        request = {name: target[name] for name in _KEY}
        with self._lock:
            self._answer("RegisterScalableTarget", {**request, **limits}, *place)

    def _list(self, operation: str, member: str, place: Place) -> list[dict[str, Any]]:
        with self._lock:
            return self._answer(operation, {"ServiceNamespace": "sagemaker"}, *place)[member]

    def _carried_out(self, operation: str, request: dict[str, Any], place: Place) -> dict[str, Any]:
        match operation:
            case "RegisterScalableTarget":
                answer = self._registered(request, place)
            case "DeregisterScalableTarget":
                answer = self._answer(operation, request, *place)
                self._forget(request, place)
            case "PutScalingPolicy":
                answer = self._put_policy(request, place)
            case "DeleteScalingPolicy":
                policy = self._policy(request, place)
                answer = self._answer(operation, request, *place)
                self._drop_alarms(policy, place)
            case "DescribeScalingPolicies":
                answer = self._answer(operation, request, *place)
                for policy in answer["ScalingPolicies"]:
                    policy["Alarms"] = self._policy_alarms.get((place, policy["PolicyARN"]), [])
            case "PutScheduledAction":
                answer = self._put_scheduled_action(request, place)
            case "DeleteScheduledAction":
                # moto deletes what is not there in silence.
                if not self._matching("DescribeScheduledActions", "ScheduledActions", request, place):
                    raise ApiError("ObjectNotFoundException", f"No scheduled action found for {_named(request)}")
                answer = self._answer(operation, request, *place)
            case "DescribeScalingActivities":
                answer = self._engine.activities(place, request)
            case _:
                answer = self._answer(operation, request, *place)
        return answer

    def _registered(self, request: dict[str, Any], place: Place) -> dict[str, Any]:
        known = next(iter(self._matching("DescribeScalableTargets", "ScalableTargets", request, place)), {})
        low, high = (request.get(name, known.get(name)) for name in ("MinCapacity", "MaxCapacity"))
        if low is None or high is None:
            raise validation_error("MinCapacity and MaxCapacity are required to register a new scalable target")
        if low > high:
            raise validation_error(f"Maximum capacity cannot be less than minimum capacity: {high} is less than {low}")
        answer = self._answer("RegisterScalableTarget", request, *place)
        self._engine.registered(place, request)
        return answer

    def _put_policy(self, request: dict[str, Any], place: Place) -> dict[str, Any]:
        self._needs_target(request, place)
        tracking = request.get("TargetTrackingScalingPolicyConfiguration")
        if (
            tracking is not None
            and len({"PredefinedMetricSpecification", "CustomizedMetricSpecification"} & set(tracking)) != 1
        ):
            raise validation_error(
                "Exactly one of the predefined and the customized metric specification must be given"
            )
        before = self._policy(request, place)
        self._answer("PutScalingPolicy", request, *place)
        if before is not None:
            backend = models.applicationautoscaling_backends[place[0]][place[1]]
            key = models.FakeApplicationAutoscalingPolicy.formulate_key(
                request["ServiceNamespace"], request["ResourceId"], request["ScalableDimension"], request["PolicyName"]
            )
            backend.policies[key].policy_arn = before["PolicyARN"]
            self._drop_alarms(before, place)
        policy = self._policy(request, place) or {}
        made = list[dict[str, str]]()
        if policy["PolicyType"] == "TargetTrackingScaling" and policy["ServiceNamespace"] == "sagemaker":
            for alarm in tracking_alarms(policy):
                arn = self._alarms.put(alarm, account=place[0], region=place[1])
                made.append({"AlarmName": alarm["AlarmName"], "AlarmARN": arn})
        self._policy_alarms[(place, policy["PolicyARN"])] = made
        return {"PolicyARN": policy["PolicyARN"], "Alarms": made}

    def _put_scheduled_action(self, request: dict[str, Any], place: Place) -> dict[str, Any]:
        self._needs_target(request, place)
        known = next(iter(self._matching("DescribeScheduledActions", "ScheduledActions", request, place)), {})
        try:
            self._engine.check_schedule({**known, **request})
        except (ValueError, KeyError) as error:
            raise validation_error(f"Invalid schedule: {error}") from None
        answer = self._answer("PutScheduledAction", request, *place)
        self._engine.scheduled(place)
        return answer

    def _needs_target(self, request: dict[str, Any], place: Place) -> None:
        if not self._matching("DescribeScalableTargets", "ScalableTargets", request, place):
            raise ApiError("ObjectNotFoundException", f"No scalable target registered for {_named(request)}")

    def _policy(self, request: dict[str, Any], place: Place) -> dict[str, Any] | None:
        return next(iter(self._matching("DescribeScalingPolicies", "ScalingPolicies", request, place)), None)

    def _matching(self, operation: str, member: str, request: dict[str, Any], place: Place) -> list[dict[str, Any]]:
        """Those of what an operation describes that have the names which the request gives."""
        names = [name for name in (*_KEY, "PolicyName", "ScheduledActionName") if name in request]
        found = self._answer(operation, {"ServiceNamespace": request["ServiceNamespace"]}, *place)[member]
        return [item for item in found if all(item.get(name, request[name]) == request[name] for name in names)]

    def _forget(self, request: dict[str, Any], place: Place) -> None:
        key = {name: request[name] for name in _KEY}
        for policy in self._matching("DescribeScalingPolicies", "ScalingPolicies", key, place):
            self._answer("DeleteScalingPolicy", {**key, "PolicyName": policy["PolicyName"]}, *place)
            self._drop_alarms(policy, place)
        for action in self._matching("DescribeScheduledActions", "ScheduledActions", key, place):
            named = {**key, "ScheduledActionName": action["ScheduledActionName"]}
            self._answer("DeleteScheduledAction", named, *place)
        self._engine.deregistered(place, key)

    def _drop_alarms(self, policy: dict[str, Any] | None, place: Place) -> None:
        for alarm in self._policy_alarms.pop((place, (policy or {}).get("PolicyARN", "")), []):
            self._alarms.delete(alarm["AlarmName"], account=place[0], region=place[1])

    def _answer(self, operation: str, request: dict[str, Any], account: str, region: str) -> dict[str, Any]:
        url = _HOST.format(region=region)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{self.model.target_prefix}.{operation}",
            "x-moto-account-id": account,
        }
        call = Request.from_primitives("POST", url, headers, json.dumps(request).encode())
        try:
            answered = responses.ApplicationAutoScalingResponse.dispatch(call, url, headers)
        except NotImplementedError:
            raise ApiError("UnknownOperationException", f"moto has no {operation}") from None
        status, _, body = answered
        content = json.loads(body or "{}")
        if status >= 400:
            code = str(content.get("__type", "InternalFailure")).rpartition("#")[2]
            message = content.get("message") or content.get("Message") or ""
            # moto answers ValidationException, where the API reference says ObjectNotFoundException.
            missing = message.startswith(("No scalable target found", "No scaling policy found"))
            raise ApiError("ObjectNotFoundException" if missing else code, message, status)
        return content


def _named(request: Mapping[str, Any]) -> str:
    names = {
        "ServiceNamespace": "service namespace",
        "ResourceId": "resource ID",
        "ScalableDimension": "scalable dimension",
    }
    return ", ".join(f"{words}: {request[name]}" for name, words in names.items())
