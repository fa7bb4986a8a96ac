"""Advice on options that wait for a call that the complete app does not make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    Alarms,
    AlarmSettings,
    AsyncInference,
    DataCapture,
    JobOptions,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    UpdatePolicy,
    VariantOptions,
)
from constructs_optim.constructs.stack.findings import warnings_of
from constructs_optim.recipe.servers import Adapters, Server

from ..support.construct_stacks import endpoint, stack

_SMALL = Model.huggingface("Qwen/Qwen3-8B", revision="0" * 40)


def advice_on(scope: Stack) -> dict[str, str]:
    """The warnings of a synthesized stack by their IDs."""
    found = [each.rpartition(" [ack: ") for each in _warnings_on(scope)]
    return {name.rstrip("]"): message for message, _, name in found}


def _warnings_on(scope: Stack) -> tuple[str, ...]:
    app = scope.node.root
    assert isinstance(app, App)
    return warnings_of(Path(app.synth(force=True).directory), scope)


def host(scope: Stack) -> OptimizedEndpoint:
    return OptimizedEndpoint(scope, "Host", instance_type="ml.g6e.12xlarge")


def test_an_endpoint_without_a_model_waits_for_components() -> None:
    scope = stack()
    created = host(scope)
    assert "add_component(" in advice_on(scope)["constructs-optim:OPT239"]
    other = stack()
    created = host(other)
    created.add_component("Chat", model=_SMALL)
    assert "constructs-optim:OPT239" not in advice_on(other)


def test_a_component_that_can_load_adapters_waits_for_one() -> None:
    scope = stack()
    host(scope).add_component("Chat", model=_SMALL, server=Server.vllm(adapters=Adapters()))
    assert "add_adapter(" in advice_on(scope)["constructs-optim:OPT239"]
    other = stack()
    component = host(other).add_component("Chat", model=_SMALL, server=Server.vllm(adapters=Adapters()))
    component.add_adapter("Support", artifact_uri="s3://adapters/support.tar.gz")
    assert "constructs-optim:OPT239" not in advice_on(other)


@pytest.mark.parametrize("schedule", [None, "rate(1 day)"])
def test_the_alarm_on_stale_evaluations_waits_for_a_schedule(schedule: str | None) -> None:
    scope = stack()
    alarms = Alarms(stale_evaluation=AlarmSettings(threshold=2))
    endpoint(scope, monitoring=MonitoringOptions(alarms=alarms)).evaluate("Load", schedule=schedule)
    assert ("constructs-optim:OPT239" in advice_on(scope)) is (schedule is None)


def test_options_of_the_endpoint_without_effect_are_advised_against_together() -> None:
    scope = stack()
    bucket = s3.Bucket(scope, "Captures")
    endpoint(
        scope,
        data_capture=DataCapture(bucket=bucket, sampling_percentage=0),
        monitoring=MonitoringOptions(alarms=Alarms.none()),
        update_policy=UpdatePolicy.canary(),
        variant=VariantOptions(initial_instance_count=2),
    )
    app = scope.node.root
    assert isinstance(app, App)
    found = [each for each in warnings_of(Path(app.synth().directory), scope) if "OPT238" in each]
    assert [each.partition(" = ")[0].rpartition(" ")[2] for each in found] == [
        "data_capture.sampling_percentage",
        "update_policy",
    ]


def test_responses_for_a_topic_that_is_not_set_are_advised_against() -> None:
    scope = stack()
    queue = AsyncInference(bucket=s3.Bucket(scope, "Answers"), include_responses_in=["SUCCESS_NOTIFICATION_TOPIC"])
    endpoint(scope, async_inference=queue)
    assert "success_topic" in advice_on(scope)["constructs-optim:OPT238"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("saturation", AlarmSettings(threshold=20), "requests are expected to wait"),
        ("failed_job", True, "no job creates"),
        ("stale_evaluation", True, "no evaluation has a schedule"),
    ],
)
def test_an_alarm_that_was_switched_on_and_is_not_created_is_advised_on(name: str, value: Any, message: str) -> None:
    scope = stack()
    queue = AsyncInference(bucket=s3.Bucket(scope, "Answers"))
    served: dict[str, Any] = {"model": Model.s3("s3://mine/chat/"), "techniques": [], "async_inference": queue}
    endpoint(scope, monitoring=MonitoringOptions(alarms=Alarms(**{name: value})), **served)
    assert message in advice_on(scope)["constructs-optim:OPT239"]
    other = stack()
    endpoint(other, **{**served, "async_inference": AsyncInference(bucket=s3.Bucket(other, "Answers"))})
    assert "constructs-optim:OPT239" not in advice_on(other)


def test_scaling_of_an_asynchronous_endpoint_by_a_metric_that_it_lacks_is_advised_against() -> None:
    scope = stack()
    created = endpoint(scope, async_inference=AsyncInference(bucket=s3.Bucket(scope, "Answers")))
    created.auto_scale(max_capacity=4).on_concurrency(target=4)
    assert "on_backlog(target=4)" in advice_on(scope)["constructs-optim:OPT282"]


def test_rare_evaluations_are_compared_with_the_alarm_on_stale_ones() -> None:
    scope = stack()
    endpoint(scope).evaluate("Load", schedule="rate(30 days)")
    assert "stale_evaluation=False" in advice_on(scope)["constructs-optim:OPT283"]
    often = stack()
    endpoint(often).evaluate("Load", schedule="rate(7 days)")
    assert "constructs-optim:OPT283" not in advice_on(often)


def test_requests_in_flight_far_above_the_capacity_of_the_server_are_advised_against() -> None:
    scope = stack()
    server = Server.vllm(max_concurrent_requests=4)
    alarms = Alarms(saturation=AlarmSettings(threshold=100_000))
    created = endpoint(scope, server=server, monitoring=MonitoringOptions(alarms=alarms))
    assert "monitoring.alarms.saturation.threshold = 100000" in advice_on(scope)["constructs-optim:OPT285"]
    created.auto_scale(max_capacity=4).on_concurrency(target=500)
    # The alarm has the same ID.
    assert any("on_concurrency.target = 500" in each for each in _warnings_on(scope))


def test_a_limit_of_an_evaluation_in_seconds_is_advised_against() -> None:
    scope = stack()
    endpoint(scope).evaluate().require(p99_ttft_ms=2)
    assert "Did you mean 2000 for 2 s?" in advice_on(scope)["constructs-optim:OPT287"]


@pytest.mark.parametrize(
    ("options", "runs_job", "is_advised"),
    [
        ({"max_runtime": Duration.hours(2)}, True, False),
        ({"max_runtime": Duration.hours(2)}, False, True),
        ({}, False, False),
    ],
)
def test_job_options_without_a_job_are_advised_against(
    options: dict[str, Any], runs_job: bool, is_advised: bool
) -> None:
    scope = stack()
    plain: dict[str, Any] = {} if runs_job else {"model": Model.s3("s3://mine/chat/"), "techniques": []}
    endpoint(scope, jobs=JobOptions(**options) if options else None, **plain)
    assert ("Leave jobs out" in advice_on(scope).get("constructs-optim:OPT239", "")) is is_advised
