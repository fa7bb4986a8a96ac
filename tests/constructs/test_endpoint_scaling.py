from __future__ import annotations

import datetime as dt
import inspect
import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Annotations, App, CfnParameter, Duration, Stack
from aws_cdk import aws_applicationautoscaling as appscaling
from aws_cdk import aws_cloudwatch as cloudwatch

from constructs_optim import Quantization, RecipeError, Server, Sharding
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget, tracked
from constructs_optim.constructs.stack.findings import warnings_of
from constructs_optim.recipe.hosting.scaling import ScalingDefaults, ScalingStep

from ..support.construct_stacks import endpoint, resource, resources, scaling_of_vllm, stack, template_of

POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
ALARM = "AWS::CloudWatch::Alarm"


def scaled(scope: Stack, target: Any = None, *, least: int = 1, most: int = 4, **overrides: Any) -> EndpointScaling:
    return EndpointScaling(
        scope,
        "Scaling",
        target=target or ScalingTarget.component("chat"),
        min_capacity=least,
        max_capacity=most,
        **{"defaults": ScalingDefaults(capacity=8, concurrency=5.6), **overrides},
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


def test_a_variant_scales_within_the_configured_capacity_range() -> None:
    scope = stack()
    endpoint(scope).auto_scale(min_capacity=2, max_capacity=6)
    target = resource(template_of(scope), TARGET)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 6)
    assert target["ResourceId"]["Fn::Join"][1][2] == "/variant/AllTraffic"


def test_the_maximum_capacity_may_be_a_token() -> None:
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
def test_the_default_concurrency_target_is_derived_from_the_plan(techniques: Any, metric: str, target: float) -> None:
    scope = stack()
    endpoint(scope, techniques=techniques).auto_scale(max_capacity=4).on_concurrency()
    found = tracking(scope)
    assert found["PredefinedMetricSpecification"]["PredefinedMetricType"] == metric
    assert found["TargetValue"] == target


def test_the_default_scale_out_cooldown_is_shorter_than_scale_in() -> None:
    scope = stack()
    scaled(scope).on_concurrency()
    found = tracking(scope)
    assert (found["ScaleOutCooldown"], found["ScaleInCooldown"]) == (60, 600)
    assert "DisableScaleIn" not in found


def test_a_scaling_policy_may_disable_scale_in() -> None:
    scope = stack()
    scaled(scope).on_concurrency(disable_scale_in=True)
    assert tracking(scope)["DisableScaleIn"] is True


def test_the_invocations_target_is_derived_from_the_request_duration() -> None:
    scope = stack()
    scaled(scope).on_invocations(request_seconds=20)
    assert tracking(scope)["TargetValue"] == 16.8


@pytest.mark.parametrize("arguments", [{}, {"target": 10, "request_seconds": 20}])
def test_on_invocations_requires_either_a_target_or_request_seconds(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="set one of them"):
        scaled(stack()).on_invocations(**arguments)


@pytest.mark.parametrize(
    ("target", "metric"),
    [
        (ScalingTarget.component("chat"), "SageMakerInferenceComponentInvocationsPerCopy"),
        (ScalingTarget.variant("chat", "AllTraffic"), "SageMakerVariantInvocationsPerInstance"),
    ],
)
def test_invocations_are_those_of_an_instance_or_of_a_copy(target: ScalingTarget, metric: str) -> None:
    scope = stack()
    scaled(scope, target).on_invocations(target=100)
    assert tracking(scope)["PredefinedMetricSpecification"] == {"PredefinedMetricType": metric}


def test_policies_and_schedules_can_be_chained() -> None:
    scaling = endpoint(stack()).auto_scale(max_capacity=4)
    chained = (
        scaling.on_concurrency(target=8)
        .on_queue(target=4)
        .on_steps("Load", metric=load(), steps=[ScalingStep(change=1, lower=16)])
        .on_schedule("Day", schedule="rate(1 day)", min_capacity=2, max_capacity=4)
        .on_invocations(target=100)
    )
    assert chained is scaling


def test_a_request_duration_of_zero_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match="request_seconds is 0"):
        scaled(stack()).on_invocations(request_seconds=0)


def test_concurrency_scaling_without_a_plan_requires_a_target() -> None:
    with pytest.raises(ValueError, match="on_concurrency needs a target"):
        scaled(stack(), defaults=None).on_concurrency()


