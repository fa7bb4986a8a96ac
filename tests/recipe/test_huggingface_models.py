"""Models of Hugging Face: copies into the artifact store, ready-made checkpoints, speculators, and vLLM's recipes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe import (
    Model,
    Plan,
    Quantization,
    Recipe,
    RecipeError,
    SpeculativeDecoding,
    TrainingCompute,
    plan,
)
from constructs_optim.recipe.catalog import engine_arguments, images, instances, load, models
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.catalog.models import License
from constructs_optim.recipe.plan_data import ArtifactSource, HuggingFaceSource
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.servers import Server
from constructs_optim.recipe.techniques import KvCache
from constructs_optim.recipe.techniques.parsing import parse

COMMIT, OTHER = "a" * 40, "b" * 40
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
QWEN = Model.huggingface("Qwen/Qwen3-32B", revision=COMMIT)
NVFP4 = Quantization.nvfp4(checkpoint=Model.huggingface("nvidia/Qwen3-32B-NVFP4", revision=COMMIT))
SPECULATOR = SpeculativeDecoding.speculator(
    model=Model.huggingface("RedHatAI/Qwen3-32B-speculator.eagle3", revision=COMMIT)
)
GEOMETRY = {"layers": 64, "key_value_heads": 8, "head_dimension": 128, "max_position": 131_072, "stored_gb": 65.5}


def planned(model: Model = QWEN, *techniques: Any, instance_type: str = "ml.g7e.12xlarge", **changed: Any) -> Plan:
    return plan(Recipe(model, techniques, instance_type, "us-west-2", **changed))


def environment(result: Plan) -> dict[str, str]:
    return result.container.environment


def test_one_job_copies_the_model_which_is_then_served_from_the_store() -> None:
    result = planned()
    (job,) = result.jobs
    assert job.name == "copy-qwen-qwen3-32b"
    assert job.kind == "TrainingJob"
    assert job.source == HuggingFaceSource(model_id="Qwen/Qwen3-32B", revision=COMMIT)
    assert job.artifact_key is not None
    assert result.container.model == ArtifactSource(job=0)
    assert result.container.network_isolation
    assert job.request["HyperParameters"] == {
        "model_id": "Qwen/Qwen3-32B",
        "revision": COMMIT,
        "allow_pickle": "false",
        "allow_code": "false",
    }


def test_the_key_of_a_copy_is_of_commit_and_files_alone() -> None:
    key = planned().jobs[0].artifact_key
    same = Model.huggingface(
        "Qwen/Qwen3-32B",
        revision=COMMIT,
        token_secret_arn="arn:aws:secretsmanager:us-west-2:111122223333:secret:hub",
        compute=TrainingCompute(instance_type="ml.m5.xlarge", volume_size_gb=500),
    )
    assert planned(same, instance_type="ml.p5.48xlarge").jobs[0].artifact_key == key
    for changed in ({"revision": OTHER}, {"allow_pickle": True}, {"allow_code": True}):
        other = Model.huggingface("Qwen/Qwen3-32B", **{"revision": COMMIT, **changed})
        assert planned(other).jobs[0].artifact_key != key


def test_a_checkpoint_and_a_speculator_are_copied_and_nothing_else_runs() -> None:
    result = planned(QWEN, NVFP4, SPECULATOR, KvCache.fp8())
    assert [job.name for job in result.jobs] == [
        "copy-redhatai-qwen3-32b-speculator-eagle3",
        "copy-nvidia-qwen3-32b-nvfp4",
    ]
    assert result.container.model == ArtifactSource(job=1)
    assert result.artifact_key == planned(QWEN, NVFP4).artifact_key
    (channel,) = result.container.channels
    assert (channel.name, channel.source) == ("speculator", ArtifactSource(job=0))
    assert environment(result)["SM_VLLM_SERVED_MODEL_NAME"] == "Qwen/Qwen3-32B"
    assert environment(result)["SM_VLLM_KV_CACHE_DTYPE"] == "fp8"
    assert json.loads(environment(result)["SM_VLLM_SPECULATIVE_CONFIG"]) == {
        "method": "eagle3",
        "model": "/opt/ml/additional-model-data-sources/speculator",
        "num_speculative_tokens": 3,
    }


def test_a_quantization_job_starts_from_the_copy() -> None:
    copy, job = planned(QWEN, Quantization.fp8()).jobs
    assert job.source == ArtifactSource(job=0)
    assert copy.artifact_key == planned().jobs[0].artifact_key
    assert job.artifact_key is not None


def test_a_model_is_quantized_by_an_image_whose_engine_supports_it() -> None:
    _, job = planned(QWEN, Quantization.awq(), instance_type="ml.g6e.12xlarge").jobs
    image = images.find(job.image or "")
    assert image is not None
    assert image.has_engine("0.8.5")
    # Another model of the app keeps the older image.
    lock = Lock(jobs={"awq": "djl-inference:0.32.0-lmi14.0.0-cu126"})
    both = planned(QWEN, Quantization.awq(), instance_type="ml.g6e.12xlarge", containers=lock)
    assert both.containers.jobs["vllm-0.8.5:awq"] == image.name
    assert "awq" not in both.containers.jobs


def test_a_copy_has_storage_for_the_model_and_for_one_of_unknown_size() -> None:
    sizes = {
        name: planned(Model.huggingface(name, revision=COMMIT), instance_type=kind).jobs[0].request["ResourceConfig"]
        for name, kind in (("Qwen/Qwen3-32B", "ml.p5.48xlarge"), ("acme/mine", "ml.p5.48xlarge"))
    }
    assert sizes["Qwen/Qwen3-32B"] == {"InstanceCount": 1, "InstanceType": "ml.m5.2xlarge", "VolumeSizeInGB": 128}
    assert sizes["acme/mine"]["VolumeSizeInGB"] == 1000


def test_a_token_is_named_by_its_secret_and_never_by_its_text() -> None:
    secret = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
    (job,) = planned(Model.huggingface("meta-llama/Llama-3.1-8B", revision=COMMIT, token_secret_arn=secret)).jobs
    assert job.token is not None
    assert job.token.arn == secret
    assert job.request["Environment"] == {"TOKEN_SECRET_ARN": secret}


def test_a_recorded_commit_and_geometry_serve_a_model_that_the_catalog_does_not_know() -> None:
    model = Model.huggingface("acme/mine")
    recorded = Lock(models={"acme/mine": RecordedModel(revision=OTHER, parameters_billion=32.8, **GEOMETRY)})
    result = planned(model, containers=recorded, instance_type="ml.p5.48xlarge")
    assert result.jobs[0].source == HuggingFaceSource(model_id="acme/mine", revision=OTHER)
    assert result.memory is not None
    assert result.memory.weights_gb == 65.5
    assert "constructs-optim:OPT007" not in {advice.id for advice in result.warnings}
    small = Recipe(
        model, [], "ml.g5.12xlarge", "us-west-2", containers=recorded, environment={"SM_VLLM_MAX_MODEL_LEN": "131072"}
    )
    assert [violation.rule for violation in check(small)] == ["OPT052"]


def test_a_kv_cache_in_fp8_has_room_for_twice_the_tokens() -> None:
    recorded = Lock(models={"acme/mine": RecordedModel(revision=OTHER, parameters_billion=32.8, **GEOMETRY)})
    sizes = [
        planned(Model.huggingface("acme/mine"), *techniques, containers=recorded, instance_type="ml.p5.48xlarge").memory
        for techniques in ([], [KvCache.fp8()])
    ]
    half, full = (size.kv_cache_gb for size in sizes if size is not None)
    assert half == pytest.approx(2 * (full or 0), rel=1e-3)


def test_the_models_recipe_sets_arguments_that_the_server_and_the_environment_override() -> None:
    assert environment(planned())["SM_VLLM_TOOL_CALL_PARSER"] == "hermes"
    chosen = planned(server=Server.vllm(tool_call_parser="qwen3_xml"))
    assert environment(chosen)["SM_VLLM_TOOL_CALL_PARSER"] == "qwen3_xml"
    own = planned(environment={"SM_VLLM_TOOL_CALL_PARSER": "pythonic"})
    assert environment(own)["SM_VLLM_TOOL_CALL_PARSER"] == "pythonic"


def test_the_models_recipe_has_arguments_for_a_generation_of_gpus() -> None:
    model = Model.huggingface("MiniMaxAI/MiniMax-M2.5", revision=COMMIT)
    hopper = environment(planned(model, instance_type="ml.p5en.48xlarge"))
    blackwell = environment(planned(model, instance_type="ml.p6-b200.48xlarge"))
    assert hopper["SM_VLLM_MOE_BACKEND"] == "triton"
    assert hopper["VLLM_USE_DEEP_GEMM"] == "0"
    assert "SM_VLLM_MOE_BACKEND" not in blackwell


def test_the_image_of_copies_is_recorded_apart_from_that_of_trainings() -> None:
    assert list(planned().containers.jobs) == ["copying"]


def test_recorded_arguments_stay_when_a_newer_catalog_has_others() -> None:
    result = planned()
    assert list(result.containers.tuning) == ["Qwen/Qwen3-32B@rtx-pro-server-6000"]
    models.override("Qwen/Qwen3-32B", recipe=models.VllmRecipe(tuning=models.Tuning(arguments={"max_num_seqs": 3})))
    assert planned(containers=result.containers) == result
    assert environment(planned())["SM_VLLM_MAX_NUM_SEQS"] == "3"


def test_arguments_of_the_recipe_that_the_engine_lacks_are_left_out() -> None:
    arguments = {"max_num_seqs": 3, "sse_keep_alive_interval": 5}
    models.override("Qwen/Qwen3-32B", recipe=models.VllmRecipe(tuning=models.Tuning(arguments=arguments)))
    newest, older = planned(), planned(server=Server.vllm(container_version="0.28.0"))
    assert environment(newest).keys() - environment(older).keys() == {"SM_VLLM_SSE_KEEP_ALIVE_INTERVAL"}
    assert older.containers.tuning["Qwen/Qwen3-32B@rtx-pro-server-6000"].arguments == arguments


@pytest.mark.parametrize(
    ("model_id", "instance_type", "techniques", "expected"),
    [
        # What the recipe chooses for the model on GPUs with the kernels.
        ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", "ml.p5.48xlarge", [], "flashinfer_cutlass"),
        ("MiniMaxAI/MiniMax-M2.5", "ml.p5en.48xlarge", [], "triton"),
        # Older GPUs, weights of another precision, a checkpoint of one, and tensor parallelism alone.
        ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", "ml.g6e.48xlarge", [], None),
        (
            "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16",
            "ml.p5.48xlarge",
            [Quantization.fp8_dynamic()],
            None,
        ),
        ("nvidia/MiniMax-M2.5-NVFP4", "ml.p5en.48xlarge", [], None),
        ("deepseek-ai/DeepSeek-V4-Flash", "ml.p6-b200.48xlarge", [], None),
    ],
)
def test_a_choice_of_kernels_is_for_the_weights_and_gpus_of_the_recipe(
    model_id: str, instance_type: str, techniques: list[Any], expected: str | None
) -> None:
    model = Model.huggingface(model_id, revision=COMMIT, allow_code=True)
    tuning = Recipe(model, techniques, instance_type, "us-west-2").tuning
    assert tuning.arguments.get("moe_backend") == expected


def test_other_servers_do_not_get_arguments_of_vllm() -> None:
    assert "SM_SGLANG_TOOL_CALL_PARSER" not in environment(planned(server=Server.sglang()))


def test_code_of_the_model_runs_only_where_it_is_allowed() -> None:
    allowed = Model.huggingface("Qwen/Qwen3-32B", revision=COMMIT, allow_code=True)
    assert environment(planned(allowed))["SM_VLLM_TRUST_REMOTE_CODE"] == "true"
    assert "SM_VLLM_TRUST_REMOTE_CODE" not in environment(planned())


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("acme/heads.dflash", "dflash"),
        ("acme/dspark-heads", "dspark"),
        ("acme/heads", "eagle3"),
        ("a/b.medusa", "medusa"),
    ],
)
def test_the_method_of_a_speculator_follows_from_its_name(name: str, method: str) -> None:
    technique = SpeculativeDecoding.speculator(model=Model.huggingface(name, revision=COMMIT))
    assert technique.engine_arguments()["speculative_config"]["method"] == method


def test_at_least_150_models_are_cataloged_with_their_size() -> None:
    assert len(models.by_id()) + len(models.of_hugging_face()) >= 300
    for row in models.of_hugging_face().values():
        assert row.parameters_billion, row.model_id
        assert row.memory_gb, row.model_id
        assert row.weight_bits in (4, 8, 16), row.model_id
        for checkpoint in row.checkpoints:
            assert checkpoint.model_id in models.of_hugging_face(), row.model_id


def test_a_model_that_is_published_quantized_has_its_precision() -> None:
    rows = [row for row in models.of_hugging_face().values() if not row.is_checkpoint]
    assert all(row.precision is not None for row in rows)
    assert all((row.precision == "bf16") == (row.weight_bits == 16) for row in rows)
    assert sum(row.weight_bits < 16 for row in rows) == 25
    for name, precision in (
        ("openai/gpt-oss-20b", "mxfp4"),
        ("deepseek-ai/DeepSeek-R1", "fp8"),
        ("moonshotai/Kimi-K2.6", "int4"),
    ):
        assert models.of_hugging_face()[name].precision == precision


@pytest.mark.parametrize("argument", ["reasoning_parser", "tool_call_parser"])
def test_parsers_of_recipes_are_those_that_vllm_registers(argument: str) -> None:
    registered = engine_arguments.of_newest("vllm").rows[argument].choices
    recipes = [row.recipe for row in models.of_hugging_face().values() if row.recipe is not None]
    named = {recipe.tuning.arguments[argument] for recipe in recipes if argument in recipe.tuning.arguments}
    assert len(named) >= 15
    assert named <= {*registered}


def test_the_document_has_the_numbers_of_models_and_checkpoints() -> None:
    rows = models.of_hugging_face().values()
    checkpoints = [row for row in rows if row.is_checkpoint]
    quantized = sum(row.precision != "bf16" for row in checkpoints)
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    assert f"has {len(rows) - len(checkpoints)} text models" in text
    assert f"with {len(checkpoints)} ready-made checkpoints, {quantized} of them quantized" in text
    assert f"and {len(models.by_id())} of JumpStart" in text


def test_licenses_and_gates_are_those_that_somebody_has_read() -> None:
    rows = [row for row in models.of_hugging_face().values() if not row.is_checkpoint]
    assert sum(row.license is not None for row in rows) >= 100
    assert sum(row.gated is not None for row in rows) >= 90
    qwen, llama = (models.find(name) for name in ("Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B-Instruct"))
    assert qwen is not None
    assert llama is not None
    assert (qwen.license, qwen.gated) == (License("apache-2.0", "https://huggingface.co/Qwen/Qwen3-32B"), False)
    assert (llama.license and llama.license.name, llama.gated) == ("llama3.1", True)
    # A checkpoint is another repository.
    checkpoint = models.of_hugging_face()[llama.checkpoints[0].model_id]
    assert (checkpoint.license, checkpoint.gated) == (None, None)


@pytest.mark.parametrize(
    ("name", "recorded", "license_"),
    [
        ("acme/mine", "mit", License("mit", "https://huggingface.co/acme/mine")),
        ("acme/mine", None, None),
        ("Qwen/Qwen3-32B", "other", License("other", "https://huggingface.co/Qwen/Qwen3-32B")),
        ("Qwen/Qwen3-32B", None, License("apache-2.0", "https://huggingface.co/Qwen/Qwen3-32B")),
    ],
)
def test_a_recorded_license_comes_before_the_catalogs(
    name: str, recorded: str | None, license_: License | None
) -> None:
    assert RecordedModel(revision=OTHER, license=recorded).row(name, models.find(name)).license == license_


def test_a_gated_model_of_the_catalog_needs_a_secret() -> None:
    llama = Model.huggingface("meta-llama/Llama-3.1-8B-Instruct", revision=COMMIT)
    (violation,) = check(Recipe(llama, [], "ml.g6e.xlarge", "us-west-2"))
    assert violation.rule == "OPT018"


@pytest.mark.parametrize(
    ("model_id", "tokens", "expected"),
    [
        # 32 layers of 8 heads of 128, a key and a value of 2 bytes each.
        ("meta-llama/Llama-3.1-8B-Instruct", 1000, 131_072_000),
        # Half of the layers keep 128 tokens.
        ("openai/gpt-oss-20b", 1000, 24_576 * 1128),
        # 61 layers keep a latent of 576.
        ("deepseek-ai/DeepSeek-V3", 1000, 70_272_000),
    ],
)
def test_the_cache_of_a_cataloged_model_is_known(model_id: str, tokens: int, expected: int) -> None:
    row = models.find(model_id)
    assert row is not None
    assert row.context_bytes(tokens) == expected


def test_a_context_whose_cache_does_not_fit_is_refused_for_cataloged_models() -> None:
    llama = Model.huggingface("meta-llama/Llama-3.1-8B-Instruct", revision=COMMIT, token_secret_arn=SECRET)
    server = Server.vllm(context_length=131_072)
    (violation,) = check(Recipe(llama, [], "ml.g5.xlarge", "us-west-2", server=server))
    assert violation.rule == "OPT052"


def is_planned_cleanly(recipe: Recipe) -> bool:
    """Whether no rule refuses the recipe, and nothing is advised."""
    return not check(recipe) and not warnings(recipe)


RECIPES = {row["model_id"]: row for row in load("huggingface_models")["models"]}


@pytest.mark.parametrize("model_id", sorted(RECIPES))
def test_every_model_of_hugging_face_is_planned_on_an_instance_type(model_id: str) -> None:
    ids = [model_id, *(checkpoint.model_id for checkpoint in models.of_hugging_face()[model_id].checkpoints)]
    hosts = [row.name for row in instances.by_name().values() if row.hosts_endpoints and row.kind == "gpu"]
    row = models.of_hugging_face()[model_id]
    allowed = {
        "token_secret_arn": SECRET if row.gated else None,
        "allow_code": row.recipe is not None and row.recipe.needs_code,
    }
    recipes = (
        Recipe(Model.huggingface(each, revision=COMMIT, **allowed), [], host, "us-west-2")
        for each in ids
        for host in hosts
    )
    assert any(is_planned_cleanly(recipe) for recipe in recipes)


@pytest.mark.parametrize(
    ("given", "works"),
    [
        ("nvidia/gemma-4-31B-it-NVFP4", 'Model.huggingface("nvidia/gemma-4-31B-it-NVFP4")'),
        ("s3://models/nvfp4/", 'Model.s3("s3://models/nvfp4/")'),
        (4, 'Model.huggingface("<owner>/<name>")'),
    ],
)
def test_the_error_for_a_checkpoint_that_is_not_a_model_names_the_model_to_declare(given: Any, works: str) -> None:
    with pytest.raises(RecipeError) as refused:
        Quantization.nvfp4(checkpoint=given)
    (violation,) = refused.value.violations
    assert (violation.rule, violation.suggestion) == ("OPT021", works)


def test_models_in_text_are_of_hugging_face_or_in_s3() -> None:
    commit = Model.huggingface("acme/mine", revision=COMMIT)
    assert Model.of_text(f"acme/mine@{COMMIT}") == commit
    assert Model.of_text("acme/mine") == Model.huggingface("acme/mine")
    assert Model.of_text("s3://models/a@b/") == Model.s3("s3://models/a@b/")
    assert Model.of_text("meta-textgeneration-llama-3-8b") == Model.jumpstart("meta-textgeneration-llama-3-8b")
    speculator = parse(f"speculative_decoding=speculator,model=acme/mine@{COMMIT},speculative_tokens=4")
    assert speculator == SpeculativeDecoding.speculator(model=commit, speculative_tokens=4)
