"""Endpoints by objectives: the lock file's choice becomes instances, recipe, scaling and evaluation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import CfnParameter, Stack
from aws_cdk.assertions import Match, Template

from constructs_optim import (
    ComponentOptions,
    Model,
    Objectives,
    OptimizedEndpoint,
    Quantization,
    RecipeError,
    Server,
    VariantOptions,
    Workload,
)
from constructs_optim.recipe.catalog.lock import (
    LOCK_FILE,
    Lock,
    RecordedChoice,
    RecordedLatencies,
    RecordedModel,
    RecordedPool,
)
from constructs_optim.recipe.objectives import choice_name
from constructs_optim.templates.resource_types import CHOICE_KEY

from ..support.choices import CHOICE
from ..support.construct_stacks import stack, template_of

MODEL, CHECKPOINT = CHOICE.model, "Qwen/Qwen3-32B-FP8"
OBJECTIVES = Objectives(
    input_tokens=1000, output_tokens=300, requests_per_second=12, time_to_first_token=1000, inter_token_latency=40
)
FP8 = f"quantization=fp8,checkpoint={CHECKPOINT}"
ONE = RecordedPool(instance_type="ml.p5.4xlarge", techniques=(FP8,), server="vllm", max_concurrent_requests=84)
LATENCIES = RecordedLatencies(time_to_first_token_ms=(150, 50, 500), inter_token_latency_ms=(14, 8, 26))


def choice(*pools: RecordedPool, copies: int = 3, instances: int = 3) -> RecordedChoice:
    forecast = CHOICE.forecast.model_copy(update={"with_users": {1: LATENCIES, 59: LATENCIES}})
    changed = {
        "objectives": OBJECTIVES.model_dump(mode="json", exclude_defaults=True),
        "pools": pools or (ONE,),
        "copies": copies,
        "instances": instances,
        "concurrency": 21.3,
        "forecast": forecast,
    }
    return CHOICE.model_copy(update=changed)


def record(recorded: RecordedChoice) -> None:
    commits = {
        name: RecordedModel(revision="a" * 40, gated=False, license="apache-2.0") for name in (MODEL, CHECKPOINT)
    }
    Lock(models=commits, choices={choice_name(MODEL, OBJECTIVES): recorded}).write(Path(LOCK_FILE))


@pytest.fixture(autouse=True)
def in_the_app_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDK_OUTDIR", raising=False)


def endpoint(of: Any = None, **more: Any) -> OptimizedEndpoint:
    given = {"model": Model.huggingface(MODEL), "objectives": OBJECTIVES, **more}
    return OptimizedEndpoint(of if of is not None else stack(), "Chat", **given)


def warned(scope: Stack, text: str) -> bool:
    entries = [entry for child in scope.node.find_all() for entry in child.node.metadata]
    return any("warning" in entry.type and re.search(text, str(entry.data)) for entry in entries)


def template(declared: OptimizedEndpoint) -> Template:
    return Template.from_json(template_of(declared.stack))


def test_the_choice_decides_recipe_instances_and_batch() -> None:
    record(choice())
    declared = endpoint()
    found = template(declared)
    variant = {"InstanceType": "ml.p5.4xlarge", "InitialInstanceCount": 3}
    found.has_resource_properties(
        "AWS::SageMaker::EndpointConfig", {"ProductionVariants": [Match.object_like(variant)]}
    )
    assert declared.plan.container.environment["SM_VLLM_MAX_NUM_SEQS"] == "84"
    assert [technique.name for technique in declared.plan.techniques] == ["fp8"]
    (resource,) = found.find_resources("AWS::SageMaker::Endpoint").values()
    assert RecordedChoice.model_validate(resource["Metadata"][CHOICE_KEY]) == choice()


def test_scaling_goes_up_to_the_busiest_time_and_holds_the_target_of_the_choice() -> None:
    record(choice())
    declared = endpoint()
    declared.auto_scale().on_concurrency()
    found = template(declared)
    found.has_resource_properties("AWS::ApplicationAutoScaling::ScalableTarget", {"MinCapacity": 1, "MaxCapacity": 3})
    found.has_resource_properties(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        {"TargetTrackingScalingPolicyConfiguration": Match.object_like({"TargetValue": 21.3})},
    )


def test_copies_that_take_a_part_of_an_instance_are_components() -> None:
    part = ONE.model_copy(
        update={
            "instance_type": "ml.p5.48xlarge",
            "techniques": (f"{FP8},tensor_parallel_degree=2",),
            "copies_per_instance": 4,
        }
    )
    record(choice(part, copies=6, instances=2))
    declared = endpoint()
    declared.auto_scale().on_concurrency()
    found = template(declared)
    found.has_resource_properties(
        "AWS::SageMaker::InferenceComponent",
        {
            "Specification": Match.object_like(
                {"ComputeResourceRequirements": Match.object_like({"NumberOfAcceleratorDevicesRequired": 2})}
            )
        },
    )
    found.has_resource_properties("AWS::ApplicationAutoScaling::ScalableTarget", {"MaxCapacity": 6})
    found.has_resource_properties(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        {"TargetTrackingScalingPolicyConfiguration": Match.object_like({"TargetValue": 21.3})},
    )
    found = template(endpoint(stack("Asked"), inference_component=ComponentOptions(cpu_cores=3)))
    (component,) = found.find_resources("AWS::SageMaker::InferenceComponent").values()
    required = component["Properties"]["Specification"]["ComputeResourceRequirements"]
    assert required["NumberOfCpuCoresRequired"] == 3, "options have precedence"
    with pytest.raises(ValueError, match=r"inference_component is False, and the choice .* places 6 copies"):
        endpoint(stack("Other"), inference_component=False)


def test_several_pools_are_instance_pools_with_their_own_recipes() -> None:
    awq = RecordedPool(instance_type="ml.g6e.12xlarge", techniques=("quantization=fp8_dynamic",))
    record(choice(ONE, awq))
    declared = endpoint()
    found = template(declared)
    pools = [Match.object_like({"InstanceType": name}) for name in ("ml.p5.4xlarge", "ml.g6e.12xlarge")]
    found.has_resource_properties(
        "AWS::SageMaker::EndpointConfig", {"ProductionVariants": [Match.object_like({"InstancePools": pools})]}
    )
    assert len(declared.models) == 2


def test_what_the_user_sets_comes_before_the_choice() -> None:
    record(choice())
    declared = endpoint(
        server=Server.vllm(max_concurrent_requests=16, context_length=8192),
        variant=VariantOptions(initial_instance_count=1),
    )
    environment = declared.plan.container.environment
    assert (environment["SM_VLLM_MAX_NUM_SEQS"], environment["SM_VLLM_MAX_MODEL_LEN"]) == ("16", "8192")
    template(declared).has_resource_properties(
        "AWS::SageMaker::EndpointConfig",
        {"ProductionVariants": [Match.object_like({"InitialInstanceCount": 1})]},
    )
    kept = endpoint(stack("Kept"), server=Server.vllm(context_length=8192))
    assert kept.plan.container.environment["SM_VLLM_MAX_NUM_SEQS"] == "84"


def test_synthesis_never_chooses_by_itself() -> None:
    with pytest.raises(RecipeError) as refused:
        endpoint()
    (violation,) = refused.value.violations
    assert violation.rule == "OPT235"
    assert violation.suggestion == (
        "constructs-optim recommend Qwen/Qwen3-32B --input-tokens 1000 --output-tokens 300 --rate 12 --ttft 1000ms "
        "--itl 40ms --update"
    )
    record(choice())
    other = OBJECTIVES.model_copy(update={"requests_per_second": 24.0})
    with pytest.raises(RecipeError, match="it records Qwen/Qwen3-32B for 12 requests/s"):
        endpoint(objectives=other)
    with pytest.raises(RecipeError, match=r"it records Qwen/Qwen3-32B\n"):
        endpoint(model=Model.huggingface("Qwen/Qwen3-8B"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"techniques": [Quantization.awq()]}, "techniques and objectives are set"),
        ({"instance_type": "ml.g5.12xlarge"}, "instance_type and objectives are set"),
        ({"instance_pools": []}, "instance_pools and objectives are set"),
        ({"model": None}, "objectives need a model"),
        ({"objectives": {"input_tokens": 1}}, "and it takes Objectives"),
    ],
)
def test_what_a_choice_decides_is_not_set_beside_objectives(arguments: dict[str, Any], said: str) -> None:
    record(choice())
    with pytest.raises(ValueError, match=said):
        endpoint(**arguments)


def test_without_objectives_scaling_needs_its_maximum() -> None:
    declared = OptimizedEndpoint(
        stack(),
        "Chat",
        model=Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.25.0", accept_eula=True),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.2xlarge",
    )
    with pytest.raises(ValueError, match="has no objectives: auto_scale needs max_capacity=4"):
        declared.auto_scale()


@pytest.mark.parametrize(("context", "deviation"), [(1500, 25), (1300, None)])
def test_lengths_vary_as_far_as_the_context_has_room(context: int, deviation: int | None) -> None:
    record(choice())
    declared = endpoint(server=Server.vllm(context_length=context))
    parameters = declared.evaluate().workload.spec["parameters"]
    assert parameters.get("output_tokens_stddev") == deviation
    assert parameters.get("prompt_input_tokens_stddev") == deviation


def test_lengths_do_not_vary_where_the_context_is_known_at_deployment_only() -> None:
    record(choice())
    scope = stack()
    context = CfnParameter(scope, "Context").value_as_string
    declared = endpoint(scope, environment={"SM_VLLM_MAX_MODEL_LEN": context})
    assert "output_tokens_stddev" not in declared.evaluate().workload.spec["parameters"]


def test_the_evaluation_sends_the_objectives_requests_and_compares_with_the_forecast() -> None:
    record(choice())
    declared = endpoint()
    declared.evaluate().require(forecast=True)
    (evaluation,) = template(declared).find_resources("Custom::EndpointEvaluation").values()
    request = evaluation["Properties"]["Request"]
    assert request["Concurrencies"] == [1, 59]
    parameters = request["Workload"]["parameters"]
    assert (parameters["prompt_input_tokens_mean"], parameters["output_tokens_mean"]) == (1000, 300)
    assert (parameters["prompt_input_tokens_stddev"], parameters["output_tokens_stddev"]) == (300, 90)
    assert request["Gate"]["Forecast"] is True
    assert [(each["Concurrency"], each["Metric"]) for each in request["Forecasts"]] == [
        (1, "time_to_first_token"),
        (1, "inter_token_latency"),
        (59, "time_to_first_token"),
        (59, "inter_token_latency"),
    ]
    assert request["Forecasts"][0] | {"Title": ""} == {
        "InstanceType": "ml.p5.4xlarge",
        "Copies": 3,
        "Concurrency": 1,
        "Metric": "time_to_first_token",
        "Title": "",
        "Unit": "ms",
        "Value": 150,
        "Low": 50,
        "High": 500,
    }
    recipe = request["Subjects"][0]["Recipe"]
    assert (recipe["Model"], recipe["Techniques"], recipe["Server"]) == (MODEL, [FP8], "vllm")


def test_a_forecast_is_required_only_where_there_is_one() -> None:
    record(choice())
    other = endpoint().evaluate(workload=Workload(concurrency=[1, 59], input_tokens=50, output_tokens=50))
    with pytest.raises(ValueError, match="has no forecast: only an endpoint with objectives has one"):
        other.require(forecast=True)


def test_a_forecast_of_other_instances_is_not_required() -> None:
    record(choice())
    resized = endpoint(variant=VariantOptions(initial_instance_count=5)).evaluate()
    with pytest.raises(ValueError, match="is for 3 instances, and the endpoint has another number"):
        resized.require(forecast=True)


def test_a_context_that_is_shorter_than_the_requests_is_refused() -> None:
    record(choice())
    with pytest.raises(RecipeError) as refused:
        endpoint(environment={"SM_VLLM_MAX_MODEL_LEN": "1024"})
    assert [(each.rule, each.value) for each in refused.value.violations] == [("OPT231", 1300)]


@pytest.mark.parametrize(
    ("more", "served"),
    [
        ({"environment": {"SM_VLLM_MAX_NUM_SEQS": "5"}}, "vllm, 5 at a time"),
        ({"server": Server.sglang()}, "sglang"),
        ({"server": Server.vllm(max_concurrent_requests=16)}, "vllm, 16 at a time"),
    ],
    ids=["environment", "another server", "another limit"],
)
def test_synthesis_warns_of_a_server_that_was_not_forecast(more: dict[str, Any], served: str) -> None:
    record(choice())
    scope = stack()
    endpoint(scope, **more)
    assert warned(scope, f"{re.escape(served)}.*The forecast is for vllm in batches of up to 84")


def test_the_server_of_the_choice_is_not_warned_of() -> None:
    record(choice())
    scope = stack()
    endpoint(scope, server=Server.vllm(context_length=8192))
    assert not warned(scope, "OPT236")
