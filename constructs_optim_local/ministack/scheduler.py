"""EventBridge Scheduler, with features that ministack lacks: the local cloud's pace, roles and time zones.

- ministack evaluates schedules every ten seconds, by the machine's clock. Here, rates and the clock for cron and at
  expressions run at the local cloud's pace: after a schedule's creation, a day takes 86,400 seconds times the scale. A
  scale of 1 is as on AWS.
- Templates can set a schedule's time zone, start, end, action after completion and group.
- The schedule's role invokes the target. It must trust the scheduler and be allowed to invoke the target. Source:
  EventBridge Scheduler user guide, "Execution role".
- Invalid expressions are refused. Source: EventBridge Scheduler API reference, CreateSchedule.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import threading
import time
import uuid
import zoneinfo
from typing import Any

from constructs_optim_local.access.authorization import Permission, Roles, Unchecked
from constructs_optim_local.clock import Clock
from constructs_optim_local.schedules import next_due

from .patches import replace, table

_TICK_SECONDS = 0.1
_SERVICE = "scheduler.amazonaws.com"
_ACTIONS = {"states": "states:StartExecution", "lambda": "lambda:InvokeFunction"}
_KEPT = (
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "FlexibleTimeWindow",
    "Target",
    "State",
    "Description",
    "StartDate",
    "EndDate",
    "KmsKeyArn",
)
_logger = logging.getLogger("scheduler")


class Scheduler:
    """The schedules of every account and Region. ``scale`` is the real seconds for each second of a schedule."""

    def __init__(self, scale: float, roles: Roles | None, clock: Clock) -> None:
        self._real = clock
        self._scale, self._roles = scale, roles or Unchecked()
        # By account, Region and key: a schedule's definition, and when it is due, in seconds since 1970 of its own
        # clock.
        self._due: dict[Any, tuple[str, float | None]] = {}

    def install(self) -> None:
        """Patch ministack's schedules. Called once, before the first request."""
        replace("services.scheduler.start_scheduler", self._start)
        self._refuse_bad_expressions()
        self._keep_properties()

    def _start(self) -> None:
        threading.Thread(target=self._watch, daemon=True, name="schedules").start()

    def _watch(self) -> None:
        while True:
            time.sleep(_TICK_SECONDS)
            try:
                self._tick()
            except Exception:
                _logger.exception("a tick of the schedules failed")

    def _tick(self) -> None:
        from ministack.services import scheduler

        found: dict[Any, dict[str, Any]] = dict(scheduler._schedules._data)
        for key in [*self._due]:
            if key not in found:
                del self._due[key]
        for key, schedule in found.items():
            now = self._clock(schedule)
            signature = json.dumps([schedule.get(name) for name in _KEPT], default=str)
            known, due = self._due.get(key, ("", None))
            if known != signature:
                # A rate counts from the schedule's creation, or from the update that changed it.
                due = self._next(schedule, now)
                self._due[key] = (signature, due)
            if due is None or now < due:
                continue
            end = _moment(schedule.get("EndDate"))
            over = end is not None and due > end
            if not over and schedule.get("State", "ENABLED") == "ENABLED":
                self._fire(key, schedule, due)
            following = None if over else self._next(schedule, due)
            if following is not None and following < now:
                # Skip times that have passed meanwhile.
                following = self._next(schedule, now)
            self._due[key] = (signature, following)
            if following is None and schedule.get("ActionAfterCompletion") == "DELETE":
                scheduler._schedules._data.pop(key, None)

    def _clock(self, schedule: dict[str, Any]) -> float:
        """Return the time of a schedule's own clock, in seconds since 1970."""
        created = schedule["CreationDate"]
        return created + (self._real.now().timestamp() - created) / self._scale

    def _next(self, schedule: dict[str, Any], after: float) -> float | None:
        expression, start = schedule["ScheduleExpression"], _moment(schedule.get("StartDate"))
        if start is not None and expression.startswith("cron("):
            after = max(after, start)
        zone = schedule.get("ScheduleExpressionTimezone")
        due = next_due(expression, zone, dt.datetime.fromtimestamp(after, dt.UTC))
        if due is None:
            return None
        is_rate = expression.startswith("rate(")
        return max(due.timestamp(), start) if start is not None and is_rate else due.timestamp()

    def _fire(self, key: tuple[str, str, str], schedule: dict[str, Any], due: float) -> None:
        from ministack.core.responses import request_scope
        from ministack.services import eventbridge

        account, region, _ = key
        target = schedule["Target"]
        with request_scope(account, region):
            if (refused := self._refusal(schedule)) is not None:
                _logger.warning("schedule %s: %s", schedule["Arn"], refused)
                return
            event = {
                "EventId": str(uuid.uuid4()),
                "Source": "aws.scheduler",
                "DetailType": "Scheduled Event",
                "Detail": "{}",
                "Time": due,
                "Resources": [schedule["Arn"]],
                "Account": account,
                "Region": region,
            }
            eventbridge._invoke_target(_with_context(target, schedule, due), event, schedule)

    def _refusal(self, schedule: dict[str, Any]) -> str | None:
        """Return why the schedule's role may not invoke its target; empty if it may."""
        target = schedule["Target"]
        action = _ACTIONS.get(target["Arn"].split(":")[2])
        if not self._roles.trusts(target["RoleArn"], _SERVICE, _group_arn(schedule["Arn"])):
            return f"the role {target['RoleArn']} cannot be assumed by {_SERVICE}"
        if action is not None and not self._roles.allows(target["RoleArn"], Permission(action, target["Arn"])):
            return f"the role {target['RoleArn']} may not {action} on {target['Arn']}"
        return None

    def _refuse_bad_expressions(self) -> None:
        from ministack.services import scheduler

        for replaced in ("services.scheduler._create_schedule", "services.scheduler._update_schedule"):
            inner = getattr(scheduler, replaced.rpartition(".")[2])

            def checked(name: str, body: dict[str, Any], inner: Any = inner) -> Any:
                if problem := self._problem(body):
                    return scheduler._error(400, "ValidationException", problem)
                return inner(name, body)

            replace(replaced, checked)

    def _problem(self, body: dict[str, Any]) -> str | None:
        expression, zone = body.get("ScheduleExpression"), body.get("ScheduleExpressionTimezone")
        if not expression:
            return None
        try:
            self._next({**body, "ScheduleExpressionTimezone": zone}, time.time())
        except zoneinfo.ZoneInfoNotFoundError:
            return f"Invalid Schedule Expression Timezone {zone}."
        except (ValueError, TypeError):
            return f"Invalid Schedule Expression {expression}."
        return None

    def _keep_properties(self) -> None:
        from ministack.services import scheduler
        from ministack.services.cloudformation import provisioners

        handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")["AWS::Scheduler::Schedule"]
        delete = handlers["delete"]

        def body(properties: dict[str, Any]) -> dict[str, Any]:
            kept = {name: properties[name] for name in _KEPT if name in properties}
            return {**kept, "GroupName": properties.get("GroupName", "default")}

        def physical_id_of(response: tuple[int, Any, bytes], name: str) -> tuple[str, dict[str, Any]]:
            content = json.loads(response[2])
            if response[0] != 200:
                raise ValueError(f"AWS::Scheduler::Schedule {name}: {content.get('Message')}")
            return name, {"Arn": content["ScheduleArn"]}

        def create(logical_id: str, properties: dict[str, Any], stack_name: str) -> tuple[str, dict[str, Any]]:
            name = properties.get("Name") or provisioners._physical_name(stack_name, logical_id, max_len=64)
            return physical_id_of(scheduler._create_schedule(name, body(properties)), name)

        def update(
            physical_id: str,
            old: dict[str, Any],
            new: dict[str, Any],
            stack_name: str,
            logical_id: str | None = None,
        ) -> tuple[str, dict[str, Any]]:
            moved = old.get("GroupName", "default") != new.get("GroupName", "default")
            if moved or (new.get("Name") or physical_id) != physical_id:
                return create(logical_id or physical_id, new, stack_name)
            return physical_id_of(scheduler._update_schedule(physical_id, body(new)), physical_id)

        handlers |= {"create": create, "update": update, "update_with_logical_id": True, "delete": delete}


def _with_context(target: dict[str, Any], schedule: dict[str, Any], due: float) -> dict[str, Any]:
    """Return the target with the context attributes in its input replaced (user guide, "Adding context attributes")."""
    payload = target.get("Input")
    if not payload:
        return target
    at = dt.datetime.fromtimestamp(due, dt.UTC)
    context = {
        "<aws.scheduler.schedule-arn>": schedule["Arn"],
        "<aws.scheduler.scheduled-time>": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "<aws.scheduler.execution-id>": str(uuid.uuid4()),
        "<aws.scheduler.attempt-number>": "1",
    }
    for name, value in context.items():
        payload = payload.replace(name, value)
    return {**target, "Input": payload}


def _moment(value: Any) -> float | None:
    if value is None or isinstance(value, int | float):
        return value
    return dt.datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()


def _group_arn(arn: str) -> str:
    """Return the ARN of a schedule's group, for which the scheduler assumes roles.

    Source: EventBridge Scheduler user guide, "Confused deputy prevention".
    """
    prefix, _, path = arn.partition(":schedule/")
    return f"{prefix}:schedule-group/{path.partition('/')[0]}"
