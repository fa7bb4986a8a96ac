"""Combinations of techniques: the jobs they need and how the result is served."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from constructs_optim.recipe import (
    Compilation,
    Model,
    PreOptimized,
    Quantization,
    Recipe,
    RecipeError,
    Sharding,
    SpeculativeDecoding,
    plan,
)
from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.plan_data import (
    ArtifactSource,
    HubDraftSource,
    HubSource,
    S3Source,
)
from constructs_optim.recipe.servers import Server

from .recipes import LLAMA_70B, planned

LLAMA_8B = Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True)
LLAMA_31 = Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True)


def test_a_draft_model_with_quantization_takes_one_job_and_a_channel() -> None:
    result = planned(techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()])
    (job,) = result.jobs
    (channel,) = result.container.channels
    assert job.artifact_key == planned().jobs[0].artifact_key, "the artifact is that of quantization alone"
    assert channel.name == "draft_model"
    assert channel.source == HubDraftSource(model_id=LLAMA_70B, version="2.25.0", accept_eula=True)
    assert result.container.model == ArtifactSource(job=0)
    assert result.container.environment["OPTION_SPECULATIVE_DRAFT_MODEL"] == (
        "/opt/ml/additional-model-data-sources/draft_model"
    )
    assert result.container.tags == {"sagemaker-sdk:speculative-draft-model-provider": "sagemaker"}
    assert result.container.network_isolation
    assert not result.container.is_native


def test_a_draft_model_without_quantization_takes_no_job() -> None:
    draft = SpeculativeDecoding.custom_draft(uri="s3://drafts/one/", speculative_tokens=6)
    result = planned(techniques=[draft], instance_type="ml.p4d.24xlarge")
    assert result.jobs == ()
    assert result.artifact_key is None
    assert result.container.model == HubSource(model_id=LLAMA_70B, version="2.25.0", accept_eula=True)
    assert result.container.channels[0].source == S3Source(uri="s3://drafts/one/")
    config = json.loads(result.container.environment["SM_VLLM_SPECULATIVE_CONFIG"])
    assert config == {
        "method": "draft_model",
        "model": "/opt/ml/additional-model-data-sources/draft_model",
        "num_speculative_tokens": 6,
    }


def test_lmi_takes_a_draft_model_by_variables_of_its_own() -> None:
    draft = SpeculativeDecoding.custom_draft(uri="s3://drafts/one/", speculative_tokens=6)
    result = planned(techniques=[draft], instance_type="ml.p4d.24xlarge", server=Server.lmi())
    assert result.container.environment["OPTION_SPECULATIVE_LENGTH"] == "6"
    assert "OPTION_SPECULATIVE_CONFIG" not in result.container.environment


def test_speculative_decoding_uses_an_image_that_supports_its_draft_model() -> None:
    draft = planned(techniques=[SpeculativeDecoding.sagemaker_draft()], instance_type="ml.p4d.24xlarge").container
    eagle = planned(model=LLAMA_31, techniques=[SpeculativeDecoding.eagle()]).container
    assert draft.image is not None
    assert "lmi14" in draft.image
    assert eagle.image is not None
    assert "/vllm:" in eagle.image
    assert "SM_VLLM_SPECULATIVE_CONFIG" in eagle.environment
    assert "OPTION_SPECULATIVE_DRAFT_MODEL" not in eagle.environment


def test_n_gram_speculation_needs_no_job_and_no_channel() -> None:
    result = planned(techniques=[SpeculativeDecoding.ngram(speculative_tokens=3)], instance_type="ml.p4d.24xlarge")
    assert result.jobs == ()
    assert result.container.channels == ()
    assert json.loads(result.container.environment["SM_VLLM_SPECULATIVE_CONFIG"]) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_max": 4,
    }
    assert result.memory is not None
    assert result.memory.draft_gb == 0


def test_quantization_and_compilation_share_a_job() -> None:
    result = planned(techniques=[Quantization.awq(), Compilation.tensorrt_llm()], instance_type="ml.p4d.24xlarge")
    (job,) = result.jobs
    assert [next(iter(part)) for part in job.request["OptimizationConfigs"]] == [
        "ModelQuantizationConfig",
        "ModelCompilationConfig",
    ]
    assert "tensorrtllm" in str(job.image)
    swapped = planned(techniques=[Compilation.tensorrt_llm(), Quantization.awq()], instance_type="ml.p4d.24xlarge")
    assert swapped.jobs == result.jobs, "the order in which they are listed does not matter"


def test_a_second_job_shards_the_quantized_artifact() -> None:
    result = planned(techniques=[Sharding.fast_load(), Quantization.awq()])
    first, second = result.jobs
    assert (first.name, second.name) == ("awq", "fast-load")
    assert second.source == ArtifactSource(job=0)
    assert first.artifact_key == planned().jobs[0].artifact_key, "each is reusable on its own"
    assert second.artifact_key not in (None, first.artifact_key)
    assert result.container.model == ArtifactSource(job=1)
    assert result.container.component is not None
    assert result.container.component.accelerators == 4
    assert not result.container.network_isolation


def test_the_second_artifact_key_depends_on_the_first() -> None:
    def second(group_size: Any) -> str | None:
        return planned(techniques=[Quantization.awq(group_size=group_size), Sharding.fast_load()]).jobs[1].artifact_key

    assert second(64) != second(128)


def test_eagle_heads_are_trained_by_a_job_and_served_as_a_channel() -> None:
    result = planned(model=LLAMA_31, techniques=[SpeculativeDecoding.eagle(training_data="s3://prompts/mine/")])
    (job,) = result.jobs
    assert job.request["OptimizationConfigs"] == [
        {
            "ModelSpeculativeDecodingConfig": {
                "Technique": "EAGLE",
                "TrainingDataSource": {"S3Uri": "s3://prompts/mine/", "S3DataType": "S3Prefix"},
            }
        }
    ]
    assert job.request["StoppingCondition"] == {"MaxRuntimeInSeconds": 432_000}
    (channel,) = result.container.channels
    assert channel.source == ArtifactSource(job=0, suffix="draft/")
    assert isinstance(result.container.model, HubSource)


def test_eagle_heads_have_the_same_key_on_every_serving_instance_type() -> None:
    keys = {
        planned(
            model=LLAMA_31, techniques=[SpeculativeDecoding.eagle(speculative_tokens=n)], instance_type=i
        ).artifact_key
        for n, i in ((5, "ml.g5.12xlarge"), (3, "ml.p5.48xlarge"))
    }
    assert len(keys) == 1


def test_a_model_that_sagemaker_has_precompiled_is_marked_in_its_job() -> None:
    neuron = [Compilation.neuron(tensor_parallel_degree=24, maximum_sequence_length=8192, maximum_batch_size=8)]
    assert planned(model=LLAMA_8B, techniques=neuron, instance_type="ml.inf2.48xlarge").jobs[0].pre_compiled
    small = planned(model=LLAMA_8B, techniques=[Compilation.neuron()], instance_type="ml.inf2.24xlarge")
    assert not small.jobs[0].pre_compiled


def test_a_compiled_model_is_served_with_its_compilation_settings() -> None:
    result = planned(model=LLAMA_8B, techniques=[Compilation.neuron()], instance_type="ml.inf2.48xlarge")
    environment = result.jobs[0].request["OptimizationConfigs"][0]["ModelCompilationConfig"]["OverrideEnvironment"]
    assert environment.items() <= result.container.environment.items()
    assert environment["OPTION_TENSOR_PARALLEL_DEGREE"] == "24"


def test_a_pre_optimized_configuration_needs_no_job_image_or_environment() -> None:
    result = planned(techniques=[PreOptimized(config="lmi-optimized")], instance_type="ml.p4d.24xlarge")
    assert result.jobs == ()
    assert result.container.image is None
    assert result.container.environment == {}
    assert result.source == result.container.model
    assert isinstance(result.source, HubSource)
    assert result.source.configuration == "lmi-optimized"


@pytest.mark.parametrize(
    ("techniques", "weights"),
    [([Quantization.awq()], 39.478), ([Quantization.fp8()], 72.101), ([Sharding.fast_load()], 140.0)],
)
def test_llama_3_70b_weights_match_their_published_size(techniques: list[Any], weights: float) -> None:
    memory = planned(techniques=techniques, instance_type="ml.p4d.24xlarge").memory
    assert memory is not None
    assert memory.weights_gb == weights


STACKS = [
    [Quantization.awq()],
    [Quantization.fp8()],
    [Quantization.awq(), SpeculativeDecoding.sagemaker_draft()],
    [Quantization.fp8(), SpeculativeDecoding.custom_draft(uri="s3://drafts/one/")],
    [SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-2-1b", accept_eula=True)],
    [SpeculativeDecoding.eagle()],
    [Quantization.awq(), SpeculativeDecoding.ngram()],
    [Compilation.neuron()],
    [Compilation.tensorrt_llm()],
    [Quantization.smoothquant(), Compilation.tensorrt_llm()],
    [Sharding.fast_load()],
    [Quantization.awq(), Sharding.fast_load()],
    [PreOptimized()],
]


@pytest.mark.parametrize(
    "names",
    [
        (
            "ml.g5.12xlarge",
            "ml.p5.48xlarge",
            "ml.inf2.48xlarge",
        ),
        pytest.param(tuple(instances.by_name()), marks=pytest.mark.exhaustive),
    ],
    ids=["some", "all"],
)
def test_every_model_stack_and_instance_type_is_planned_or_refused_with_reasons(names: tuple[str, ...]) -> None:
    shape: Any = (
        botocore.session.get_session()
        .get_service_model("sagemaker")
        .operation_model("CreateOptimizationJob")
        .input_shape
    )
    enum = set(shape.members["DeploymentInstanceType"].enum)
    outcomes: Counter[str] = Counter()
    for row in models.by_id().values():
        model = Model.jumpstart(row.model_id, version="1.0.0", accept_eula=True)
        for instance in names:
            for number, techniques in enumerate(STACKS):
                try:
                    result = plan(
                        Recipe(model=model, techniques=techniques, instance_type=instance, region="us-west-2")
                    )
                except RecipeError as refused:
                    outcomes["refused" if refused.violations else "refused for nothing"] += 1
                    continue
                outcomes["planned"] += 1
                outcomes[f"stack {number}"] += 1
                for job in result.jobs:
                    request = {
                        "OptimizationJobName": "job",
                        "RoleArn": "arn:aws:iam::111122223333:role/execution",
                        "ModelSource": {"S3": {"S3Uri": "s3://models/m/"}},
                        "OutputConfig": {"S3OutputLocation": "s3://artifacts/a/"},
                        **job.request,
                    }
                    report = ParamValidator().validate(request, shape)
                    assert not report.has_errors(), report.generate_report()
                    assert request["DeploymentInstanceType"] in enum
    assert not outcomes["refused for nothing"]
    assert outcomes["refused"] > 0
    assert outcomes["planned"] > 15 * len(names)
    assert {f"stack {number}" for number in range(len(STACKS))} <= set(outcomes), "each stack works somewhere"
