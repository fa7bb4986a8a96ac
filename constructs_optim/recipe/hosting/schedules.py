"""Schedules of Application Auto Scaling and EventBridge Scheduler: ``cron(...)``, ``rate(...)``, ``at(...)``.

Sources: EventBridge Scheduler user guide, "Schedule types"; EventBridge user guide, "Cron expressions reference" (the
fields' ranges and wildcards) and "Rate expressions reference"; Application Auto Scaling user guide, "Schedule recurring
scaling actions using cron expressions". They have the same dialect, which no maintained small library checks as a
whole: a field's ranges, the two fields for days, and days that no month has.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

EXAMPLE = "cron(0 7 ? * MON-FRI *)"
"""A schedule for messages: at 7:00 on each weekday."""
_FIELDS = "minutes hours day-of-month month day-of-week year"
_CRON = re.compile(r"cron\((?P<fields>[^()\s]+( +[^()\s]+)*)\)")
_RATE = re.compile(r"rate\((?P<value>\d{1,5}) (?P<unit>minute|hour|day)(?P<plural>s?)\)")
_AT = re.compile(r"at\((?P<time>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\)", re.ASCII)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SHORTEST_MONTH, _YEAR = 28, 365
_LONGEST_MONTHS = {month: 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31 for month in range(1, 13)}


class Fault(NamedTuple):
    """Why an expression is no schedule, and what is one."""

    reason: str
    fix: str


@dataclass(frozen=True)
class _Field:
    """A field of a cron expression. ``names`` stand for ``least``, ``least + 1`` and so on."""

    title: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    special: re.Pattern[str] | None = None
    """Elements with wildcards of this field alone."""
    example: str = ""

    @property
    def range(self) -> str:
        """What the field has, for messages."""
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.least} to {self.most}{named}{self.example}"

    def values(self, text: str) -> frozenset[int] | None:
        """Return the values of a field; None if they depend on the month. Raises ValueError for an invalid field."""
        found: set[int] = set()
        depends = False
        for element in text.upper().split(","):
            if self.special is not None and self.special.fullmatch(element):
                depends = True
            else:
                found.update(self._element(element))
        return None if depends else frozenset(found)

    def _element(self, element: str) -> Iterable[int]:
        given, slash, step = element.partition("/")
        begin, dash, end = given.partition("-")
        every = self._number(step, 1, self.most) if slash else 1
        if given == "*":
            first, last = self.least, self.most
        else:
            first = self._value(begin)
            last = self._value(end) if dash else self.most if slash else first
        if first <= last:
            return range(first, last + 1, every)
        if self.title == "year":
            raise ValueError(element)
        # From Friday to Monday, or from 22:00 to 6:00.
        size = self.most - self.least + 1
        return (self.least + (value - self.least) % size for value in range(first, last + size + 1, every))

    def _value(self, text: str) -> int:
        return self.names.index(text) + self.least if text in self.names else self._number(text, self.least, self.most)

    @staticmethod
    def _number(text: str, least: int, most: int) -> int:
        if not re.fullmatch(r"[0-9]{1,4}", text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)


_DAY_OF_MONTH = _Field(
    "day-of-month", 1, 31, special=re.compile(r"L|LW|L-([1-9]|[12]\d|30)|([1-9]|[12]\d|3[01])W"), example=", L or 15W"
)
_DAY_OF_WEEK = _Field(
    "day-of-week",
    1,
    7,
    _WEEKDAYS,
    re.compile(rf"L|([1-7]|{'|'.join(_WEEKDAYS)})(L|#[1-5])"),
    ", 6L for the last Friday or 3#2 for the second Tuesday of a month",
)
_MONTH = _Field("month", 1, 12, _MONTHS)
_CRON_FIELDS = (
    _Field("minutes", 0, 59),
    _Field("hours", 0, 23),
    _DAY_OF_MONTH,
    _MONTH,
    _DAY_OF_WEEK,
    _Field("year", 1970, 2199),
)


def longest_interval_days(expression: str) -> float | None:
    """Return the longest time between two runs of a valid schedule, in days; None if it is not known.

    Days that depend on the month, such as ``L``, count as the shortest month.
    """
    if (rate := _RATE.fullmatch(expression)) is not None:
        return int(rate["value"]) / {"minute": 1_440, "hour": 24, "day": 1}[rate["unit"]]
    if (cron := _CRON.fullmatch(expression)) is None:
        return None
    _, _, days, months, weekdays, _ = cron["fields"].split()
    dates = _DAY_OF_MONTH.values(days) if days != "?" else frozenset(range(1, 32))
    of_week = _DAY_OF_WEEK.values(weekdays) if weekdays != "?" else frozenset(range(1, 8))
    if dates is None or of_week is None:
        return None if "," in days + weekdays else _SHORTEST_MONTH
    of_year = _MONTH.values(months) or frozenset[int]()
    # Leap years are in it.
    begin = dt.date(2027, 1, 1)
    runs = [
        number
        for number, day in ((number, begin + dt.timedelta(number)) for number in range(6 * _YEAR))
        if day.month in of_year and day.day in dates and day.isoweekday() % 7 + 1 in of_week
    ]
    return max((after - before for before, after in pairwise(runs)), default=_YEAR)


def fault(expression: object, *, repeats: bool = False) -> Fault | None:
    """Return why an expression is no schedule, and what is one; None if it is one.

    ``repeats``: whether a single time, ``at(...)``, is none.
    """
    once = "" if repeats else ", or at(2027-01-31T07:00:00)"
    fix = f"cron({_FIELDS}) such as {EXAMPLE}, or a rate such as rate(2 hours){once}"
    if not isinstance(expression, str):
        return Fault("this is not a schedule expression", fix)
    if (cron := _CRON.fullmatch(expression)) is not None:
        return _fault_of_cron(cron["fields"].split())
    if (rate := _RATE.fullmatch(expression)) is not None:
        return _fault_of_rate(int(rate["value"]), rate["unit"], is_plural=bool(rate["plural"]))
    if (once_at := _AT.fullmatch(expression)) is not None and not repeats:
        try:
            dt.datetime.fromisoformat(once_at["time"])
        except ValueError as error:
            return Fault(f"there is no such time: {error}", "a time such as at(2027-01-31T07:00:00)")
        return None
    if once_at is not None:
        return Fault("this schedule has a single time, and this needs one that repeats", fix)
    return Fault("this is not a schedule expression", fix)


def _fault_of_rate(value: int, unit: str, *, is_plural: bool) -> Fault | None:
    if not value:
        return Fault("a rate's value is 1 or greater", f"rate(1 {unit})")
    if is_plural is (value > 1):
        return None
    takes = "the singular" if value == 1 else "the plural"
    return Fault(f"the value {value} takes {takes} of the unit", f"rate({value} {unit}{'s' if value > 1 else ''})")


def _fault_of_cron(given: list[str]) -> Fault | None:
    if len(given) != len(_CRON_FIELDS):
        reason = f"cron has {len(_CRON_FIELDS)} fields; {len(given)} {'was' if len(given) == 1 else 'were'} given"
        return Fault(reason, f"cron({_FIELDS}) such as {EXAMPLE}")
    found: dict[str, frozenset[int] | None] = {}
    for field, text in zip(_CRON_FIELDS, given, strict=True):
        is_day = field in (_DAY_OF_MONTH, _DAY_OF_WEEK)
        if is_day and text == "?":
            found[field.title] = None
            continue
        try:
            found[field.title] = field.values(text)
        except ValueError:
            return Fault(f"{text} is no value of the field {field.title}", f"{field.title}: {field.range}")
    days, weekdays = given[2], given[4]
    if (days == "?") is (weekdays == "?"):
        reason = "of the two fields for days, one is ?" if days == "?" else "one of the two fields for days must be ?"
        return Fault(f"{reason}: day-of-month is {days}, and day-of-week {weekdays}", f"such as {EXAMPLE}")
    if "#" in weekdays and "," in weekdays:
        return Fault(f"a day-of-week with # is the only one: {weekdays}", "one schedule for each of these days")
    dates, months = found["day-of-month"], found["month"]
    if dates and months and all(min(dates) > _LONGEST_MONTHS[month] for month in months):
        return Fault("no month of this schedule has these days", "days that the months have, such as L for the last")
    return None
