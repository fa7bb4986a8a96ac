"""Whether a declared scaling range, its policies and its schedules can change the capacity."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from constructs_optim.recipe.hosting.scaling import DeclaredScaling, ScheduleRequest
from constructs_optim.recipe.rules import warnings

NOW = dt.datetime(2026, 11, 27, tzinfo=dt.UTC)
MORNING, EVENING = "cron(0 7 ? * MON-FRI *)", "cron(0 19 ? * MON-FRI *)"
TOKEN = -1.8881545897087626e289


def declared(**options: Any) -> DeclaredScaling:
    return DeclaredScaling(**{"min_capacity": 1, "max_capacity": 4, "now": NOW, **options})


def at(expression: str, least: Any = None, most: Any = None, **options: Any) -> ScheduleRequest:
    return ScheduleRequest("on_schedule('Day')", expression, least, most, **options)


def effective() -> list[DeclaredScaling]:
    """Scaling that changes the capacity."""
    return [
        declared(policies=["on_concurrency"]),
        declared(min_capacity=2, max_capacity=2),
        declared(min_capacity=TOKEN),
        declared(min_capacity=TOKEN, max_capacity=TOKEN, policies=["on_queue"]),
        declared(schedules=[at(MORNING, 4, 4), at(EVENING, 1, 1)]),
        declared(schedules=[at(EVENING, 0, 0), at(MORNING, 1, 4)]),
        declared(schedules=[at("at(2027-01-31T07:00:00)", 4)]),
        declared(schedules=[at(MORNING, 4, TOKEN)]),
        declared(schedules=[at(MORNING, 2)], policies=["on_concurrency"]),
        declared(policies=["on_concurrency"], schedules=[at("cron(0 7 1 1 ? 2026-2030)", 2)]),
        declared(policies=["on_concurrency"], schedules=[at(MORNING, 2, start=dt.datetime(2020, 1, 1))]),
        declared(min_capacity=0, policies=["on_concurrency"]),
        declared(initial_capacity=4, policies=["on_concurrency"]),
        declared(initial_capacity=8, policies=["on_concurrency"], schedules=[at(MORNING, 2, 8)]),
        declared(initial_capacity=8, max_capacity=TOKEN, policies=["on_concurrency"]),
        declared(max_capacity=1, policies=["on_concurrency"], follows_objectives=True),
    ]


@pytest.mark.parametrize("scaling", effective())
def test_scaling_that_changes_the_capacity_has_no_advice(scaling: DeclaredScaling) -> None:
    assert warnings(scaling) == ()


WITHOUT_EFFECT: list[tuple[DeclaredScaling, str, str]] = [
    (declared(), "max_capacity", "add on_concurrency(target=8)"),
    (
        declared(min_capacity=0, wakes=True),
        "max_capacity",
        "a request starts the first copy, and nothing removes it",
    ),
    (declared(schedules=[at(MORNING, None, 8)]), "max_capacity", "the schedules keep it at 1"),
    (declared(schedules=[at(EVENING, 1, 1)]), "max_capacity", "the schedules keep it at 1"),
    (declared(schedules=[at(EVENING, 1, 1), at(MORNING, 1, 8)]), "max_capacity", "the schedules keep it at 1"),
    (declared(schedules=[at(MORNING, 4, 4)]), "max_capacity", "the schedules change it at most once"),
    # Without a policy, nothing scales in after the first morning.
    (declared(schedules=[at(MORNING, 4), at(EVENING, 1)]), "max_capacity", "max_capacity"),
    (declared(min_capacity=3, max_capacity=3, policies=["on_concurrency"]), "max_capacity", "on_concurrency"),
    (
        declared(policies=["on_queue"], schedules=[at(MORNING, 4, 4), at(EVENING, 1, 1)]),
        "max_capacity",
        "on_queue",
    ),
    (
        declared(policies=["on_concurrency"], schedules=[at(EVENING, 0, 0)]),
        "on_schedule('Day').max_capacity",
        "start_on",
    ),
    (
        declared(policies=["on_concurrency"], schedules=[at(MORNING, 1, 4)]),
        "on_schedule('Day').min_capacity",
        "1 to 4",
    ),
    (
        declared(policies=["on_concurrency"], schedules=[at("at(2026-01-31T07:00:00)", 2)]),
        "on_schedule('Day').schedule",
        "after 2026-11-27",
    ),
    (
        declared(policies=["on_concurrency"], schedules=[at("cron(0 7 1 1 ? 2020-2025)", 2)]),
        "on_schedule('Day').schedule",
        "after 2026-11-27",
    ),
    (
        declared(policies=["on_concurrency"], schedules=[at(MORNING, 2, end=dt.datetime(2026, 11, 1))]),
        "on_schedule('Day').end",
        "after 2026-11-27",
    ),
]


@pytest.mark.parametrize(("scaling", "location", "message"), WITHOUT_EFFECT)
def test_scaling_without_effect_is_advised_against(scaling: DeclaredScaling, location: str, message: str) -> None:
    (advice,) = warnings(scaling)
    assert advice.id == "constructs-optim:OPT237"
    assert advice.message.startswith(f"{location} = "), advice.message
    assert message in advice.message


MORE_AT_FIRST = declared(initial_capacity=9, policies=["on_concurrency"], schedules=[at(MORNING, 2, 6)])


def test_more_instances_at_first_than_the_range_has_are_advised_against() -> None:
    (advice,) = warnings(MORE_AT_FIRST)
    assert advice.id == "constructs-optim:OPT259"
    assert advice.message.startswith("variant.initial_instance_count = 9"), advice.message
    assert "Use 6 or less" in advice.message


def test_a_one_time_schedule_is_in_its_own_time_zone() -> None:
    # 23:30 of the day before in UTC is 07:30 in Singapore.
    past = at("at(2026-11-27T07:30:00)", 2, time_zone="Asia/Singapore")
    assert len(warnings(declared(policies=["on_concurrency"], schedules=[past]))) == 1
    future = at("at(2026-11-26T23:30:00)", 2, time_zone="America/New_York")
    assert warnings(declared(policies=["on_concurrency"], schedules=[future])) == ()


def test_a_past_schedule_does_not_count_as_a_schedule() -> None:
    past = at("at(2026-01-31T07:00:00)", 4, 4)
    ids = [advice.message.partition(" = ")[0] for advice in warnings(declared(schedules=[past]))]
    assert ids == ["on_schedule('Day').schedule", "max_capacity"]


@pytest.mark.parametrize(
    ("expression", "options", "place"),
    [
        (MORNING, {"end": dt.datetime(2026, 11, 26)}, ".end"),
        (MORNING, {"end": dt.datetime(2026, 11, 27)}, None),
        (MORNING, {"end": dt.datetime(2026, 11, 27, 7, tzinfo=dt.timezone(dt.timedelta(hours=8)))}, ".end"),
        ("cron(0 7 1 1 ? 2025)", {}, ".schedule"),
        ("cron(0 7 1 1 ? 2026)", {}, None),
        ("cron(0 7 1 1 ? 2024-2025)", {}, ".schedule"),
        ("cron(0 7 1 1 ? 2030,2025)", {}, ".schedule"),
        ("cron(0 7 1 1 ? 2025,2030)", {}, None),
        ("at(2026-11-26T23:59:59)", {}, ".schedule"),
        ("at(2026-11-27T00:00:00)", {}, None),
        ("at(2026-11-27T00:30:00)", {"time_zone": "Europe/Berlin"}, ".schedule"),
        ("at(2026-11-26T23:59:59)", {"time_zone": "${Token[Zone.1]}"}, ".schedule"),
        ("at(2026-11-27T00:30:00)", {"time_zone": "Mars/Olympus"}, None),
        ("at(tomorrow)", {}, None),
    ],
)
def test_a_schedule_of_the_past_is_told_with_the_setting_that_says_so(
    expression: str, options: dict[str, Any], place: str | None
) -> None:
    schedules = [at(expression, 2, **options), at(EVENING, 1, 1)]
    found = [each.message for each in warnings(declared(policies=["on_concurrency"], schedules=schedules))]
    told = [each.partition(" = ")[0] for each in found if each.startswith("on_schedule('Day')")]
    assert told == ([f"on_schedule('Day'){place}"] if place is not None else [])
