from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.constructs.stack import handler as stack_handler
from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.custom_resource import wait_seconds
from constructs_optim.runtime.handlers import shadow_watcher
from constructs_optim.runtime.jobs.sagemaker_jobs import TRAINING
from constructs_optim.runtime.requests.properties import Watch

_MOST_EVENTS = 25_000
_DAY, _YEAR = 86_400, 365 * 86_400
# The most that a job may run, and the most that it may wait for spot capacity before.
_LONGEST = 56 * _DAY
_PATIENCE = 12 * 3600


def events_of_one_look() -> int:
    """What AWS Step Functions writes down of a look that does not end the execution.

    A state is entered and exited; a task that is a function is scheduled and started, and succeeds.
    """
    states = stack_handler._STATES["States"]
    return sum(5 if states[name]["Type"] == "Task" else 2 for name in ("Look", "HasEnded", "Sleep"))


@given(st.integers(min_value=0, max_value=_LONGEST), st.booleans())
def test_polls_are_between_5_seconds_and_an_hour_apart(age: int, is_awaited: bool) -> None:
    assert 5 <= wait_seconds(dt.timedelta(seconds=age), is_awaited=is_awaited) <= (60 if is_awaited else 3600)


def test_an_old_job_is_polled_every_minute_while_a_stack_waits() -> None:
    began = dt.datetime.now(dt.UTC) - dt.timedelta(days=20)
    job = {"TrainingJobStatus": "InProgress", "CreationTime": began}
    awaited = Watch(wait_handle="https://handle", deadline=int(began.timestamp()) + 21 * _DAY)
    for watch, seconds in ((awaited, 60), (Watch(), 3600)):
        assert custom_resource.poll(watch, TRAINING, "it", job, advice="") == custom_resource.again(seconds)


def test_a_recently_started_job_is_polled_every_5_seconds() -> None:
    assert wait_seconds(dt.timedelta(seconds=20)) == 5


@given(
    begins=st.one_of(st.just(0), st.integers(0, _LONGEST)),
    lasts=st.one_of(st.just(_LONGEST), st.integers(0, _LONGEST)),
    awaited=st.one_of(st.just(_PATIENCE), st.integers(0, _PATIENCE)),
)
def test_polling_a_job_of_any_length_stays_within_the_execution_history_limit(
    begins: int, lasts: int, awaited: int
) -> None:
    age, looks = begins, 0
    while age < lasts:
        age += wait_seconds(dt.timedelta(seconds=age), is_awaited=age - begins < awaited)
        looks += 1
    # The rest is for looks that fail and are repeated: a failure has three events.
    assert looks * events_of_one_look() + 20 < _MOST_EVENTS - 3 * 1000


def attempts_within(retrier: dict[str, Any], seconds: float) -> int:
    """How often a task is tried in that time, if every attempt fails; with jitter, the pauses are half as long."""
    pause, spent, attempts = retrier["IntervalSeconds"], 0.0, 1
    longest, share = retrier["MaxDelaySeconds"], 0.5 if "JitterStrategy" in retrier else 1
    while spent < seconds and attempts <= retrier["MaxAttempts"]:
        spent += share * min(pause, longest)
        pause *= retrier["BackoffRate"]
        attempts += 1
    return attempts


def failed(state: str, seconds: float) -> int:
    """The events of a task whose attempts all fail: entered and exited, and three of each attempt."""
    (retrier,) = stack_handler._STATES["States"][state]["Retry"]
    return 2 + 3 * attempts_within(retrier, seconds)


def test_an_execution_whose_polls_fail_lasts_its_year() -> None:
    (retrier,) = stack_handler._STATES["States"]["KeepTrying"]["Retry"]
    assert attempts_within(retrier, _YEAR) <= retrier["MaxAttempts"], "it is tried until the year ends"
    # Before it, the polls of the longest shadow run, or of a job of any length.
    polls = shadow_watcher._LONGEST_POLLS * events_of_one_look()
    assert polls + failed("Look", _YEAR) + failed("GiveUp", _YEAR) + failed("KeepTrying", _YEAR) < _MOST_EVENTS


@pytest.mark.parametrize("seconds", [shadow_watcher._UPDATE_SECONDS, shadow_watcher._REFUSED_SECONDS])
def test_an_execution_that_gives_up_again_and_again_lasts_its_year(seconds: int) -> None:
    """Nine attempts at each poll fail, and then the watcher can only say that it has to wait."""
    states = stack_handler._STATES["States"]
    answered = sum(5 if states[name]["Type"] == "Task" else 2 for name in ("GiveUp", "Recovered", "HasEnded", "Sleep"))
    age, events, watch = 0.0, shadow_watcher._LONGEST_POLLS * events_of_one_look(), Watch()
    while age < _YEAR:
        output = custom_resource.later(watch, seconds)
        watch = Watch(look=output)
        pause = output["WaitSeconds"]
        assert isinstance(pause, int)
        assert pause <= seconds + age / 10, "what works again is soon seen"
        age += pause
        events += failed("Look", _YEAR) + answered
    assert events < _MOST_EVENTS


@given(st.integers(min_value=60, max_value=30 * _DAY))
def test_the_polls_of_a_shadow_run_of_any_length_fit_into_an_execution(duration: int) -> None:
    polls = duration / shadow_watcher._seconds_between_polls(duration)
    assert polls * events_of_one_look() < 0.8 * _MOST_EVENTS


def transitions(seconds: int) -> int:
    """State transitions until a job of that length is over: Look, HasEnded and Sleep, and at last Ended."""
    age, count = 0, 3
    while age < seconds:
        count += 3
        age += wait_seconds(dt.timedelta(seconds=age))
    return count


def test_the_documented_state_transitions_of_polling_match_the_schedule() -> None:
    hour = 3600
    guide = (Path(__file__).parent.parent.parent / "docs" / "sharing.md").read_text()
    said = {row[0]: row[1:] for line in guide.splitlines() if len(row := line.strip("| ").split(" | ")) == 3}
    for what, count in (
        ("the first hour", transitions(hour)),
        ("each hour up to the twelfth", transitions(11 * hour) - transitions(10 * hour)),
        ("each hour after it, in the second day", transitions(21 * hour) - transitions(20 * hour)),
        ("a job of 10 hours", transitions(10 * hour)),
        ("the longest EAGLE job, 120 hours", transitions(432_000)),
    ):
        assert said[what][0] == f"{count:,}", what
        assert float(said[what][1].removeprefix("$")) == pytest.approx(count * 0.025 / 1000, rel=0.07), what
