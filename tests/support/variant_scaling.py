"""The scaling of a stack's variant, as Application Auto Scaling and CloudWatch have it."""

from __future__ import annotations

from typing import Any

from .scaled_variants import variant
from .template_stack import TemplateStack, endpoint_of


class VariantScaling:
    """What is registered of the variant of a stack's endpoint."""

    def __init__(self, stack: TemplateStack, name: str = "AllTraffic") -> None:
        scaling, cloudwatch = (stack.cloud.client(each) for each in ("application-autoscaling", "cloudwatch"))
        of = variant(endpoint_of(stack)["EndpointName"])
        of["ResourceId"] = f"{of['ResourceId'].rpartition('/')[0]}/{name}"
        targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[of["ResourceId"]])
        self.range: tuple[int, int] | None = next(
            ((each["MinCapacity"], each["MaxCapacity"]) for each in targets["ScalableTargets"]), None
        )
        self.policies: dict[str, Any] = {
            policy["PolicyName"].partition("@")[0]: policy
            for policy in scaling.describe_scaling_policies(**of)["ScalingPolicies"]
        }
        self.scheduled: list[str] = sorted(
            action["ScheduledActionName"] for action in scaling.describe_scheduled_actions(**of)["ScheduledActions"]
        )
        pages = cloudwatch.get_paginator("describe_alarms").paginate()
        actions = {action for page in pages for alarm in page["MetricAlarms"] for action in alarm["AlarmActions"]}
        self.unheard: list[str] = sorted(
            name
            for name, policy in self.policies.items()
            if policy["PolicyType"] == "StepScaling" and policy["PolicyARN"] not in actions
        )
        """The step policies that no alarm calls."""

    @property
    def targets(self) -> dict[str, float]:
        """The values that target tracking policies hold."""
        tracking = {name: each.get("TargetTrackingScalingPolicyConfiguration") for name, each in self.policies.items()}
        return {name: each["TargetValue"] for name, each in tracking.items() if each is not None}
