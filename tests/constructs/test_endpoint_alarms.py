from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsii
import pytest
from aws_cdk import App, Aws, CfnOutput, Environment, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as functions
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match

from constructs_optim import RecipeError
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.recipe.hosting.alarms import (
    Alarms,
    AlarmSettings,
    Watched,
    endpoint_alarms,
)

from ..support.construct_stacks import resources, stack, template_of

ALARM = "AWS::CloudWatch::Alarm"
VARIANT = ServedModel("chat", "AllTraffic", artifact_key="a" * 64)
COMPONENT = ServedModel("chat", "AllTraffic", "chat-llama")
ALL = Alarms(latency=AlarmSettings(threshold=30))


def declared(scope: Stack, id: str = "Alarms", served: ServedModel = VARIANT, **overrides: Any) -> EndpointAlarms:
    return EndpointAlarms(scope, id, **{"served": served, "endpoint": "Chat/Llama70B", "capacity": 8, **overrides})


def alarms_of(scope: Stack) -> dict[str, dict[str, Any]]:
    """The alarms by the runbook section at the end of their descriptions."""
    return {alarm["AlarmDescription"].rpartition("#")[2]: alarm for alarm in resources(template_of(scope), ALARM)}


def only(**on: AlarmSettings | bool) -> Alarms:
    return Alarms(**{**vars(Alarms.none()), **on})


def test_five_alarms_are_enabled_by_default() -> None:
    scope = stack()
    declared(scope)
    assert list(alarms_of(scope)) == ["error-rate", "hourly-error-rate", "saturation", "zero-capacity", "failed-job"]


def test_all_alarms_can_be_disabled() -> None:
    scope = stack()
    declared(scope, alarms=Alarms.none())
    assert "Resources" not in template_of(scope)


def test_each_alarm_can_be_turned_off_alone() -> None:
    scope = stack()
    declared(scope, alarms=Alarms(saturation=False, failed_job=None))
    assert list(alarms_of(scope)) == ["error-rate", "hourly-error-rate", "zero-capacity"]


