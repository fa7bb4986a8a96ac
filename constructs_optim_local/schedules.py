"""AWS's schedule expressions: ``at(...)``, ``rate(...)`` and ``cron(...)``.

Sources: Application Auto Scaling API reference, PutScheduledAction
(https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html); EventBridge user guide,
"Cron expressions reference" (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-cron-expressions.html), to
which Application Auto Scaling refers. AWS also accepts what Quartz does and the reference leaves out: ``LW``, ``5L``
and names in lower case (https://github.com/grumBit/aws_cron_expression_validator/issues/12 and issues/18), but no
increment beyond a field's highest value (https://github.com/aws/aws-sdk-js/issues/4212).

Assumed, because Quartz does so (https://www.quartz-scheduler.org/documentation/quartz-2.3.0/tutorials/crontrigger.html):
``L-3`` is the third day before a month's last, and a range may pass a field's end, like ``FRI-MON``.
"""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import re
import zoneinfo
from collections.abc import Callable
from typing import NamedTuple

_AT = re.compile(r"at\((\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\)")
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_CRON = re.compile(r"cron\((.+)\)")
_UNITS = {"minute": 60, "hour": 3600, "day": 86_400}
_ELEMENT = re.compile(r"(\*|[0-9A-Z]+)(?:-([0-9A-Z]+))?(?:/(\d+))?")
_LAST_DATE, _NEAREST_WEEKDAY = re.compile(r"L(?:-(\d+))?"), re.compile(r"(\d+)W")
_OF_MONTH = re.compile(r"([0-9A-Z]+?)(?:L|#([1-5]))")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_OnDay = Callable[[dt.date], bool]


class _Field(NamedTuple):
    """A field of a cron expression. ``names`` stand for ``least``, ``least + 1`` and so on."""

    least: int
    most: int
    names: tuple[str, ...] = ()

    def values(self, text: str) -> frozenset[int]:
        """Return the values of a field without wildcards of its own. Raises ValueError for an invalid one."""
        return frozenset(value for element in text.upper().split(",") for value in self._element(element))

    def number(self, text: str) -> int:
        """Return a value that is given as a number or a name."""
        return self.least + self.names.index(text) if text in self.names else _within(text, self.least, self.most)

    def _element(self, text: str) -> list[int]:
        found = _ELEMENT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text} is not a value of its field")
        first, last, step = found.groups()
        if first == "*" and last is not None:
            raise ValueError(f"{text} is not a range")
        low = self.least if first == "*" else self.number(first)
        high = self.number(last) if last is not None else self.most if first == "*" or step is not None else low
        size = self.most - self.least + 1
        if high < low:
            if self is _YEAR:
                raise ValueError(f"{text} ends before it begins")
            high += size
        every = _within(step, 1, self.most) if step is not None else 1
        return [self.least + (value - self.least) % size for value in range(low, high + 1, every)]


_MINUTE, _HOUR, _DATE = _Field(0, 59), _Field(0, 23), _Field(1, 31)
_MONTH, _WEEKDAY, _YEAR = _Field(1, 12, _MONTHS), _Field(1, 7, _WEEKDAYS), _Field(1970, 2199)


def next_due(expression: str, zone: str | None, after: dt.datetime, scale: float = 1) -> dt.datetime | None:
    """Return when a schedule is due next, in UTC; None if never.

    Args:
        expression: the schedule expression.
        zone: the time zone of ``at`` and ``cron``. Default: UTC.
        after: an aware time.
        scale: real seconds for each second of a rate.

    Raises:
        ValueError: if the expression is invalid.
        zoneinfo.ZoneInfoNotFoundError: if there is no such time zone.
    """
    place = zoneinfo.ZoneInfo(zone or "UTC")
    if found := _AT.fullmatch(expression):
        at = dt.datetime.fromisoformat(found[1]).replace(tzinfo=place)
        return at.astimezone(dt.UTC) if at > after else None
    if found := _RATE.fullmatch(expression):
        if not int(found[1]):
            raise ValueError(f"{expression}: a rate's value is a positive integer")
        try:
            return after.astimezone(dt.UTC) + dt.timedelta(seconds=int(found[1]) * _UNITS[found[2]] * scale)
        except OverflowError:
            # After the year 9999.
            return None
    if found := _CRON.fullmatch(expression):
        due = _next_fire(found[1].split(), after.astimezone(place))
        return due.astimezone(dt.UTC) if due is not None else None
    raise ValueError(f"{expression} is not a schedule expression")


