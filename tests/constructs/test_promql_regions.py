"""Regions without PromQL: what reads engine metrics is refused or left out, and everything else is as elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Environment, Stack

from constructs_optim import (
    Alarms,
    AlarmSettings,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    RecipeError,
    Server,
    SpeculationCure,
    SpeculativeDecoding,
)
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.recipe.catalog import availability

from ..support.construct_stacks import endpoint, scaling_of_vllm, stack, template_of

WITHOUT = ("il-central-1", "me-central-1")


def there(region: str | None = "me-central-1") -> Stack:
    return stack(env=Environment(account="111122223333", region=region) if region is not None else None)


def chat(scope: Stack, **options: Any) -> OptimizedEndpoint:
    """An endpoint without a job, because not every Region has its image."""
    own = {"model": Model.s3("s3://models/chat/"), "techniques": [SpeculativeDecoding.ngram()]}
    return endpoint(scope, "Chat", **own, server=Server.vllm(), **options)


def scaled(scope: Stack) -> EndpointScaling:
    return chat(scope).auto_scale(max_capacity=4)


def alarm(**alarms: Any) -> Callable[[Stack], object]:
    return lambda scope: chat(scope, monitoring=MonitoringOptions(alarms=Alarms(**alarms)))


@pytest.mark.parametrize(
    ("use", "location"),
    [
        (lambda scope: scaled(scope).on_queue(target=2), "on_queue"),
        (lambda scope: scaled(scope).on_kv_cache(target=70), "on_kv_cache"),
        (
            lambda scope: scaled(scope).on_time_to_first_token(target=2),
            "on_time_to_first_token",
        ),
        (lambda scope: scaled(scope).on_tokens_per_second(target=900), "on_tokens_per_second"),
        (alarm(queue=True), "alarms.queue"),
        (alarm(kv_cache=True), "alarms.kv_cache"),
        (alarm(acceptance_decay=True), "alarms.acceptance_decay"),
        (alarm(time_to_first_token=AlarmSettings(threshold=2)), "alarms.time_to_first_token"),
        (
            lambda scope: chat(scope, monitoring=MonitoringOptions(speculation_cure=SpeculationCure.restart())),
            "alarms.acceptance_decay",
        ),
        (lambda scope: chat(scope).metric_queue_time(), "metric_queue_time"),
        (lambda scope: scaling_of_vllm(scope).on_queue(target=2), "on_queue"),
    ],
)
def test_what_depends_on_engine_metrics_is_refused_where_cloudwatch_has_no_promql(
    use: Callable[[Stack], object], location: str
) -> None:
    with pytest.raises(RecipeError) as refused:
        use(there())
    (found,) = [each for each in refused.value.violations if each.rule == "OPT240"]
    assert found.location.endswith(location)
    assert "me-central-1" in found.suggestion
    assert "," not in found.value


def test_charts_of_engine_metrics_are_left_out_and_the_endpoint_scales_on_concurrency() -> None:
    shown: dict[str, str] = {}
    for region in ("me-central-1", "us-west-2"):
        scope = there(region)
        scaled(scope).on_concurrency()
        shown[region] = str(template_of(scope))
    assert "PromQL" in shown["us-west-2"]
    assert "PromQL" not in shown["me-central-1"]
    assert "GetOTelEnrichment" not in shown["me-central-1"]


def test_an_environment_agnostic_stack_may_use_engine_metrics() -> None:
    scope = there(None)
    scaled(scope).on_queue(target=2)
    assert "'Required': True" in str(template_of(scope))


def test_the_regions_with_promql_are_those_of_cloudwatchs_list() -> None:
    assert len(availability.regions_with_promql()) == 31
    assert all(map(availability.lacks_promql, (*WITHOUT, "us-gov-west-1", "cn-north-1", "eusc-de-east-1")))
    assert not any(map(availability.lacks_promql, ("eu-central-1", "mx-central-1", "a-region-of-tomorrow")))
