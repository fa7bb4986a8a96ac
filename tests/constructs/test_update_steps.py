"""Steps of updates as numbers of instances, in apps whose scaling limits the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from constructs_optim import UpdatePolicy, VariantOptions
from constructs_optim.constructs.stack.findings import warnings_of

from ..support.construct_stacks import endpoint, stack


def _synthesized(scope: Stack) -> list[str]:
    app = scope.node.root
    assert isinstance(app, App)
    return [each for each in warnings_of(Path(app.synth().directory), scope) if "OPT272" in each]


def _fleet(policy: UpdatePolicy, scope: Stack, **options: Any) -> Any:
    return endpoint(scope, variant=VariantOptions(initial_instance_count=4), update_policy=policy, **options)


@pytest.mark.parametrize("policy", [UpdatePolicy.canary(instances=9), UpdatePolicy.rolling(instances=3)])
def test_a_step_of_more_than_half_of_a_fleet_that_others_may_scale_is_advised_on(policy: UpdatePolicy) -> None:
    scope = stack()
    _fleet(policy, scope)
    (advice,) = _synthesized(scope)
    assert "1 to 2, or percent=25 instead of instances" in advice


def test_a_step_of_more_than_half_of_the_largest_fleet_is_refused() -> None:
    scope = stack()
    _fleet(UpdatePolicy.canary(instances=9), scope).auto_scale(max_capacity=10)
    with pytest.raises(RuntimeError, match="has at most 10 instances") as caught:
        _synthesized(scope)
    assert "OPT271" in str(caught.value)


@pytest.mark.parametrize("largest", ["of the scaling", "of a schedule"])
def test_a_step_that_only_a_larger_fleet_has_room_for_is_advised_on(largest: str) -> None:
    scope = stack()
    scaling = _fleet(UpdatePolicy.canary(instances=4), scope).auto_scale(max_capacity=8 if "scaling" in largest else 4)
    if "schedule" in largest:
        scaling.on_schedule("Day", schedule="cron(0 8 ? * MON-FRI *)", max_capacity=8)
        scaling.on_schedule("Night", schedule="cron(0 20 ? * MON-FRI *)", max_capacity=4)
    (advice,) = _synthesized(scope)
    assert "starts with 4 instances" in advice


def test_a_step_of_half_of_the_fleet_has_no_advice() -> None:
    scope = stack()
    _fleet(UpdatePolicy.canary(instances=2), scope)
    assert _synthesized(scope) == []
