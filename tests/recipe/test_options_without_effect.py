"""Options of an endpoint that are valid and have no effect."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from constructs_optim.recipe.hosting import Hosting, UpdateSettings
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings, Evaluated
from constructs_optim.recipe.hosting.options import DependentOption
from constructs_optim.recipe.hosting.scaling import ConcurrencyLimit, DeclaredScaling, ScheduleRequest
from constructs_optim.recipe.rules import warnings

_CANARY = UpdateSettings("CANARY", 10, bake_seconds=600)
_SILENT = AlarmSettings(actions_enabled=False)
_ALL_SILENT = Alarms(**{**vars(Alarms.none()), "error_rate": _SILENT})


def hosting(**options: Any) -> Hosting:
    return Hosting(**{"instance_types": ["ml.g5.12xlarge"], "initial_instance_count": 2, **options})


def advice(**options: Any) -> list[str]:
    return [each.message for each in warnings(hosting(**options)) if each.id == "constructs-optim:OPT238"]


WITHOUT_EFFECT: list[tuple[dict[str, Any], str]] = [
    ({"capture_percentage": 0}, "data_capture.sampling_percentage = 0"),
    ({"alarms": Alarms.none(), "alarm_actions": 2}, "monitoring.alarm_actions = '2 actions'"),
    ({"alarms": Alarms.none(), "ok_actions": 1}, "monitoring.ok_actions = '1 action'"),
    ({"alarms": _ALL_SILENT, "alarm_actions": 1}, "all alarms have actions_enabled=False"),
    ({"alarms": _ALL_SILENT, "ok_actions": 2}, "monitoring.ok_actions = '2 actions'"),
    ({"alarms": Alarms.none(), "update": _CANARY}, "update_policy = 'CANARY'"),
    ({"alarms": Alarms(error_rate=False, zero_capacity=False), "update": _CANARY}, "Alarms(error_rate=True)"),
    ({"update": UpdateSettings("CANARY", 10), "rollback_alarms": 2}, "update_policy.rollback_alarms = '2 alarms'"),
    ({"update": UpdateSettings(), "rollback_alarms": 1}, "Set bake_time=Duration.minutes(10), or leave"),
    ({"asynchronous": True, "unsent_responses": ["SUCCESS_NOTIFICATION_TOPIC"]}, "success_topic"),
    ({"asynchronous": True, "unsent_responses": ["ERROR_NOTIFICATION_TOPIC"]}, "error_topic"),
]


@pytest.mark.parametrize(("options", "message"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_advised_against(options: dict[str, Any], message: str) -> None:
    (found,) = advice(**options)
    assert message in found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"capture_percentage": 1},
        {"alarm_actions": 2},
        {"alarms": Alarms(error_rate=_SILENT), "alarm_actions": 1, "ok_actions": 1},
        {"alarms": Alarms.none()},
        {"update": _CANARY},
        {"alarms": Alarms.none(), "update": _CANARY, "rollback_alarms": 1},
        {"alarms": Alarms.none(), "update": UpdateSettings(termination_wait_seconds=600)},
        {"update": UpdateSettings(termination_wait_seconds=600), "rollback_alarms": 1},
        {"alarms": Alarms.none(), "update": UpdateSettings("ROLLING", 25)},
    ],
)
def test_options_with_an_effect_have_no_advice(options: dict[str, Any]) -> None:
    assert advice(**options) == []


NEEDING: list[tuple[DependentOption, str]] = [
    (DependentOption("model", None, "add_component"), "add_component("),
    (DependentOption("server.adapters", "set", "add_adapter"), "add_adapter("),
    (DependentOption("alarms.stale_evaluation", "set", "evaluate"), "evaluate("),
    (DependentOption("alarms.failed_job", True, "job"), "no job creates"),
    (DependentOption("jobs", "set", "jobs"), "Leave jobs out"),
    (DependentOption("alarms.saturation", "set", "real-time endpoint"), "requests are expected to wait"),
]


@pytest.mark.parametrize(("option", "message"), NEEDING)
def test_an_option_that_needs_another_call_is_advised_on(option: DependentOption, message: str) -> None:
    (found,) = warnings(option)
    assert (found.id, message in found.message) == ("constructs-optim:OPT239", True)


def _scaled(*schedules: ScheduleRequest, **options: Any) -> DeclaredScaling:
    return DeclaredScaling(1, 4, dt.datetime(2026, 11, 1, tzinfo=dt.UTC), ("on_backlog",), schedules, **options)


def _of(rule: str, *subjects: Any) -> list[str]:
    return [each.message for one in subjects for each in warnings(one) if each.id == f"constructs-optim:{rule}"]


def _asynchronous(policy: str) -> DeclaredScaling:
    return replace(_scaled(is_asynchronous=True), policies=(policy,))


_FIRST = ScheduleRequest("on_schedule('A')", "cron(0 7 ? * MON-FRI *)", 1, 2)
_SECOND = replace(_FIRST, location="on_schedule('B')", expression="cron(0 7 ? *  mon-fri *)", min_capacity=2)
_COUNTED = AlarmSettings(threshold=10, minimum_count=5)
OTHERS: list[DeclaredScaling | Evaluated | Alarms | ConcurrencyLimit] = [
    _asynchronous("on_concurrency"),
    _asynchronous("on_invocations"),
    _scaled(_FIRST, _SECOND),
    Alarms(error_rate=_COUNTED, hourly_error_rate=_COUNTED, latency=_COUNTED),
    ConcurrencyLimit("on_concurrency.target", 500, 4),
]


@pytest.mark.parametrize("policy", ["on_concurrency", "on_invocations"])
def test_a_policy_on_a_metric_that_asynchronous_endpoints_lack_is_advised_against(policy: str) -> None:
    scaling = _asynchronous(policy)
    (found,) = _of("OPT282", scaling)
    assert found.startswith(f"{policy} = 'with async_inference'")
    assert "on_backlog(target=4)" in found
    assert _of("OPT282", replace(scaling, is_asynchronous=False), replace(scaling, policies=("on_backlog",))) == []


RARE: list[tuple[int, list[str], str]] = [
    (
        7,
        ["rate(30 days)"],
        "Schedule one at least every 7 days, or switch the alarm off with stale_evaluation=False",
    ),
    (1, ["rate(7 days)"], "Use AlarmSettings(threshold=7)"),
    (1, ["cron(0 6 ? * MON-FRI *)"], "Use AlarmSettings(threshold=3)"),
    (2, ["rate(7 days)", "cron(0 6 ? * MON,THU *)"], "Use AlarmSettings(threshold=4)"),
    (3, ["cron(0 6 ? * FRI-MON *)"], "Use AlarmSettings(threshold=4)"),
    (3, ["cron(0 6 ? * FRI-MON/3 *)"], "Use AlarmSettings(threshold=4)"),
    (7, ["cron(0 6 1 * ? *)"], "Schedule one"),
    (7, ["cron(0 6 L * ? *)"], "Schedule one"),
    (7, ["cron(0 6 29 2 ? *)"], "Schedule one"),
]


@pytest.mark.parametrize(("days", "schedules", "fix"), RARE)
def test_evaluations_less_often_than_their_alarm_expects_are_advised_against(
    days: int, schedules: list[str], fix: str
) -> None:
    (found,) = _of("OPT283", Evaluated("there", days, schedules))
    assert found.startswith(f"there = {days}: evaluations run at {schedules[-1]}")
    assert fix in found


@pytest.mark.parametrize(
    ("days", "schedules"),
    [
        (7, []),
        (7, ["rate(7 days)"]),
        (1, ["rate(24 hours)"]),
        (1, ["rate(1440 minutes)"]),
        (3, ["cron(0 6 ? * MON-FRI *)"]),
        (1, ["rate(30 days)", "cron(0 6 * * ? *)"]),
        (7, ["cron(0 6 1,L * ? *)"]),
        (7, ["${Token[T.1]}"]),
    ],
)
def test_evaluations_as_often_as_their_alarm_expects_have_no_advice(days: int, schedules: list[str]) -> None:
    assert _of("OPT283", Evaluated("there", days, schedules)) == []


def test_only_the_error_rate_has_a_minimum_count() -> None:
    (found,) = _of("OPT284", Alarms(error_rate=_COUNTED, hourly_error_rate=_COUNTED, latency=_COUNTED))
    assert found.startswith("alarms.latency.minimum_count = 5")


def test_requests_in_flight_far_above_the_capacity_are_advised_against() -> None:
    (found,) = _of("OPT285", ConcurrencyLimit("on_concurrency.target", 500, 4))
    assert "on_concurrency.target = 500: an instance or copy is sized for 4 requests at once" in found
    assert "near 4" in found
    near = [ConcurrencyLimit("there", value, 4) for value in (1, 4, 40)]
    assert _of("OPT285", *near, ConcurrencyLimit("there", 500, 0), ConcurrencyLimit("there", -1e289, 4)) == []


def test_schedules_with_the_same_times_and_different_capacities_are_advised_against() -> None:
    (found,) = _of("OPT286", _scaled(_FIRST, _SECOND))
    assert found.startswith(
        "on_schedule('B').schedule = 'cron(0 7 ? *  mon-fri *)': on_schedule('A') has the same times"
    )
    others = [replace(_SECOND, time_zone="Europe/Berlin"), replace(_FIRST, min_capacity=None), replace(_FIRST)]
    assert [_of("OPT286", _scaled(_FIRST, each)) for each in others] == [[], [], []]
