"""Application Auto Scaling's background work: it keeps capacities in range, runs schedules and acts on alarms.

Sources: Application Auto Scaling user guide, "Scheduled scaling", "Suspend and resume scaling" and "Scaling activities"
(the statuses of an activity in progress and of a completed one); API reference, RegisterScalableTarget and
ScalingActivity; AWS CLI reference, application-autoscaling describe-scaling-activities (the message of an activity in
progress). Assumed, without a source: the message of an unfulfilled activity.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.clock import Clock

from .cooldowns import Change, Cooldowns
from .decisions import Breach, Request, due_after, requests, started

_TICK_SECONDS = 0.1
_PATIENCE_SECONDS, _PAUSE_SECONDS = 300, 1
# AWS keeps those of six weeks (API reference, DescribeScalingActivities), which are fewer at its pace.
_MOST_ACTIVITIES = 10_000
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)
Location = tuple[str, str]
Target = dict[str, Any]


class Capacity(NamedTuple):
    """The capacity of a resource that is not changing: requested, in service, and the end of the last change."""

    desired: int
    current: int
    since: dt.datetime


class Scalable(Protocol):
    """A service whose resources have a capacity."""

    def capacity(self, resource_id: str, *, account: str, region: str) -> Capacity | None:
        """Return the current capacity; None while it cannot be scaled."""
        ...

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run an operation."""
        ...

    def scaled(self, resource_id: str, *, registered: bool, account: str, region: str) -> None:
        """Record whether a resource is registered as a scalable target."""
        ...


class Registry(Protocol):
    """The scalable targets, their policies and scheduled actions."""

    def targets(self, location: Location) -> list[Target]:
        """Return the targets as in DescribeScalableTargets."""
        ...

    def scheduled(self, location: Location) -> list[dict[str, Any]]:
        """Return the actions as in DescribeScheduledActions."""
        ...

    def limit(self, location: Location, target: Target, limits: Mapping[str, int]) -> None:
        """Change a target's MinCapacity, MaxCapacity or both."""
        ...

    def policies(self, location: Location, target: Target) -> list[dict[str, Any]]:
        """Return a target's policies as in DescribeScalingPolicies."""
        ...

    def breaches(self, location: Location, policies: Sequence[Mapping[str, Any]]) -> list[Breach]:
        """Return the alarms that are in ALARM because of their datapoints, and call one of the policies."""
        ...


class _Activity(NamedTuple):
    """An activity in progress: what it is to change, to which capacity, and its record."""

    what: str
    capacity: int
    record: dict[str, Any]


@dataclass
class _Memory:
    """A target's state: causes that wait until it can be scaled, the activity in progress, and its cool-downs."""

    waiting: list[str] = field(default_factory=list[str])
    since: dt.datetime = _LONG_AGO
    not_before: dt.datetime = _LONG_AGO
    activity: _Activity | None = None
    cooldowns: Cooldowns = field(default_factory=Cooldowns)


