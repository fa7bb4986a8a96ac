from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.job_watcher import wait_seconds

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