@pytest.mark.parametrize(
    ("served", "name", "seconds", "more"),
    # A component publishes no errors of streams, and may have no copy.
    [
        (VARIANT, "error_rate", 300, {"mid_stream_errors": "MidStreamErrors"}),
        (COMPONENT, "error_rate", 300, {}),
        (VARIANT, "hourly_error_rate", 3_600, {"mid_stream_errors": "MidStreamErrors"}),
        (COMPONENT, "hourly_error_rate", 3_600, {"unserved": "NoCapacityInvocationFailures", "served": "ModelLatency"}),
    ],
)
def test_an_error_rate_alarm_counts_failed_requests_if_there_are_enough(
    served: ServedModel, name: str, seconds: int, more: dict[str, str]
) -> None:
    scope = stack()
    declared(scope, served=served, alarms=only(**{name: AlarmSettings(threshold=2, minimum_count=10)}))
    alarm = alarms_of(scope)[name.replace("_", "-")]
    series = {each["Id"]: each["MetricStat"] for each in alarm["Metrics"] if "MetricStat" in each}
    assert {name: stat["Metric"]["MetricName"] for name, stat in series.items()} == {
        "invocation_model_errors": "InvocationModelErrors",
        "invocation_4xx_errors": "Invocation4XXErrors",
        "invocation_5xx_errors": "Invocation5XXErrors",
        **more,
        "requests": "Invocations",
    }
    assert {stat["Period"] for stat in series.values()} == {seconds}
    assert {stat["Stat"] for each, stat in series.items() if each != "served"} == {"Sum"}
    failed, rate = [each for each in alarm["Metrics"] if "Expression" in each]
    assert failed["Id"] == "failed"
    counted, otherwise = "failed", "0"
    if "unserved" in more:
        counted = "failed + 0 * unserved"
        otherwise = "IF(unserved >= 10 AND served + unserved == unserved, 100, 0)"
    share = "100 * failed / IF(requests > failed, requests, failed)"
    # CloudWatch evaluates old failures again while data are missing.
    assert rate["Expression"] == f"FILL(IF({counted} >= 10, {share}, {otherwise}), 0)"
    assert [query["ReturnData"] for query in alarm["Metrics"]] == [False] * (len(series) + 1) + [True]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (2, "GreaterThanThreshold")
    # No requests, no errors.
    assert alarm["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("name", ["error_rate", "hourly_error_rate"])
def test_an_error_rate_of_an_asynchronous_endpoint_has_its_metrics(name: str) -> None:
    scope = stack()
    asynchronous = ServedModel("chat", "AllTraffic", is_asynchronous=True)
    declared(scope, served=asynchronous, alarms=only(**{name: True}))
    alarm = alarms_of(scope)[name.replace("_", "-")]
    series = [each["MetricStat"] for each in alarm["Metrics"] if "MetricStat" in each]
    assert {stat["Metric"]["MetricName"]: stat["Stat"] for stat in series} == {
        "InvocationFailures": "Sum",
        "Invocation4XXErrors": "Sum",
        "Invocation5XXErrors": "Sum",
        "ExpiredRequests": "Sum",
        # Of the metrics that it publishes, this one counts requests, and AWS documents the statistic for it.
        "ModelLatency": "SampleCount",
    }


def test_a_latency_alarm_is_evaluated_however_few_the_requests_are() -> None:
    """CloudWatch would ignore a p99 of fewer than 1,000 requests (user guide, "Percentile-based alarms and low data
    samples"), so that an endpoint with fewer had no such alarm, or kept one in ALARM."""
    scope = stack()
    declared(scope, alarms=only(latency=AlarmSettings(threshold=2.5)))
    assert "EvaluateLowSampleCountPercentile" not in alarms_of(scope)["latency"]


def test_a_latency_threshold_in_seconds_is_converted_to_microseconds() -> None:
    scope = stack()
    declared(scope, alarms=only(latency=AlarmSettings(threshold=2.5)))
    alarm = alarms_of(scope)["latency"]
    latency, filled = alarm["Metrics"]
    assert (latency["MetricStat"]["Stat"], filled["Expression"]) == ("p99", "FILL(p99, 0)")
    assert alarm["Threshold"] == 2_500_000
    assert "2.5 s" in alarm["AlarmDescription"]


@pytest.mark.parametrize(
    ("served", "metric", "each"),
    [(VARIANT, "ConcurrentRequestsPerModel", "instance"), (COMPONENT, "ConcurrentRequestsPerCopy", "copy")],
)
def test_the_saturation_threshold_is_the_planned_capacity_per_instance_or_copy(
    served: ServedModel, metric: str, each: str
) -> None:
    scope = stack()
    declared(scope, served=served, alarms=only(saturation=True), capacity=12)
    alarm = alarms_of(scope)["saturation"]
    assert (alarm["MetricName"], alarm["Statistic"], alarm["Threshold"]) == (metric, "Minimum", 12)
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (15, 10)
    assert f"each {each} of Chat/Llama70B" in alarm["AlarmDescription"]


@pytest.mark.parametrize(
    ("served", "log_group"),
    [(VARIANT, "/aws/sagemaker/Endpoints/chat"), (COMPONENT, "/aws/sagemaker/InferenceComponents/chat-llama")],
)
def test_alarm_descriptions_name_the_endpoint_and_the_log_group_for_commands(
    served: ServedModel, log_group: str
) -> None:
    scope = stack()
    declared(scope, served=served)
    found = alarms_of(scope)
    assert f"log group ({log_group})" in found["error-rate"]["AlarmDescription"]
    assert "constructs-optim endpoint show chat)" in found["zero-capacity"]["AlarmDescription"]


def test_alarm_descriptions_refer_to_a_name_that_the_deployment_decides() -> None:
    scope = stack()
    declared(scope, served=ServedModel(Aws.STACK_NAME, "AllTraffic"), alarms=only(error_rate=True))
    (alarm,) = resources(template_of(scope), ALARM)
    assert {"Ref": "AWS::StackName"} in alarm["AlarmDescription"]["Fn::Join"][1]


def test_missing_instance_metrics_trigger_the_zero_capacity_alarm_of_a_variant() -> None:
    scope = stack()
    declared(scope, alarms=only(zero_capacity=True))
    alarm = alarms_of(scope)["zero-capacity"]
    assert (alarm["Statistic"], alarm["ComparisonOperator"], alarm["Threshold"]) == (
        "SampleCount",
        "LessThanThreshold",
        1,
    )
    assert alarm["TreatMissingData"] == "breaching"
    # Short periods, because CloudWatch reads earlier ones, too, while data are missing.
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (60, 10, 10)
    assert alarm["WarmUpConfiguration"] == {"WarmUpPeriodDurationInMinutes": 180}


@pytest.mark.parametrize(("to_zero", "expected"), [(False, (60, 10, 3)), (True, (1_200, 2, 2))])
def test_the_zero_capacity_alarm_tolerates_the_wake_up_of_a_component(
    to_zero: bool, expected: tuple[int, int, int]
) -> None:
    scope = stack()
    declared(scope, served=COMPONENT, alarms=only(zero_capacity=True)).watch(scales_to_zero=to_zero)
    alarm = alarms_of(scope)["zero-capacity"]
    failures = alarm["Metrics"][0]["MetricStat"]
    assert failures["Metric"]["MetricName"] == "NoCapacityInvocationFailures"
    assert failures["Metric"]["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "chat-llama"}]
    assert (failures["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == expected
    unserved = "IF(served + unserved > unserved, 0, unserved)" if to_zero else "unserved"
    assert alarm["Metrics"][-1]["Expression"] == f"FILL({unserved}, 0)"


@pytest.mark.parametrize("served", [VARIANT, COMPONENT])
def test_the_optional_disk_alarm_monitors_the_fullest_disk_of_the_variant(served: ServedModel) -> None:
    scope = stack()
    declared(scope, served=served, alarms=only(disk=AlarmSettings(threshold=80)))
    alarm = alarms_of(scope)["disk"]
    assert (alarm["MetricName"], alarm["Statistic"], alarm["Threshold"]) == ("DiskUtilization", "Maximum", 80)
    assert alarm["Dimensions"] == [
        {"Name": "EndpointName", "Value": "chat"},
        {"Name": "VariantName", "Value": "AllTraffic"},
    ]


def test_the_stale_evaluation_alarm_exists_only_for_evaluated_endpoints() -> None:
    scope = stack()
    declared(scope, alarms=only(stale_evaluation=AlarmSettings(threshold=3))).watch(evaluation_concurrency=4)
    declared(scope, "Unevaluated", alarms=only(stale_evaluation=True))
    alarm = alarms_of(scope)["stale-evaluation"]
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (86_400, 3, "breaching")
    assert {"Name": "Concurrency", "Value": "4"} in alarm["Dimensions"]
    assert len(resources(template_of(scope), ALARM)) == 1


def test_a_stack_has_one_alarm_on_failed_jobs() -> None:
    scope = stack()
    topic = sns.Topic(scope, "Topic")
    for name in ("One", "Two"):
        declared(scope, name, alarms=only(failed_job=True), alarm_actions=[actions.SnsAction(topic)])
    declared(scope, "Referring", alarms=only(failed_job=True), runs_jobs=False)
    alarm = alarms_of(scope)["failed-job"]
    assert len(resources(template_of(scope), ALARM)) == 1
    assert alarm["AlarmActions"] == [{"Ref": scope.get_logical_id(topic.node.default_child)}]  # type: ignore[arg-type]
    assert alarm["Dimensions"] == [{"Name": "service", "Value": "job_watcher"}]


def test_conflicting_settings_of_the_failed_job_alarm_are_refused() -> None:
    scope = stack()
    declared(scope, "One")
    with pytest.raises(ValueError, match="one alarm on failed jobs"):
        declared(scope, "Two", alarms=Alarms(failed_job=AlarmSettings(threshold=2)))


def test_alarms_have_their_alarm_and_ok_actions_without_duplicates() -> None:
    scope = stack()
    page, notify = sns.Topic(scope, "Page"), sns.Topic(scope, "Notify")
    both = [actions.SnsAction(page), actions.SnsAction(notify), actions.SnsAction(page)]
    declared(scope, alarms=ALL, alarm_actions=both, ok_actions=[actions.SnsAction(notify)])
    names = {name: {"Ref": scope.get_logical_id(topic.node.default_child)} for name, topic in  # type: ignore[arg-type]
             (("page", page), ("notify", notify))}  # fmt: skip
    found = alarms_of(scope).values()
    assert len(found) == 6
    for alarm in found:
        assert alarm["AlarmActions"] == [names["page"], names["notify"]]
        assert alarm["OKActions"] == [names["notify"]]


def test_alarms_of_several_endpoints_may_invoke_one_lambda_function() -> None:
    # Without the flag the CDK lets a function be called by one alarm.
    flag = "@aws-cdk/aws-cloudwatch-actions:changeLambdaPermissionLogicalIdForLambdaAction"
    scope = Stack(App(context={flag: True}), "Chat")
    function = functions.Function(
        scope, "Function", runtime=functions.Runtime.PYTHON_3_13, handler="index.handler",
        code=functions.Code.from_inline("def handler(event, context): pass"),
    )  # fmt: skip
    for name in ("One", "Two"):
        declared(scope, name, alarms=only(error_rate=True), alarm_actions=[actions.LambdaAction(function)])
    permissions = resources(template_of(scope), "AWS::Lambda::Permission")
    assert len({str(permission["SourceArn"]) for permission in permissions}) == 2


def test_alarms_of_many_endpoints_may_notify_one_topic() -> None:
    scope = stack()
    page = actions.SnsAction(sns.Topic.from_topic_arn(scope, "Pages", "arn:aws:sns:us-west-2:111122223333:pages"))
    again = actions.SnsAction(sns.Topic.from_topic_arn(scope, "Again", "arn:aws:sns:us-west-2:111122223333:pages"))
    for number, action in enumerate((page, page, again, page)):
        declared(scope, f"Alarms{number}", alarm_actions=[action], ok_actions=[action, again])
    found = resources(template_of(scope), ALARM)
    assert len(found) == 4 * 4 + 1
    for alarm in found:
        assert alarm["AlarmActions"] == alarm["OKActions"] == ["arn:aws:sns:us-west-2:111122223333:pages"]


def test_a_custom_alarm_action_is_bound_once_for_each_alarm() -> None:
    @jsii.implements(cloudwatch.IAlarmAction)
    class Numbered:
        bindings = 0

        def bind(self, scope: Any, alarm: Any) -> cloudwatch.AlarmActionConfig:
            self.bindings += 1
            return cloudwatch.AlarmActionConfig(alarm_action_arn=f"arn:aws:sns:us-west-2:111122223333:{self.bindings}")

    scope = stack()
    page = actions.SnsAction(sns.Topic.from_topic_arn(scope, "Pages", "arn:aws:sns:us-west-2:111122223333:pages"))
    declared(scope, alarm_actions=[page, Numbered()], alarms=only(saturation=True, error_rate=True))
    targets = [
        [arn.rpartition(":")[2] for arn in alarm["AlarmActions"]] for alarm in resources(template_of(scope), ALARM)
    ]
    assert targets == [["pages", "1"], ["pages", "2"]]


def test_more_actions_than_cloudwatch_allows_are_refused() -> None:
    scope = stack()
    topics = [actions.SnsAction(sns.Topic(scope, f"Topic{n}")) for n in range(6)]
    with pytest.raises(ValueError, match="allows an alarm 5"):
        declared(scope, alarm_actions=topics)


def test_an_alarm_may_have_its_actions_disabled() -> None:
    scope = stack()
    declared(scope, alarms=only(error_rate=AlarmSettings(actions_enabled=False), saturation=True))
    found = alarms_of(scope)
    assert found["error-rate"]["ActionsEnabled"] is False
    assert "ActionsEnabled" not in found["saturation"]


def test_datapoints_to_alarm_default_to_all_evaluation_periods() -> None:
    scope = stack()
    settings = AlarmSettings(period_seconds=30, evaluation_periods=4)
    declared(
        scope, alarms=only(saturation=settings, error_rate=AlarmSettings(evaluation_periods=3, datapoints_to_alarm=2))
    )
    found = alarms_of(scope)
    saturation, errors = found["saturation"], found["error-rate"]
    assert (saturation["Period"], saturation["EvaluationPeriods"], saturation["DatapointsToAlarm"]) == (30, 4, 4)
    assert (errors["EvaluationPeriods"], errors["DatapointsToAlarm"]) == (3, 2)


def test_scaling_declared_after_the_alarms_updates_their_thresholds() -> None:
    scope = stack()
    created = declared(scope, served=COMPONENT)
    created.watch(capacity=20, scales_to_zero=True)
    found = alarms_of(scope)
    assert found["saturation"]["Threshold"] == 20
    assert "more than 20 requests" in found["saturation"]["AlarmDescription"]
    assert found["zero-capacity"]["EvaluationPeriods"] == 2
    # Requests fail while it wakes up, so that the failures of an hour say nothing.
    assert "unserved" not in {query["Id"] for query in found["hourly-error-rate"]["Metrics"]}


def test_scaling_does_not_change_an_explicit_alarm_threshold() -> None:
    scope = stack()
    declared(scope, alarms=only(saturation=AlarmSettings(threshold=3))).watch(capacity=20)
    assert alarms_of(scope)["saturation"]["Threshold"] == 3


def test_error_latency_and_capacity_alarms_roll_an_update_back() -> None:
    scope = stack()
    created = declared(scope, alarms=ALL, name_prefix="chat-llama")
    referred = [scope.resolve(name)["Ref"] for name in created.rollback_alarm_names]
    assert [re.sub(r"[0-9A-F]{8}$", "", name) for name in referred] == [
        "AlarmsErrorRate", "AlarmsLatency", "AlarmsZeroCapacity"
    ]  # fmt: skip
    named = [arn.rpartition(":")[2] for arn in created.rollback_alarm_arns]
    assert named == ["chat-llama-ErrorRate", "chat-llama-Latency", "chat-llama-ZeroCapacity"]
    assert created.alarms["saturation"].alarm_name == "chat-llama-Saturation"


def test_another_stack_refers_to_an_alarm_by_its_exported_arn() -> None:
    scope = stack()
    other = Stack(App.of(scope), "Other", env=Environment(account=scope.account, region=scope.region))
    CfnOutput(other, "Alarm", value=declared(scope, alarms=ALL).alarms["error_rate"].attr_arn)
    (exported,) = template_of(scope)["Outputs"].values()
    assert re.fullmatch(r"AlarmsErrorRate[0-9A-F]{8}", exported["Value"]["Fn::GetAtt"][0])
    assert "Fn::ImportValue" in template_of(other)["Outputs"]["Alarm"]["Value"]


def test_without_a_prefix_cloudformation_names_the_alarms() -> None:
    scope = stack()
    names = declared(scope).rollback_alarm_names
    template = template_of(scope)
    assert all("Ref" in scope.resolve(name) for name in names)
    assert not any("AlarmName" in alarm for alarm in resources(template, ALARM))


def test_invalid_alarm_settings_are_refused_together_before_resources_are_added() -> None:
    scope = stack()
    with pytest.raises(RecipeError, match=r"(?s)OPT087.*OPT088"):
        declared(scope, alarms=Alarms(latency=True, error_rate=AlarmSettings(evaluation_periods=300)))
    assert "Resources" not in template_of(scope)


@pytest.mark.parametrize("served", [VARIANT, COMPONENT], ids=["variant", "component"])
def test_every_alarm_description_links_to_its_runbook_section(served: ServedModel) -> None:
    scope = stack()
    concurrency = 4 if served.artifact_key else None
    alarms = declared(scope, served=served, alarms=ALL)
    alarms.watch(evaluation_concurrency=concurrency, scales_to_zero=served.is_component)
    page = (Path(__file__).parent.parent.parent / "docs" / "alarms.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\S+)$", page, re.MULTILINE))
    for section, alarm in alarms_of(scope).items():
        text = alarm["AlarmDescription"]
        assert section in sections
        assert text.startswith(("critical: ", "warning: "))
        assert " First: " in text
        assert text.endswith(f"Runbook: https://constructs-optim.dev/alarms/#{section}")
        assert len(text) <= 1024


def test_alarm_descriptions_link_to_a_custom_runbook() -> None:
    scope = stack()
    declared(scope, alarms=only(error_rate=True), runbook="https://wiki.example.com/chat")
    assert alarms_of(scope)["error-rate"]["AlarmDescription"].endswith("https://wiki.example.com/chat#error-rate")


def test_the_alarms_page_lists_the_default_settings_of_each_alarm() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "alarms.md").read_text(encoding="utf-8")
    for alarm in endpoint_alarms(Alarms(), Watched(serves_components=True, capacity=8)):
        row = next(line for line in page.splitlines() if line.startswith(f"| [`{alarm.name}`]"))
        assert f"{alarm.datapoints_to_alarm} of {alarm.evaluation_periods}" in row
        assert str(alarm.severity) in row


def test_a_latency_threshold_in_milliseconds_is_refused_with_the_value_in_seconds() -> None:
    with pytest.raises(
        RecipeError, match=r"(?s)OPT244 monitoring\.alarms\.latency\.threshold = 20000.*such as 20 s for 20000 ms"
    ):
        declared(stack(), alarms=only(latency=AlarmSettings(threshold=20_000)))


def test_a_share_as_the_threshold_of_a_percentage_gets_advice() -> None:
    scope = stack()
    declared(scope, alarms=only(disk=AlarmSettings(threshold=0.9)))
    advice = Match.string_like_regexp(r"monitoring\.alarms\.disk\.threshold = 0\.9: this is a percentage, 0\.9%")
    Annotations.from_stack(scope).has_warning("*", advice)