def test_a_custom_metric_can_be_tracked() -> None:
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
    # Application Auto Scaling uses a fixed period.
    assert "Period" not in queries[0]["MetricStat"]
    assert queries[2]["Expression"] == "load / copies"


def test_target_tracking_of_a_search_expression_is_refused() -> None:
    search = cloudwatch.SearchExpression(expression="SEARCH('{Chat} Load', 'Sum')")
    with pytest.raises(ValueError, match="name the metrics"):
        scaled(stack()).on_metric("Search", metric=search, target=1)


def test_two_metrics_of_an_expression_with_the_same_id_are_refused() -> None:
    # The policy's own expression has this ID.
    used = {"result": load("Sum")}
    both = cloudwatch.MathExpression(expression="result + 1", using_metrics=used, period=Duration.minutes(1))
    with pytest.raises(ValueError, match="two metrics of an expression have the ID result: change one of them"):
        scaled(stack()).on_metric("Both", metric=both, target=1)


def test_step_scaling_creates_a_policy_and_an_alarm_for_each_direction() -> None:
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
    assert high["AlarmDescription"] == "Scales by Burst: its metric is at or above 16. No action is needed."
    assert low["AlarmDescription"] == "Scales by Burst: its metric is at or below 2. No action is needed."
    assert high["AlarmActions"] != low["AlarmActions"]
    assert "Ref" in high["AlarmActions"][0]


def test_step_scaling_supports_metric_math_and_percentiles() -> None:
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


def test_a_scheduled_action_sets_another_capacity_range() -> None:
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
    # No request wakes a stopped endpoint.
    assert resources(template, ALARM) == []


def test_a_request_to_a_component_scaled_to_zero_starts_a_copy() -> None:
    scope = stack()
    scaled(scope, least=0).on_concurrency()
    template = template_of(scope)
    alarm, (wakes, _) = resource(template, ALARM), resources(template, POLICY)
    assert alarm["MetricName"] == "NoCapacityInvocationFailures"
    assert alarm["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "chat"}]
    # The first request triggers it, unlike the documentation's GreaterThanThreshold of 1.
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanOrEqualToThreshold", 1)
    assert (alarm["Statistic"], alarm["Period"], alarm["EvaluationPeriods"]) == ("Sum", 60, 1)
    assert wakes["StepScalingPolicyConfiguration"] == {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": 600,
        "MetricAggregationType": "Maximum",
        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
    }


def test_several_scale_to_zero_schedules_share_one_wake_up_alarm() -> None:
    scope = stack()
    scaling = scaled(scope)
    for name in ("Night", "Weekend"):
        scaling.on_schedule(name, schedule="rate(1 day)", min_capacity=0)
    assert len(resources(template_of(scope), ALARM)) == 1


def test_a_backlog_wakes_an_asynchronous_endpoint_from_zero() -> None:
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
    assert tracked["CustomizedMetricSpecification"] == {
        "Dimensions": [{"Name": "EndpointName", "Value": "chat"}],
        "MetricName": "ApproximateBacklogSizePerInstance",
        "Namespace": "AWS/SageMaker",
        "Statistic": "Average",
    }
    assert tracked["TargetValue"] == 5.6


def test_backlog_scaling_of_a_real_time_endpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="use on_concurrency"):
        scaled(stack()).on_backlog(target=2)


def test_a_schedule_widens_the_capacity_range_reported_to_the_endpoint() -> None:
    ranges: list[tuple[int, int]] = []
    scaling = scaled(stack(), set_range=lambda fewest, most: ranges.append((fewest, most)))
    scaling.on_schedule("Day", schedule="rate(1 day)", max_capacity=8)
    scaling.stop_on(schedule="rate(1 day)").start_on(schedule="rate(1 day)")
    assert ranges == [(1, 8), (0, 8)]
    assert scaling.on_concurrency(target=14).capacity == 20


def test_several_scaling_policies_can_be_combined() -> None:
    scope = stack()
    endpoint(scope).auto_scale(max_capacity=4).on_concurrency(target=8).on_invocations(target=100)
    policies = resources(template_of(scope), POLICY)
    assert [policy["PolicyName"]["Fn::Join"][1][0] for policy in policies] == ["OnConcurrency", "OnInvocations"]


