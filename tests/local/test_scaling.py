"""Application Auto Scaling at work: capacity ranges, schedules, step and target tracking policies, and suspension."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack, hosting, scalable_target
from ..support.endpoint_updates import blue_green, serving, trip
from ..support.hosting import settled
from ..support.in_process import InProcessCloud
from ..support.inference_components import ONE_GPU, create, endpoint, instance_count, needing
from ..support.scaled_variants import alarm, causes, instances, step_policy, target, variant
from ..support.waiting import until

COPIES = "sagemaker:inference-component:DesiredCopyCount"


@pytest.fixture
def sagemaker(brisk: LocalCloud) -> Any:
    return brisk.client("sagemaker")


@pytest.fixture
def cloudwatch(brisk: LocalCloud) -> Any:
    return brisk.client("cloudwatch")


@pytest.fixture
def scaling(brisk: LocalCloud) -> Any:
    return brisk.client("application-autoscaling")


def copies_of(name: str) -> dict[str, str]:
    return target(f"inference-component/{name}", COPIES)


def copies(sagemaker: Any, name: str, wanted: int) -> None:
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName=name)["RuntimeConfig"],
        lambda config: config["CurrentCopyCount"] == wanted,
    )


def put(cloudwatch: Any, metric: str, value: float, *, seconds: int = 10, **dimensions: str) -> None:
    """The same value in each of the last periods of ten seconds."""
    named = [{"Name": name, "Value": of} for name, of in dimensions.items()]
    datum = {"MetricName": metric, "Value": value, "Dimensions": named}
    now = dt.datetime.now(dt.UTC)
    data = [{**datum, "Timestamp": now - dt.timedelta(seconds=ago)} for ago in range(seconds - 10, -10, -10)]
    cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=data)


def test_registering_a_target_scales_it_into_its_capacity_range(sagemaker: Any, scaling: Any) -> None:
    serving(sagemaker, "ranged", count=1)
    scaling.register_scalable_target(**variant("ranged"), MinCapacity=2, MaxCapacity=6)
    instances(sagemaker, "ranged", 2)
    assert causes(scaling, variant("ranged")) == ["minimum capacity was set to 2"]
    scaling.register_scalable_target(**variant("ranged"), MinCapacity=1, MaxCapacity=1)
    instances(sagemaker, "ranged", 1)
    activity = scaling.describe_scaling_activities(**variant("ranged"))["ScalingActivities"][0]
    assert activity["Description"] == "Setting desired instance count to 1."
    assert activity["StatusCode"] == "Successful"


def test_a_registered_target_is_scaled_after_the_endpoint_update(sagemaker: Any, scaling: Any) -> None:
    serving(sagemaker, "awaited", count=1)
    sagemaker.update_endpoint(EndpointName="awaited", EndpointConfigName="awaited-2")
    scaling.register_scalable_target(**variant("awaited"), MinCapacity=3, MaxCapacity=6)
    instances(sagemaker, "awaited", 3)
    assert sagemaker.describe_endpoint(EndpointName="awaited")["EndpointConfigName"] == "awaited-2"


def test_a_scaled_variant_keeps_its_instance_type_until_it_is_deregistered(sagemaker: Any, scaling: Any) -> None:
    serving(sagemaker, "scaled-type", count=1)
    other = {"VariantName": "AllTraffic", "InstanceType": "ml.p5.48xlarge", "InitialInstanceCount": 1}
    variants = [{**other, "ModelName": "scaled-type", "InitialVariantWeight": 1}]
    sagemaker.create_endpoint_config(EndpointConfigName="scaled-type-p5", ProductionVariants=variants)
    scaling.register_scalable_target(**variant("scaled-type"), MinCapacity=1, MaxCapacity=2)
    with pytest.raises(ClientError, match=r"AllTraffic.* must be deregistered as scalable targets"):
        sagemaker.update_endpoint(EndpointName="scaled-type", EndpointConfigName="scaled-type-p5")
    sagemaker.update_endpoint(EndpointName="scaled-type", EndpointConfigName="scaled-type-2")
    assert settled(sagemaker, "scaled-type")["EndpointConfigName"] == "scaled-type-2"
    scaling.deregister_scalable_target(**variant("scaled-type"))
    sagemaker.update_endpoint(EndpointName="scaled-type", EndpointConfigName="scaled-type-p5")
    assert settled(sagemaker, "scaled-type")["EndpointConfigName"] == "scaled-type-p5"


def test_a_step_scaling_policy_runs_when_its_alarm_goes_off(sagemaker: Any, scaling: Any, cloudwatch: Any) -> None:
    serving(sagemaker, "stepped", count=1)
    of = variant("stepped")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4)
    alarm(cloudwatch, "stepped-out", step_policy(scaling, of, 2))
    alarm(cloudwatch, "stepped-in", step_policy(scaling, of, -1), above=False)
    cloudwatch.set_alarm_state(AlarmName="stepped-out", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "stepped", 3)
    cloudwatch.set_alarm_state(AlarmName="stepped-in", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "stepped", 2)
    assert causes(scaling, of) == [
        "monitor alarm stepped-in in state ALARM triggered policy step--1",
        "monitor alarm stepped-out in state ALARM triggered policy step-2",
    ]


def test_a_scaling_policy_is_applied_after_the_endpoint_update(sagemaker: Any, scaling: Any, cloudwatch: Any) -> None:
    serving(sagemaker, "stepped-late", count=1)
    of = variant("stepped-late")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4)
    alarm(cloudwatch, "stepped-late", step_policy(scaling, of, 1))
    sagemaker.update_endpoint(
        EndpointName="stepped-late", EndpointConfigName="stepped-late-2", RetainAllVariantProperties=True
    )
    cloudwatch.set_alarm_state(AlarmName="stepped-late", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "stepped-late", 2)
    assert sagemaker.describe_endpoint(EndpointName="stepped-late")["EndpointConfigName"] == "stepped-late-2"


def test_a_scaling_policy_is_not_applied_after_an_update_once_its_alarm_is_ok(
    sagemaker: Any, scaling: Any, cloudwatch: Any
) -> None:
    serving(sagemaker, "recovered", count=1)
    of = variant("recovered")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4)
    alarm(cloudwatch, "recovered", step_policy(scaling, of, 1))
    slow = blue_green({"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}, termination=1000)
    sagemaker.update_endpoint(
        EndpointName="recovered",
        EndpointConfigName="recovered-2",
        DeploymentConfig=slow,
        RetainAllVariantProperties=True,
    )
    trip(cloudwatch, "recovered")
    trip(cloudwatch, "recovered", "OK")
    time.sleep(0.3)
    assert sagemaker.describe_endpoint(EndpointName="recovered")["EndpointStatus"] == "Updating"
    assert settled(sagemaker, "recovered")["EndpointConfigName"] == "recovered-2"
    time.sleep(0.5)
    assert causes(scaling, of) == []


def test_a_scaling_policy_stops_at_the_maximum_capacity_of_its_target(
    sagemaker: Any, scaling: Any, cloudwatch: Any
) -> None:
    serving(sagemaker, "limited", count=1)
    of = variant("limited")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=3)
    alarm(cloudwatch, "limit", step_policy(scaling, of, 50, kind="ExactCapacity"))
    cloudwatch.set_alarm_state(AlarmName="limit", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "limited", 3)
    cloudwatch.set_alarm_state(AlarmName="limit", StateValue="OK", StateReason="a test")
    cloudwatch.set_alarm_state(AlarmName="limit", StateValue="ALARM", StateReason="a test")
    found = until(
        lambda: scaling.describe_scaling_activities(**of, IncludeNotScaledActivities=True)["ScalingActivities"],
        lambda activities: len(activities) == 2,
    )
    assert found[0]["StatusCode"] == "Failed"
    (reason,) = found[0]["NotScaledReasons"]
    assert (reason["Code"], reason["MaxCapacity"]) == ("AlreadyAtMaxCapacity", 3)


def test_copies_scale_to_zero_and_a_no_capacity_alarm_scales_one_out(
    sagemaker: Any, scaling: Any, cloudwatch: Any
) -> None:
    endpoint(sagemaker, "sleepy", ONE_GPU, managed=(0, 2))
    create(sagemaker, "sleeper", "sleepy", needing(1))
    of = copies_of("sleeper")
    scaling.register_scalable_target(**of, MinCapacity=0, MaxCapacity=2)
    tracking = {
        "TargetValue": 5.0,
        "ScaleInCooldown": 0,
        "ScaleOutCooldown": 0,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
        },
    }
    scaling.put_scaling_policy(
        **of,
        PolicyName="concurrency",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
    )
    requests = "ConcurrentRequestsPerCopy"
    put(cloudwatch, requests, 0.0, seconds=900, InferenceComponentName="sleeper")
    copies(sagemaker, "sleeper", 0)
    assert instance_count(sagemaker, "sleepy") == 0
    # Target tracking cannot leave zero, however many requests there are.
    put(cloudwatch, requests, 50.0, InferenceComponentName="sleeper")
    named = [{"Name": "InferenceComponentName", "Value": "sleeper"}]
    alarm(cloudwatch, "NoCapacity", step_policy(scaling, of, 1), dimensions=named)
    put(cloudwatch, "Metric-NoCapacity", 1.0, InferenceComponentName="sleeper")
    copies(sagemaker, "sleeper", 1)
    assert instance_count(sagemaker, "sleepy") == 1
    assert causes(scaling, of) == [
        "monitor alarm NoCapacity in state ALARM triggered policy step-1",
        "monitor alarm TargetTracking-inference-component/sleeper-AlarmLow-concurrency in state ALARM triggered policy "
        "concurrency",
    ]


def test_target_tracking_follows_its_metric_in_proportion_and_cleans_up_its_alarms(
    sagemaker: Any, scaling: Any, cloudwatch: Any
) -> None:
    serving(sagemaker, "tracked", count=2)
    of = variant("tracked")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=10)
    specification = {"PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"}
    made = scaling.put_scaling_policy(
        **of,
        PolicyName="concurrency",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 8.0,
            "ScaleOutCooldown": 0,
            "PredefinedMetricSpecification": specification,
        },
    )
    names = [found["AlarmName"] for found in made["Alarms"]]
    assert len(cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]) == 2
    assert scaling.describe_scaling_policies(**of)["ScalingPolicies"][0]["Alarms"] == made["Alarms"]
    put(cloudwatch, "ConcurrentRequestsPerModel", 20.0, seconds=30, EndpointName="another", VariantName="AllTraffic")
    put(cloudwatch, "ConcurrentRequestsPerModel", 20.0, seconds=30, EndpointName="tracked", VariantName="AllTraffic")
    instances(sagemaker, "tracked", 5)
    scaling.deregister_scalable_target(**of)
    assert not cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]
    assert not scaling.describe_scaling_policies(**of)["ScalingPolicies"]


def test_an_activity_is_in_progress_until_the_change_is_complete_or_has_failed(in_process: InProcessCloud) -> None:
    sagemaker, scaling = in_process.client("sagemaker"), in_process.client("application-autoscaling")
    serving(sagemaker, "observed", count=1)
    of = variant("observed")

    def newest() -> dict[str, Any]:
        return scaling.describe_scaling_activities(**of)["ScalingActivities"][0]

    # The clock stands still, so the change is in progress.
    scaling.register_scalable_target(**of, MinCapacity=2, MaxCapacity=6)
    begun = until_activity(scaling, of, 1)
    assert (begun["StatusCode"], "EndTime" in begun) == ("InProgress", False)
    assert begun["StatusMessage"] == (
        "Successfully set desired instance count to 2. Waiting for change to be fulfilled by sagemaker."
    )
    in_process.advance(1)
    ended = newest()
    assert ended["StatusCode"] == "Successful"
    assert ended["StatusMessage"] == (
        "Successfully set desired instance count to 2. Change successfully fulfilled by sagemaker."
    )
    assert (ended["EndTime"] - ended["StartTime"]).total_seconds() == pytest.approx(0.1)
    in_process.inject("no_capacity")
    scaling.register_scalable_target(**of, MinCapacity=3, MaxCapacity=6)
    until_activity(scaling, of, 2)
    in_process.advance(1)
    assert (newest()["StatusCode"], newest()["StatusMessage"]) == (
        "Unfulfilled",
        "Successfully set desired instance count to 3. Change not fulfilled by sagemaker: 2 in service.",
    )


def until_activity(scaling: Any, of: dict[str, str], count: int) -> dict[str, Any]:
    """The newest activity, once there are so many."""
    deadline = time.monotonic() + 20
    while len(found := scaling.describe_scaling_activities(**of)["ScalingActivities"]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0]


def test_suspended_scaling_activities_do_not_run(sagemaker: Any, scaling: Any, cloudwatch: Any) -> None:
    serving(sagemaker, "suspended", count=2)
    of = variant("suspended")
    state = {"DynamicScalingOutSuspended": True, "DynamicScalingInSuspended": False}
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4, SuspendedState=state)
    alarm(cloudwatch, "suspended-out", step_policy(scaling, of, 1))
    alarm(cloudwatch, "suspended-in", step_policy(scaling, of, -1), above=False)
    cloudwatch.set_alarm_state(AlarmName="suspended-out", StateValue="ALARM", StateReason="a test")
    cloudwatch.set_alarm_state(AlarmName="suspended-in", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "suspended", 1)
    assert causes(scaling, of) == ["monitor alarm suspended-in in state ALARM triggered policy step--1"]


def test_a_cooldown_delays_scaling_in_but_not_scaling_out(sagemaker: Any, scaling: Any, cloudwatch: Any) -> None:
    serving(sagemaker, "cooled", count=3)
    of = variant("cooled")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4)
    steps = [{"MetricIntervalUpperBound": 0.0, "ScalingAdjustment": -1}]
    # Eight hours, which are half a minute here.
    config = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps, "Cooldown": 28_800}
    made = scaling.put_scaling_policy(
        **of, PolicyName="in", PolicyType="StepScaling", StepScalingPolicyConfiguration=config
    )
    alarm(cloudwatch, "cool-in", made["PolicyARN"], above=False)
    alarm(cloudwatch, "cool-out", step_policy(scaling, of, 2))
    cloudwatch.set_alarm_state(AlarmName="cool-in", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "cooled", 2)
    cloudwatch.set_alarm_state(AlarmName="cool-in", StateValue="OK", StateReason="a test")
    cloudwatch.set_alarm_state(AlarmName="cool-in", StateValue="ALARM", StateReason="a test")
    cloudwatch.set_alarm_state(AlarmName="cool-out", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, "cooled", 4)
    assert causes(scaling, of) == [
        "monitor alarm cool-out in state ALARM triggered policy step-2",
        "monitor alarm cool-in in state ALARM triggered policy in",
    ]


def test_a_scheduled_action_changes_the_capacity_range_when_due(sagemaker: Any, scaling: Any) -> None:
    serving(sagemaker, "planned", count=1)
    of = variant("planned")
    scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4)
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
    action = {"MinCapacity": 3, "MaxCapacity": 5}
    scaling.put_scheduled_action(
        **of,
        ScheduledActionName="morning",
        Schedule=f"at({soon:%Y-%m-%dT%H:%M:%S})",
        ScalableTargetAction=action,
    )
    # Fifty minutes, which are three seconds here.
    scaling.put_scheduled_action(
        **of,
        ScheduledActionName="night",
        Schedule="rate(50 minutes)",
        StartTime=soon + dt.timedelta(seconds=1),
        ScalableTargetAction={"MinCapacity": 0, "MaxCapacity": 1},
    )
    instances(sagemaker, "planned", 3)
    (registered,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[of["ResourceId"]])[
        "ScalableTargets"
    ]
    assert (registered["MinCapacity"], registered["MaxCapacity"]) == (3, 5)
    instances(sagemaker, "planned", 1)
    assert causes(scaling, of)[-1] == "scheduled action name morning was triggered; minimum capacity was set to 3"
    scaling.deregister_scalable_target(**of)
    assert not scaling.describe_scheduled_actions(ServiceNamespace="sagemaker")["ScheduledActions"]


def test_a_stack_scales_by_scheduled_action_and_by_step_policy_alarm(
    brisk: LocalCloud, sagemaker: Any, scaling: Any, cloudwatch: Any
) -> None:
    def resources(*schedules: str, suspended: bool = False) -> dict[str, Any]:
        actions = [
            {"ScheduledActionName": f"action-{n}", "Schedule": schedule, "ScalableTargetAction": {"MinCapacity": "2"}}
            for n, schedule in enumerate(schedules)
        ]
        return {
            **hosting(),
            "Target": scalable_target(
                ScheduledActions=actions, SuspendedState={"ScheduledScalingSuspended": suspended}
            ),
            "Policy": {
                "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
                "Properties": {
                    "PolicyName": "out",
                    "PolicyType": "StepScaling",
                    "ScalingTargetId": {"Ref": "Target"},
                    "StepScalingPolicyConfiguration": {
                        "AdjustmentType": "ExactCapacity",
                        "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 4}],
                    },
                },
            },
            "Alarm": {
                "Type": "AWS::CloudWatch::Alarm",
                "Properties": {
                    "AlarmName": "stack-out",
                    "Namespace": "AWS/SageMaker",
                    "MetricName": "Backlog",
                    "Statistic": "Sum",
                    "Period": 60,
                    "EvaluationPeriods": 1,
                    "Threshold": 1,
                    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                    "AlarmActions": [{"Ref": "Policy"}],
                },
            },
        }

    def schedules() -> dict[str, str]:
        of = scaling.describe_scheduled_actions(ServiceNamespace="sagemaker")["ScheduledActions"]
        return {action["ScheduledActionName"]: action["Schedule"] for action in of}

    stack = Stack(brisk, "Scheduled")
    assert stack.deploy(resources("cron(0 8 * * ? *)", "cron(0 20 * * ? *)")) == "CREATE_COMPLETE", stack.reasons()
    assert schedules() == {"action-0": "cron(0 8 * * ? *)", "action-1": "cron(0 20 * * ? *)"}
    assert stack.deploy(resources("rate(10 minutes)", suspended=True)) == "UPDATE_COMPLETE", stack.reasons()
    assert schedules() == {"action-0": "rate(10 minutes)"}
    name = stack.physical_id("Endpoint").rpartition("/")[2]
    until(lambda: sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"], lambda s: s == "InService")
    instances(sagemaker, name, 1)
    assert stack.deploy(resources("rate(10 minutes)")) == "UPDATE_COMPLETE", stack.reasons()
    instances(sagemaker, name, 2)
    cloudwatch.set_alarm_state(AlarmName="stack-out", StateValue="ALARM", StateReason="a test")
    instances(sagemaker, name, 4)
    stack.delete()
    assert not scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[f"endpoint/{name}"])[
        "ScalableTargets"
    ]
    assert "action-0" not in schedules()
