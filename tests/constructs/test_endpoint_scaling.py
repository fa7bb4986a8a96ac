from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from aws_cdk import aws_applicationautoscaling as appscaling
from aws_cdk import aws_cloudwatch as cloudwatch

from constructs_optim import Quantization, RecipeError, Sharding
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.recipe.hosting.scaling import ScalingDefaults, ScalingStep

from .stacks import endpoint, resource, resources, stack, template_of

POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
ALARM = "AWS::CloudWatch::Alarm"


def scaled(scope: Stack, target: Any = None, *, least: int = 1, most: int = 4, **given: Any) -> EndpointScaling:
    return EndpointScaling(
        scope,
        "Scaling",
        target=target or ScalingTarget.component("chat"),
        min_capacity=least,
        max_capacity=most,
        **{"defaults": ScalingDefaults(capacity=8, concurrency=5.6), **given},
    )


def tracking(scope: Stack) -> dict[str, Any]:
    return resource(template_of(scope), POLICY)["TargetTrackingScalingPolicyConfiguration"]


def load(statistic: str = "Average", name: str = "Load") -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="Chat", metric_name=name, dimensions_map={"Team": "a"}, statistic=statistic,
        period=Duration.minutes(1), unit=cloudwatch.Unit.COUNT_PER_SECOND,
    )  # fmt: skip


def ratio() -> cloudwatch.MathExpression:
    used = {"load": load("p90"), "copies": load("Sum", "Copies")}
    return cloudwatch.MathExpression(expression="load / copies", using_metrics=used, period=Duration.minutes(1))


def test_the_variant_scales_in_the_given_range() -> None:
    scope = stack()
    endpoint(scope).auto_scale(min_capacity=2, max_capacity=6)
    target = resource(template_of(scope), TARGET)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 6)
    assert target["ResourceId"]["Fn::Join"][1][2] == "/variant/AllTraffic"


def test_a_range_may_be_known_only_when_the_stack_is_deployed() -> None:
    scope = stack()
    most = CfnParameter(scope, "Most", type="Number").value_as_number
    scaled(scope, most=most)  # type: ignore[arg-type]
    assert resource(template_of(scope), TARGET)["MaxCapacity"] == {"Ref": "Most"}


def test_concurrency_is_tracked_by_the_high_resolution_metric() -> None:
    scope = stack()
    endpoint(scope).auto_scale(max_capacity=4).on_concurrency(
        target=8, scale_in_cooldown=Duration.minutes(10), scale_out_cooldown=Duration.seconds(30)
    )
    assert tracking(scope) == {
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
        },
        "ScaleInCooldown": 600,
        "ScaleOutCooldown": 30,
        "TargetValue": 8,
    }


@pytest.mark.parametrize(
    ("techniques", "metric", "target"),
    [
        ([Quantization.awq()], "SageMakerVariantConcurrentRequestsPerModelHighResolution", 5.6),
        (
            [Quantization.awq(tensor_parallel_degree=2), Sharding.fast_load(tensor_parallel_degree=2)],
            "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
            1.4,
        ),
    ],
)
def test_the_target_of_concurrency_follows_from_the_plan(techniques: Any, metric: str, target: float) -> None:
    scope = stack()
    endpoint(scope, techniques=techniques).auto_scale(max_capacity=4).on_concurrency()
    found = tracking(scope)
    assert found["PredefinedMetricSpecification"]["PredefinedMetricType"] == metric
    assert found["TargetValue"] == target


def test_cooldowns_let_capacity_come_soon_and_go_late() -> None:
    scope = stack()
    scaled(scope).on_concurrency()
    found = tracking(scope)
    assert (found["ScaleOutCooldown"], found["ScaleInCooldown"]) == (60, 600)
    assert "DisableScaleIn" not in found


def test_a_policy_may_only_add() -> None:
    scope = stack()
    scaled(scope).on_concurrency(disable_scale_in=True)
    assert tracking(scope)["DisableScaleIn"] is True


