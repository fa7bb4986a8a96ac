"""The rules for scaling and alarms: valid and invalid requests, and the error messages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.hosting import schedules
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings, Watched, endpoint_alarms
from constructs_optim.recipe.hosting.scaling import (
    EngineTargetRequest,
    Scaling,
    ScalingStep,
    ScheduleRequest,
    StepRequest,
    TargetRequest,
)
from constructs_optim.recipe.rules import all_rules, check

TOKEN = -1.8881545897087626e289


def scaling(**options: Any) -> Scaling:
    return Scaling(**{"may_be_zero": True, "min_capacity": 1, "max_capacity": 4, **options})


def variant(**options: Any) -> Scaling:
    return scaling(may_be_zero=False, **options)


def target(value: Any = 8, cooldowns: Any = None, **options: Any) -> Scaling:
    return scaling(targets=[TargetRequest("on_concurrency", value, tuple((cooldowns or {}).items()))], **options)


def named(name: Any, *, names: Any = ("OnInvocations",)) -> Scaling:
    return target(new_id="OnConcurrency", new_policy_names=[name], policy_names=names)


def schedule(expression: Any = "cron(0 7 ? * MON-FRI *)", **options: Any) -> Scaling:
    limits = {} if {"min_capacity", "max_capacity"} & set(options) else {"min_capacity": 1}
    return scaling(schedules=[ScheduleRequest("on_schedule('Day')", expression, **limits, **options)])


def complete(own: Scaling, *others: ScheduleRequest) -> Scaling:
    return replace(own, schedules=[*own.schedules, *others], is_complete=True)


def maximum(most: Any) -> ScheduleRequest:
    return ScheduleRequest("on_schedule('Peak')", "cron(0 6 ? * MON-FRI *)", max_capacity=most)


def steps(*listed: ScalingStep, **options: Any) -> Scaling:
    return scaling(steps=[StepRequest("on_steps('Burst')", listed, **options)])


def held(metric: str, target: Any) -> Scaling:
    return scaling(engine_targets=[EngineTargetRequest("on_it", metric, target)])


def alarms(**options: Any) -> Alarms:
    return Alarms(**options)


def tuned(**options: Any) -> Alarms:
    return alarms(error_rate=AlarmSettings(**options))


UP, UPPER, DOWN = ScalingStep(change=1, lower=16), ScalingStep(change=3, lower=32), ScalingStep(change=-1, upper=2)
GOOD: dict[str, list[Scaling | Alarms]] = {
    "OPT080": [scaling(), scaling(min_capacity=0), scaling(min_capacity=TOKEN, max_capacity=TOKEN)],
    "OPT081": [variant(), scaling(min_capacity=0), variant(min_capacity=None)],
    "OPT082": [target(0.5), target(TOKEN)],
    "OPT261": [
        target(cooldowns={"scale_in_cooldown": 86_400}),
        target(cooldowns={"scale_in_cooldown": TOKEN}),
        steps(ScalingStep(change=1, lower=1), cooldown=2**31 - 1),
    ],
    "OPT084": [
        schedule(),
        schedule("rate(2 hours)", max_capacity=2),
        schedule("at(2027-01-31T07:00:00)", time_zone="Europe/Berlin"),
        schedule("${Token[Schedule.7]}", min_capacity=0, max_capacity=0),
        schedule(start=dt.datetime(2027, 1, 1), end=dt.datetime(2027, 2, 1, tzinfo=dt.UTC)),
        schedule("cron(0/15 9-17 L * ? 2027-2030)"),
        schedule("cron(*/5 22-6 ? JAN-MAR,DEC 6L *)"),
        schedule("cron(0 7 15W * ? *)"),
        schedule("cron(0 7 29 2 ? *)"),
        schedule("cron(0 7 ? * 3#2 2027/2)"),
        schedule("cron(0 7 ? * fri-mon 2199)"),
        schedule("rate(1 day)"),
        schedule(min_capacity=4),
        schedule(max_capacity=1),
        schedule(min_capacity=9, max_capacity=9),
        schedule(min_capacity=9),
        complete(schedule(min_capacity=4)),
        complete(schedule(min_capacity=9), maximum(12)),
        complete(schedule(min_capacity=9), maximum(TOKEN)),
        complete(replace(schedule(min_capacity=9), max_capacity=TOKEN)),
    ],
    "OPT085": [
        steps(UP, UPPER, DOWN),
        steps(ScalingStep(change=1, lower=16, upper=32), UPPER),
        steps(ScalingStep(change=-2, upper=-5), ScalingStep(change=-1, lower=-5, upper=0)),
        steps(
            ScalingStep(change=50, lower=1),
            adjustment="PercentChangeInCapacity",
            evaluation_periods=3,
            datapoints_to_alarm=2,
            min_adjustment_magnitude=2,
        ),
        steps(ScalingStep(change=0, upper=0), ScalingStep(change=5, lower=1), adjustment="ExactCapacity"),
    ],
    "OPT086": [
        scaling(ids=["Day"], new_id="Night"),
        scaling(),
        named("x" * 256),
        named("mine|and/others: ä"),
        named("${Token[Name.7]}"),
    ],
    "OPT087": [alarms(), tuned(threshold=0, period_seconds=10, evaluation_periods=3, datapoints_to_alarm=3)],
    "OPT088": [alarms(), alarms(latency=AlarmSettings(threshold=30))],
    "OPT172": [held("kv_cache_usage", 70), held("engine_time_to_first_token", 0.5), held("waiting_requests", TOKEN)],
    "OPT173": [
        alarms(),
        alarms(time_to_first_token=AlarmSettings(threshold=2), acceptance_length=AlarmSettings(threshold=2.2)),
    ],
    "OPT214": [alarms(acceptance_decay=True), alarms(acceptance_decay=AlarmSettings(threshold=80))],
    "OPT089": [alarms(), alarms(stale_evaluation=AlarmSettings(threshold=1)), alarms(stale_evaluation=False)],
}
# rule, request, location of the violation, part of the reason or suggestion
BAD: list[tuple[str, Scaling | Alarms, str, str]] = [
    (
        "OPT214",
        alarms(acceptance_decay=AlarmSettings(threshold=100)),
        "alarms.acceptance_decay.threshold",
        "such as 90",
    ),
    (
        "OPT214",
        alarms(acceptance_decay=AlarmSettings(threshold=0.9)),
        "alarms.acceptance_decay.threshold",
        "at least 1",
    ),
    ("OPT080", scaling(min_capacity=5), "max_capacity", "5 or more"),
    ("OPT080", scaling(min_capacity=-1), "min_capacity", "0 or greater"),
    ("OPT080", scaling(min_capacity=True), "min_capacity", "0 or greater"),
    ("OPT080", scaling(max_capacity=2.5), "max_capacity", "1 or greater"),
    ("OPT080", scaling(min_capacity=0, max_capacity=0), "max_capacity", "1 or greater"),
    ("OPT080", scaling(max_capacity=99_999_999_999), "max_capacity", "32-bit"),
    ("OPT080", scaling(min_capacity=-1, max_capacity=4), "min_capacity", "a whole number, 0 or greater"),
    ("OPT081", variant(min_capacity=0), "min_capacity", "inference component"),
    (
        "OPT081",
        variant(schedules=[ScheduleRequest("on_schedule('Night')", "rate(1 day)", 0, 1)]),
        "on_schedule('Night').min_capacity",
        "asynchronous",
    ),
    ("OPT082", target(0), "on_concurrency.target", "above zero"),
    ("OPT082", target("8"), "on_concurrency.target", "above zero"),
    ("OPT082", target(float("inf")), "on_concurrency.target", "above zero"),
    ("OPT082", target(1e-300), "on_concurrency.target", "so small"),
    ("OPT082", target(1e300), "on_concurrency.target", "a number from 4.3e-109 to 2.3e+108"),
    ("OPT261", target(cooldowns={"scale_in_cooldown": 8_640_000_000}), "on_concurrency.scale_in_cooldown", "32-bit"),
    ("OPT261", steps(ScalingStep(change=1, lower=1), cooldown=2**31), "on_steps('Burst').cooldown", "Duration"),
    (
        "OPT261",
        scaling(
            engine_targets=[EngineTargetRequest("on_queue", "waiting_requests", 4, (("scale_out_cooldown", 1e10),))]
        ),
        "on_queue.scale_out_cooldown",
        "Duration",
    ),
    ("OPT084", schedule("every day"), "on_schedule('Day').schedule", "cron("),
    *(
        ("OPT084", schedule(expression), "on_schedule('Day').schedule", message)
        for expression, message in (
            ("cron(0 7 * * MON-FRI)", "cron has 6 fields; 5 were given"),
            ("cron(99 0 * * ? *)", "minutes: 0 to 59"),
            ("cron(0 25 * * ? *)", "hours: 0 to 23"),
            ("cron(0 0 32 * ? *)", "day-of-month: 1 to 31"),
            ("cron(0 0 1 13 ? *)", "month: 1 to 12 or JAN to DEC"),
            ("cron(0 0 ? * FUNDAY *)", "day-of-week: 1 to 7 or SUN to SAT"),
            ("cron(0 0 ? * 0 *)", "day-of-week: 1 to 7"),
            ("cron(0 0 ? * 3#6 *)", "3#2 for the second Tuesday"),
            ("cron(0 0 ? * 3#1,6#3 *)", "one schedule for each"),
            ("cron(0 0 1 * ? 2200)", "year: 1970 to 2199"),
            ("cron(0 0 1 * ? 2030-2027)", "year: 1970 to 2199"),
            ("cron(a b c d e f)", "a is no value of the field minutes"),
            ("cron(0/0 0 * * ? *)", "0/0 is no value of the field minutes"),
            ("cron(? 0 * * ? *)", "? is no value of the field minutes"),
            ("cron(0 0 1 * MON *)", "one of the two fields for days must be ?"),
            ("cron(0 0 * * * *)", "one of the two fields for days must be ?"),
            ("cron(0 0 ? * ? *)", "of the two fields for days, one is ?"),
            ("cron(0 0 31 4,6 ? *)", "no month of this schedule has these days"),
            ("cron(0 0 30 FEB ? *)", "no month of this schedule has these days"),
            ("rate(0 hours)", "a rate's value is 1 or greater"),
            ("rate(1 minutes)", "rate(1 minute)"),
            ("rate(5 minute)", "rate(5 minutes)"),
            ("at(2027-13-01T00:00:00)", "there is no such time"),
            ("at(2027-02-30T00:00:00)", "there is no such time"),
            ("cron()", "this is not a schedule expression"),
        )
    ),
    ("OPT084", complete(schedule(min_capacity=9)), "on_schedule('Day').min_capacity", "also max_capacity=9"),
    (
        "OPT084",
        complete(replace(schedule(max_capacity=2), min_capacity=3)),
        "on_schedule('Day').max_capacity",
        "the minimum stays at 3",
    ),
    ("OPT084", schedule(7), "on_schedule('Day').schedule", "at("),
    ("OPT084", schedule(time_zone="Berlin time"), "on_schedule('Day').time_zone", "Europe/Berlin"),
    ("OPT084", schedule(time_zone="Europe/Berln"), "on_schedule('Day').time_zone", "Europe/Berlin"),
    ("OPT084", schedule(min_capacity=None), "on_schedule('Day')", "changes nothing"),
    ("OPT084", schedule(min_capacity=3, max_capacity=2), "on_schedule('Day').max_capacity", "3 or more"),
    ("OPT084", schedule(max_capacity=1.5), "on_schedule('Day').max_capacity", "0 or greater"),
    ("OPT084", schedule(start="tomorrow"), "on_schedule('Day').start", "datetime"),
    ("OPT084", schedule(start=dt.datetime(2027, 2, 1), end="later"), "on_schedule('Day').end", "datetime"),
    ("OPT084", schedule(start="soon", end=dt.datetime(2027, 2, 1)), "on_schedule('Day').start", "datetime"),
    (
        "OPT084",
        schedule(start=dt.datetime(2027, 2, 1), end=dt.datetime(2027, 1, 1)),
        "on_schedule('Day').end",
        "after the start",
    ),
    ("OPT085", steps(), "on_steps('Burst').steps", "1 to 20"),
    ("OPT085", steps(ScalingStep(change=2**31, lower=1)), "on_steps('Burst').steps[0].change", "32-bit"),
    ("OPT085", steps(ScalingStep(change=1, lower=1e300)), "on_steps('Burst').steps[0].lower", "2.3e+108"),
    ("OPT085", steps(UP, min_adjustment_magnitude=0), "on_steps('Burst').min_adjustment_magnitude", "1 or greater"),
    ("OPT085", steps(UP, adjustment="Double"), "on_steps('Burst').adjustment", "ChangeInCapacity"),
    ("OPT085", steps(ScalingStep(change=0, lower=1)), "on_steps('Burst').steps[0].change", "positive to scale out"),
    ("OPT085", steps(ScalingStep(change=1)), "on_steps('Burst').steps[0].lower", "needs it"),
    ("OPT085", steps(ScalingStep(change=-1, lower=3)), "on_steps('Burst').steps[0].upper", "needs it"),
    ("OPT085", steps(ScalingStep(change=1, lower=5, upper=5)), "on_steps('Burst').steps[0].upper", "more than"),
    ("OPT085", steps(ScalingStep(change=1), adjustment="ExactCapacity"), "on_steps('Burst').steps[0].lower", "rises"),
    (
        "OPT085",
        steps(ScalingStep(change=-1, lower=1), adjustment="ExactCapacity"),
        "on_steps('Burst').steps[0].change",
        "0 or greater",
    ),
    ("OPT085", steps(ScalingStep(change=1, lower=16, upper=20), UPPER), "on_steps('Burst').steps[0].upper", "32"),
    ("OPT085", steps(ScalingStep(change=1, lower=16, upper=20)), "on_steps('Burst').steps[0].upper", "no upper bound"),
    ("OPT085", steps(ScalingStep(change=-1, lower=0, upper=2)), "on_steps('Burst').steps[0].lower", "no lower bound"),
    ("OPT085", steps(UP, ScalingStep(change=2, lower=16)), "on_steps('Burst').steps[0].lower", "two steps start here"),
    ("OPT085", steps(UP, ScalingStep(change=-1, upper=16)), "on_steps('Burst').steps", "removed repeatedly"),
    ("OPT085", steps(UP, evaluation_periods=0), "on_steps('Burst').evaluation_periods", "1 or greater"),
    ("OPT085", steps(UP, datapoints_to_alarm=2), "on_steps('Burst').datapoints_to_alarm", "1 to 1"),
    ("OPT086", scaling(ids=["OnConcurrency"], new_id="OnConcurrency"), "id", "taken: OnConcurrency"),
    ("OPT086", target(ids=["OnConcurrency"], new_id="OnConcurrency"), "on_concurrency", "one call of on_concurrency"),
    (
        "OPT086",
        scaling(ids=["X"], new_id="X", targets=[TargetRequest("on_metric('X')", 8)]),
        "id",
        "a different ID; these are taken: X",
    ),
    ("OPT086", scaling(new_id="a/b"), "id", "letters"),
    ("OPT086", scaling(new_id=7), "id", "letters"),
    ("OPT086", named("OnInvocations"), "on_concurrency.policy_name", "taken: OnInvocations"),
    ("OPT086", named("x" * 257), "on_concurrency.policy_name", "1 to 256 printable characters"),
    ("OPT086", named("a\x01b"), "on_concurrency.policy_name", "printable"),
    ("OPT086", named(""), "on_concurrency.policy_name", "printable"),
    ("OPT086", named(7), "on_concurrency.policy_name", "printable"),
    ("OPT086", scaling(new_id="Burst", new_policy_names=["BurstOut"], policy_names=["BurstOut"]), "id", "another name"),
    (
        "OPT087",
        Alarms(error_rate=AlarmSettings(datapoints_to_alarm=50)),
        "alarms.error_rate.datapoints_to_alarm",
        "1 to 1",
    ),
    (
        "OPT087",
        Alarms(saturation=AlarmSettings(period_seconds=604800)),
        "alarms.saturation.evaluation_periods",
        "at most 1 periods",
    ),
    ("OPT087", tuned(evaluation_periods=300), "alarms.error_rate.evaluation_periods", "at most 288 periods of 300 s"),
    ("OPT087", tuned(evaluation_periods=2, datapoints_to_alarm=3), "alarms.error_rate.datapoints_to_alarm", "1 to 2"),
    ("OPT088", alarms(latency=True), "alarms.latency.threshold", "AlarmSettings(threshold=30)"),
    ("OPT088", alarms(latency=AlarmSettings(threshold=0)), "alarms.latency.threshold", "length of completions"),
    ("OPT172", held("kv_cache_usage", 99), "on_it.target", "from 5 to 95, such as 70"),
    ("OPT172", held("engine_time_to_first_token", 2000), "on_it.target", "from 0.01 to 480, such as 2"),
    ("OPT172", held("waiting_requests", 0), "on_it.target", "such as 4"),
    ("OPT172", held("engine_output_tokens_per_second", "many"), "on_it.target", "such as 1,500"),
    ("OPT173", alarms(time_to_first_token=True), "alarms.time_to_first_token.threshold", "AlarmSettings(threshold=2)"),
    ("OPT173", alarms(acceptance_length=True), "alarms.acceptance_length.threshold", "below the value in your"),
    ("OPT089", alarms(stale_evaluation=AlarmSettings(threshold=8)), "alarms.stale_evaluation.threshold", "1 to 7 days"),
]


@pytest.mark.parametrize(
    ("build", "location", "message"),
    [
        (lambda: AlarmSettings(threshold=-1), "AlarmSettings.threshold", "0 or more"),
        (lambda: AlarmSettings(period_seconds=45), "AlarmSettings.period_seconds", "multiple of 60"),
        (lambda: AlarmSettings(evaluation_periods=0), "AlarmSettings.evaluation_periods", "1 or more"),
        (lambda: AlarmSettings(minimum_count=1.5), "AlarmSettings.minimum_count", "whole number"),  # type: ignore[arg-type]
        (lambda: AlarmSettings(treshold=1), "AlarmSettings.treshold", "did you mean threshold?"),  # type: ignore[call-arg]
        (lambda: Alarms(saturation="yes"), "Alarms.saturation", "AlarmSettings(threshold=...) or True or False"),  # type: ignore[arg-type]
        (lambda: ScalingStep(change=1, lower="a"), "ScalingStep.lower", "a number"),  # type: ignore[arg-type]
        (lambda: ScalingStep(lower=1), "ScalingStep.change", "change=..."),  # type: ignore[call-arg]
    ],
)
def test_an_invalid_setting_is_refused_at_construction(build: Callable[[], Any], location: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location) == ("OPT090", location)
    assert message in violation.suggestion


@pytest.mark.parametrize(("rule", "case"), [(rule, case) for rule, cases in GOOD.items() for case in cases])
def test_valid_cases_do_not_violate_their_rule(rule: str, case: Scaling | Alarms) -> None:
    assert rule not in [violation.rule for violation in check(case)]


@pytest.mark.parametrize(("rule", "case", "location", "message"), BAD)
def test_invalid_cases_are_refused_with_their_location_and_a_suggestion(
    rule: str, case: Scaling | Alarms, location: str, message: str
) -> None:
    found = [violation for violation in check(case) if violation.rule == rule]
    assert [violation.location for violation in found] == [location]
    assert message in f"{found[0].reason} {found[0].suggestion}"
    assert found[0].link.startswith("https://")


def test_every_scaling_rule_has_valid_and_invalid_cases() -> None:
    ids = {rule.id for rule in (*all_rules(Scaling), *all_rules(Alarms)) if not rule.advisory}
    assert ids == set(GOOD) == {rule for rule, *_ in BAD}


def test_all_scaling_violations_are_reported_together() -> None:
    scaling = variant(
        min_capacity=0,
        max_capacity=0,
        new_id="",
        targets=[TargetRequest("on_metric('A')", -1)],
        schedules=[ScheduleRequest("on_schedule('B')", "")],
    )
    assert {violation.rule for violation in check(scaling)} == {"OPT080", "OPT081", "OPT082", "OPT084", "OPT086"}


_RANGES = (("minutes", 0, 59), ("hours", 0, 23), ("day-of-month", 1, 31), ("month", 1, 12), ("year", 1970, 2199))


@given(st.sampled_from(_RANGES), st.integers(0, 2500))
def test_a_field_of_a_cron_expression_has_the_values_of_its_documented_range(
    field: tuple[str, int, int], value: int
) -> None:
    title, least, most = field
    fields = {"minutes": "0", "hours": "7", "day-of-month": "1", "month": "*", "day-of-week": "?", "year": "*"}
    found = schedules.fault(f"cron({' '.join({**fields, title: str(value)}.values())})")
    assert (found is None) is (least <= value <= most)


bounds = st.none() | st.floats(allow_nan=False, allow_infinity=False)
anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(())


@given(data=st.data())
def test_arbitrary_scaling_requests_only_give_violations(data: st.DataObject) -> None:
    def some() -> Any:
        return data.draw(anything)

    other = ScalingStep(change=1, lower=5)
    step = ScalingStep(change=data.draw(st.integers()), lower=data.draw(bounds), upper=data.draw(bounds))
    scaling = Scaling(
        bool(some()),
        min_capacity=some(),
        max_capacity=some(),
        new_id=some(),
        new_policy_names=[some()],
        is_complete=bool(some()),
        targets=[TargetRequest("target", some(), (("scale_in_cooldown", some()),))],
        schedules=[ScheduleRequest("schedule", some(), some(), some(), some(), some(), some())],
        steps=[StepRequest("steps", [step, other], some() or "ChangeInCapacity", 0, some(), some())],
    )
    assert isinstance(check(scaling), list)
    counts = st.none() | st.integers(1)
    settings = AlarmSettings(
        threshold=data.draw(st.none() | st.floats(0, allow_infinity=False)),
        evaluation_periods=data.draw(counts),
        datapoints_to_alarm=data.draw(counts),
    )
    assert isinstance(check(Alarms(error_rate=settings, latency=settings, stale_evaluation=settings)), list)


@pytest.mark.parametrize(("days", "warm_up_minutes"), [(1, 1440), (2, 2880), (7, 2880)])
def test_days_without_an_evaluation_are_the_periods_of_its_alarm(days: int, warm_up_minutes: int) -> None:
    settings = Alarms(stale_evaluation=AlarmSettings(threshold=days))
    watched = Watched(serves_components=False, capacity=8, is_evaluated=True)
    (alarm,) = (each for each in endpoint_alarms(settings, watched) if each.name == "stale_evaluation")
    assert (alarm.evaluation_periods, alarm.datapoints_to_alarm, alarm.threshold) == (days, days, 1)
    assert (alarm.period_seconds, alarm.warm_up_minutes) == (86_400, warm_up_minutes)
    assert f"for {days} days. First: " in alarm.description("Chat", "https://runbook")
    assert alarm.description("Chat", "https://runbook").endswith(" Runbook: https://runbook#stale-evaluation")


def test_an_endpoint_without_evaluations_has_no_alarm_about_them() -> None:
    alarms = endpoint_alarms(Alarms(stale_evaluation=AlarmSettings(threshold=2)), Watched(False, capacity=8))
    assert "stale_evaluation" not in {alarm.name for alarm in alarms}


@pytest.mark.parametrize(
    ("watched", "counts_copies"),
    [
        (Watched(serves_components=True, capacity=8), True),
        (Watched(serves_components=True, capacity=8, scales_to_zero=True), False),
        (Watched(serves_components=False, capacity=8), False),
    ],
)
def test_an_hour_without_copies_is_an_error_of_a_component_that_keeps_some(
    watched: Watched, counts_copies: bool
) -> None:
    (alarm,) = (each for each in endpoint_alarms(Alarms(), watched) if each.name == "hourly_error_rate")
    assert ("no copy of the model" in alarm.meaning) is counts_copies


@pytest.mark.parametrize(
    ("month", "days"),
    [
        ("JAN", 31),
        ("FEB", 29),
        ("MAR", 31),
        ("APR", 30),
        ("MAY", 31),
        ("JUN", 30),
        ("JUL", 31),
        ("AUG", 31),
        ("SEP", 30),
        ("OCT", 31),
        ("NOV", 30),
        ("DEC", 31),
    ],
)
def test_a_month_has_its_days(month: str, days: int) -> None:
    assert schedules.fault(f"cron(0 0 {days} {month.lower()} ? *)") is None
    assert schedules.fault(f"cron(0 0 {days + 1} {month} ? *)") is not None


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("cron(0 0 ? * SUN,MON *)", 6),
        ("cron(0 0 ? * MON,TUE *)", 6),
        ("cron(0 0 ? * TUE,WED *)", 6),
        ("cron(0 0 ? * WED,THU *)", 6),
        ("cron(0 0 ? * THU,FRI *)", 6),
        ("cron(0 0 ? * FRI,SAT *)", 6),
        ("cron(0 0 ? * SUN,THU *)", 4),
        ("cron(0 0 ? * 1,7 *)", 6),
        ("cron(0 0 ? * FRI-MON *)", 4),
        ("cron(0 0 ? * FRI-MON/3 *)", 4),
        ("cron(0 0 1/10 * ? *)", 10),
        ("cron(0 0 1-5 * ? *)", 27),
        ("cron(0 0 1 JAN,MAR ? *)", 306),
        ("cron(0 0 1 12 ? *)", 366),
        ("cron(0 0 29 2 ? *)", 1_461),
        ("cron(0 0 L * ? *)", 28),
        ("cron(0 0 15W * ? *)", 28),
        ("cron(0 0 ? * 6L *)", 28),
        ("cron(0 0 ? * 3#2 *)", 28),
        ("cron(0 0 1,L * ? *)", None),
        ("rate(1440 minutes)", 1),
        ("rate(36 hours)", 1.5),
        ("rate(2 days)", 2),
        ("at(2027-01-31T07:00:00)", None),
    ],
)
def test_the_longest_time_between_two_runs_follows_from_a_schedule(expression: str, days: float | None) -> None:
    assert schedules.fault(expression) is None
    assert schedules.longest_interval_days(expression) == days


_REPEATING = (
    "cron(minutes hours day-of-month month day-of-week year) such as cron(0 7 ? * MON-FRI *), or a rate such as "
    "rate(2 hours)"
)


@pytest.mark.parametrize(
    ("expression", "repeats", "fault"),
    [
        (7, False, ("this is not a schedule expression", f"{_REPEATING}, or at(2027-01-31T07:00:00)")),
        ("daily", False, ("this is not a schedule expression", f"{_REPEATING}, or at(2027-01-31T07:00:00)")),
        ("daily", True, ("this is not a schedule expression", _REPEATING)),
        ("at(2027-01-31T07:00:00)", False, None),
        (
            "at(2027-01-31T07:00:00)",
            True,
            ("this schedule has a single time, and this needs one that repeats", _REPEATING),
        ),
        ("rate(1 hours)", True, ("the value 1 takes the singular of the unit", "rate(1 hour)")),
        ("rate(3 hour)", True, ("the value 3 takes the plural of the unit", "rate(3 hours)")),
        ("rate(2 day)", True, ("the value 2 takes the plural of the unit", "rate(2 days)")),
    ],
)
def test_a_fault_of_a_schedule_says_what_would_be_one(
    expression: object, repeats: bool, fault: tuple[str, str] | None
) -> None:
    assert schedules.fault(expression, repeats=repeats) == fault


@pytest.mark.parametrize(
    ("fields", "last", "beyond"),
    [
        ("{} 0 1 1 ? *", ("0", "59"), "60"),
        ("0 {} 1 1 ? *", ("0", "23"), "24"),
        ("0 0 {} 1 ? *", ("1", "31"), "32"),
        ("0 0 {} 1 ? *", ("1", "31"), "0"),
        ("0 0 1 {} ? *", ("1", "12"), "13"),
        ("0 0 1 {} ? *", ("1", "12"), "0"),
        ("0 0 ? 1 {} *", ("1", "7"), "8"),
        ("0 0 ? 1 {} *", ("1", "7"), "0"),
        ("0 0 1 1 ? {}", ("1970", "2199"), "2200"),
        ("0 0 1 1 ? {}", ("1970", "2199"), "1969"),
        ("0 0 1 1 ? {}", ("2026-2027", "2026,2030"), "2027-2026"),
        ("0 0 {} 1 ? *", ("L-1", "L-30"), "L-31"),
        ("0 0 {} 1 ? *", ("1W", "31W"), "32W"),
        ("0 0 ? 1 {} *", ("1#1", "7#5"), "7#6"),
        ("0/{} 0 1 1 ? *", ("1", "59"), "60"),
        ("0/{} 0 1 1 ? *", ("1", "59"), "0"),
    ],
)
def test_a_field_of_a_schedule_has_its_range(fields: str, last: tuple[str, str], beyond: str) -> None:
    assert [schedules.fault(f"cron({fields.format(each)})") for each in last] == [None, None]
    assert schedules.fault(f"cron({fields.format(beyond)})") is not None
