from __future__ import annotations

import pytest

from constructs_optim.dry_start.cpu_arguments import REMOVED, on_the_cpu
from constructs_optim.dry_start.planned_engine import DryStartError, PlannedEngine, command_line, planned_engine
from constructs_optim.recipe import KvCache, Model, Quantization, Recipe, SpeculativeDecoding, plan
from constructs_optim.recipe.catalog import load
from constructs_optim.recipe.plan_data import HuggingFaceSource, S3Source
from constructs_optim.recipe.servers import Server, ServerSettings
from constructs_optim.recipe.techniques import Technique

COMMIT = "0" * 40
MODEL = Model.huggingface("acme/llama", revision=COMMIT)


def engine_of(
    *techniques: Technique,
    model: Model = MODEL,
    server: ServerSettings | None = None,
    environment: dict[str, str] | None = None,
    instance_type: str = "ml.g6.12xlarge",
) -> PlannedEngine:
    recipe = Recipe(model, list(techniques), instance_type, "us-west-2", server=server, environment=environment)
    return planned_engine(plan(recipe))


def test_variables_become_the_arguments_that_the_container_passes_on() -> None:
    environment = {"SM_VLLM_ENABLE_PREFIX_CACHING": "false", "SM_VLLM_SEED": "7", "VLLM_USE_V1": "1", "OTHER": "x"}
    engine = engine_of(server=Server.vllm(context_length=4096), environment=environment)
    assert engine.options["model"] == ("/opt/ml/model",)
    assert engine.options["tensor_parallel_size"] == ("4",)
    assert engine.options["max_model_len"] == ("4096",)
    assert engine.options["no_enable_prefix_caching"] == ()
    assert engine.variables == {"VLLM_USE_V1": "1"}
    assert command_line({"seed": ("7",), "enforce_eager": ()}) == ["--seed", "7", "--enforce-eager"]


def test_the_arguments_of_large_model_inference_are_vllms() -> None:
    engine = engine_of(server=Server.lmi(context_length=4096, max_concurrent_requests=8, prefix_caching=False))
    assert engine.options["model"] == ("/opt/ml/model",)
    assert engine.options["tensor_parallel_size"] == ("4",)
    assert engine.options["max_num_seqs"] == ("8",)
    assert engine.options["no_enable_prefix_caching"] == ()
    # djl-serving's own.
    assert not any("async" in name or "rolling" in name for name in engine.options)
    assert engine.release == "0.26.0"


def test_the_gpus_are_those_of_the_instance_type() -> None:
    gpu = engine_of(instance_type="ml.g4dn.12xlarge").gpu
    assert (gpu.name, gpu.capability, gpu.count) == ("t4", (7, 5), 4)


def test_files_are_those_of_the_model_that_a_job_copies() -> None:
    (served,) = engine_of().models
    assert (served.path, served.unfinished_jobs) == ("/opt/ml/model", ())
    assert served.source == HuggingFaceSource(model_id="acme/llama", revision=COMMIT)


def test_the_input_of_a_quantization_job_stands_for_its_result() -> None:
    (served,) = engine_of(Quantization.fp8_dynamic(), model=Model.s3("s3://models/llama/")).models
    assert served.source == S3Source(uri="s3://models/llama/")
    assert served.unfinished_jobs == ("fp8-dynamic",)


def test_a_speculator_has_a_folder_of_its_own() -> None:
    speculator = SpeculativeDecoding.speculator(model=Model.s3("s3://models/heads/"))
    paths = {each.path: each.source for each in engine_of(speculator).models}
    assert paths["/opt/ml/additional-model-data-sources/speculator"] == S3Source(uri="s3://models/heads/")


@pytest.mark.parametrize(
    ("model", "server", "instance_type", "reason"),
    [
        (MODEL, Server.sglang(), "ml.g6.12xlarge", "sglang is not vLLM"),
        (
            Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.0.0", accept_eula=True),
            None,
            "ml.g5.2xlarge",
            "JumpStart",
        ),
    ],
)
def test_a_plan_without_vllm_or_without_files_says_what_works(
    model: Model, server: ServerSettings | None, instance_type: str, reason: str
) -> None:
    with pytest.raises(DryStartError, match=reason):
        engine_of(model=model, server=server, instance_type=instance_type)


def test_what_only_gpus_can_do_is_left_out_and_said() -> None:
    planned = engine_of(KvCache.fp8(), SpeculativeDecoding.ngram()).options
    found = on_the_cpu(planned, degree=2, context=32_768)
    assert "kv_cache_dtype" in planned
    assert not {"kv_cache_dtype", "speculative_config"} & set(found.options)
    assert found.options["tensor_parallel_size"] == ("2",)
    assert found.options["max_model_len"] == ("2048",)
    said = " ".join(found.changes)
    assert "--kv-cache-dtype" in said
    assert "--speculative-config" in said
    assert "planned: 32768 tokens" in said


def test_a_shorter_context_stays() -> None:
    found = on_the_cpu({}, degree=1, context=512)
    assert found.options["max_model_len"] == ("512",)
    assert "at most 4 requests of 512 tokens" in found.changes


def test_arguments_that_are_left_out_are_arguments_of_the_engine() -> None:
    assert set(REMOVED) <= set(load("engine_arguments")["engines"]["vllm"]["arguments"])
