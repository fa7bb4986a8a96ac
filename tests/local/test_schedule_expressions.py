"""Schedule expressions of the local cloud: when they are due, and which are none."""

from __future__ import annotations

import datetime as dt

import pytest

from constructs_optim_local.schedules import next_due

# A Tuesday.
NOW = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("at(2026-12-01T12:00:01)", "2026-12-01T12:00:01"),
        ("rate(1 minute)", "2026-12-01T12:01:00"),
        ("rate(3 days)", "2026-12-04T12:00:00"),
        ("cron(0/20 * * * ? *)", "2026-12-01T12:20:00"),
        ("cron(0 12 * * ? *)", "2026-12-02T12:00:00"),
        ("cron(0 22-6 * * ? *)", "2026-12-01T22:00:00"),
        ("cron(30 6 ? * MON *)", "2026-12-07T06:30:00"),
        ("cron(30 6 ? * mon *)", "2026-12-07T06:30:00"),
        ("cron(0 6 ? * FRI-MON *)", "2026-12-04T06:00:00"),
        ("cron(0 6 ? * 2,4 *)", "2026-12-02T06:00:00"),
        ("cron(0 6 ? * 3#2 *)", "2026-12-08T06:00:00"),
        ("cron(0 6 ? * 6L *)", "2026-12-25T06:00:00"),
        ("cron(0 6 ? * FRIL *)", "2026-12-25T06:00:00"),
        ("cron(0 6 ? * L *)", "2026-12-05T06:00:00"),
        ("cron(0 6 L * ? *)", "2026-12-31T06:00:00"),
        ("cron(0 6 L-3 * ? *)", "2026-12-28T06:00:00"),
        # January of 2027 ends on a Sunday, and its third day is one; the first of May is a Saturday.
        ("cron(0 6 LW 1 ? *)", "2027-01-29T06:00:00"),
        ("cron(0 6 3W 1 ? *)", "2027-01-04T06:00:00"),
        ("cron(0 6 1W 5 ? *)", "2027-05-03T06:00:00"),
        ("cron(0 6 15,L 2 ? 2028)", "2028-02-15T06:00:00"),
        ("cron(0 6 29 FEB ? *)", "2028-02-29T06:00:00"),
    ],
)
def test_a_schedule_is_due_next_at(expression: str, due: str) -> None:
    assert next_due(expression, None, NOW) == dt.datetime.fromisoformat(due).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "expression",
    ["at(2026-12-01T12:00:00)", "rate(99999999999 days)", "cron(0 6 31 2 ? *)", "cron(0 6 ? * MON 2020)"],
)
def test_a_schedule_can_be_due_never(expression: str) -> None:
    assert next_due(expression, None, NOW) is None


def test_at_and_cron_are_in_the_time_zone() -> None:
    assert next_due("at(2026-12-01T21:30:00)", "Asia/Tokyo", NOW) == NOW + dt.timedelta(minutes=30)
    assert next_due("cron(30 21 * * ? *)", "Asia/Tokyo", NOW) == NOW + dt.timedelta(minutes=30)


@pytest.mark.parametrize(
    "expression",
    [
        "every day",
        "rate(0 minutes)",
        "rate(1 week)",
        "at(tomorrow)",
        "at(2027-01-01)",
        "at(2027-01-01T00:00:00Z)",
        "at(2027-02-30T00:00:00)",
        "cron(0 6)",
        "cron(61 6 ? * MON *)",
        "cron(*/60 * * * ? *)",
        "cron(*-5 * * * ? *)",
        "cron(a,b * * * ? *)",
        "cron(1- * * * ? *)",
        "cron(0 24 ? * MON *)",
        "cron(0 6 ? * ? *)",
        "cron(0 6 * * * *)",
        "cron(0 6 1 * MON *)",
        "cron(0 6 L-31 * ? *)",
        "cron(0 6 32W * ? *)",
        "cron(0 6 ? * 8L *)",
        "cron(0 6 ? * 3#6 *)",
        "cron(0 6 ? * 3#1,6#3 *)",
        "cron(0 6 ? * MON 1969)",
        "cron(0 6 ? * MON 2030-2027)",
    ],
)
def test_what_is_no_schedule_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        next_due(expression, None, NOW)


@pytest.mark.parametrize(("minute", "due"), [(20, dt.time(0, 30)), (50, dt.time(2))])
def test_a_schedule_is_not_repeated_in_an_hour_that_comes_twice(minute: int, due: dt.time) -> None:
    """In Berlin, the hour from 2 to 3 ends at 1:00 UTC, and comes again."""
    after = dt.datetime(2026, 10, 25, 0, minute, tzinfo=dt.UTC)
    day = dt.date(2026, 10, 25)
    assert next_due("cron(0/30 * * * ? *)", "Europe/Berlin", after) == dt.datetime.combine(day, due, dt.UTC)
    again = dt.datetime(2026, 10, 25, 1, minute, tzinfo=dt.UTC)
    assert next_due("cron(0/30 * * * ? *)", "Europe/Berlin", again) == dt.datetime(2026, 10, 25, 2, tzinfo=dt.UTC)
