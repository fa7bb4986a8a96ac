"""Metric alarms of the local cloud are evaluated by its clock."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.cloudwatch.metrics import Datapoint
from constructs_optim_local.ministack.metrics import embedded


@pytest.fixture(scope="module")
def clocked() -> Iterator[LocalCloud]:
    with LocalCloud() as running:
        yield running


@pytest.fixture
def cloudwatch(clocked: LocalCloud) -> Any:
    return clocked.client("cloudwatch")


def put_alarm(cloudwatch: Any, missing: str, **more: Any) -> str:
    """An alarm on a metric of its own, over two windows of five minutes."""
    name = f"alarm-{uuid.uuid4().hex[:8]}"
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        Namespace="Test",
        MetricName=name,
        Statistic="SampleCount",
        Period=300,
        EvaluationPeriods=2,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
        TreatMissingData=missing,
        **more,
    )
    return name


def state(cloudwatch: Any, name: str) -> str:
    return cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["StateValue"]


@pytest.mark.parametrize(
    ("missing", "expected"), [("breaching", "ALARM"), ("notBreaching", "OK"), ("missing", "INSUFFICIENT_DATA")]
)
def test_missing_data_counts_when_the_clock_advances(
    clocked: LocalCloud, cloudwatch: Any, missing: str, expected: str
) -> None:
    name = put_alarm(cloudwatch, missing)
    cloudwatch.put_metric_data(Namespace="Test", MetricData=[{"MetricName": name, "Value": 1}])
    assert state(cloudwatch, name) == "OK"
    # Two windows before the evaluation periods may stand in for missing ones.
    clocked.advance(900)
    assert state(cloudwatch, name) == "OK"
    clocked.advance(360)
    assert state(cloudwatch, name) == expected


def test_an_alarm_that_ignores_missing_data_keeps_its_state(clocked: LocalCloud, cloudwatch: Any) -> None:
    name = put_alarm(cloudwatch, "ignore")
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="test")
    clocked.advance(660)
    assert state(cloudwatch, name) == "ALARM"


def test_the_effect_of_set_alarm_state_lasts_until_the_next_evaluation(clocked: LocalCloud, cloudwatch: Any) -> None:
    name = put_alarm(cloudwatch, "notBreaching")
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="test")
    clocked.advance(30)
    assert state(cloudwatch, name) == "ALARM"
    clocked.advance(30)
    assert state(cloudwatch, name) == "OK"


def test_an_alarm_is_not_evaluated_in_its_warm_up_period(clocked: LocalCloud, cloudwatch: Any) -> None:
    name = put_alarm(cloudwatch, "breaching", WarmUpConfiguration={"WarmUpPeriodDurationInMinutes": 60})
    clocked.advance(3_540)
    assert state(cloudwatch, name) == "INSUFFICIENT_DATA"
    clocked.advance(120)
    assert state(cloudwatch, name) == "ALARM"


def test_data_in_the_whole_window_ends_the_warm_up_period(clocked: LocalCloud, cloudwatch: Any) -> None:
    name = put_alarm(cloudwatch, "breaching", WarmUpConfiguration={"WarmUpPeriodDurationInMinutes": 60})
    for _ in range(11):
        cloudwatch.put_metric_data(Namespace="Test", MetricData=[{"MetricName": name, "Value": 1}])
        clocked.advance(60)
    assert state(cloudwatch, name) == "OK"
    clocked.advance(1_260)
    assert state(cloudwatch, name) == "ALARM"


def test_metrics_in_the_embedded_metric_format_are_extracted_for_each_set_of_dimensions() -> None:
    log = "\n".join(
        [
            "START RequestId: 1",
            '{"_aws": {"Timestamp": 5, "CloudWatchMetrics": [{"Namespace": "N", "Dimensions": [["service"], []], '
            '"Metrics": [{"Name": "Failed", "Unit": "Count"}]}]}, "service": "watcher", "Failed": [1.0, 2.0]}',
            '{"_aws": {"CloudWatchMetrics": [{"Namespace": "N", "Dimensions": [["absent"]], "Metrics": []}]}}',
            '{"message": "an ordinary line"}',
            "[]",
        ]
    )
    of_service = {"service": "watcher"}
    assert list(embedded(log, 100.0)) == [
        Datapoint("N", "Failed", of_service, 1.0, "Count", 100.0),
        Datapoint("N", "Failed", of_service, 2.0, "Count", 100.0),
        Datapoint("N", "Failed", {}, 1.0, "Count", 100.0),
        Datapoint("N", "Failed", {}, 2.0, "Count", 100.0),
    ]
