"""Application Auto Scaling: moto's, reached through the local cloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.in_process import InProcessCloud

TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/chat/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture
def scaling(in_process: InProcessCloud) -> Any:
    return in_process.client("application-autoscaling")


def test_a_scalable_target_is_registered_updated_and_deregistered(scaling: Any) -> None:
    scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    scaling.register_scalable_target(**TARGET, MaxCapacity=8)
    (found,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[TARGET["ResourceId"]])[
        "ScalableTargets"
    ]
    assert (found["MinCapacity"], found["MaxCapacity"]) == (1, 8)
    scaling.deregister_scalable_target(**TARGET)
    with pytest.raises(ClientError) as caught:
        scaling.deregister_scalable_target(**TARGET)
    assert caught.value.response["Error"]["Code"] == "ObjectNotFoundException"


def test_a_target_tracking_policy_is_stored_and_described(scaling: Any) -> None:
    scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    made = scaling.put_scaling_policy(
        **TARGET,
        PolicyName="concurrency",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 8.0,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
            },
        },
    )
    assert made["PolicyARN"].startswith("arn:aws:autoscaling:")
    # Of this resource: other tests' stacks have policies on the same local cloud.
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="sagemaker", ResourceId=TARGET["ResourceId"])[
        "ScalingPolicies"
    ]
    assert policy["PolicyName"] == "concurrency"
    scaling.delete_scaling_policy(**TARGET, PolicyName="concurrency")
    scaling.deregister_scalable_target(**TARGET)


def test_an_inference_component_can_be_a_scalable_target(scaling: Any) -> None:
    component = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "inference-component/chat",
        "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
    }
    scaling.register_scalable_target(**component, MinCapacity=0, MaxCapacity=2)
    scaling.deregister_scalable_target(**component)


def test_an_invalid_scalable_dimension_is_refused(scaling: Any) -> None:
    with pytest.raises(ClientError) as caught:
        scaling.register_scalable_target(
            **{**TARGET, "ScalableDimension": "sagemaker:variant:Color"}, MinCapacity=1, MaxCapacity=4
        )
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_application_auto_scaling_calls_are_recorded_like_those_of_sagemaker(
    in_process: InProcessCloud, scaling: Any
) -> None:
    scaling.describe_scalable_targets(ServiceNamespace="sagemaker")
    assert in_process.calls("DescribeScalableTargets")[-1]["service"] == "application-autoscaling"


@pytest.mark.parametrize(
    ("limits", "said"),
    [({"MinCapacity": 3, "MaxCapacity": 2}, "Maximum capacity"), ({"MaxCapacity": 2}, "MinCapacity and MaxCapacity")],
)
def test_an_invalid_capacity_range_is_refused(scaling: Any, limits: dict[str, int], said: str) -> None:
    with pytest.raises(ClientError, match=said):
        scaling.register_scalable_target(**TARGET, **limits)


@pytest.fixture
def registered(scaling: Any) -> Iterator[None]:
    scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    yield
    scaling.deregister_scalable_target(**TARGET)


@pytest.mark.parametrize(
    "schedule",
    ["at(tomorrow)", "cron(0 8)", "cron(0 6 ? * ? *)", "rate(0 minutes)", "rate(1 days)", "rate(2 minute)"],
)
def test_a_scheduled_action_with_an_invalid_schedule_is_refused(scaling: Any, registered: None, schedule: str) -> None:
    action = {"MinCapacity": 1}
    with pytest.raises(ClientError, match="Invalid schedule"):
        scaling.put_scheduled_action(
            **TARGET, ScheduledActionName="odd", Schedule=schedule, ScalableTargetAction=action
        )


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"MinCapacity": 5, "MaxCapacity": 2}, "Maximum capacity cannot be less than minimum capacity"),
        ({}, "At least one of minimum capacity and maximum capacity should be provided"),
        (None, "At least one of minimum capacity and maximum capacity should be provided"),
    ],
)
def test_a_scheduled_action_without_valid_limits_is_refused(
    scaling: Any, registered: None, action: dict[str, int] | None, said: str
) -> None:
    given = {"ScheduledActionName": "odd", "Schedule": "rate(1 day)"}
    with pytest.raises(ClientError, match=said):
        scaling.put_scheduled_action(
            **TARGET, **given, **({"ScalableTargetAction": action} if action is not None else {})
        )
    # A change of an existing action may leave the limits out.
    scaling.put_scheduled_action(**TARGET, **given, ScalableTargetAction={"MinCapacity": 0, "MaxCapacity": 0})
    scaling.put_scheduled_action(**TARGET, **{**given, "Schedule": "cron(0 6 L-3 * ? *)"})


def step(low: float | None, high: float | None) -> dict[str, float]:
    bounds = {"MetricIntervalLowerBound": low, "MetricIntervalUpperBound": high}
    return {"ScalingAdjustment": 1, **{name: bound for name, bound in bounds.items() if bound is not None}}


UP = step(0, None)
CHANGE = "ChangeInCapacity"


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        (None, "StepScalingPolicyConfiguration is required"),
        ({"StepAdjustments": [UP]}, "You must specify an AdjustmentType"),
        ({"AdjustmentType": CHANGE}, "At least one step adjustment is required"),
        (
            {"AdjustmentType": CHANGE, "StepAdjustments": [*(step(n, n + 1) for n in range(20)), step(20, None)]},
            "at most 20 step adjustments",
        ),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [step(None, None)]}, "cannot be left unspecified"),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [step(0, 10), step(5, None)]}, "overlap or have a gap"),
        (
            {"AdjustmentType": CHANGE, "StepAdjustments": [step(0, 10), step(20, None)]},
            "overlap or have a gap",
        ),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [step(None, 0), step(None, 10)]}, "an unspecified lower bound"),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [UP, step(10, None)]}, "an unspecified upper bound"),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [step(0, 10)]}, "a positive upper bound"),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [step(-10, 0)]}, "a negative lower bound"),
        ({"AdjustmentType": CHANGE, "StepAdjustments": [step(10, 5), step(5, None)]}, "less than its upper bound"),
    ],
)
def test_a_step_policy_without_valid_steps_is_refused(
    scaling: Any, registered: None, configuration: dict[str, Any] | None, said: str
) -> None:
    given = {"StepScalingPolicyConfiguration": configuration} if configuration is not None else {}
    with pytest.raises(ClientError, match=said):
        scaling.put_scaling_policy(**TARGET, PolicyName="odd", PolicyType="StepScaling", **given)


def test_the_steps_of_a_policy_may_be_in_any_order(scaling: Any, registered: None) -> None:
    steps = [step(10, None), step(None, -10), step(0, 10), step(-10, 0)]
    scaling.put_scaling_policy(
        **TARGET,
        PolicyName="all",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={"AdjustmentType": CHANGE, "StepAdjustments": steps},
    )


@pytest.mark.parametrize("metric", ["SageMakerInferenceComponentInvocationsPerCopy", "ECSServiceAverageCPUUtilization"])
def test_a_variant_does_not_track_the_predefined_metric_of_another_dimension(
    scaling: Any, registered: None, metric: str
) -> None:
    said = (
        "Scalable dimension sagemaker:variant:DesiredInstanceCount only supports the following predefined metric "
        "types: SageMakerVariantInvocationsPerInstance, SageMakerVariantConcurrentRequestsPerModelHighResolution"
    )
    with pytest.raises(ClientError, match=said):
        scaling.put_scaling_policy(
            **TARGET,
            PolicyName="odd",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": 3.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
            },
        )


def test_scaling_policies_and_scheduled_actions_need_a_registered_target(scaling: Any) -> None:
    for call, more in (
        (scaling.put_scheduled_action, {"ScheduledActionName": "a", "Schedule": "rate(1 hour)"}),
        (scaling.put_scaling_policy, {"PolicyName": "p", "PolicyType": "StepScaling"}),
        (scaling.delete_scheduled_action, {"ScheduledActionName": "a"}),
    ):
        with pytest.raises(ClientError) as caught:
            call(**TARGET, **more)
        assert caught.value.response["Error"]["Code"] == "ObjectNotFoundException"


def test_a_target_tracking_policy_needs_exactly_one_metric(scaling: Any) -> None:
    scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    with pytest.raises(ClientError, match="Exactly one"):
        scaling.put_scaling_policy(
            **TARGET,
            PolicyName="blind",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={"TargetValue": 1.0},
        )
    scaling.deregister_scalable_target(**TARGET)


def test_a_scaling_policy_that_is_put_again_keeps_its_arn(scaling: Any) -> None:
    scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    policy = {
        "PolicyName": "again",
        "PolicyType": "StepScaling",
        "StepScalingPolicyConfiguration": {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [UP]},
    }
    made = [scaling.put_scaling_policy(**TARGET, **policy)["PolicyARN"] for _ in range(2)]
    assert made[0] == made[1]
    scaling.deregister_scalable_target(**TARGET)


def test_a_metric_is_tracked_by_one_policy(scaling: Any) -> None:
    scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}

    def put(name: str, target: float) -> None:
        tracking = {"TargetValue": target, "PredefinedMetricSpecification": metric}
        scaling.put_scaling_policy(
            **TARGET,
            PolicyName=name,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=tracking,
        )

    put("first", 8)
    put("first", 9)
    with pytest.raises(ClientError, match="Only one TargetTrackingScaling policy for a given metric specification"):
        put("second", 8)
    scaling.deregister_scalable_target(**TARGET)


def test_a_target_that_exists_is_tagged_by_another_operation(scaling: Any) -> None:
    registered = scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4, Tags={"team": "chat"})
    with pytest.raises(ClientError, match="use the TagResource API"):
        scaling.register_scalable_target(**TARGET, MaxCapacity=5, Tags={"team": "chat"})
    arn = registered["ScalableTargetARN"]
    scaling.tag_resource(ResourceARN=arn, Tags={"stage": "test"})
    scaling.untag_resource(ResourceARN=arn, TagKeys=["team"])
    assert scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] == {"stage": "test"}
    scaling.deregister_scalable_target(**TARGET)
    with pytest.raises(ClientError, match="doesn't exist"):
        scaling.list_tags_for_resource(ResourceARN=arn)
