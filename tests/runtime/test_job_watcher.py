from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.watching import wait_seconds

_EVENTS_OF_ONE_LOOK = 10
_MOST_EVENTS = 25_000


@given(st.integers(min_value=0, max_value=5 * 86_400))
def test_a_look_is_never_sooner_than_5_seconds_nor_later_than_5_minutes(age: int) -> None:
    assert 5 <= wait_seconds(dt.timedelta(seconds=age)) <= 300


def test_a_young_job_is_looked_at_often() -> None:
    assert wait_seconds(dt.timedelta(seconds=20)) == 5


def test_the_longest_job_stays_within_the_events_of_one_execution() -> None:
    age, looks = dt.timedelta(), 0
    while age < dt.timedelta(seconds=432_000):
        age += dt.timedelta(seconds=wait_seconds(age))
        looks += 1
    assert looks * _EVENTS_OF_ONE_LOOK < _MOST_EVENTS


def transitions(seconds: int) -> int:
    """State transitions until a job of that length is over: Look, HasEnded and Sleep, and at last Ended."""
    age, count = 0, 3
    while age < seconds:
        count += 3
        age += wait_seconds(dt.timedelta(seconds=age))
    return count


def test_what_watching_costs_is_what_the_guide_says() -> None:
    hour = 3600
    guide = (Path(__file__).parent.parent.parent / "docs" / "sharing.md").read_text()
    said = {row[0]: row[1:] for line in guide.splitlines() if len(row := line.strip("| ").split(" | ")) == 3}
    for what, count in (
        ("the first hour", transitions(hour)),
        ("each hour up to the twelfth", transitions(11 * hour) - transitions(10 * hour)),
        ("each hour after it", transitions(21 * hour) - transitions(20 * hour)),
        ("a job of 10 hours", transitions(10 * hour)),
        ("the longest EAGLE job, 120 hours", transitions(432_000)),
    ):
        assert said[what][0] == f"{count:,}", what
        assert float(said[what][1].removeprefix("$")) == pytest.approx(count * 0.025 / 1000, rel=0.07), what
