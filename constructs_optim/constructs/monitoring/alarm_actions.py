"""What alarms do when something is wrong, and when it is right again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from aws_cdk import Names
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.constructs.stack.stack_facts import answer

_MOST_ACTIONS = 5
# What it does is the same whichever alarm it is of: bound once, it is known for all.
_LIKE_FOR_ALL_ALARMS = ("aws-cdk-lib.aws_cloudwatch_actions.SnsAction",)


class AlarmAction(Protocol):
    """What an alarm does: any ``aws_cloudwatch.IAlarmAction``, whatever its ``bind`` calls its parameters."""

    def bind(self, scope: Construct, alarm: cloudwatch.IAlarm, /) -> cloudwatch.AlarmActionConfig:
        """What to do, for one alarm."""
        ...


class AlarmActions:
    """What the alarms below one construct do, by their names and by when they do it.

    ``kind`` is the property of a ``CfnAlarm``: ``alarm_actions`` or ``ok_actions``.
    """

    def __init__(self, scope: Construct) -> None:
        self._scope = scope
        self._arns: dict[tuple[str, str], list[str]] = {}
        self._bound: dict[tuple[str, str], list[AlarmAction]] = {}

    def known(self, name: str, kind: str, actions: Sequence[AlarmAction]) -> dict[str, Any]:
        """The property that a new alarm can be declared with; nothing where an action asks for the alarm first.

        Raises:
            ValueError: for more actions than CloudWatch allows.
        """
        arns = [_ARNS.get(action) if _like_for_all(action) else None for action in actions]
        found = [arn for arn in arns if arn is not None]
        if not found or len(found) < len(arns):
            return {}
        self._bound[name, kind] = list(actions)
        self._arns[name, kind] = self._allowed(name, kind, found)
        return {kind: self._arns[name, kind]}

    def add(self, name: str, resource: cloudwatch.CfnAlarm, kind: str, actions: Sequence[AlarmAction]) -> None:
        """Let an alarm do more; what it does already is left out.

        Raises:
            ValueError: for more actions than CloudWatch allows.
        """
        bound = self._bound.setdefault((name, kind), [])
        new = [action for action in actions if not any(action is one for one in bound)]
        if not new:
            return
        known = self._arns.setdefault((name, kind), [])
        # An action may name what it needs by the id of the alarm, such as a function's permission: it has to be unique.
        unique = f"{self._scope_id}{name}{kind}{len(bound)}"
        arns = self._bind(new, resource, unique)
        bound += new
        known[:] = self._allowed(name, kind, [*known, *arns])
        setattr(resource, kind, known)

    def _bind(self, actions: Sequence[AlarmAction], resource: cloudwatch.CfnAlarm, id: str) -> list[str]:
        alarm: cloudwatch.IAlarm | None = None
        arns: list[str] = []
        for action in actions:
            arn = _ARNS.get(action) if _like_for_all(action) else None
            if arn is None:
                if alarm is None:
                    alarm = cloudwatch.Alarm.from_alarm_arn(self._scope, id, answer(resource, "attr_arn"))
                arn = action.bind(self._scope, alarm).alarm_action_arn
                if _like_for_all(action):
                    _ARNS[action] = arn
            arns.append(arn)
        return arns

    @cached_property
    def _scope_id(self) -> str:
        return Names.node_unique_id(self._scope.node)[-40:]

    def _allowed(self, name: str, kind: str, arns: Sequence[str]) -> list[str]:
        wanted = list(dict.fromkeys(arns))
        if len(wanted) > _MOST_ACTIONS:
            raise ValueError(
                f"{self._scope.node.path}: {name} has {len(wanted)} {kind}, and CloudWatch allows an alarm "
                f"{_MOST_ACTIONS}: send them to an SNS topic, and subscribe the others to it"
            )
        return wanted


_ARNS: WeakKeyDictionary[AlarmAction, str] = WeakKeyDictionary()


def _like_for_all(action: AlarmAction) -> bool:
    # Not of a class that was derived from it: that one may look at the alarm.
    return getattr(type(action), "__jsii_declared_type__", None) in _LIKE_FOR_ALL_ALARMS
