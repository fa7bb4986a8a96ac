"""Steps of updates as numbers of instances, in apps whose scaling limits the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack

from constructs_optim import UpdatePolicy, VariantOptions
from constructs_optim.constructs.endpoint.update_policy import component_deployment_config, deployment_config
from constructs_optim.constructs.stack.findings import warnings_of
from constructs_optim.recipe.hosting import UpdateSettings

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


_HOUR, _MINUTE = Duration.hours(1), Duration.minutes(1)


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (UpdatePolicy.all_at_once(), UpdateSettings("ALL_AT_ONCE", None, termination_wait_seconds=600)),
        (UpdatePolicy.all_at_once(bake_time=_MINUTE), UpdateSettings("ALL_AT_ONCE", None, termination_wait_seconds=60)),
        (UpdatePolicy.canary(), UpdateSettings("CANARY", 10, bake_seconds=600)),
        (UpdatePolicy.linear(), UpdateSettings("LINEAR", 25, bake_seconds=600)),
        (UpdatePolicy.rolling(), UpdateSettings("ROLLING", 25, bake_seconds=600)),
        (UpdatePolicy.canary(percent=40), UpdateSettings("CANARY", 40, bake_seconds=600)),
        (UpdatePolicy.linear(instances=2), UpdateSettings("LINEAR", 2, "INSTANCE_COUNT", bake_seconds=600)),
        (
            UpdatePolicy.canary(bake_time=Duration.seconds(0), termination_wait=_MINUTE, timeout=_HOUR),
            UpdateSettings("CANARY", 10, termination_wait_seconds=60, timeout_seconds=3600),
        ),
        (
            UpdatePolicy.rolling(instances=1, rollback_percent=50, bake_time=_MINUTE, timeout=_HOUR),
            UpdateSettings("ROLLING", 1, "INSTANCE_COUNT", bake_seconds=60, timeout_seconds=3600, rollback_size=50),
        ),
    ],
)
def test_a_policy_has_its_settings_in_seconds(policy: UpdatePolicy, settings: UpdateSettings) -> None:
    assert policy.settings == settings


_QUARTER = {"type": "CAPACITY_PERCENT", "value": 25}
_COMPLETE = UpdateSettings("CANARY", 10, bake_seconds=60, termination_wait_seconds=90, timeout_seconds=3600)
_BATCHES = UpdateSettings("ROLLING", 2, "INSTANCE_COUNT", bake_seconds=60, timeout_seconds=3600, rollback_size=50)


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (
            UpdateSettings("ALL_AT_ONCE", termination_wait_seconds=600),
            {
                "blueGreenUpdatePolicy": {
                    "terminationWaitInSeconds": 600,
                    "trafficRoutingConfiguration": {"type": "ALL_AT_ONCE", "waitIntervalInSeconds": 0},
                }
            },
        ),
        (
            _COMPLETE,
            {
                "blueGreenUpdatePolicy": {
                    "maximumExecutionTimeoutInSeconds": 3600,
                    "terminationWaitInSeconds": 90,
                    "trafficRoutingConfiguration": {
                        "canarySize": {"type": "CAPACITY_PERCENT", "value": 10},
                        "type": "CANARY",
                        "waitIntervalInSeconds": 60,
                    },
                }
            },
        ),
        (
            UpdateSettings("LINEAR", 2, "INSTANCE_COUNT", bake_seconds=60),
            {
                "blueGreenUpdatePolicy": {
                    "terminationWaitInSeconds": 0,
                    "trafficRoutingConfiguration": {
                        "linearStepSize": {"type": "INSTANCE_COUNT", "value": 2},
                        "type": "LINEAR",
                        "waitIntervalInSeconds": 60,
                    },
                }
            },
        ),
        (
            _BATCHES,
            {
                "rollingUpdatePolicy": {
                    "maximumBatchSize": {"type": "INSTANCE_COUNT", "value": 2},
                    "maximumExecutionTimeoutInSeconds": 3600,
                    "rollbackMaximumBatchSize": {"type": "CAPACITY_PERCENT", "value": 50},
                    "waitIntervalInSeconds": 60,
                }
            },
        ),
        (
            UpdateSettings("ROLLING", 25),
            {"rollingUpdatePolicy": {"maximumBatchSize": _QUARTER, "waitIntervalInSeconds": 0}},
        ),
    ],
)
def test_sagemaker_is_told_all_settings_of_an_update(settings: UpdateSettings, config: dict[str, Any]) -> None:
    assert deployment_config(settings, []) == config
    rollback = {"autoRollbackConfiguration": {"alarms": [{"alarmName": "a"}, {"alarmName": "b"}]}}
    assert deployment_config(settings, ["a", "b"]) == {**rollback, **config}


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        (
            _COMPLETE,
            {"maximumBatchSize": _QUARTER, "maximumExecutionTimeoutInSeconds": 3600, "waitIntervalInSeconds": 90},
        ),
        (
            UpdateSettings("CANARY", 10, bake_seconds=60),
            {"maximumBatchSize": _QUARTER, "waitIntervalInSeconds": 60},
        ),
        (
            _BATCHES,
            {
                "maximumBatchSize": {"type": "COPY_COUNT", "value": 2},
                "maximumExecutionTimeoutInSeconds": 3600,
                "rollbackMaximumBatchSize": {"type": "CAPACITY_PERCENT", "value": 50},
                "waitIntervalInSeconds": 60,
            },
        ),
        (
            UpdateSettings("ROLLING", 40, bake_seconds=60),
            {"maximumBatchSize": {"type": "CAPACITY_PERCENT", "value": 40}, "waitIntervalInSeconds": 60},
        ),
    ],
)
def test_copies_of_a_component_are_replaced_in_batches(settings: UpdateSettings, policy: dict[str, Any]) -> None:
    assert component_deployment_config(settings, []) == {"rollingUpdatePolicy": policy}
