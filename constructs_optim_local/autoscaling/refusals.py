"""What Application Auto Scaling refuses, beyond what its service model says.

Sources: API reference, PutScheduledAction, PutScalingPolicy, StepScalingPolicyConfiguration and StepAdjustment, below
https://docs.aws.amazon.com/autoscaling/application/APIReference/. Each known message has its own source; the others are
assumed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .decisions import PREDEFINED

# EventBridge's rule: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html. Assumed: the
# same parser reads the expressions of Application Auto Scaling.
_OTHER_NUMBER = re.compile(r"rate\((?:1 (?:minutes|hours|days)|(?!1 )\d+ (?:minute|hour|day))\)")
_MOST_STEPS = 20
_CONFIGURATIONS = {
    "StepScaling": "StepScalingPolicyConfiguration",
    "TargetTrackingScaling": "TargetTrackingScalingPolicyConfiguration",
}


def action_problems(action: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a scheduled action is refused, apart from its schedule's form.

    Args:
        action: the request of PutScheduledAction, with what an existing action has.
    """
    limits = action.get("ScalableTargetAction") or {}
    low, high = limits.get("MinCapacity"), limits.get("MaxCapacity")
    if low is None and high is None:
        # Source: https://github.com/aws-cloudformation/community-registry-extensions/issues/255.
        yield "At least one of minimum capacity and maximum capacity should be provided"
    elif low is not None and high is not None and low > high:
        # Source: https://github.com/hashicorp/terraform-provider-aws/pull/8777.
        yield "Maximum capacity cannot be less than minimum capacity"
    if _OTHER_NUMBER.fullmatch(action["Schedule"]):
        yield f"Invalid schedule: {action['Schedule']}: the unit is singular for the value 1, and otherwise plural"


def policy_problems(policy: Mapping[str, Any], *, is_new: bool) -> Iterator[str]:
    """Yield why a scaling policy is refused.

    Args:
        policy: the request of PutScalingPolicy.
        is_new: whether there is no policy of this name, which could have the configuration.
    """
    needed = _CONFIGURATIONS.get(policy.get("PolicyType", ""))
    if is_new and needed is not None and needed not in policy:
        yield f"{needed} is required for a policy of type {policy['PolicyType']}"
    if (steps := policy.get("StepScalingPolicyConfiguration")) is not None:
        yield from _step_problems(steps)
    if (tracking := policy.get("TargetTrackingScalingPolicyConfiguration")) is not None:
        yield from _metric_problems(tracking, policy["ScalableDimension"])


def _metric_problems(tracking: Mapping[str, Any], dimension: str) -> Iterator[str]:
    if len({"PredefinedMetricSpecification", "CustomizedMetricSpecification"} & set(tracking)) != 1:
        yield "Exactly one of the predefined and the customized metric specification must be given"
    given = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    known = [name for name, metric in PREDEFINED.items() if metric.dimension == dimension]
    if given is not None and known and given not in known:
        # Source: https://github.com/aws/aws-cdk/issues/29065.
        yield f"Scalable dimension {dimension} only supports the following predefined metric types: {', '.join(known)}"


def _step_problems(config: Mapping[str, Any]) -> Iterator[str]:
    if "AdjustmentType" not in config:
        # Source, of EC2 Auto Scaling: https://github.com/aws/aws-cdk/pull/29158.
        yield "You must specify an AdjustmentType for policy type: StepScaling"
    steps = config.get("StepAdjustments", [])
    if not steps:
        yield "At least one step adjustment is required"
    if len(steps) > _MOST_STEPS:
        # Source: https://github.com/aws/aws-cdk/issues/26215.
        yield f"There can be at most {_MOST_STEPS} step adjustments per scaling policy"
    bounds = [(step.get("MetricIntervalLowerBound"), step.get("MetricIntervalUpperBound")) for step in steps]
    if (None, None) in bounds:
        # Source: https://github.com/hashicorp/terraform-provider-aws/issues/4812.
        yield "Both lower and upper bounds of a step adjustment cannot be left unspecified"
        return
    for side, found, is_beyond in (
        ("lower", [low for low, _ in bounds], lambda bound: bound < 0),
        ("upper", [high for _, high in bounds], lambda bound: bound > 0),
    ):
        if found.count(None) > 1:
            yield f"At most one StepAdjustment may have an unspecified {side} bound"
        if None not in found and any(is_beyond(bound) for bound in found):
            # Source, of the upper bound in EC2 Auto Scaling:
            # https://github.com/hashicorp/terraform-provider-aws/issues/9077.
            sign = "negative" if side == "lower" else "positive"
            yield (
                f"There must be a StepAdjustment with an unspecified {side} bound (i.e., {side} bound is null) when "
                f"one StepAdjustment has a {sign} {side} bound"
            )
    ordered = sorted((-math.inf if low is None else low, math.inf if high is None else high) for low, high in bounds)
    if any(low >= high for low, high in ordered):
        yield "The lower bound of a StepAdjustment must be less than its upper bound"
    if any(end != begin for (_, end), (begin, _) in itertools.pairwise(ordered)):
        yield "The intervals of StepAdjustments must not overlap or have a gap"