def test_an_update_of_a_scaled_endpoint_retains_its_variant_properties() -> None:
    scope = stack()
    endpoint(scope, "Scaled").auto_scale(max_capacity=4)
    endpoint(scope, "Fixed")
    retained = [e.get("RetainAllVariantProperties") for e in resources(template_of(scope), "AWS::SageMaker::Endpoint")]
    assert retained == [True, None]


@pytest.mark.parametrize(
    ("least", "most", "rules"),
    [(0, 4, {"OPT081"}), (5, 4, {"OPT080"}), (-1, 0, {"OPT080"}), (0, 0, {"OPT080", "OPT081"})],
)
def test_an_invalid_capacity_range_is_refused(least: int, most: int, rules: set[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        endpoint(stack()).auto_scale(min_capacity=least, max_capacity=most)
    assert {violation.rule for violation in caught.value.violations} == rules


def test_a_zero_target_and_a_fractional_cooldown_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"on_concurrency\.target = 0"):
        scaled(stack()).on_concurrency(target=0)
    with pytest.raises(RecipeError, match=r"(?s)on_concurrency\.scale_out_cooldown.*a Duration of whole seconds"):
        scaled(stack()).on_concurrency(target=1, scale_out_cooldown=Duration.millis(500))


@pytest.mark.parametrize("taken", ["Load", "OnConcurrency", "Day", "Target", "WakeUp", "BurstOut"])
def test_duplicate_names_of_policies_and_schedules_are_refused(taken: str) -> None:
    scaling = scaled(stack()).on_concurrency().on_metric("Load", metric=load(), target=1)
    scaling.on_schedule("Day", schedule="rate(1 day)", min_capacity=1)
    scaling.on_steps("Burst", metric=load(), steps=[ScalingStep(change=1, lower=9)])
    with pytest.raises(RecipeError, match="these are taken"):
        scaling.on_metric(taken, metric=load(), target=1)


def test_two_policies_of_a_target_cannot_have_one_name() -> None:
    scaling = scaled(stack()).on_concurrency(policy_name="mine")
    with pytest.raises(RecipeError) as refused:
        scaling.on_invocations(target=5, policy_name="mine")
    (found,) = refused.value.violations
    assert (found.rule, found.location) == ("OPT086", "on_invocations.policy_name")
    with pytest.raises(RecipeError, match="OPT086"):
        scaling.on_invocations(target=5, policy_name="OnSteps" * 40)


@pytest.mark.parametrize("name", ["BurstOut", "WakeUp"])
def test_a_policy_cannot_have_the_name_of_a_policy_that_another_method_declares(name: str) -> None:
    scaling = scaled(stack()).on_steps("Burst", metric=load(), steps=[ScalingStep(change=1, lower=16)])
    with pytest.raises(RecipeError, match="OPT086"):
        scaling.on_concurrency(policy_name=name)


def test_policies_on_engine_metrics_share_the_longest_pauses() -> None:
    scope = stack()
    long, short = Duration.minutes(20), Duration.minutes(2)
    scaling = scaling_of_vllm(scope)
    scaling.on_kv_cache(target=80, scale_in_cooldown=long, scale_out_cooldown=short)
    scaling.on_queue(target=4, scale_in_cooldown=short, scale_out_cooldown=long)
    pauses = {
        policy["PolicyName"]: policy["StepScalingPolicyConfiguration"]["Cooldown"]
        for policy in resources(template_of(scope), POLICY)
    }
    assert sorted(pauses.values()) == [120, 1200, 1200, 1200], pauses


@pytest.mark.parametrize("least", [0, 1])
def test_the_last_copy_is_removed_without_requests_only_in_a_range_from_zero(least: int) -> None:
    scope = stack()
    component = endpoint(scope, server=Server.vllm(), inference_component=True)
    component.auto_scale(min_capacity=least, max_capacity=2).on_queue(target=4)
    queries = [
        json.dumps(alarm["EvaluationCriteria"])
        for alarm in resources(template_of(scope), ALARM)
        if "the other copies suffice" in str(alarm.get("AlarmDescription"))
    ]
    assert [") or (" in query for query in queries] == [least == 0]


def test_a_cooldown_of_centuries_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"OPT261 on_concurrency\.scale_in_cooldown"):
        scaled(stack()).on_concurrency(scale_in_cooldown=Duration.days(100_000))


