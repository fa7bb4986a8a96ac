"""The endpoint of a recommendation in templates: its alarms, dashboard, scaling and evaluations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from aws_cdk.aws_cloudwatch_actions import SnsAction

from constructs_optim import (
    Alarms,
    AlarmSettings,
    ArtifactStore,
    MonitoringOptions,
    RecipeError,
    RecommendedEndpoint,
    Workload,
)

from ..support.recommendation_files import recommendation

ALARM, COMPONENT, DASHBOARD, ENDPOINT, EVALUATION = (
    "AWS::CloudWatch::Alarm",
    "AWS::SageMaker::InferenceComponent",
    "AWS::CloudWatch::Dashboard",
    "AWS::SageMaker::Endpoint",
    "Custom::EndpointEvaluation",
)
_TOPIC = "arn:aws:sns:us-west-2:111122223333:"
VLLM = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"


@pytest.fixture
def stack() -> Stack:
    return Stack(App(), "Chat", env={"region": "us-west-2", "account": "111122223333"})


def properties(stack: Stack, kind: str) -> list[dict[str, Any]]:
    found = Template.from_stack(stack).find_resources(kind)
    return [resource["Properties"] for _, resource in sorted(found.items())]


@pytest.mark.parametrize(("copies", "dimension"), [(1, "VariantName"), (2, "InferenceComponentName")])
def test_its_alarms_watch_what_serves_and_roll_an_update_back(stack: Stack, copies: int, dimension: str) -> None:
    RecommendedEndpoint(stack, "Served", recommendation=recommendation(copies_per_instance=copies))
    (endpoint,), alarms = properties(stack, ENDPOINT), properties(stack, ALARM)
    names = {alarm["AlarmName"].rpartition("-")[2] for alarm in alarms}
    assert names == {"ErrorRate", "HourlyErrorRate", "ZeroCapacity"}
    assert dimension in json.dumps(alarms)
    watched = endpoint["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    assert [alarm["AlarmName"]["Ref"].partition("Alarms")[2][:9] for alarm in watched] == ["ErrorRate", "ZeroCapac"]
    roles = json.dumps(properties(stack, "AWS::IAM::Role"))
    assert "cloudwatch:DescribeAlarms" in roles
    # A deployment that they take back is told by their names.
    assert "cloudwatch:DescribeAlarmHistory" in roles


def test_its_alarms_tell_whom_the_monitoring_names(stack: Stack) -> None:
    pages, calm = (sns.Topic.from_topic_arn(stack, name, f"{_TOPIC}{name}") for name in ("Pages", "Calm"))
    monitoring = MonitoringOptions(
        alarm_actions=[SnsAction(pages)], ok_actions=[SnsAction(calm)], runbook="https://runbooks.example/{alarm}"
    )
    RecommendedEndpoint(stack, "Served", recommendation=recommendation(), monitoring=monitoring)
    for alarm in properties(stack, ALARM):
        assert (alarm["AlarmActions"], alarm["OKActions"]) == ([f"{_TOPIC}Pages"], [f"{_TOPIC}Calm"])
        assert "https://runbooks.example/" in alarm["AlarmDescription"]


def test_its_metadata_shows_reviewers_what_the_recommendation_expects(stack: Stack) -> None:
    expected = [
        {"metric": "ttft-ms", "value": "120", "statistic": "p50", "unit": "Milliseconds"},
        {"metric": "cost", "value": "0.9"},
    ]
    chosen = recommendation(expected_performance=expected)
    RecommendedEndpoint(stack, "Served", recommendation=chosen)
    (endpoint,) = Template.from_stack(stack).find_resources(ENDPOINT).values()
    assert endpoint["Metadata"]["ConstructsOptim::Recommendation"] == {
        "Job": chosen.job_arn,
        "Chosen": "1 of 2",
        "Reason": "the cheapest",
        "ExpectedPerformance": ["ttft-ms p50 120 Milliseconds", "cost 0.9"],
    }


def test_a_threshold_makes_an_alarm_on_saturation(stack: Stack) -> None:
    with pytest.raises(RecipeError, match="OPT217"):
        RecommendedEndpoint(
            stack, "Unsized", recommendation=recommendation(), monitoring=MonitoringOptions(alarms=Alarms())
        )
    assert not stack.node.children
    alarms = Alarms(saturation=AlarmSettings(threshold=16))
    RecommendedEndpoint(stack, "Sized", recommendation=recommendation(), monitoring=MonitoringOptions(alarms=alarms))
    (alarm,) = [each for each in properties(stack, ALARM) if each["AlarmName"].endswith("Saturation")]
    assert alarm["Threshold"] == 16


def test_its_dashboard_has_alarms_scaling_and_costs(stack: Stack) -> None:
    endpoint = RecommendedEndpoint(
        stack,
        "Served",
        recommendation=recommendation(),
        monitoring=MonitoringOptions(instance_price_per_hour=7.09),
    )
    endpoint.auto_scale(max_capacity=4).on_invocations(target=600)
    (dashboard,) = properties(stack, DASHBOARD)
    body = json.dumps(dashboard["DashboardBody"])
    assert "7.09" in body
    assert "ErrorRate" in body
    assert "DesiredInstanceCount" in json.dumps(properties(stack, "AWS::ApplicationAutoScaling::ScalableTarget"))


def test_an_evaluation_records_the_package_and_its_server(stack: Stack) -> None:
    store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Kept", "evaluations"))
    endpoint = RecommendedEndpoint(
        stack, "Served", recommendation=recommendation(image=VLLM, copies_per_instance=2), artifact_store=store
    )
    endpoint.evaluate(workload=Workload(concurrency=[4])).require(max_error_rate=0.01)
    other = RecommendedEndpoint(
        stack,
        "Other",
        recommendation=recommendation(model_package_arn=recommendation().model_package_arn[:-1] + "2"),
        artifact_store=store,
    )
    other.evaluate()
    required, plain = sorted((each["Request"] for each in properties(stack, EVALUATION)), key=lambda each: -len(each))
    (subject,) = required["Subjects"]
    assert (subject["InstanceType"], subject["Server"]) == ("ml.g5.12xlarge", "vllm")
    assert (required["ShareOfInstance"], required["Lossless"], required["Bucket"]) == (0.5, False, "evaluations")
    assert required["Gate"]["Limits"]
    assert "ShareOfInstance" not in plain
    assert subject["ArtifactKey"] != plain["Subjects"][0]["ArtifactKey"]


def test_its_instances_scale_once_and_copies_on_them_do_not(stack: Stack) -> None:
    endpoint = RecommendedEndpoint(stack, "Served", recommendation=recommendation())
    endpoint.auto_scale(max_capacity=4)
    with pytest.raises(ValueError, match="already has auto scaling: call auto_scale once"):
        endpoint.auto_scale(max_capacity=4)
    copies = RecommendedEndpoint(
        stack, "Copies", recommendation=recommendation(copies_per_instance=2, instance_count=3)
    )
    with pytest.raises(ValueError, match="has 2 copies on each of 3 instances, which managed scaling cannot change"):
        copies.auto_scale(max_capacity=4)


def test_its_role_is_an_object_of_the_cdk(stack: Stack) -> None:
    arn: Any = "arn:aws:iam::111122223333:role/serve"
    with pytest.raises(RecipeError, match="from_role_arn") as refused:
        RecommendedEndpoint(stack, "Served", recommendation=recommendation(), role=arn)
    assert [each.location for each in refused.value.violations] == ["role"]
    assert not stack.node.children