def _next_fire(fields: list[str], after: dt.datetime) -> dt.datetime | None:
    if len(fields) != 6:
        raise ValueError(f"cron has 6 fields, and {len(fields)} are given")
    minutes, hours = sorted(_MINUTE.values(fields[0])), sorted(_HOUR.values(fields[1]))
    is_day = _is_day(fields[2], fields[4])
    months, years = sorted(_MONTH.values(fields[3])), sorted(_YEAR.values(fields[5]))
    for year, month in itertools.product((year for year in years if year >= after.year), months):
        for day in range(1, calendar.monthrange(year, month)[1] + 1):
            date = dt.date(year, month, day)
            if date < after.date() or not is_day(date):
                continue
            for hour, minute in itertools.product(hours, minutes):
                due = dt.datetime.combine(date, dt.time(hour, minute), after.tzinfo)
                # In UTC, because an hour comes twice in the autumn. EventBridge Scheduler's guide, "Schedule types": it
                # does not repeat an invocation then.
                if due.astimezone(dt.UTC) > after.astimezone(dt.UTC):
                    return due
    return None


def _is_day(dates: str, weekdays: str) -> _OnDay:
    """Return whether the two fields for days select a day. Exactly one of them is ``?``."""
    if (dates == "?") is (weekdays == "?"):
        raise ValueError(f"one of day-of-month and day-of-week must be ?: they are {dates} and {weekdays}")
    if "#" in weekdays and "," in weekdays:
        raise ValueError(f"a day-of-week with # is the only one: {weekdays}")
    given, is_on = (weekdays, _on_weekday) if dates == "?" else (dates, _on_date)
    tests = [is_on(element) for element in given.upper().split(",")]
    return lambda day: any(test(day) for test in tests)


def _on_date(element: str) -> _OnDay:
    if element == "LW":
        return lambda day: day.day == _nearest_weekday(day, _DATE.most)
    if found := _LAST_DATE.fullmatch(element):
        before = _within(found[1], 1, 30) if found[1] else 0
        return lambda day: day.day == _length(day) - before
    if found := _NEAREST_WEEKDAY.fullmatch(element):
        date = _DATE.number(found[1])
        return lambda day: day.day == _nearest_weekday(day, date)
    dates = _DATE.values(element)
    return lambda day: day.day in dates


def _on_weekday(element: str) -> _OnDay:
    if element == "L":
        element = _WEEKDAYS[-1]
    if found := _OF_MONTH.fullmatch(element):
        weekday, week = _WEEKDAY.number(found[1]), found[2]
        if week is None:
            return lambda day: _weekday(day) == weekday and day.day + 7 > _length(day)
        return lambda day: _weekday(day) == weekday and (day.day - 1) // 7 + 1 == int(week)
    weekdays = _WEEKDAY.values(element)
    return lambda day: _weekday(day) in weekdays


def _nearest_weekday(day: dt.date, date: int) -> int:
    """Return the day from Monday to Friday of the month that is nearest to a date of it."""
    date = min(date, _length(day))
    match day.replace(day=date).isoweekday():
        case 6:
            return date - 1 if date > 1 else date + 2
        case 7:
            return date + 1 if date < _length(day) else date - 2
        case _:
            return date


def _weekday(day: dt.date) -> int:
    return day.isoweekday() % 7 + 1


def _length(day: dt.date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _within(text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{text} is not between {least} and {most}")
    return int(text)