def test_a_schedule_cannot_lift_the_minimum_above_the_maximum_that_stays() -> None:
    scope = stack()
    scaling = scaled(scope, most=4)
    scaling.on_schedule("Early", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=9)
    with pytest.raises(RuntimeError, match=r"OPT084 \S*Scaling on_schedule\('Early'\)[\s\S]*also max_capacity=9"):
        template_of(scope)
    scaling.on_schedule("Peak", schedule="cron(0 6 ? * MON-FRI *)", max_capacity=12)
    assert len(resource(template_of(scope), TARGET)["ScheduledActions"]) == 2


@pytest.mark.parametrize("order", list(permutations(["Night", "Evening", "Morning"])), ids="-".join)
def test_the_order_of_schedules_does_not_matter(order: tuple[str, ...]) -> None:
    limits: dict[str, dict[str, Any]] = {
        "Night": {"schedule": "cron(0 21 ? * * *)", "max_capacity": 1},
        "Evening": {"schedule": "cron(0 20 ? * * *)", "min_capacity": 1},
        "Morning": {"schedule": "cron(0 7 ? * * *)", "min_capacity": 2, "max_capacity": 4},
    }
    scope = stack()
    scaling = scaled(scope, least=2, most=4)
    for name in order:
        scaling.on_schedule(name, **limits[name])
    assert len(resource(template_of(scope), TARGET)["ScheduledActions"]) == 3


def test_refused_policies_and_schedules_add_no_resources() -> None:
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


def test_a_stop_schedule_requires_an_inference_component() -> None:
    with pytest.raises(RecipeError, match="inference component"):
        scaled(stack(), ScalingTarget.variant("chat", "AllTraffic")).stop_on(schedule="rate(1 day)")


def test_calling_auto_scale_twice_is_refused() -> None:
    created = endpoint(stack())
    created.auto_scale(max_capacity=2)
    with pytest.raises(ValueError, match="already has auto scaling"):
        created.auto_scale(max_capacity=3)


def advice_of(scope: Stack) -> list[str]:
    """The IDs of the warnings of a synthesized stack."""
    folder = App.of(scope).synth().directory  # type: ignore[union-attr]
    return [text.rpartition("ack: ")[2].rstrip("]") for text in warnings_of(Path(folder), scope)]


def test_a_range_without_a_policy_is_advised_against_at_the_line_that_declares_it() -> None:
    scope = stack()
    first = inspect.currentframe()
    assert first is not None
    line = first.f_lineno + 1
    scaling = endpoint(scope).auto_scale(max_capacity=4)
    scope.node.root.synth()  # type: ignore[attr-defined]
    found = {each.type: each.data for each in scaling.node.metadata}
    assert str(found["aws:cdk:warning"]).endswith("[ack: constructs-optim:OPT237]")
    assert found["aws:cdk:creationStack"][0].endswith(f"({__file__}:{line})")


@pytest.mark.parametrize(
    "declare",
    [
        lambda scaling: scaling.on_concurrency(target=8),
        lambda scaling: scaling.on_queue(target=4),
        lambda scaling: scaling.on_metric("Load", metric=load(), target=5),
        lambda scaling: scaling.on_steps("Load", metric=load(), steps=[ScalingStep(change=1, lower=16)]),
        lambda scaling: scaling.on_schedule("Day", schedule="rate(1 day)", min_capacity=4, max_capacity=4).on_schedule(
            "Night", schedule="rate(1 day)", min_capacity=1, max_capacity=1
        ),
    ],
)
def test_a_range_with_a_policy_or_schedules_that_change_it_has_no_advice(
    declare: Callable[[EndpointScaling], object],
) -> None:
    scope = stack()
    declare(endpoint(scope).auto_scale(max_capacity=4))
    assert "constructs-optim:OPT237" not in advice_of(scope)


def test_scaling_of_every_construct_is_advised_on_and_the_advice_can_be_acknowledged() -> None:
    scope = stack()
    served = endpoint(scope, inference_component=True)
    served.auto_scale(max_capacity=2)
    one = endpoint(scope, "Other")
    one.auto_scale(max_capacity=2).on_schedule("Once", schedule="at(2026-01-01T00:00:00)", min_capacity=2)
    assert advice_of(scope).count("constructs-optim:OPT237") == 3
    acknowledged = stack()
    Annotations.of(acknowledged).acknowledge_warning("constructs-optim:OPT237")
    endpoint(acknowledged).auto_scale(max_capacity=2)
    assert "constructs-optim:OPT237" not in advice_of(acknowledged)


