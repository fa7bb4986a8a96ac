"""Every hosting rule: valid cases, invalid cases, and the error messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.constructs.endpoint.options import ComponentOptions
from constructs_optim.recipe import Quantization, RecipeError, Sharding, SpeculativeDecoding, Technique
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.hosting import (
    Adapter,
    CapacityReservation,
    Component,
    Hosting,
    UpdateSettings,
    instances_for_copies,
)
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings
from constructs_optim.recipe.hosting.options import Observability, Placement, Routing, ScaleIn, StepOfFleet
from constructs_optim.recipe.hosting.shadow import AnswerCheck
from constructs_optim.recipe.hosting.speculation import Speculation, SpeculationCure
from constructs_optim.recipe.rules import all_rules, check, warnings
from constructs_optim.recipe.servers import Adapters
from constructs_optim.recipe.settings import Settings

_G5 = "ml.g5.12xlarge"
_P5 = "ml.p5.48xlarge"
_HALVES = ["mig-3g.40gb", "mig-3g.40gb"]
_ARN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"
_SERVING: dict[str, Any] = {"inference_component": True}
_TWO_KINDS: dict[str, Any] = {"instance_types": [_G5, "ml.inf2.48xlarge"], "pooled": True}


def hosting(**overrides: Any) -> Hosting:
    """A plain endpoint with overridden options."""
    return Hosting(**{"instance_types": [_G5], **overrides})


def _component(accelerators: Any = 2, memory_mib: Any = 40_000, copies: Any = 1, **more: Any) -> Component:
    return Component("add_component('Chat')", accelerators, memory_mib, copies, **more)


GOOD: dict[str, list[dict[str, Any]]] = {
    "OPT010": [{"has_model": False, **_SERVING}, {"instance_types": ["ml.m5.large"]}],
    "OPT011": [{"has_model": False, **_SERVING}],
    "OPT100": [{"endpoint_name": "chat-70b", "variant_name": "Blue"}, {"endpoint_name": "${Token[T.1]}"}],
    "OPT101": [{"initial_instance_count": 3}, {"initial_instance_count": 0, "minimum_instance_count": 0, **_SERVING}],
    "OPT102": [
        {"minimum_instance_count": 1, "maximum_instance_count": 4, **_SERVING},
        {"scale_in": ScaleIn.consolidation(max_step_size=2), **_SERVING},
    ],
    "OPT104": [{"capture_percentage": 0}, {"capture_percentage": 100}],
    "OPT105": [{"asynchronous": True, "concurrent_invocations": 1000}],
    "OPT106": [{"download_timeout_seconds": 60, "startup_timeout_seconds": 3600, "provision_timeout_seconds": 300}],
    "OPT107": [
        {},
        {"instance_types": ["ml.inf2.48xlarge"], "volume_gib": 1},
        {"instance_types": ["ml.inf2.48xlarge"], "volume_gib": 512, "encrypted_volume": True},
    ],
    "OPT108": [
        {"ami_version": "al2-ami-sagemaker-inference-gpu-3-1"},
        {"ami_version": "al2-ami-sagemaker-inference-neuron-2", "instance_types": ["ml.inf2.48xlarge"]},
        {"instance_types": [_G5, "ml.g6.12xlarge"], "pooled": True, "container_amis": ("al2023-gpu",)},
        _TWO_KINDS,
    ],
    "OPT109": [{"capacity_reservation": CapacityReservation(arn=_ARN)}],
    "OPT111": [{"pooled": True, "instance_types": [_P5, _G5]}],
    "OPT116": [{"ssm_access": True, "network_isolation": False}],
    "OPT120": [
        {"update": UpdateSettings("CANARY", 50)},
        {"update": UpdateSettings("LINEAR", 10)},
        {"update": UpdateSettings("ROLLING", 1, "INSTANCE_COUNT", rollback_size=100)},
        {"update": UpdateSettings("ALL_AT_ONCE")},
    ],
    "OPT121": [{"update": UpdateSettings("CANARY", 10, bake_seconds=3600, timeout_seconds=28800)}],
    "OPT122": [{"rollback_alarms": 10}],
    "OPT124": [
        {"update": UpdateSettings("ROLLING", 25, bake_seconds=3600)},
        {"update": UpdateSettings("ROLLING", 1, "INSTANCE_COUNT", bake_seconds=3600), "initial_instance_count": 7},
        {"update": UpdateSettings("CANARY", 1, bake_seconds=3600, termination_wait_seconds=3600)},
        {"update": UpdateSettings("ROLLING", 5, bake_seconds=600)},
    ],
    "OPT130": [
        {"components": [_component()], **_SERVING},
        {"components": [_component(cpu_cores=48, max_memory_mib=40_000)], **_SERVING},
    ],
    "OPT253": [{"components": [_component(copies=1)], **_SERVING}],
    "OPT131": [{"components": [_component(copies=2)], "maximum_instance_count": 1, **_SERVING}],
    "OPT132": [{"techniques": [SpeculativeDecoding.sagemaker_draft()]}],
    "OPT133": [{"techniques": [Sharding.fast_load()]}, {"has_model": False}, {"techniques": [Quantization.awq()]}],
    "OPT134": [{"adapters": [Adapter("add_adapter('Sql')", "s3://adapters/sql.tar.gz", loads=True)], **_SERVING}],
    "OPT135": [{"adapters": [Adapter("add_adapter('Sql')", "${Token[T.1]}", loads=True)], **_SERVING}],
    "OPT138": [
        {"partitions": _HALVES, "instance_types": [_P5], **_SERVING},
        {"partitions": ["mig-1g.10gb"] * 7, "instance_types": [_P5], **_SERVING},
    ],
    "OPT139": [
        {
            "partitions": _HALVES,
            "components": [_component(accelerators=1, partition="mig-3g.40gb", copies=16)],
            "instance_types": [_P5],
            "maximum_instance_count": 1,
            **_SERVING,
        },
        {"components": [_component()], **_SERVING},
    ],
    "OPT209": [
        {"existing_configuration": "chat-1", "endpoint_name": "chat"},
        {"existing_model": "Llama", "component_name": "llama", **_SERVING},
    ],
    "OPT137": [
        {"region": "eu-west-3"},
        {"region": "us-west-2", **_SERVING},
        {"region": "a-new-region-1", **_SERVING},
        _SERVING,
    ],
}

# rule, options, location of the violation, part of the reason or suggestion
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("OPT010", {"has_model": False, "instance_types": ["ml.g5.12xlage"], **_SERVING}, "instance_type", "ml.g5.12xlarge"),
    ("OPT010", {"has_model": False, "instance_types": [5], **_SERVING}, "instance_type", "string such as"),
    ("OPT011", {"has_model": False, "instance_types": ["ml.m5.large"], **_SERVING}, "instance_type", "p5en, p6-b200, trn1, trn1n"),
    ("OPT100", {"endpoint_name": "chat_70b"}, "endpoint_name", "hyphens"),
    ("OPT100", {"endpoint_name": "a" * 64}, "endpoint_name", "63"),
    ("OPT100", {"variant_name": ""}, "variant.name", "hyphens"),
    ("OPT101", {"initial_instance_count": 0}, "variant.initial_instance_count", "1 or greater"),
    ("OPT101", {"initial_instance_count": 1.5}, "variant.initial_instance_count", "whole"),
    ("OPT101", {"initial_instance_count": True}, "variant.initial_instance_count", "whole"),
    ("OPT102", {"maximum_instance_count": 4}, "variant.max_instance_count", "auto_scale"),
    ("OPT102", {"minimum_instance_count": -1, **_SERVING}, "variant.min_instance_count", "0 or greater"),
    ("OPT102", {"minimum_instance_count": 2, "maximum_instance_count": 1, **_SERVING}, "variant.max_instance_count", "2 or greater"),
    ("OPT102", {"maximum_instance_count": 1, "initial_instance_count": 2, **_SERVING}, "variant.initial_instance_count", "to 1"),
    ("OPT102", {"scale_in": ScaleIn.idle_release()}, "variant.scale_in", "auto_scale"),
    ("OPT104", {"capture_percentage": 101}, "data_capture.sampling_percentage", "100"),
    ("OPT105", {"asynchronous": True, **_SERVING}, "async_inference", "variant"),
    ("OPT105", {"asynchronous": True, "concurrent_invocations": 0}, "async_inference.max_concurrent_invocations_per_instance", "1000"),
    ("OPT106", {"startup_timeout_seconds": 7200}, "variant.container_startup_timeout", "Duration.hours(1)"),
    ("OPT106", {"provision_timeout_seconds": 60}, "variant.instance_provision_timeout", "Duration.minutes(5)"),
    ("OPT107", {"volume_gib": 100}, "variant.volume_size", "NVMe"),
    ("OPT107", {"encrypted_volume": True}, "encryption_key", "NVMe"),
    ("OPT107", {"volume_gib": 0, "instance_types": ["ml.inf2.48xlarge"]}, "variant.volume_size", "1 to 512"),
    ("OPT107", {"volume_gib": 513, "instance_types": ["ml.inf2.48xlarge"]}, "variant.volume_size", "512"),
    ("OPT108", {"ami_version": "al2-ami-sagemaker-inference-neuron-2"}, "variant.inference_ami_version", "gpu-3-1"),
    ("OPT108", {"ami_version": "al2-gpu"}, "variant.inference_ami_version", "gpu-2"),
    ("OPT108", {**_TWO_KINDS, "container_amis": ("al2023-gpu", "al2-gpu")}, "instance_pools", "a container needs al2023-gpu, al2-gpu, which is for GPUs"),
    ("OPT108", {**_TWO_KINDS, "ami_version": "al2-ami-sagemaker-inference-gpu-2"}, "variant.inference_ami_version", "leave it out: the pools have two kinds of accelerators"),
    ("OPT109", {"capacity_reservation": CapacityReservation(arn="llama")}, "variant.capacity_reservation.arn", "arn:"),
    ("OPT109", {"capacity_reservation": CapacityReservation(arn=_ARN), "pooled": True, "instance_types": [_P5, _G5]}, "variant.capacity_reservation", "one instance type"),
    ("OPT111", {"pooled": True, "instance_types": [_G5, _G5]}, "instance_pools[1].instance_type", "no earlier"),
    ("OPT111", {"pooled": True, "instance_types": []}, "instance_pools", "1 to 5"),
    ("OPT116", {"ssm_access": True}, "variant.ssm_access", "isolation=False"),
    ("OPT116", {"ssm_access": True, "network_isolation": False, **_SERVING}, "variant.ssm_access", "inference_component=False"),
    ("OPT116", {"ssm_access": True, "network_isolation": True}, "variant.ssm_access", "network=NetworkOptions(isolation=False)"),
    ("OPT120", {"update": UpdateSettings("CANARY", 51)}, "update_policy.percent", "1 to 50"),
    ("OPT120", {"update": UpdateSettings("LINEAR", 5)}, "update_policy.percent", "10 to 50"),
    ("OPT120", {"update": UpdateSettings("ROLLING", 0, "INSTANCE_COUNT")}, "update_policy.instances", "1 or greater"),
    ("OPT120", {"update": UpdateSettings("ROLLING", 10, rollback_size=101)}, "update_policy.rollback_percent", "100"),
    ("OPT121", {"update": UpdateSettings("CANARY", 10, bake_seconds=3601)}, "update_policy.bake_time", "Duration.hours(1)"),
    ("OPT121", {"update": UpdateSettings("ALL_AT_ONCE", timeout_seconds=60)}, "update_policy.timeout", "Duration.minutes(10)"),
    ("OPT121", {"update": UpdateSettings("CANARY", 10, bake_seconds=900, timeout_seconds=900)}, "update_policy.timeout", "Duration.minutes(15)"),
    ("OPT122", {"rollback_alarms": 11}, "update_policy.rollback_alarms", "10"),
    ("OPT124", {"update": UpdateSettings("ROLLING", 5, bake_seconds=3600)}, "update_policy", "bake_time of at most Duration.seconds(1439)"),
    ("OPT124", {"update": UpdateSettings("LINEAR", 10, bake_seconds=3000)}, "update_policy", "500 minutes, but the update may take at most 480"),
    ("OPT124", {"update": UpdateSettings("ROLLING", 25, bake_seconds=600, timeout_seconds=2400)}, "update_policy", "Duration.seconds(599)"),
    ("OPT124", {"update": UpdateSettings("ROLLING", 1, "INSTANCE_COUNT", bake_seconds=3600), "initial_instance_count": 8}, "update_policy", "Duration.seconds(3599)"),
    ("OPT209", {"existing_configuration": "chat-1"}, "endpoint_name", "the name of the deployed resource"),
    ("OPT209", {"existing_configuration": "a b", "endpoint_name": "chat"}, "variant.existing_configuration", "a name such as"),
    ("OPT209", {"existing_model": "m", **_SERVING}, "component_name", "the name of the deployed resource"),
    ("OPT209", {"component_name": "Llama", **_SERVING}, "component_name", "lowercase"),
    ("OPT209", {"existing_configuration": "c", "endpoint_name": "e", "partitions": _HALVES, "instance_types": [_P5], **_SERVING}, "variant.accelerator_partitions", "no partitions"),
    ("OPT209", {"existing_model": "m", "component_name": "n", "pooled": True, "instance_types": [_P5, _G5], **_SERVING}, "existing_model", "one instance type"),
    ("OPT130", {"components": [_component(accelerators=5)], **_SERVING}, "add_component('Chat').accelerators", "at most 4"),
    ("OPT130", {"components": [_component(accelerators=0)], **_SERVING}, "add_component('Chat').accelerators", "1 or greater"),
    ("OPT130", {"components": [_component(memory_mib=10**6)], **_SERVING}, "add_component('Chat').memory", "196608"),
    ("OPT130", {"components": [_component(memory_mib=1)], **_SERVING}, "add_component('Chat').memory", "128"),
    ("OPT253", {"components": [_component(copies=0)], **_SERVING}, "add_component('Chat').copies", "scaling with min_capacity=0"),
    ("OPT253", {"components": [_component(copies=-1)], **_SERVING}, "add_component('Chat').copies", "1 or greater"),
    ("OPT130", {"components": [_component(cpu_cores=49)], **_SERVING}, "add_component('Chat').options.cpu_cores", "48 vCPUs"),
    ("OPT130", {"components": [_component(max_memory_mib=39_999)], **_SERVING}, "add_component('Chat').options.max_memory", "40000 MiB or more"),
    ("OPT131", {"components": [_component(copies=5)], "maximum_instance_count": 2, **_SERVING}, "variant.max_instance_count", "3"),
    ("OPT132", {"techniques": [SpeculativeDecoding.sagemaker_draft()], **_SERVING}, "inference_component", "False"),
    ("OPT133", {"components": [_component()], "inference_component": False}, "inference_component", "True"),
    ("OPT133", {"inference_component": "yes"}, "inference_component", "True or False"),
    ("OPT133", {"techniques": [Sharding.fast_load()], "inference_component": False}, "inference_component", "True"),
    ("OPT134", {"adapters": [Adapter("add_adapter('A')", "s3://.tar.gz", loads=True)], **_SERVING}, "add_adapter('A').artifact_uri", "sql.tar.gz"),
    ("OPT134", {"adapters": [Adapter("add_adapter('A')", None, loads=True)], **_SERVING}, "add_adapter('A').artifact_uri", "sql.tar.gz"),
    ("OPT134", {"adapters": [Adapter("add_adapter('A')", "s3://abc/a.tar.gz", loads=True, name="my adapter!")], **_SERVING}, "add_adapter('A').adapter_name", "hyphens"),
    ("OPT134", {"adapters": [Adapter("add_adapter('Sql')", "s3://adapters/sql/", loads=True)], **_SERVING}, "add_adapter('Sql').artifact_uri", ".tar.gz"),
    ("OPT135", {"adapters": [Adapter("add_adapter('Sql')", "s3://a/b.tar.gz", loads=False)], **_SERVING}, "add_adapter('Sql')", "Adapters("),
    ("OPT137", {"region": "eu-west-3", **_SERVING}, "region", "AWS::SageMaker::InferenceComponent"),
    ("OPT137", {"region": "us-west-1", "has_model": False}, "region", "us-west-2"),
    ("OPT138", {"partitions": _HALVES, "instance_types": [_P5]}, "variant.accelerator_partitions", "a variant that serves a model uses whole GPUs"),
    ("OPT138", {"partitions": _HALVES, "instance_types": [_P5, _P5], "pooled": True, **_SERVING}, "variant.accelerator_partitions", "pools"),
    ("OPT138", {"partitions": ["mig-9g.90gb"], "instance_types": [_P5], **_SERVING}, "variant.accelerator_partitions", "any of mig-1g.10gb, mig-1g.20gb"),
    ("OPT138", {"partitions": _HALVES, **_SERVING}, "variant.accelerator_partitions", "ml.p4d.24xlarge"),
    ("OPT138", {"partitions": [*_HALVES, "mig-1g.10gb"], "instance_types": [_P5], **_SERVING}, "variant.accelerator_partitions", "7 compute and 9 memory"),
    ("OPT139", {"partitions": _HALVES, "components": [_component(accelerators=1)], "instance_types": [_P5], **_SERVING}, "add_component('Chat').options.accelerator_partition", "mig-3g.40gb"),
    ("OPT139", {"components": [_component(partition="mig-3g.40gb")], **_SERVING}, "add_component('Chat').options.accelerator_partition", "not partitioned"),
    ("OPT139", {"partitions": _HALVES, "components": [_component(accelerators=2, partition="mig-3g.40gb")], "instance_types": [_P5], **_SERVING}, "add_component('Chat').accelerators", "one partition"),
    ("OPT137", {"region": "us-gov-west-1", "techniques": [Sharding.fast_load()]}, "region", "without Sharding.fast_load()"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "location", "message"),
    [
        (lambda: Routing.prefix_aware(prefix_length=10), "Routing.prefix_length", "1024 or more"),
        (lambda: Routing.prefix_aware(concurrency_threshold=0), "Routing.concurrency_threshold", "1 or more"),
        (lambda: Observability(frequency_seconds=15), "Observability.frequency_seconds", "10, 30, 60"),  # type: ignore[arg-type]
        (lambda: Observability(enhanced="yes"), "Observability.enhanced", "True or False"),  # type: ignore[arg-type]
        (lambda: Adapters(max_loaded=0), "Adapters.max_loaded", "1 or more"),
        (lambda: Adapters(max_cached=0), "Adapters.max_cached", "1 or more"),
        (lambda: CapacityReservation(arn=7), "CapacityReservation.arn", "text"),  # type: ignore[arg-type]
    ],
)
def test_an_option_out_of_range_is_refused_at_construction(
    build: Callable[[], Any], location: str, message: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location) == ("OPT090", location)
    assert message in violation.suggestion


@pytest.mark.parametrize(
    ("build", "rule", "page", "location", "message"),
    [
        (
            lambda: ScaleIn.consolidation(max_step_size=101),
            "OPT125", "ProductionVariantManagedInstanceScalingScaleInPolicy", "ScaleIn.max_step_size", "100 or less",
        ),
        (
            lambda: ScaleIn.consolidation(cooldown_minutes=4),
            "OPT125", "ProductionVariantManagedInstanceScalingScaleInPolicy", "ScaleIn.cooldown_minutes", "5 or more",
        ),
        (
            lambda: Placement.binpack(max_zone_imbalance=101),
            "OPT126", "InferenceComponentSchedulingConfig", "Placement.max_zone_imbalance", "100 or less",
        ),
        (
            lambda: ComponentOptions(cpu_cores=0.2),
            "OPT127", "InferenceComponentSpecification", "ComponentOptions.cpu_cores", "0.25 or more",
        ),
        (
            lambda: ComponentOptions(caching="yes"),  # type: ignore[arg-type]
            "OPT127", "InferenceComponentSpecification", "ComponentOptions.caching", "True or False",
        ),
    ],
)  # fmt: skip
def test_a_member_out_of_range_has_a_rule_with_the_page_of_its_api(
    build: Callable[[], Any], rule: str, page: str, location: str, message: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location) == (rule, location)
    assert violation.link.endswith(f"/API_{page}.html")
    assert message in violation.suggestion
    (registered,) = [each for each in all_rules() if each.id == rule]
    assert registered.link == violation.link


def test_every_hosting_rule_has_valid_and_invalid_cases() -> None:
    ids = {rule.id for rule in all_rules(Hosting) if not rule.advisory}
    assert ids == set(GOOD) == {rule for rule, *_ in BAD}


@pytest.mark.parametrize(("rule", "options"), [(rule, options) for rule, cases in GOOD.items() for options in cases])
def test_valid_cases_do_not_violate_any_rule(rule: str, options: dict[str, Any]) -> None:
    assert check(hosting(**options)) == [], rule


@pytest.mark.parametrize(("rule", "options", "location", "message"), BAD)
def test_invalid_cases_are_refused_with_their_location_and_a_suggestion(
    rule: str, options: dict[str, Any], location: str, message: str
) -> None:
    found = [violation for violation in check(hosting(**options)) if violation.rule == rule]
    assert [violation.location for violation in found] == [location]
    assert message in f"{found[0].reason} {found[0].suggestion}"


def test_all_hosting_violations_are_reported_together() -> None:
    broken = check(hosting(initial_instance_count=0, capture_percentage=200, endpoint_name="a b"))
    assert [violation.rule for violation in broken] == ["OPT100", "OPT101", "OPT104"]


_HOUR: dict[str, Any] = {"download_timeout_seconds": 3600, "startup_timeout_seconds": 3600}
# rule, options, location of the advice, part of the reason or suggestion
ADVISED: list[tuple[str, dict[str, Any], str, str]] = [
    ("OPT112", {**_HOUR, "provision_timeout_seconds": 2401}, "variant.container_startup_timeout", "9601 s"),
    ("OPT112", {**_HOUR, "provision_timeout_seconds": 1, **_SERVING}, "variant.container_startup_timeout", "7201 s"),
    (
        "OPT112",
        {"startup_timeout_seconds": 3600, "provision_timeout_seconds": 2401},
        "variant.container_startup_timeout",
        "9601 s",
    ),
    (
        "OPT112",
        {"startup_timeout_seconds": 3600, "provision_timeout_seconds": 901, **_SERVING},
        "variant.container_startup_timeout",
        "7201 s",
    ),
    ("OPT117", {"ssm_access": True, "network_isolation": False}, "variant.ssm_access", "Leave it out in production"),
    ("OPT118", {"routing": Routing.kv_aware(), "servers": ("vllm", "lmi")}, "variant.routing", "'lmi'"),
    ("OPT123", {"update": UpdateSettings("CANARY", 10)}, "update_policy", "initial_instance_count=2"),
]


@pytest.mark.parametrize(("rule", "options", "location", "message"), ADVISED)
def test_doubtful_options_are_advised_on_with_their_location_and_a_suggestion(
    rule: str, options: dict[str, Any], location: str, message: str
) -> None:
    (advice,) = warnings(hosting(**options))
    assert advice.id == f"constructs-optim:{rule}"
    assert advice.message.startswith(f"{location} = ")
    assert message in advice.message


@pytest.mark.parametrize(
    "options",
    [
        {},
        _SERVING,
        _HOUR,
        {**_HOUR, "provision_timeout_seconds": 2400},
        {"startup_timeout_seconds": 3600, **_SERVING},
        {**_HOUR, "download_timeout_seconds": 60, "provision_timeout_seconds": 3540, **_SERVING},
        {"routing": Routing.kv_aware(), "servers": ("vllm",)},
        {"routing": Routing.prefix_aware(), "servers": ("lmi",)},
        {"update": UpdateSettings("CANARY", 10), "initial_instance_count": 2},
    ],
)
def test_ordinary_options_have_no_advice(options: dict[str, Any]) -> None:
    assert warnings(hosting(**options)) == ()


CANARIES: list[tuple[UpdateSettings, dict[str, Any], str | None]] = [
    (UpdateSettings("CANARY", 5), {}, "they are 5% of the endpoint's, and the alarm's threshold is more than 5%"),
    (UpdateSettings("CANARY", 6), {}, None),
    (UpdateSettings("CANARY", 6), {"alarms": Alarms(error_rate=AlarmSettings(threshold=8))}, "threshold=3.75))"),
    (UpdateSettings("CANARY", 1), {"alarms": Alarms(error_rate=False)}, None),
    (UpdateSettings("CANARY", 1, bake_seconds=600), {"rollback_alarms": 1}, None),
    # One instance of four.
    (UpdateSettings("CANARY", 5), {"initial_instance_count": 4}, None),
    (UpdateSettings("CANARY", 1, "INSTANCE_COUNT"), {"initial_instance_count": 20}, "threshold=2.5))"),
    (UpdateSettings("CANARY", 1, "INSTANCE_COUNT"), {"initial_instance_count": 19}, None),
    # Their next step raises the alarm.
    (UpdateSettings("ROLLING", 5), {}, None),
]


@pytest.mark.parametrize(("update", "more", "message"), CANARIES)
def test_a_canary_that_is_too_small_for_the_error_rate_gives_a_warning(
    update: UpdateSettings, more: dict[str, Any], message: str | None
) -> None:
    found = warnings(hosting(**{"initial_instance_count": 40, **more}, update=update))
    assert [advice.id for advice in found] == (["constructs-optim:OPT288"] if message else [])
    assert all(message in advice.message for advice in found if message)


STEPS: list[tuple[StepOfFleet, str | None, str]] = [
    (StepOfFleet("CANARY", 9, 4, 4, 4), "OPT271", "1 to 2, or percent=25 instead"),
    (StepOfFleet("CANARY", 4, 4, 1, 7), "OPT271", "has at most 7 instances"),
    (StepOfFleet("CANARY", 4, 4, 1, 8), "OPT272", "starts with 4 instances, and a step is 1 to 50% of them"),
    (StepOfFleet("CANARY", 2, 4, 1, 8), None, ""),
    (
        StepOfFleet("CANARY", 1, 1, 1, 1),
        "OPT271",
        "update_policy=UpdatePolicy.all_at_once(), or 2 instances or more",
    ),
    (StepOfFleet("ROLLING", 9, 4, None, None), "OPT272", "1 to 2, or percent=25 instead"),
    (StepOfFleet("ROLLING", 1, 40, 30, 40), "OPT271", "has at least 30 instances, and a step is 5 to 50% of them"),
    (StepOfFleet("ROLLING", 1, 20, 20, 20), None, ""),
    (StepOfFleet("LINEAR", 1, 11, 1, 11), "OPT272", "2 to 5, or percent=25 instead"),
    (StepOfFleet("LINEAR", 1, 10, 10, 10), None, ""),
]


@pytest.mark.parametrize(("step", "rule", "message"), STEPS)
def test_a_step_in_instances_is_refused_if_no_fleet_has_room_for_it_and_else_advised_on(
    step: StepOfFleet, rule: str | None, message: str
) -> None:
    refused = {each.rule: f"{each.reason}. {each.suggestion}" for each in check(step)}
    advised = {each.id.partition(":")[2]: each.message for each in warnings(step)}
    assert [*refused, *advised] == ([rule] if rule is not None else [])
    assert not refused or rule == "OPT271"
    assert message in "".join([*refused.values(), *advised.values()])


_ROW = instances.by_name()[_G5]
_COPIES = st.builds(
    _component,
    accelerators=st.integers(1, _ROW.parallel_units),
    memory_mib=st.integers(128, _ROW.memory_mib - 1),
    copies=st.integers(1, 6),
    cpu_cores=st.none() | st.sampled_from([0.25, 1.5, 8, _ROW.vcpu]),
)


@given(st.lists(_COPIES, max_size=4))
def test_instances_for_copies_stay_between_total_resources_and_one_per_copy(components: list[Component]) -> None:
    taken = instances_for_copies(components, _ROW)
    copies = sum(component.copies for component in components)
    accelerators = sum(component.accelerators * component.copies for component in components)
    memory = sum(component.memory_mib * component.copies for component in components)
    assert taken <= copies
    assert taken * _ROW.parallel_units >= accelerators
    assert taken * _ROW.memory_mib >= memory
    assert taken * _ROW.vcpu >= sum((component.cpu_cores or 0) * component.copies for component in components)


def test_the_largest_copies_are_placed_first() -> None:
    assert _ROW.parallel_units == 4
    small, large = (_component(accelerators=each, memory_mib=1024, copies=2) for each in (1, 3))
    assert instances_for_copies([small, large], _ROW) == instances_for_copies([large, small], _ROW) == 2


@given(st.lists(_COPIES, min_size=1, max_size=4), st.integers(1, 30))
def test_the_suggested_maximum_instance_count_is_sufficient(components: list[Component], most: int) -> None:
    declared = hosting(components=components, maximum_instance_count=most, **_SERVING)
    for violation in check(declared):
        assert violation.rule == "OPT131"
        enough = int(re.findall(r"max_instance_count=(\d+)", violation.suggestion)[0])
        assert check(hosting(components=components, maximum_instance_count=enough, **_SERVING)) == []


_NGRAM = SpeculativeDecoding.ngram(speculative_tokens=5)


def _speculation(
    cure: SpeculationCure, technique: Technique | None = _NGRAM, decay: bool | None = None, **options: Any
) -> Speculation:
    alarms = Alarms(acceptance_decay=decay) if decay is not None else Alarms()
    return Speculation(hosting(**options), cure, technique, alarms)


_SHORTER, _ANEW = SpeculationCure.shorter_drafts(speculative_tokens=5), SpeculationCure.train_anew()
# rule, cure, location of the violation, part of the reason or suggestion
CURES: list[tuple[str, Speculation, str, str]] = [
    ("OPT215", _speculation(SpeculationCure.restart(), None), "monitoring.speculation_cure", "with speculative decoding"),
    ("OPT215", _speculation(SpeculationCure.restart(), decay=False), "monitoring.alarms.acceptance_decay", "this alarm triggers the cure"),
    ("OPT215", _speculation(_SHORTER), "monitoring.speculation_cure.speculative_tokens", "1 to 4"),
    ("OPT215", _speculation(_SHORTER, SpeculativeDecoding.ngram(speculative_tokens=1)), "monitoring.speculation_cure.speculative_tokens", "drafts_off()"),
    ("OPT215", _speculation(_ANEW, capture_percentage=100), "monitoring.speculation_cure", "no job trains SpeculativeDecoding.ngram"),
    ("OPT215", _speculation(_ANEW, SpeculativeDecoding.eagle()), "data_capture", "DataCapture(bucket=...)"),
    ("OPT215", _speculation(_ANEW, SpeculativeDecoding.eagle(), capture_percentage=0), "data_capture", "DataCapture(bucket=...)"),
    ("OPT216", _speculation(SpeculationCure.restart(), **_SERVING), "inference_component", "a variant that serves the model"),
    ("OPT216", _speculation(SpeculationCure.restart(), existing_configuration="made-by-hand"), "variant.existing_configuration", "leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "case", "location", "message"), CURES)
def test_a_cure_that_cannot_work_is_refused(rule: str, case: Speculation, location: str, message: str) -> None:
    (found,) = check(case)
    assert (found.rule, found.location) == (rule, location)
    assert message in f"{found.reason} {found.suggestion}"


@pytest.mark.parametrize(
    "case",
    [
        _speculation(SpeculationCure.restart()),
        _speculation(SpeculationCure.restart(), decay=True),
        _speculation(SpeculationCure.drafts_off(), existing_configuration="made-by-hand"),
        _speculation(SpeculationCure.shorter_drafts(speculative_tokens=4)),
        _speculation(_SHORTER, SpeculativeDecoding.mtp()),
        _speculation(_ANEW, SpeculativeDecoding.eagle(), capture_percentage=1),
    ],
)
def test_a_cure_that_can_work_is_accepted(case: Speculation) -> None:
    assert check(case) == []


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        (Routing.least_outstanding_requests(), {"strategy": "LEAST_OUTSTANDING_REQUESTS"}),
        (Routing.random(), {"strategy": "RANDOM"}),
        (
            Routing.prefix_aware(),
            {"strategy": "PREFIX_AWARE", "prefix_length": 4096, "concurrency_threshold": 64},
        ),
        (
            Routing.prefix_aware(prefix_length=2048, concurrency_threshold=8),
            {"strategy": "PREFIX_AWARE", "prefix_length": 2048, "concurrency_threshold": 8},
        ),
        (Routing.kv_aware(), {"strategy": "KV_AWARE"}),
        (ScaleIn.idle_release(), {"strategy": "IDLE_RELEASE"}),
        (ScaleIn.consolidation(), {"strategy": "CONSOLIDATION", "max_step_size": 1, "cooldown_minutes": 20}),
        (Placement.spread(), {"strategy": "SPREAD", "max_zone_imbalance": 0}),
        (Placement.binpack(max_zone_imbalance=3), {"strategy": "BINPACK", "max_zone_imbalance": 3}),
        (SpeculationCure.restart(), {"kind": "restart", "at_most_every_hours": 12}),
        (
            SpeculationCure.shorter_drafts(speculative_tokens=2),
            {"kind": "shorter_drafts", "speculative_tokens": 2},
        ),
        (SpeculationCure.drafts_off(), {"kind": "drafts_off"}),
        (SpeculationCure.train_anew(), {"kind": "train_anew"}),
        (AnswerCheck.answered(), {"kind": "answered"}),
        (AnswerCheck.json_valid(), {"kind": "json_valid"}),
        (AnswerCheck.tool_calls(), {"kind": "tool_calls"}),
        (AnswerCheck.reference("s3://a/b.jsonl"), {"kind": "reference", "reference_uri": "s3://a/b.jsonl"}),
        (AnswerCheck.judge("arn:judge"), {"kind": "judge", "function_arn": "arn:judge"}),
        (AnswerCheck.exact_match(at_least=0.9), {"kind": "exact_match", "at_least": 0.9}),
        (AnswerCheck.top_token(at_least=0.8), {"kind": "top_token", "at_least": 0.8}),
    ],
    ids=str,
)
def test_each_way_of_an_option_has_its_settings_and_their_defaults(made: Settings, settings: dict[str, Any]) -> None:
    assert {name: value for name, value in made.model_dump().items() if value is not None} == settings


@pytest.mark.parametrize(
    ("cure", "advice"),
    [
        (SpeculationCure.restart(at_most_every_hours=6), "are replaced automatically, at most every 6 h."),
        (
            SpeculationCure.shorter_drafts(speculative_tokens=2),
            "deploy SpeculativeDecoding.ngram(..., speculative_tokens=2).",
        ),
        (SpeculationCure.drafts_off(), "deploy without SpeculativeDecoding.ngram(...)."),
        (SpeculationCure.train_anew(), "deploy SpeculativeDecoding.ngram(training_data=data_capture.captured("),
    ],
    ids=str,
)
def test_the_alarm_tells_what_the_cure_does_or_asks_for(cure: SpeculationCure, advice: str) -> None:
    assert cure.advice(_NGRAM).startswith("Cure: ")
    assert advice in cure.advice(_NGRAM)