def test_invocations_follow_from_the_seconds_that_a_request_takes() -> None:
    scope = stack()
    scaled(scope).on_invocations(request_seconds=20)
    assert tracking(scope)["TargetValue"] == 16.8


@pytest.mark.parametrize("given", [{}, {"target": 10, "request_seconds": 20}])
def test_how_many_invocations_a_copy_can_answer_is_not_guessed(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="set one of the two"):
        scaled(stack()).on_invocations(**given)


def test_a_request_takes_some_time() -> None:
    with pytest.raises(ValueError, match="request_seconds is 0"):
        scaled(stack()).on_invocations(request_seconds=0)


def test_without_a_plan_a_target_is_needed() -> None:
    with pytest.raises(ValueError, match="on_concurrency needs a target"):
        scaled(stack(), defaults=None).on_concurrency()


def test_any_metric_can_be_tracked() -> None:
    scope = stack()
    scaled(scope).on_metric("Load", metric=load(), target=3)
    assert tracking(scope)["CustomizedMetricSpecification"] == {
        "Dimensions": [{"Name": "Team", "Value": "a"}],
        "MetricName": "Load",
        "Namespace": "Chat",
        "Statistic": "Average",
        "Unit": "Count/Second",
    }


def test_percentiles_and_metric_math_are_tracked_as_queries() -> None:
    scope = stack()
    scaled(scope).on_metric("Ratio", metric=ratio(), target=3)
    queries = tracking(scope)["CustomizedMetricSpecification"]["Metrics"]
    assert [(query["Id"], query["ReturnData"]) for query in queries] == [
        ("load", False),
        ("copies", False),
        ("result", True),
    ]
    assert queries[0]["MetricStat"]["Stat"] == "p90"
    # Application Auto Scaling has a period of its own.
    assert "Period" not in queries[0]["MetricStat"]
    assert queries[2]["Expression"] == "load / copies"


def test_search_expressions_are_refused() -> None:
    search = cloudwatch.SearchExpression(expression="SEARCH('{Chat} Load', 'Sum')")
    with pytest.raises(ValueError, match="name the metrics"):
        scaled(stack()).on_metric("Search", metric=search, target=1)


def test_steps_become_a_policy_and_an_alarm_for_each_direction() -> None:
    scope = stack()
    steps = [ScalingStep(change=3, lower=32), ScalingStep(change=1, lower=16), ScalingStep(change=-1, upper=2)]
    scaled(scope).on_steps("Burst", metric=load("Maximum"), steps=steps, evaluation_periods=2)
    template = template_of(scope)
    out, back = resources(template, POLICY)
    assert out["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": 300,
        "MetricAggregationType": "Maximum",
        "StepAdjustments": [
            {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 16, "ScalingAdjustment": 1},
            {"MetricIntervalLowerBound": 16, "ScalingAdjustment": 3},
        ],
    }
    assert back["StepScalingPolicyConfiguration"]["StepAdjustments"] == [
        {"MetricIntervalUpperBound": 0, "ScalingAdjustment": -1}
    ]
    assert [policy["PolicyName"] for policy in (out, back)] == ["BurstOut", "BurstIn"]
    high, low = resources(template, ALARM)
    assert (high["ComparisonOperator"], high["Threshold"]) == ("GreaterThanOrEqualToThreshold", 16)
    assert (low["ComparisonOperator"], low["Threshold"]) == ("LessThanOrEqualToThreshold", 2)
    assert (high["EvaluationPeriods"], high["Period"], high["Statistic"]) == (2, 60, "Maximum")
    assert high["AlarmActions"] != low["AlarmActions"]
    assert "Ref" in high["AlarmActions"][0]