@pytest.mark.parametrize("statistic", ["Average", "Maximum", "Minimum", "SampleCount", "Sum"])
def test_a_metric_with_a_statistic_of_the_service_is_tracked_alone(statistic: str) -> None:
    assert tracked(load(statistic)) == {
        "dimensions": [{"name": "Team", "value": "a"}],
        "metricName": "Load",
        "namespace": "Chat",
        "statistic": statistic,
        "unit": "Count/Second",
    }


@pytest.mark.parametrize(
    ("unit", "written"),
    [(cloudwatch.Unit.PERCENT, "Percent"), (cloudwatch.Unit.MEGABYTES_PER_SECOND, "Megabytes/Second"), (None, None)],
)
def test_a_unit_has_the_service_s_name(unit: cloudwatch.Unit | None, written: str | None) -> None:
    metric = cloudwatch.Metric(namespace="Chat", metric_name="Load", statistic="Sum", unit=unit)
    alone = {"metricName": "Load", "namespace": "Chat", "statistic": "Sum"}
    assert tracked(metric) == (alone if written is None else {**alone, "unit": written})


def test_a_tracked_expression_has_all_of_its_metrics() -> None:
    def query(name: str, statistic: str) -> dict[str, Any]:
        dimensions = [{"name": "Team", "value": "a"}]
        metric = {"dimensions": dimensions, "metricName": name, "namespace": "Chat"}
        return {"metric": metric, "stat": statistic, "unit": "Count/Second"}

    assert tracked(ratio()) == {
        "metrics": [
            {"id": "load", "metricStat": query("Load", "p90"), "returnData": False},
            {"id": "copies", "metricStat": query("Copies", "Sum"), "returnData": False},
            {"expression": "load / copies", "id": "result", "returnData": True},
        ]
    }


@pytest.mark.parametrize(
    ("statistic", "aggregation"),
    [("Maximum", "Maximum"), ("Minimum", "Minimum"), ("Average", "Average"), ("Sum", "Average"), ("p99", "Average")],
)
def test_steps_compare_with_the_statistic_of_their_metric(statistic: str, aggregation: str) -> None:
    scope = stack()
    steps = [ScalingStep(change=1, lower=9)]
    scaled(scope).on_steps("Slow", metric=load(statistic), steps=steps, cooldown=Duration.minutes(1))
    template = template_of(scope)
    found = resource(template, POLICY)["StepScalingPolicyConfiguration"]
    assert (found["MetricAggregationType"], found["Cooldown"]) == (aggregation, 60)
    alarm = resource(template, ALARM)
    assert alarm.pop("AlarmActions") != []
    assert alarm == {
        "AlarmDescription": "Scales by Slow: its metric is at or above 9. No action is needed.",
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Dimensions": [{"Name": "Team", "Value": "a"}],
        "EvaluationPeriods": 1,
        "ExtendedStatistic" if statistic == "p99" else "Statistic": statistic,
        "MetricName": "Load",
        "Namespace": "Chat",
        "Period": 60,
        "Threshold": 9,
        "TreatMissingData": "notBreaching",
        "Unit": "Count/Second",
    }


def test_an_alarm_on_an_expression_has_the_periods_of_its_metrics() -> None:
    scope = stack()
    scaled(scope).on_steps("Ratio", metric=ratio(), steps=[ScalingStep(change=1, lower=1)])
    *used, result = resource(template_of(scope), ALARM)["Metrics"]
    assert [each["MetricStat"]["Period"] for each in used] == [60, 60]
    assert (result["Period"], result["ReturnData"]) == (60, True)


def test_the_first_request_of_an_asynchronous_endpoint_starts_an_instance() -> None:
    scope = stack()
    scaled(scope, ScalingTarget.variant("chat", "AllTraffic", is_asynchronous=True), least=0)
    alarm = resource(template_of(scope), ALARM)
    assert alarm.pop("AlarmActions") != []
    assert alarm == {
        "AlarmDescription": "A request found no copy or instance. Auto Scaling starts one; no action is needed.",
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Dimensions": [{"Name": "EndpointName", "Value": "chat"}],
        "EvaluationPeriods": 1,
        "MetricName": "HasBacklogWithoutCapacity",
        "Namespace": "AWS/SageMaker",
        "Period": 60,
        "Statistic": "Average",
        "Threshold": 1,
        "TreatMissingData": "notBreaching",
    }
