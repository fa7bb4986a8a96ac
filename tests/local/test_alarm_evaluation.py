"""Alarms, metric math and scaling decisions, as functions of their data."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim_local.autoscaling.decisions import due_after, stepped, tracked, tracking_alarms
from constructs_optim_local.cloudwatch.evaluation import evaluated
from constructs_optim_local.cloudwatch.metric_math import MathError, evaluate
from constructs_optim_local.cloudwatch.refusals import alarm_problems

NOW = 6_000.0
# The periods that end with the one before NOW's, oldest first.
TIMES = [5640, 5700, 5760, 5820, 5880, 5940]
M1, M2 = dict(zip(TIMES, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], strict=True)), {5880: 10.0, 5940: 20.0}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Missing values count as 0, and a period with a zero divisor has no result ("Basic arithmetic functions").
        ("m1 + m2", {5640: 1.0, 5700: 2.0, 5760: 3.0, 5820: 4.0, 5880: 15.0, 5940: 26.0}),
        ("m1 - m2", {5640: 1.0, 5700: 2.0, 5760: 3.0, 5820: 4.0, 5880: -5.0, 5940: -14.0}),
        ("100*(m1/m2)", {5880: 50.0, 5940: 30.0}),
        ("m2 / 0", {}),
        ("-m2 ^ 2", {5880: -100.0, 5940: -400.0}),
        ("m2 > m1", {5640: 0, 5700: 0, 5760: 0, 5820: 0, 5880: 1, 5940: 1}),
        ("m1 >= 5 AND m2 >= 20", {5640: 0, 5700: 0, 5760: 0, 5820: 0, 5880: 0, 5940: 1}),
        # A missing value is 0 where the condition holds, and missing where it does not ("Using IF expressions").
        ("IF(m1 > 3, m2)", {5820: 0, 5880: 10.0, 5940: 20.0}),
        ("IF(m1 < 4, m1, m2)", {5640: 1.0, 5700: 2.0, 5760: 3.0, 5880: 10.0, 5940: 20.0}),
        ("IF(m1 > 5, m2, 0)", {5640: 0, 5700: 0, 5760: 0, 5820: 0, 5880: 0, 5940: 20.0}),
        ("IF(m1 > 5 AND m2 >= 20, 1)", {5940: 1}),
        ("IF(m1 > 5 || m1 < 2, 1)", {5640: 1, 5940: 1}),
        ("FILL(m2, 0) + 1", {5640: 1, 5700: 1, 5760: 1, 5820: 1, 5880: 11.0, 5940: 21.0}),
        ("FILL(m2, REPEAT)", {5880: 10.0, 5940: 20.0}),
        ("SUM([m1, m2])", {5640: 1.0, 5700: 2.0, 5760: 3.0, 5820: 4.0, 5880: 15.0, 5940: 26.0}),
        ("SUM(METRICS()) - m1", {5640: 0, 5700: 0, 5760: 0, 5820: 0, 5880: 10.0, 5940: 20.0}),
        ("MAX(m2) - m2", {5880: 10.0, 5940: 0.0}),
        ("RATE(m2) * PERIOD(m2)", {5940: 10.0}),
        ("AVG(METRICS('m2'))", {5880: 10.0, 5940: 20.0}),
    ],
)
def test_a_metric_math_expression_evaluates_to_a_time_series(expression: str, expected: dict[int, float]) -> None:
    assert evaluate(expression, {"m1": M1, "m2": M2}, TIMES, 60) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("m1 +", "is not a metric math expression"),
        ("m3 + 1", "m3 is not the ID"),
        ("SEARCH('x', 'Sum', 60)", "SEARCH"),
        ("[m1, m2]", "several time series"),
        ("m1.__class__", "does not support"),
        ("(lambda: 1)()", "does not support"),
    ],
)
def test_an_invalid_or_unsupported_metric_math_expression_is_refused(expression: str, said: str) -> None:
    with pytest.raises(MathError, match=said):
        evaluate(expression, {"m1": M1, "m2": M2}, TIMES, 60)


def alarm(**more: Any) -> dict[str, Any]:
    return {
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": 0.5,
        "Period": 60,
        "EvaluationPeriods": 3,
        **more,
    }


MISSING, IGNORE, BREACHING, NOT_BREACHING = "missing", "ignore", "breaching", "notBreaching"
KEPT = "Retain current state"


@pytest.mark.parametrize(
    ("least", "datapoints", "states"),
    # The rows of the two tables of the user guide, "How alarm state is evaluated when data is missing", and what
    # "Avoiding premature transitions to alarm state" says; newest last. With three evaluation periods, five are read.
    [
        (3, "0 - X - X", ("OK", "OK", "OK", "OK")),
        (3, "0 - - - -", ("OK", "OK", "OK", "OK")),
        (3, "- - - - -", ("INSUFFICIENT_DATA", KEPT, "ALARM", "OK")),
        (3, "0 X X - X", ("ALARM", "ALARM", "ALARM", "ALARM")),
        (3, "- - X - -", ("ALARM", KEPT, "ALARM", "OK")),
        (2, "0 - X - X", ("ALARM", "ALARM", "ALARM", "ALARM")),
        (2, "0 0 X 0 X", ("ALARM", "ALARM", "ALARM", "ALARM")),
        (2, "0 - X - -", ("OK", "OK", "ALARM", "OK")),
        (2, "- - - - 0", ("OK", "OK", "ALARM", "OK")),
        (2, "- - - X -", ("ALARM", KEPT, "ALARM", "OK")),
        (3, "- - - - X", (KEPT, KEPT, "ALARM", "OK")),
        (3, "- - - X -", (KEPT, KEPT, "ALARM", "OK")),
        (3, "- - - X 0", ("OK", "OK", "OK", "OK")),
        (3, "- - X - 0", ("OK", "OK", "OK", "OK")),
    ],
)
@pytest.mark.parametrize("current", ["OK", "ALARM", "INSUFFICIENT_DATA"])
def test_missing_data_is_treated_as_in_the_tables_of_the_user_guide(
    least: int, datapoints: str, states: tuple[str, str, str, str], current: str
) -> None:
    values = zip(TIMES[-5:], datapoints.split(), strict=True)
    series = {at: 1.0 if value == "X" else 0.0 for at, value in values if value != "-"}
    treatments = (MISSING, IGNORE, BREACHING, NOT_BREACHING)
    for treatment, expected in zip(treatments, states, strict=True):
        settings = {"DatapointsToAlarm": least, "TreatMissingData": treatment, "StateValue": current}
        found = evaluated(alarm(**settings), lambda *_: series, NOW)
        assert (found.state if found else current) == (current if expected == KEPT else expected), treatment


@pytest.mark.parametrize(
    ("statistic", "samples", "state"),
    [
        ("p99", 999, None),
        ("p99", 1_000, "ALARM"),
        ("p90", 99, None),
        ("p90", 100, "ALARM"),
        ("p10", 100, "ALARM"),
        ("p10", 99, None),
        ("tm99", 1, "ALARM"),
    ],
)
def test_an_alarm_may_ignore_percentiles_of_few_samples(statistic: str, samples: int, state: str | None) -> None:
    """10 / (1 - percentile) samples, 1,000 for a p99: user guide, "Percentile-based alarms and low data samples"."""

    def points(metric: Any, period: int, asked: str, end: int, count: int) -> dict[int, float]:
        return {end - period: float(samples)} if asked == "SampleCount" else {end - period: 1.0}

    settings = {"EvaluationPeriods": 1, "ExtendedStatistic": statistic}
    found = evaluated(alarm(**settings, EvaluateLowSampleCountPercentile="ignore"), points, NOW)
    assert (found.state if found else None) == state
    always = evaluated(alarm(**settings), points, NOW)
    assert always is not None
    assert always.state == "ALARM"


def test_m_out_of_n_breaching_datapoints_trigger_an_alarm() -> None:
    series = {5820: 1.0, 5880: 0.0, 5940: 1.0}
    for least, state in ((2, "ALARM"), (3, "OK")):
        found = evaluated(alarm(DatapointsToAlarm=least), lambda *_: series, NOW)
        assert found is not None
        assert found.state == state


def test_the_current_period_counts_once_it_has_a_datapoint() -> None:
    series = {6000: 1.0, 5940: 0.0}
    found = evaluated(alarm(EvaluationPeriods=1), lambda *_: series, NOW)
    assert found is not None
    assert (found.state, found.value) == ("ALARM", 1.0)


@pytest.mark.parametrize(
    ("now", "newest", "end"),
    [(6_061.0, 6_061, 6_120), (6_119.0, 6_061, 6_120), (6_119.0, 6_059, 6_060), (6_180.0, 6_061, 6_180)],
)
def test_the_window_of_a_longer_period_slides_with_each_minute(now: float, newest: int, end: int) -> None:
    """Its last minute is the current one if that has data."""
    ends: list[int] = []

    def points(metric: Any, period: int, statistic: str, until: int, count: int) -> dict[int, float]:
        ends.append(until)
        return {until - period: 1.0} if until - period <= newest < until else {}

    evaluated(alarm(Period=300, EvaluationPeriods=1), points, now)
    assert ends[-1] == end


@pytest.mark.parametrize(
    ("treatment", "reason"),
    [
        ("missing", "Insufficient Data: 3 datapoints were unknown."),
        (
            "breaching",
            "Threshold Crossed: no datapoints were received for 3 periods and 3 missing datapoints were treated as "
            "[Breaching].",
        ),
        (
            "notBreaching",
            "Threshold Crossed: no datapoints were received for 3 periods and 3 missing datapoints were treated as "
            "[NonBreaching].",
        ),
    ],
)
def test_the_reason_of_a_state_without_data_names_the_treatment(treatment: str, reason: str) -> None:
    found = evaluated(alarm(TreatMissingData=treatment), lambda *_: {}, NOW)
    assert found is not None
    assert (found.reason, found.value) == (reason, None)


METRIC = {"Namespace": "Test", "MetricName": "Failed", "Statistic": "Sum"}


def of_metrics(*metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    whole = alarm(Metrics=[*metrics], **more)
    return {name: value for name, value in whole.items() if name != "Period"}


def operand(id: str, period: int = 60) -> dict[str, Any]:
    metric = {"Namespace": "Test", "MetricName": "Failed"}
    return {"Id": id, "MetricStat": {"Metric": metric, "Period": period, "Stat": "Sum"}, "ReturnData": False}


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (alarm(**METRIC), []),
        (alarm(**METRIC, DatapointsToAlarm=4), ["DatapointsToAlarm must be less than or equal to EvaluationPeriods"]),
        (
            alarm(**{**METRIC, "Period": 300, "EvaluationPeriods": 289}),
            ["Metrics cannot be checked across more than one day (EvaluationPeriods * Period)"],
        ),
        (alarm(**{**METRIC, "Period": 86_400, "EvaluationPeriods": 7}), []),
        (
            alarm(**{**METRIC, "Period": 86_400, "EvaluationPeriods": 8}),
            ["Metrics cannot be checked across more than seven days (EvaluationPeriods * Period)"],
        ),
        (alarm(**{**METRIC, "Period": 90}), ["Period must be 10, 20, 30, or a multiple of 60"]),
        (
            alarm(**METRIC, ExtendedStatistic="p99"),
            ["Exactly one of Statistic and ExtendedStatistic must be specified"],
        ),
        (
            alarm(**{**METRIC, "Threshold": None, "TreatMissingData": "bad"}),
            [
                "Threshold is required for alarms based on static thresholds",
                "TreatMissingData must be breaching, notBreaching, ignore or missing",
            ],
        ),
        (
            of_metrics({"Id": "a", "Expression": "b + 1"}, {"Id": "c", "Expression": "1", "ReturnData": True}),
            [
                "Exactly one element of the metrics list should return data",
                "Expression of a refers to b, which is not an ID",
            ],
        ),
        (
            of_metrics(*(operand(f"m{number}") for number in range(11)), {"Id": "all", "Expression": "SUM(METRICS())"}),
            ["An alarm can have at most 10 metrics"],
        ),
        (
            of_metrics(operand("a"), operand("b", 300), {"Id": "all", "Expression": "a + b"}),
            ["Period must be the same for all metrics"],
        ),
        (
            of_metrics(operand("a"), operand("a"), {"Id": "All", "Expression": "a"}),
            [
                "Id a is not unique",
                "Id All must start with a lowercase letter and have only letters, numbers and underscores",
            ],
        ),
    ],
)
def test_an_alarm_that_put_metric_alarm_refuses_is_refused_with_all_reasons(
    refused: dict[str, Any], expected: list[str]
) -> None:
    assert alarm_problems(refused) == expected


STEPS = [
    {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 10, "ScalingAdjustment": 10},
    {"MetricIntervalLowerBound": 10, "ScalingAdjustment": 30},
]


@pytest.mark.parametrize(("breach", "expected"), [(0, 11), (9.9, 11), (10, 13), (1000, 13), (-1, None)])
def test_a_step_is_chosen_by_how_far_the_threshold_is_exceeded(breach: float, expected: int | None) -> None:
    config = {"AdjustmentType": "PercentChangeInCapacity", "StepAdjustments": STEPS}
    assert stepped(config, 10, breach, above=True) == expected


@pytest.mark.parametrize(
    ("adjustment", "least", "expected"), [(10, 0, 4), (-10, 0, 2), (10, 2, 5), (150, 0, 7), (-50, 0, 2)]
)
def test_a_percentage_of_a_capacity_is_rounded_as_documented(adjustment: int, least: int, expected: int) -> None:
    config = {
        "AdjustmentType": "PercentChangeInCapacity",
        "MinAdjustmentMagnitude": least,
        "StepAdjustments": [{"ScalingAdjustment": adjustment}],
    }
    assert stepped(config, 3, 1, above=True) == expected


@given(capacity=st.integers(1, 1000), value=st.floats(0, 1000, allow_subnormal=False), target=st.floats(0.1, 1000))
def test_target_tracking_scales_so_that_the_metric_is_at_or_below_the_target(
    capacity: int, value: float, target: float
) -> None:
    wanted = tracked(target, capacity, value)
    assert wanted is not None
    assert capacity * value <= wanted * target * (1 + 1e-9)
    assert (wanted - 1) * target <= capacity * value * (1 + 1e-9)


def test_target_tracking_cannot_scale_out_from_zero() -> None:
    assert tracked(1.0, 0, 100.0) is None


def test_scheduled_actions_are_due_in_their_time_zone() -> None:
    noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)

    def due(schedule: str, **more: Any) -> dt.datetime | None:
        return due_after({"Schedule": schedule, **more}, noon, 0.5)

    assert due("at(2026-07-01T09:30:00)", Timezone="America/New_York") == noon + dt.timedelta(hours=1, minutes=30)
    assert due("at(2026-07-01T09:30:00)") is None
    assert due("rate(2 minutes)") == noon + dt.timedelta(minutes=1)
    assert due("cron(0 13 * * ? *)") == noon + dt.timedelta(hours=1)
    assert due("rate(1 day)", EndTime=noon.timestamp() + 60) is None


def test_a_policy_that_is_only_read_may_track_any_predefined_metric() -> None:
    metric = {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"}
    policy = {
        "PolicyName": "read",
        "PolicyARN": "read",
        "ResourceId": "endpoint/-/variant/-",
        "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 50.0, "PredefinedMetricSpecification": metric},
    }
    assert {alarm["MetricName"] for alarm in tracking_alarms(policy)} == {"ECSServiceAverageCPUUtilization"}
