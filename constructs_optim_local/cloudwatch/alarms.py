"""CloudWatch alarms as the other services see them: which are there, which tripped, and what they are made of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Protocol

Tripped = tuple[dt.datetime, str]


def alarm_arn(name: str, account: str, region: str) -> str:
    """The ARN of an alarm."""
    return f"arn:aws:cloudwatch:{region}:{account}:alarm:{name}"


class Alarms(Protocol):
    """The alarms of every account and region."""

    def missing(self, names: Sequence[str], *, account: str, region: str) -> list[str]:
        """Those of the names that no alarm has."""
        ...

    def tripped(
        self, names: Sequence[str], start: dt.datetime, end: dt.datetime, *, account: str, region: str
    ) -> Tripped | None:
        """The first that was in ALARM between two moments, and when; one that has recovered since counts."""
        ...

    def scope(self, name: str, *, account: str, region: str) -> str:
        """What a permission to describe an alarm is scoped to: its ARN, or ``*`` for a composite alarm."""
        ...

    def put(self, alarm: dict[str, Any], *, account: str, region: str) -> str:
        """Make an alarm from the members of PutMetricAlarm; its ARN."""
        ...

    def delete(self, name: str, *, account: str, region: str) -> None:
        """Take an alarm away, if it is there."""
        ...


class NoAlarms:
    """A cloud without CloudWatch."""

    def missing(self, names: Sequence[str], *, account: str, region: str) -> list[str]:
        """All of them."""
        return list(names)

    def tripped(
        self, names: Sequence[str], start: dt.datetime, end: dt.datetime, *, account: str, region: str
    ) -> Tripped | None:
        """None ever."""
        return None

    def scope(self, name: str, *, account: str, region: str) -> str:
        """Its ARN."""
        return alarm_arn(name, account, region)

    def put(self, alarm: dict[str, Any], *, account: str, region: str) -> str:
        """Kept nowhere."""
        return alarm_arn(alarm["AlarmName"], account, region)

    def delete(self, name: str, *, account: str, region: str) -> None:
        """Nothing to do."""
