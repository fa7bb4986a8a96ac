from __future__ import annotations

import pytest
from aws_cdk import Duration

from .stacks import endpoint, resource, resources, stack, template_of


def test_the_variant_scales_in_the_given_range() -> None:
    scope = stack()
    endpoint(scope).auto_scale(min_capacity=2, max_capacity=6)
    target = resource(template_of(scope), "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 6)
    assert target["ResourceId"]["Fn::Join"][1][2] == "/variant/AllTraffic"


def test_concurrency_is_tracked_by_the_high_resolution_metric() -> None:
    scope = stack()
    endpoint(scope).auto_scale(max_capacity=4).on_concurrency(
        target=8, scale_in_cooldown=Duration.minutes(10), scale_out_cooldown=Duration.seconds(30)
    )
    policy = resource(template_of(scope), "AWS::ApplicationAutoScaling::ScalingPolicy")
    assert policy["TargetTrackingScalingPolicyConfiguration"] == {
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
        },
        "ScaleInCooldown": 600,
        "ScaleOutCooldown": 30,
        "TargetValue": 8,
    }


def test_policies_add_up() -> None:
    scope = stack()
    endpoint(scope).auto_scale(max_capacity=4).on_concurrency(target=8).on_invocations(target=100)
    policies = resources(template_of(scope), "AWS::ApplicationAutoScaling::ScalingPolicy")
    assert [policy["PolicyName"] for policy in policies] == ["OnConcurrency", "OnInvocations"]


def test_an_update_of_a_scaled_endpoint_keeps_what_scaling_has_set() -> None:
    scope = stack()
    endpoint(scope, "Scaled").auto_scale(max_capacity=4)
    endpoint(scope, "Fixed")
    retained = [e.get("RetainAllVariantProperties") for e in resources(template_of(scope), "AWS::SageMaker::Endpoint")]
    assert retained == [True, None]


@pytest.mark.parametrize(("least", "most"), [(0, 4), (5, 4), (-1, 0)])
def test_a_range_that_is_none_is_refused(least: int, most: int) -> None:
    with pytest.raises(ValueError, match=rf"min_capacity is {least} and max_capacity {most}"):
        endpoint(stack()).auto_scale(min_capacity=least, max_capacity=most)


def test_a_target_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="target is 0"):
        endpoint(stack()).auto_scale(max_capacity=2).on_concurrency(target=0)


def test_an_endpoint_is_scaled_once() -> None:
    made = endpoint(stack())
    made.auto_scale(max_capacity=2)
    with pytest.raises(ValueError, match="scaled already"):
        made.auto_scale(max_capacity=3)