def test_steps_may_be_of_metric_math_and_of_percentiles() -> None:
    scope = stack()
    scaling = scaled(scope)
    scaling.on_steps("Ratio", metric=ratio(), steps=[ScalingStep(change=50, lower=1)],
                     adjustment="PercentChangeInCapacity", min_adjustment_magnitude=2)  # fmt: skip
    scaling.on_steps("Slow", metric=load("p99"), steps=[ScalingStep(change=1, lower=9)], evaluation_periods=3,
                     datapoints_to_alarm=2)  # fmt: skip
    template = template_of(scope)
    by_math, by_percentile = resources(template, ALARM)
    assert by_math["Metrics"][0]["MetricStat"]["Period"] == 60
    assert by_math["Metrics"][-1]["Expression"] == "load / copies"
    assert (by_percentile["ExtendedStatistic"], by_percentile["DatapointsToAlarm"]) == ("p99", 2)
    assert resources(template, POLICY)[0]["StepScalingPolicyConfiguration"]["MinAdjustmentMagnitude"] == 2


def test_a_schedule_sets_another_range() -> None:
    scope = stack()
    scaled(scope).on_schedule(
        "Day",
        schedule=appscaling.Schedule.cron(minute="0", hour="7", week_day="MON-FRI"),
        min_capacity=2,
        max_capacity=8,
        time_zone="Europe/Berlin",
        start=dt.datetime(2027, 1, 1),
        end=dt.datetime(2027, 6, 30, 23, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    )
    assert resource(template_of(scope), TARGET)["ScheduledActions"] == [
        {
            "EndTime": "2027-06-30T21:00:00Z",
            "ScalableTargetAction": {"MaxCapacity": 8, "MinCapacity": 2},
            "Schedule": "cron(0 7 ? * MON-FRI *)",
            "ScheduledActionName": "Day",
            "StartTime": "2027-01-01T00:00:00Z",
            "Timezone": "Europe/Berlin",
        }
    ]


def test_an_endpoint_is_stopped_at_night_and_started_in_the_morning() -> None:
    scope = stack()
    scaling = scaled(scope, most=3)
    scaling.stop_on(schedule="cron(0 19 ? * MON-FRI *)").start_on(schedule="cron(0 7 ? * MON-FRI *)")
    template = template_of(scope)
    actions = {
        action["ScheduledActionName"]: action["ScalableTargetAction"]
        for action in resource(template, TARGET)["ScheduledActions"]
    }
    assert actions == {
        "Stop": {"MaxCapacity": 0, "MinCapacity": 0},
        "Start": {"MaxCapacity": 3, "MinCapacity": 1},
    }
    # Stopped is stopped: no request starts it.
    assert resources(template, ALARM) == []


def test_with_no_copy_a_request_that_finds_none_starts_one() -> None:
    scope = stack()
    scaled(scope, least=0).on_concurrency()
    template = template_of(scope)
    alarm, (wakes, _) = resource(template, ALARM), resources(template, POLICY)
    assert alarm["MetricName"] == "NoCapacityInvocationFailures"
    assert alarm["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "chat"}]
    # The first request already, which the documentation's GreaterThanThreshold of 1 leaves unanswered.
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanOrEqualToThreshold", 1)
    assert (alarm["Statistic"], alarm["Period"], alarm["EvaluationPeriods"]) == ("Sum", 60, 1)
    assert wakes["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": 600,
        "MetricAggregationType": "Maximum",
        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
    }


def test_a_schedule_that_allows_for_no_copy_wakes_as_well_and_once() -> None:
    scope = stack()
    scaling = scaled(scope)
    for name in ("Night", "Weekend"):
        scaling.on_schedule(name, schedule="rate(1 day)", min_capacity=0)
    assert len(resources(template_of(scope), ALARM)) == 1


def test_an_asynchronous_endpoint_wakes_for_its_queue() -> None:
    scope = stack()
    scaled(scope, ScalingTarget.variant("chat", "AllTraffic", is_asynchronous=True), least=0).on_backlog()
    template = template_of(scope)
    alarm = resource(template, ALARM)
    assert (alarm["MetricName"], alarm["Dimensions"]) == (
        "HasBacklogWithoutCapacity",
        [{"Name": "EndpointName", "Value": "chat"}],
    )
    _, backlog = resources(template, POLICY)
    tracked = backlog["TargetTrackingScalingPolicyConfiguration"]
    assert tracked["CustomizedMetricSpecification"]["MetricName"] == "ApproximateBacklogSizePerInstance"
    assert tracked["TargetValue"] == 5.6


def test_there_is_no_queue_where_requests_are_answered_at_once() -> None:
    with pytest.raises(ValueError, match="use on_concurrency"):
        scaled(stack()).on_backlog(target=2)


def test_a_schedule_that_widens_the_range_is_refused_where_the_copies_do_not_fit() -> None:
    ranges: list[tuple[int, int]] = []
    scaling = scaled(stack(), set_range=lambda fewest, most: ranges.append((fewest, most)))
    scaling.on_schedule("Day", schedule="rate(1 day)", max_capacity=8)
    scaling.stop_on(schedule="rate(1 day)").start_on(schedule="rate(1 day)")
    assert ranges == [(1, 8), (0, 8)]
    assert scaling.on_concurrency(target=14).capacity == 20


def test_policies_add_up() -> None:
    scope = stack()
    endpoint(scope).auto_scale(max_capacity=4).on_concurrency(target=8).on_invocations(target=100)
    policies = resources(template_of(scope), POLICY)
    assert [policy["PolicyName"] for policy in policies] == ["OnConcurrency", "OnInvocations"]


def test_an_update_of_a_scaled_endpoint_keeps_what_scaling_has_set() -> None:
    scope = stack()
    endpoint(scope, "Scaled").auto_scale(max_capacity=4)
    endpoint(scope, "Fixed")
    retained = [e.get("RetainAllVariantProperties") for e in resources(template_of(scope), "AWS::SageMaker::Endpoint")]
    assert retained == [True, None]


@pytest.mark.parametrize(
    ("least", "most", "rules"),
    [(0, 4, {"OPT081"}), (5, 4, {"OPT080"}), (-1, 0, {"OPT080"}), (0, 0, {"OPT080", "OPT081"})],
)
def test_a_range_that_is_none_is_refused(least: int, most: int, rules: set[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        endpoint(stack()).auto_scale(min_capacity=least, max_capacity=most)
    assert {violation.rule for violation in caught.value.violations} == rules


def test_a_target_of_nothing_and_a_cooldown_of_half_a_second_are_refused_at_once() -> None:
    with pytest.raises(RecipeError, match=r"(?s)on_concurrency\.target = 0.*scale_out_cooldown = '0\.5 s'"):
        scaled(stack()).on_concurrency(target=0, scale_out_cooldown=Duration.millis(500))


@pytest.mark.parametrize("taken", ["Load", "OnConcurrency", "Day", "Target", "WakeUp", "BurstOut"])
def test_every_policy_and_schedule_has_a_name_of_its_own(taken: str) -> None:
    scaling = scaled(stack()).on_concurrency().on_metric("Load", metric=load(), target=1)
    scaling.on_schedule("Day", schedule="rate(1 day)", min_capacity=1)
    scaling.on_steps("Burst", metric=load(), steps=[ScalingStep(change=1, lower=9)])
    with pytest.raises(RecipeError, match="these are taken"):
        scaling.on_metric(taken, metric=load(), target=1)


def test_what_was_refused_has_added_nothing() -> None:
    scope = stack()
    scaling = scaled(scope)
    for attempt in (
        lambda: scaling.on_metric("Load", metric=load(), target=-1),
        lambda: scaling.on_schedule("Day", schedule="daily", min_capacity=1),
        lambda: scaling.on_steps("Burst", metric=load(), steps=[]),
    ):
        with pytest.raises(RecipeError):
            attempt()
    template = template_of(scope)
    assert len(template["Resources"]) == 1
    assert "ScheduledActions" not in resource(template, TARGET)


def test_a_variant_cannot_be_stopped() -> None:
    with pytest.raises(RecipeError, match="inference component"):
        scaled(stack(), ScalingTarget.variant("chat", "AllTraffic")).stop_on(schedule="rate(1 day)")


def test_an_endpoint_is_scaled_once() -> None:
    made = endpoint(stack())
    made.auto_scale(max_capacity=2)
    with pytest.raises(ValueError, match="scaled already"):
        made.auto_scale(max_capacity=3)
