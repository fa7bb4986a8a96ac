"""CloudWatch alarms as other services use them: to look up, to watch, to create and to delete."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Protocol

Tripped = tuple[dt.datetime, str]
Calling = tuple[dict[str, Any], float]
"""An alarm as DescribeAlarms has it, and its newest datapoint."""


def alarm_arn(name: str, account: str, region: str) -> str:
    """Return the ARN of an alarm."""
    return f"arn:aws:cloudwatch:{region}:{account}:alarm:{name}"


class Alarms(Protocol):
    """The alarms of every account and Region."""

    def missing(self, names: Sequence[str], *, account: str, region: str) -> list[str]:
        """Return the names for which there is no alarm."""
        ...

    def tripped(
        self, names: Sequence[str], start: dt.datetime, end: dt.datetime, *, account: str, region: str
    ) -> Tripped | None:
        """Return the first alarm that was in ALARM between two times, and when, even if it has recovered since."""
        ...

    def calling(self, action: str, *, account: str, region: str) -> list[Calling]:
        """Return the alarms that are in ALARM because of their datapoints, and run the action with an ARN."""
        ...

    def scope(self, name: str, *, account: str, region: str) -> str:
        """Return the resource of a permission to describe an alarm: its ARN, or ``*`` for a composite alarm."""
        ...

    def put(self, alarm: dict[str, Any], *, account: str, region: str) -> str:
        """Create an alarm from the members of PutMetricAlarm, and return its ARN."""
        ...

    def delete(self, name: str, *, account: str, region: str) -> None:
        """Delete an alarm, if it exists."""
        ...


class NoAlarms:
    """The alarms of a cloud without CloudWatch: none exist."""

    def missing(self, names: Sequence[str], *, account: str, region: str) -> list[str]:
        """Return all names, because no alarm exists."""
        return list(names)

    def tripped(
        self, names: Sequence[str], start: dt.datetime, end: dt.datetime, *, account: str, region: str
    ) -> Tripped | None:
        """Return None, because no alarm exists."""
        return None

    def calling(self, action: str, *, account: str, region: str) -> list[Calling]:
        """Return no alarm."""
        return []

    def scope(self, name: str, *, account: str, region: str) -> str:
        """Return the alarm's ARN."""
        return alarm_arn(name, account, region)

    def put(self, alarm: dict[str, Any], *, account: str, region: str) -> str:
        """Do nothing but return the ARN."""
        return alarm_arn(alarm["AlarmName"], account, region)

    def delete(self, name: str, *, account: str, region: str) -> None:
        """Do nothing."""