class ScalingEngine:
    """Scales registered targets. ``scale`` is the real seconds for each second of cool-downs and rates."""

    def __init__(
        self,
        registry: Registry,
        resources: Scalable,
        scale: float,
        lock: threading.RLock,
        clock: Clock,
    ) -> None:
        self._registry, self._resources, self._scale = registry, resources, scale
        # The registry's lock, because engine and registry call each other.
        self._lock, self._awake, self._clock = lock, threading.Event(), clock
        self._memory: dict[tuple[Location, str, str], _Memory] = {}
        self._due: dict[tuple[Location, str], tuple[str, dt.datetime | None]] = {}
        self._activities: dict[Location, deque[dict[str, Any]]] = {}
        self._locations: set[Location] = set()
        clock.subscribe(self._awake.set)
        threading.Thread(target=self._run, daemon=True).start()

    def registered(self, location: Location, target: Mapping[str, Any]) -> None:
        """Handle a registered or changed target: bring its capacity into its range."""
        with self._lock:
            self._locations.add(location)
            memory = self._remembered(location, target)
            if not self._is_in_range(location, target):
                self._wait(memory, "")
            self._tell(location, target, registered=True)
        self._awake.set()

    def _is_in_range(self, location: Location, key: Mapping[str, Any]) -> bool:
        """Return whether a target's capacity is in its range now; a request may take it out of the range later."""
        target = self._target(location, key)
        capacity = self._resources.capacity(key["ResourceId"], account=location[0], region=location[1])
        return (
            target is not None
            and capacity is not None
            and target["MinCapacity"] <= capacity.desired <= target["MaxCapacity"]
        )

    def deregistered(self, location: Location, target: Mapping[str, Any]) -> None:
        """Handle a deregistered target."""
        with self._lock:
            memory = self._memory.pop((location, target["ResourceId"], target["ScalableDimension"]), None)
            if memory is not None and memory.activity is not None:
                self._capacity(location, target["ResourceId"], memory)
            self._tell(location, target, registered=False)

    def _tell(self, location: Location, target: Mapping[str, Any], *, registered: bool) -> None:
        self._resources.scaled(target["ResourceId"], registered=registered, account=location[0], region=location[1])

    def check_schedule(self, action: Mapping[str, Any]) -> None:
        """Refuse an invalid schedule.

        Raises:
            ValueError: if the schedule is invalid. The text says why.
        """
        due_after(action, self._clock.now(), self._scale)

    def scheduled(self, location: Location) -> None:
        """Handle a new or changed scheduled action."""
        with self._lock:
            self._locations.add(location)
            self._note_due(location, self._clock.now())
        self._awake.set()

    def activities(self, location: Location, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response of DescribeScalingActivities, newest first."""
        requested = {name: request.get(name) for name in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
        with self._lock:
            for (place, resource, _), memory in self._memory.items():
                if place == location and memory.activity is not None:
                    self._capacity(location, resource, memory)
            rows = [
                dict(activity)
                for activity in reversed(self._activities.get(location, ()))
                if all(value in (None, activity[name]) for name, value in requested.items())
                and (request.get("IncludeNotScaledActivities") or "NotScaledReasons" not in activity)
            ]
        start, most = int(request.get("NextToken") or 0), request.get("MaxResults") or 50
        more = {"NextToken": str(start + most)} if start + most < len(rows) else {}
        return {"ScalingActivities": rows[start : start + most], **more}

    def run_policy(
        self, location: Location, policy: Mapping[str, Any], alarm: Mapping[str, Any], value: float | None
    ) -> bool:
        """Scale a target when an alarm of one of its policies is in ALARM.

        Of the policies whose alarms are in ALARM, the one that requests the highest capacity counts.

        Args:
            location: account and Region.
            policy: as DescribeScalingPolicies has it.
            alarm: as DescribeAlarms has it.
            value: the datapoint that set it off, if there was one.

        Returns:
            False while the resource cannot be scaled, because it is changing.
        """
        with self._lock:
            target = self._target(location, policy)
            if target is None:
                return True
            memory, now = self._remembered(location, target), self._clock.now().timestamp()
            found = self._capacity(location, target["ResourceId"], memory)
            if found is None:
                return False
            policies, capacity = self._registry.policies(location, target), found.desired
            breaches = {
                (breach.policy["PolicyARN"], breach.alarm["AlarmName"]): breach
                for breach in self._registry.breaches(location, policies)
            }
            # Its value is old if the action had to wait.
            acting = breaches.pop((policy["PolicyARN"], alarm["AlarmName"]), Breach(policy, alarm, value))
            suspended = target.get("SuspendedState") or {}
            possible = [
                request
                for request in requests(
                    [acting, *breaches.values()], policies, capacity, memory.cooldowns, now, self._scale
                )
                if not suspended.get(f"DynamicScaling{'Out' if request.capacity > capacity else 'In'}Suspended")
            ]
            if possible:
                highest = max(possible, key=lambda request: request.capacity)
                self._scale_within(location, target, capacity, highest, memory.cooldowns, now)
            return True

    def _scale_within(
        self,
        location: Location,
        target: Target,
        capacity: int,
        request: Request,
        cooldowns: Cooldowns,
        now: float,
    ) -> None:
        policy, alarm, _ = request.breach
        cause = (
            f"monitor alarm {alarm['AlarmName']} in state {alarm.get('StateValue')} triggered policy "
            f"{policy['PolicyName']}"
        )
        asked = request.capacity
        limited = min(max(asked, target["MinCapacity"]), target["MaxCapacity"])
        if limited == capacity:
            end = "Max" if asked > capacity else "Min"
            reason = {"Code": f"AlreadyAt{end}Capacity" if asked != capacity else "AlreadyAtDesiredCapacity"}
            limits = {f"{end}Capacity": target[f"{end}Capacity"]} if asked != capacity else {}
            not_scaled = {
                "Description": "Attempting to scale due to alarm triggered",
                "StatusCode": "Failed",
                "NotScaledReasons": [{**reason, "CurrentCapacity": capacity, **limits}],
            }
            self._note(location, target, limited, cause, not_scaled)
        elif cooldowns.allow(capacity, limited, now) and self._set(location, target, limited, cause):
            cooldowns.begin(Change(capacity, limited, request.cooldown), now)

    def _capacity(self, location: Location, resource_id: str, memory: _Memory) -> Capacity | None:
        """Return a target's capacity, None while it is changing. The activity in progress ends with the change."""
        found = self._resources.capacity(resource_id, account=location[0], region=location[1])
        if found is not None and memory.activity is not None:
            (what, capacity, record), memory.activity = memory.activity, None
            ended = found.since.timestamp()
            is_fulfilled = found.current == capacity
            record |= {
                "EndTime": ended,
                "StatusCode": "Successful" if is_fulfilled else "Unfulfilled",
                "StatusMessage": f"Successfully set {what} to {capacity}. "
                + (
                    "Change successfully fulfilled by sagemaker."
                    if is_fulfilled
                    else f"Change not fulfilled by sagemaker: {found.current} in service."
                ),
            }
            memory.cooldowns.complete(found.current, ended)
        return found

    def _run(self) -> None:
        pause: float | None = None
        while True:
            self._awake.wait(pause)
            self._awake.clear()
            try:
                with self._lock:
                    pause = self._tick(self._clock.now())
            except Exception:
                # A failure with one target must not stop the scaling of the others.
                logging.getLogger(__name__).exception("scaling failed")
                pause = _PAUSE_SECONDS

    def _tick(self, now: dt.datetime) -> float | None:
        """Evaluate all targets once. Return the seconds until the next evaluation; None to wait for a change."""
        for location in self._locations:
            self._note_due(location, now)
            for action in self._registry.scheduled(location):
                key = (location, action["ScheduledActionARN"])
                signature, due = self._due[key]
                if due is not None and now >= due:
                    self._due[key] = (signature, due_after(action, now, self._scale))
                    if started(action, now):
                        self._run_schedule(location, action)
        for (location, resource, dimension), memory in list(self._memory.items()):
            if memory.waiting and now >= memory.not_before:
                self._bring_into_range(location, {"ResourceId": resource, "ScalableDimension": dimension}, memory)
        if any(memory.waiting for memory in self._memory.values()):
            return _TICK_SECONDS
        dues = [due for _, due in self._due.values() if due is not None]
        return max(_TICK_SECONDS, (min(dues) - now).total_seconds()) if dues else None

    def _note_due(self, location: Location, now: dt.datetime) -> None:
        actions = {(location, action["ScheduledActionARN"]): action for action in self._registry.scheduled(location)}
        for gone in [key for key in self._due if key[0] == location and key not in actions]:
            del self._due[gone]
        for key, action in actions.items():
            signature = "|".join(str(action.get(name)) for name in ("Schedule", "Timezone", "StartTime", "EndTime"))
            if self._due.get(key, ("", None))[0] != signature:
                self._due[key] = (signature, due_after(action, now, self._scale))

    def _run_schedule(self, location: Location, action: Mapping[str, Any]) -> None:
        target = self._target(location, action)
        if target is None or (target.get("SuspendedState") or {}).get("ScheduledScalingSuspended"):
            return
        self._registry.limit(location, target, action.get("ScalableTargetAction") or {})
        cause = f"scheduled action name {action['ScheduledActionName']} was triggered"
        self._wait(self._remembered(location, target), cause)

    def _wait(self, memory: _Memory, cause: str) -> None:
        memory.waiting.append(cause)
        memory.since = self._clock.now()

    def _bring_into_range(self, location: Location, key: Mapping[str, Any], memory: _Memory) -> None:
        target, now = self._target(location, key), self._clock.now()
        if target is None or (now - memory.since).total_seconds() > _PATIENCE_SECONDS:
            memory.waiting.clear()
            return
        found = self._capacity(location, target["ResourceId"], memory)
        if found is None:
            return
        low, high, capacity = target["MinCapacity"], target["MaxCapacity"], found.desired
        limited = min(max(capacity, low), high)
        causes = "; ".join(cause for cause in memory.waiting if cause)
        bound = f"minimum capacity was set to {low}" if limited > capacity else f"maximum capacity was set to {high}"
        if limited == capacity or self._set(location, target, limited, f"{causes}; {bound}" if causes else bound):
            memory.waiting.clear()
        else:
            memory.not_before = now + dt.timedelta(seconds=_PAUSE_SECONDS)

    def _set(self, location: Location, target: Target, capacity: int, cause: str) -> bool:
        account, region = location
        try:
            match target["ResourceId"].split("/"):
                case ["endpoint", name, "variant", variant]:
                    desired = [{"VariantName": variant, "DesiredInstanceCount": capacity}]
                    request = {"EndpointName": name, "DesiredWeightsAndCapacities": desired}
                    self._resources.invoke(
                        "UpdateEndpointWeightsAndCapacities", request, account=account, region=region
                    )
                case [_, name]:
                    request = {"InferenceComponentName": name, "DesiredRuntimeConfig": {"CopyCount": capacity}}
                    self._resources.invoke(
                        "UpdateInferenceComponentRuntimeConfig", request, account=account, region=region
                    )
                case _:
                    return True
        except ApiError as error:
            failed = {"StatusCode": "Failed", "StatusMessage": error.message}
            self._note(location, target, capacity, cause, {**failed, "EndTime": self._clock.now().timestamp()})
            return False
        what = _changed(target)
        waiting = f"Successfully set {what} to {capacity}. Waiting for change to be fulfilled by sagemaker."
        record = self._note(location, target, capacity, cause, {"StatusCode": "InProgress", "StatusMessage": waiting})
        self._remembered(location, target).activity = _Activity(what, capacity, record)
        return True

    def _note(
        self, location: Location, target: Target, capacity: int, cause: str, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Add the record of an activity that begins now."""
        record = {
            "ActivityId": str(uuid.uuid4()),
            "ServiceNamespace": "sagemaker",
            "ResourceId": target["ResourceId"],
            "ScalableDimension": target["ScalableDimension"],
            "Description": f"Setting {_changed(target)} to {capacity}.",
            "Cause": cause,
            "StartTime": self._clock.now().timestamp(),
            **more,
        }
        self._activities.setdefault(location, deque(maxlen=_MOST_ACTIVITIES)).append(record)
        return record

    def _target(self, location: Location, key: Mapping[str, Any]) -> Target | None:
        requested = (key["ResourceId"], key["ScalableDimension"])
        targets = self._registry.targets(location)
        return next((item for item in targets if (item["ResourceId"], item["ScalableDimension"]) == requested), None)

    def _remembered(self, location: Location, target: Mapping[str, Any]) -> _Memory:
        return self._memory.setdefault((location, target["ResourceId"], target["ScalableDimension"]), _Memory())


def _changed(target: Target) -> str:
    """Return what an activity of a target changes, in Application Auto Scaling's words."""
    is_component = target["ResourceId"].startswith("inference-component")
    return "desired copy count" if is_component else "desired instance count"
