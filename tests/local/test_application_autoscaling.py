"""Application Auto Scaling: moto's, reached through the local cloud."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.local.cloud import LocalCloud

TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/chat/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture
def scaling(cloud: LocalCloud) -> Any:
    return cloud.client("application-autoscaling")


def test_a_target_is_registered_changed_and_deregistered(scaling: Any) -> None:
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


def test_a_policy_tracks_a_target(scaling: Any) -> None:
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
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert policy["PolicyName"] == "concurrency"
    scaling.delete_scaling_policy(**TARGET, PolicyName="concurrency")
    scaling.deregister_scalable_target(**TARGET)


def test_an_inference_component_is_a_target_as_well(scaling: Any) -> None:
    component = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "inference-component/chat",
        "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
    }
    scaling.register_scalable_target(**component, MinCapacity=0, MaxCapacity=2)
    scaling.deregister_scalable_target(**component)


def test_a_dimension_that_is_none_is_refused(scaling: Any) -> None:
    with pytest.raises(ClientError) as caught:
        scaling.register_scalable_target(
            **{**TARGET, "ScalableDimension": "sagemaker:variant:Colour"}, MinCapacity=1, MaxCapacity=4
        )
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_calls_are_logged_like_those_of_sagemaker(cloud: LocalCloud, scaling: Any) -> None:
    scaling.describe_scalable_targets(ServiceNamespace="sagemaker")
    assert cloud.calls("DescribeScalableTargets")[-1]["service"] == "application-autoscaling"
