"""Application Auto Scaling's background work: it keeps capacities in range, runs schedules and acts on alarms.

Sources: Application Auto Scaling user guide, "Scheduled scaling", "Cooldown periods", "Suspend and resume scaling" and
"Scaling activities"; API reference, RegisterScalableTarget and ScalingActivity.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.clock import Clock

from .cooldowns import Cooldowns, requested
from .decisions import due_after, started

_TICK_SECONDS = 0.1
_PATIENCE_SECONDS, _PAUSE_SECONDS = 300, 1
# AWS keeps those of six weeks (API reference, DescribeScalingActivities), which are fewer at its pace.
_MOST_ACTIVITIES = 10_000
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)
Location = tuple[str, str]
Target = dict[str, Any]


class Scalable(Protocol):
    """A service whose resources have a capacity."""

    def capacity(self, resource_id: str, *, account: str, region: str) -> int | None:
        """Return the current capacity; None while it cannot be scaled."""
        ...

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run an operation."""
        ...

    def scaled(self, resource_id: str, *, registered: bool, account: str, region: str) -> None:
        """Record whether a resource is registered as a scalable target."""
        ...


class Registry(Protocol):
    """The scalable targets and scheduled actions."""

    def targets(self, location: Location) -> list[Target]:
        """Return the targets as in DescribeScalableTargets."""
        ...

    def scheduled(self, location: Location) -> list[dict[str, Any]]:
        """Return the actions as in DescribeScheduledActions."""
        ...

    def limit(self, location: Location, target: Target, limits: Mapping[str, int]) -> None:
        """Change a target's MinCapacity, MaxCapacity or both."""
        ...


@dataclass
class _Memory:
    """A target's state: causes that wait until it can be scaled, and its last scaling."""

    waiting: list[str] = field(default_factory=list[str])
    since: dt.datetime = _LONG_AGO
    not_before: dt.datetime = _LONG_AGO
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
            target is not None and capacity is not None and target["MinCapacity"] <= capacity <= target["MaxCapacity"]
        )

    def deregistered(self, location: Location, target: Mapping[str, Any]) -> None:
        """Handle a deregistered target."""
        with self._lock:
            self._memory.pop((location, target["ResourceId"], target["ScalableDimension"]), None)
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
        """Scale a target as a policy requests when its alarm goes into ALARM.

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
            capacity = self._resources.capacity(target["ResourceId"], account=location[0], region=location[1])
            if capacity is None:
                return False
            memory, now = self._remembered(location, target), self._clock.now().timestamp()
            asked, cooldowns = requested(policy, alarm, value, capacity, memory.cooldowns, now, self._scale)
            if asked is not None:
                cause = (
                    f"monitor alarm {alarm['AlarmName']} in state {alarm.get('StateValue')} triggered policy "
                    f"{policy['PolicyName']}"
                )
                self._scale_within(location, target, capacity, asked, cooldowns, cause)
            return True

    def _scale_within(
        self,
        location: Location,
        target: Target,
        capacity: int,
        asked: int,
        cooldowns: tuple[float, ...],
        cause: str,
    ) -> None:
        now, remembered = self._clock.now().timestamp(), self._remembered(location, target).cooldowns
        limited = min(max(asked, target["MinCapacity"]), target["MaxCapacity"])
        if limited == capacity:
            end = "Max" if asked > capacity else "Min"
            reason = {"Code": f"AlreadyAt{end}Capacity" if asked != capacity else "AlreadyAtDesiredCapacity"}
            limits = {f"{end}Capacity": target[f"{end}Capacity"]} if asked != capacity else {}
            self._note(
                location,
                target,
                limited,
                cause,
                {"NotScaledReasons": [{**reason, "CurrentCapacity": capacity, **limits}]},
            )
            return
        suspended = target.get("SuspendedState") or {}
        out = limited > capacity
        if suspended.get("DynamicScalingOutSuspended" if out else "DynamicScalingInSuspended"):
            return
        if remembered.allow(capacity, limited, cooldowns, now) and self._set(location, target, limited, cause):
            remembered.note(capacity, limited, cooldowns, now)

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
        capacity = self._resources.capacity(target["ResourceId"], account=location[0], region=location[1])
        if capacity is None:
            return
        low, high = target["MinCapacity"], target["MaxCapacity"]
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
            self._note(location, target, capacity, cause, {"StatusCode": "Failed", "StatusMessage": error.message})
            return False
        self._note(location, target, capacity, cause, {})
        return True

    def _note(self, location: Location, target: Target, capacity: int, cause: str, more: Mapping[str, Any]) -> None:
        what = (
            "desired copy count" if target["ResourceId"].startswith("inference-component") else "desired instance count"
        )
        now = self._clock.now().timestamp()
        activity = {
            "ActivityId": str(uuid.uuid4()),
            "ServiceNamespace": "sagemaker",
            "ResourceId": target["ResourceId"],
            "ScalableDimension": target["ScalableDimension"],
            "Description": f"Setting {what} to {capacity}.",
            "Cause": cause,
            "StartTime": now,
            "EndTime": now,
            "StatusCode": "Successful",
            "StatusMessage": f"Successfully set {what} to {capacity}. Change successfully fulfilled by sagemaker.",
            **more,
        }
        self._activities.setdefault(location, deque(maxlen=_MOST_ACTIVITIES)).append(activity)

    def _target(self, location: Location, key: Mapping[str, Any]) -> Target | None:
        requested = (key["ResourceId"], key["ScalableDimension"])
        targets = self._registry.targets(location)
        return next((item for item in targets if (item["ResourceId"], item["ScalableDimension"]) == requested), None)

    def _remembered(self, location: Location, target: Mapping[str, Any]) -> _Memory:
        return self._memory.setdefault((location, target["ResourceId"], target["ScalableDimension"]), _Memory())
