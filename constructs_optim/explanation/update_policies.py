"""How an endpoint or a component moves to what it serves next, from its deployment configuration.

Source: Amazon SageMaker developer guide, "Deployment guardrails for updating models in production".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constructs_optim.templates.json_values import number
from constructs_optim.templates.resource_types import ALARM, COMPOSITE_ALARM
from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

from .words import listed


class Strategy(StrEnum):
    """How traffic moves. ``all_at_once``, ``canary`` and ``linear`` are blue/green: a second fleet takes over."""

    rolling = "rolling"
    all_at_once = "all_at_once"
    canary = "canary"
    linear = "linear"


@dataclass(frozen=True)
class UpdatePolicy:
    """A deployment configuration.

    Attributes:
        strategy: how traffic moves.
        step: each step or batch in words, ``25 % of the instances``; empty where there is one step.
        bake_seconds: how long each step is watched.
        termination_seconds: how long the old fleet stays after the last step.
        alarms: the names of the alarms that bring it back.
    """

    strategy: Strategy
    step: str = ""
    bake_seconds: int = 0
    termination_seconds: int = 0
    alarms: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The policy after ``by``: ``a rolling update in batches of 25 % of the instances, ...``."""
        watched = f", each watched for {_time(self.bake_seconds)}" if self.bake_seconds else ""
        kept = (
            f"; the old fleet stays for {_time(self.termination_seconds)} after that"
            if self.termination_seconds
            else ""
        )
        match self.strategy:
            case Strategy.rolling:
                return f"a rolling update in batches of {self.step}{watched}"
            case Strategy.canary:
                first = f", is watched for {_time(self.bake_seconds)}" if self.bake_seconds else ""
                return f"blue/green, canary: a second fleet takes {self.step} first{first}, and then the rest{kept}"
            case Strategy.linear:
                return f"blue/green, linear: a second fleet takes the traffic in steps of {self.step}{watched}{kept}"
            case Strategy.all_at_once:
                return f"blue/green, all at once: a second fleet of the same size takes all traffic{kept}"

    @property
    def rollback_words(self) -> str:
        """What brings it back, as a sentence."""
        if not self.alarms:
            return "No alarm rolls it back."
        which = "The alarm" if len(self.alarms) == 1 else "Any of the alarms"
        return f"{which} {listed(self.alarms, 'or')} rolls it back."


def update_policy(template: Template, resource: Resource) -> UpdatePolicy:
    """The policy of an endpoint or component; all at once and unwatched where it has none, as SageMaker does it."""
    given = resource.properties.get("DeploymentConfig")
    given = given if isinstance(given, Mapping) else {}
    alarms = tuple(
        _alarm_name(template, alarm.get("AlarmName"))
        for alarm in (given.get("AutoRollbackConfiguration") or {}).get("Alarms") or ()
    )
    if rolling := given.get("RollingUpdatePolicy"):
        bake = number(rolling.get("WaitIntervalInSeconds")) or 0
        return UpdatePolicy(Strategy.rolling, _size(rolling.get("MaximumBatchSize")), bake, alarms=alarms)
    blue_green = given.get("BlueGreenUpdatePolicy") or {}
    routing = blue_green.get("TrafficRoutingConfiguration") or {}
    strategy = Strategy(str(routing.get("Type", "ALL_AT_ONCE")).lower())
    size = {Strategy.canary: "CanarySize", Strategy.linear: "LinearStepSize"}.get(strategy, "")
    return UpdatePolicy(
        strategy,
        _size(routing.get(size)) if size else "",
        number(routing.get("WaitIntervalInSeconds")) or 0,
        number(blue_green.get("TerminationWaitInSeconds")) or 0,
        alarms,
    )


def _size(given: Any) -> str:
    if not isinstance(given, Mapping):
        return "a size known at deployment"
    value = text_of(given.get("Value"))
    match given.get("Type"):
        case "INSTANCE_COUNT":
            return f"{value} {'instance' if value == '1' else 'instances'}"
        case "COPY_COUNT":
            return f"{value} {'copy' if value == '1' else 'copies'}"
        case _:
            return f"{value} %"


def _alarm_name(template: Template, value: Any) -> str:
    referred = template.referred(value, ALARM, COMPOSITE_ALARM)
    return text_of(referred[0].properties.get("AlarmName", value)) if referred else text_of(value)


def _time(seconds: int) -> str:
    if seconds % 3600 == 0 and seconds:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
