"""Memory estimates, compared with published weight sizes and with vLLM's own start-up reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from constructs_optim.recipe import (
    Compilation,
    Model,
    PreOptimized,
    Quantization,
    Recipe,
    Sharding,
    SpeculativeDecoding,
    plan,
)
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.memory import (
    _batch,
    context,
    context_name,
    estimate,
    longest_request,
    model_context,
    weights_gb,
)
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.servers import Adapters, Server, ServerSettings
from constructs_optim.recipe.techniques import Technique

from .recipes import broken_rules, recipe

G5 = "ml.g5.12xlarge"
AWQ, FAST_LOAD = Quantization.awq(), Sharding.fast_load()

COMMIT = "a" * 40
MAX_MODEL_LEN = "SM_VLLM_MAX_MODEL_LEN"


def of(model_id: str) -> Model:
    return Model.jumpstart(model_id, version="1.0.0", accept_eula=True)


@pytest.mark.parametrize(
    ("model_id", "published_gb"),
    [
        # The sizes of AWQ checkpoints with groups of 128 on the Hugging Face hub.
        ("meta-textgeneration-llama-3-8b-instruct", 5.73),
        ("meta-textgeneration-llama-3-70b-instruct", 39.8),
        ("huggingface-llm-gemma-7b", 5.6),
        ("huggingface-llm-mistral-7b-instruct", 4.15),
    ],
)
def test_estimated_int4_weights_match_published_checkpoint_sizes(model_id: str, published_gb: float) -> None:
    row = models.by_id()[model_id]
    # The vendor's figure of the parameters is rounded: 7 billion are 7.24.
    assert weights_gb(row, [AWQ]) == pytest.approx(published_gb, rel=0.035)


@pytest.mark.parametrize(
    ("model_id", "published_gb"),
    [
        # The sizes of the files: of an AWQ checkpoint with groups of 128 on the Hugging Face hub; by the skill
        # "add-recipe" of vllm-project/recipes; and by JumpStart's row of the same model.
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", 5.73),
        ("nvidia/Qwen3.6-27B-NVFP4", 21.9),
        ("openai/gpt-oss-120b", 65.2),
    ],
)
def test_four_bit_weights_of_hugging_face_have_scales_and_embeddings(model_id: str, published_gb: float) -> None:
    row = models.of_hugging_face()[model_id]
    assert weights_gb(row, []) == pytest.approx(published_gb, rel=0.035)
    # The estimate does not depend on the width.
    assert weights_gb(replace(row, hidden_size=None), []) == pytest.approx(published_gb, rel=0.035)


def test_the_weights_of_a_small_model_are_less_than_a_gigabyte() -> None:
    assert weights_gb(models.by_id()["huggingface-textgeneration-gpt2"], []) == pytest.approx(0.248)


@pytest.mark.parametrize("stored_gb", [None, 8.1])
def test_weights_that_are_stored_in_32_bits_are_served_in_16(stored_gb: float | None) -> None:
    row = models.ModelRow("acme/mine", "", parameters_billion=2.0, weight_bits=32, stored_gb=stored_gb)
    assert weights_gb(row, []) == 4.0


@pytest.mark.parametrize(
    ("techniques", "chosen", "widened"),
    [([], "float32", 2), ([], "float", 2), ([], "auto", 1), ([], "bfloat16", 1), ([AWQ], "float32", 1)],
)
def test_a_model_that_is_served_in_32_bits_has_twice_the_size(
    techniques: list[Technique], chosen: str, widened: int
) -> None:
    model = of("meta-textgeneration-llama-3-1-8b")
    usual, asked = (
        estimate(Recipe(model, techniques, G5, environment=environment))
        for environment in ({}, {"SM_VLLM_DTYPE": chosen})
    )
    assert usual is not None
    assert asked is not None
    assert asked.weights_gb == pytest.approx(widened * usual.weights_gb)


@pytest.mark.parametrize(
    ("technique", "bits"), [(Quantization.w4a16(), 4.15625), (Quantization.nvfp4(), 4.5), (Quantization.mxfp4(), 4.25)]
)
def test_the_scales_of_a_format_are_counted(technique: Technique, bits: float) -> None:
    row = models.ModelRow("acme/mine", "", parameters_billion=9.0, hidden_size=5_000, vocabulary_size=100_000)
    assert weights_gb(row, [technique]) == pytest.approx(8 * bits / 8 + 2)


def test_the_context_beside_four_bit_weights_is_that_of_the_known_width() -> None:
    model = Model.huggingface("Qwen/Qwen3-32B-AWQ", revision="a" * 40)
    read = Lock(
        models={
            model.model_id: RecordedModel(
                weight_bits=4,
                layers=64,
                key_value_heads=8,
                head_dimension=128,
                hidden_size=5120,
                vocabulary_size=151_936,
                tied_embeddings=False,
            )
        }
    )
    for lock in (Lock(), read):
        result = plan(Recipe(model, [], "ml.g6.xlarge", "us-west-2", containers=lock))
        assert result.container.environment[MAX_MODEL_LEN] == "2048"


def test_a_context_length_is_advised_against_if_nothing_can_check_it() -> None:
    model = Model.huggingface("LiquidAI/LFM2.5-1.2B-Instruct", revision="a" * 40)
    server, variables = Server.vllm(context_length=16_384), {MAX_MODEL_LEN: "16384"}
    settings: list[tuple[str, dict[str, Any]]] = [
        ("server.context_length", {"server": server}),
        ("environment", {"environment": variables}),
    ]
    for place, changed in settings:
        result = plan(Recipe(model, [], "ml.g6.xlarge", "us-west-2", **changed))
        (advice,) = [each.message for each in result.warnings if each.id.endswith("OPT074")]
        assert advice.startswith(place)
        assert "`constructs-optim lock --model LiquidAI/LFM2.5-1.2B-Instruct` reads it" in advice
    geometry = RecordedModel(layers=16, key_value_heads=8, head_dimension=64)
    known = Lock(models={"LiquidAI/LFM2.5-1.2B-Instruct": geometry})
    for told in (
        Recipe(model, [], "ml.g6.xlarge", "us-west-2"),
        Recipe(model, [], "ml.g6e.xlarge", "us-west-2", server=server, containers=known),
    ):
        assert not [each for each in plan(told).warnings if each.id.endswith("OPT074")]


def test_published_weight_sizes_are_used_instead_of_an_estimate() -> None:
    assert weights_gb(models.by_id()["openai-reasoning-gpt-oss-120b"], []) == 65.2
    fp8 = models.by_id()["meta-textgeneration-llama-3-1-405b-fp8"]
    # vLLM issue 6746: "Loading model weights took 57.7520 GB" (GiB) on each of 8 GPUs.
    assert weights_gb(fp8, []) == pytest.approx(8 * 57.752 * 2**30 / 1e9, rel=0.03)


def test_the_memory_left_for_the_kv_cache_matches_vllm() -> None:
    """vLLM issue 6746: 8 H100 hold 79,392 tokens beside Llama 3.1 405B in FP8, and 131,072 are requested."""
    model_id = "meta-textgeneration-llama-3-1-405b-fp8"
    found = context(Recipe(of(model_id), [FAST_LOAD], "ml.p5.48xlarge"))
    assert found is not None
    a_token = models.by_id()[model_id].key_value_bytes_a_token or 0
    assert found.left_gb * 1e9 / a_token == pytest.approx(79_392, rel=0.2)


@pytest.mark.parametrize(
    ("model_id", "techniques", "instance_type", "served"),
    [
        ("meta-textgeneration-llama-3-1-70b", [AWQ], "ml.g5.12xlarge", 96 * 1024),
        ("meta-textgeneration-llama-3-1-8b", [AWQ], "ml.g5.2xlarge", 97 * 1024),
        ("meta-textgeneration-llama-3-1-8b", [AWQ], "ml.g4dn.xlarge", 44 * 1024),
        ("meta-textgeneration-llama-3-1-405b-fp8", [FAST_LOAD], "ml.p5.48xlarge", 62 * 1024),
    ],
)
def test_a_context_length_that_does_not_fit_is_shortened_with_a_warning(
    model_id: str, techniques: list[Technique], instance_type: str, served: int
) -> None:
    recipe = Recipe(model=of(model_id), techniques=techniques, instance_type=instance_type, region="us-west-2")
    variable, result = recipe.variable("max_model_len"), plan(recipe)
    assert result.container.environment[variable] == str(served)
    (message,) = [each.message for each in result.warnings if each.id.endswith("OPT053")]
    assert f"{variable} is set to {served}, and the server rejects longer requests" in message
    assert "131072 tokens needs" in message


def test_a_context_length_that_fits_is_the_models_own() -> None:
    for arguments, length in ((recipe(), "8192"), (recipe(model=of("meta-textgeneration-llama-3-1-8b")), "131072")):
        result = plan(Recipe(**arguments))
        assert result.container.environment.get(MAX_MODEL_LEN) == length
        assert not [each for each in result.warnings if each.id.endswith("OPT053")]


@pytest.mark.parametrize("stated", ["-1", "auto", "${Token[TOKEN.12]}"])
def test_a_context_length_that_is_not_a_positive_number_is_passed_to_the_server_unchanged(stated: str) -> None:
    arguments = {"model": of("meta-textgeneration-llama-3-1-8b"), "techniques": [AWQ], "instance_type": "ml.g6.2xlarge"}
    assert broken_rules(**arguments, environment={MAX_MODEL_LEN: stated}) == []
    result = plan(Recipe(**recipe(**arguments, environment={MAX_MODEL_LEN: stated})))
    assert result.container.environment[MAX_MODEL_LEN] == stated


def test_the_context_length_does_not_change_the_artifact_key() -> None:
    arguments = recipe(model=of("meta-textgeneration-llama-3-1-70b"))
    shortened, stated = plan(Recipe(**arguments)), plan(Recipe(**arguments, environment={MAX_MODEL_LEN: "4096"}))
    assert stated.container.environment[MAX_MODEL_LEN] == "4096"
    assert shortened.artifact_key == stated.artifact_key


def test_an_explicit_context_length_that_cannot_fit_is_refused() -> None:
    model = of("meta-textgeneration-llama-3-1-70b")
    assert broken_rules(model=model, environment={MAX_MODEL_LEN: "100000"}) == []
    awq = Quantization.awq(tensor_parallel_degree=2)
    assert broken_rules(model=model, techniques=[awq], environment={MAX_MODEL_LEN: "100000"}) == ["OPT052"]


def test_a_context_length_that_fits_only_at_best_is_advised_against() -> None:
    arguments = recipe(
        model=of("meta-textgeneration-llama-3-1-8b"),
        techniques=[AWQ],
        instance_type="ml.g6.2xlarge",
        environment={MAX_MODEL_LEN: "108000"},
    )
    result = plan(Recipe(**arguments))
    assert result.container.environment[MAX_MODEL_LEN] == "108000"
    (message,) = [each.message for each in result.warnings if each.id.endswith("OPT053")]
    assert message.startswith(f"environment.{MAX_MODEL_LEN} = 108000: one request of 108000 tokens needs 14.2 GB")
    assert "so the server might not start. " in message
    assert f"Set {MAX_MODEL_LEN} to 99328 or less, or choose an instance type with more accelerator memory" in message


@pytest.mark.parametrize(
    ("server", "longest"),
    [
        (Server.vllm(), 40_960),
        (Server.vllm(container_version="0.29"), 131_072),
        (Server.lmi(container_version="0.36.0-lmi24"), 131_072),
        (Server.sglang(), 32_768),
    ],
)
def test_the_release_of_the_server_decides_on_the_longest_context(server: ServerSettings, longest: int) -> None:
    recorded = RecordedModel(
        revision=COMMIT, architectures=("LlamaForCausalLM",), model_type="llama", parameters_billion=1.2,
        weight_bits=16, layers=16, key_value_heads=8, head_dimension=64, hidden_size=2048, attention_heads=32,
        max_position=40_960, max_position_in_vllm_0_29=131_072, max_position_in_sglang=32_768, stored_gb=2.4,
    )  # fmt: skip
    arguments = recipe(
        model=Model.huggingface("acme/mine", revision=COMMIT),
        techniques=[],
        instance_type="ml.g6e.xlarge",
        containers=Lock(models={"acme/mine": recorded}),
    )
    own = Recipe(**{**arguments, "server": server})
    assert (model_context(own), longest_request(own)) == (longest, longest)
    for length in (longest, longest + 1):
        asked = server.model_copy(update={"context_length": length})
        refused = [each.rule for each in check(Recipe(**{**arguments, "server": asked}))]
        assert refused == (["OPT056"] if length > longest else [])


def test_recorded_positions_replace_those_of_the_catalog() -> None:
    known = ModelRow("acme/mine", family="", max_position=40_960, max_position_in_vllm_0_29=131_072)
    assert RecordedModel(max_position=8192).row("acme/mine", known).max_position_in_vllm_0_29 is None
    assert RecordedModel(weight_bits=16).row("acme/mine", known).max_position_in_vllm_0_29 == 131_072


def test_a_model_beside_which_no_chat_fits_is_refused() -> None:
    recorded = RecordedModel(
        revision=COMMIT, parameters_billion=10.4, weight_bits=16, layers=48, key_value_heads=32, head_dimension=128,
        hidden_size=4096, attention_heads=32, max_position=8192, stored_gb=20.8,
    )  # fmt: skip
    found = check(
        Recipe(
            **recipe(
                model=Model.huggingface("acme/mine", revision=COMMIT),
                techniques=[],
                instance_type="ml.g5.xlarge",
                containers=Lock(models={"acme/mine": recorded}),
            )
        )
    )
    assert [(each.rule, each.location, each.value, each.suggestion) for each in found] == [
        (
            "OPT052",
            "instance_type",
            "ml.g5.xlarge",
            "an instance type with more accelerator memory, or fewer bits per weight",
        )
    ]


def test_weights_that_an_invalid_technique_could_reduce_are_not_refused() -> None:
    arguments: dict[str, Any] = {"model": of("meta-textgeneration-llama-3-1-70b"), "instance_type": "ml.g5.xlarge"}
    assert broken_rules(**arguments, techniques=[]) == ["OPT050"]
    assert broken_rules(**arguments, techniques=["awq"]) == ["OPT020"]


@pytest.mark.parametrize(
    ("setting", "planned"),
    [
        ({"SM_VLLM_KV_CACHE_DTYPE": "fp8"}, "131072"),
        ({"SM_VLLM_GPU_MEMORY_UTILIZATION": "0.95"}, None),
        ({"SM_VLLM_CPU_OFFLOAD_GB": "16"}, None),
        ({"SM_VLLM_PIPELINE_PARALLEL_SIZE": "2", "SM_VLLM_NNODES": "2"}, None),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_custom_kv_cache_settings_disable_the_context_length_check(
    setting: dict[str, str], planned: str | None
) -> None:
    arguments = {"model": of("meta-textgeneration-llama-3-1-8b"), "techniques": [AWQ], "instance_type": "ml.g6.2xlarge"}
    assert broken_rules(**arguments, environment={MAX_MODEL_LEN: "131072"}) == ["OPT052"]
    assert broken_rules(**arguments, environment={MAX_MODEL_LEN: "131072", **setting}) == []
    assert plan(Recipe(**recipe(**arguments, environment=setting))).container.environment.get(MAX_MODEL_LEN) == planned


def test_a_kv_cache_dtype_of_auto_keeps_the_context_length_check() -> None:
    arguments = {"model": of("meta-textgeneration-llama-3-1-8b"), "techniques": [AWQ], "instance_type": "ml.g6.2xlarge"}
    environment = {MAX_MODEL_LEN: "131072", "SM_VLLM_KV_CACHE_DTYPE": "auto"}
    assert broken_rules(**arguments, environment=environment) == ["OPT052"]


def test_kv_heads_are_replicated_when_accelerators_outnumber_them() -> None:
    one, four = (
        context(Recipe(of("huggingface-llm-gemma-2b"), [Quantization.awq(tensor_parallel_degree=degree)], G5))
        for degree in (1, 4)
    )
    assert one is not None
    assert four is not None
    assert four.request_gb == pytest.approx(4 * one.request_gb, rel=0.01)


def test_sliding_window_layers_do_not_cache_long_contexts() -> None:
    row = models.by_id()["openai-reasoning-gpt-oss-20b"]
    assert row.key_value_bytes_a_token is not None
    assert row.context_bytes(131_072) == row.key_value_bytes_a_token // 2 * (131_072 + 128)


def test_every_cataloged_geometry_is_consistent() -> None:
    for row in models.by_id().values():
        assert row.attention_heads, row.model_id
        assert row.key_value_heads, row.model_id
        assert row.attention_heads % row.key_value_heads == 0, row.model_id
        assert row.max_position is None or row.max_position % 1024 == 0, row.model_id


@pytest.mark.parametrize(
    ("draft", "layers"),
    [
        (SpeculativeDecoding.eagle(), 33),
        (SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-8b", accept_eula=True), 64),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_draft_has_a_cache_of_its_own(draft: Technique, layers: int) -> None:
    model = of("meta-textgeneration-llama-3-1-8b")
    alone, beside = (context(Recipe(model, techniques, G5)) for techniques in ([FAST_LOAD], [draft]))
    assert alone is not None
    assert beside is not None
    assert beside.request_gb == pytest.approx(alone.request_gb * layers / 32, rel=0.001)


def test_a_head_has_the_size_of_its_layer_and_of_an_ordinary_draft_if_the_width_is_unknown() -> None:
    """Llama 3.1 8B: 0.96 billion parameters in 16 bits (vLLM, model_executor/models/llama_eagle3.py)."""
    known = estimate(Recipe(of("meta-textgeneration-llama-3-1-8b"), [SpeculativeDecoding.eagle()], G5))
    assert known is not None
    assert known.draft_gb == pytest.approx(1.92, rel=0.01)
    unknown = Model.huggingface("a/model", revision="a" * 40)
    lock = Lock(models={"a/model": RecordedModel(parameters_billion=8.0, weight_bits=16)})
    for draft in (SpeculativeDecoding.eagle(), SpeculativeDecoding.sagemaker_draft()):
        typical = estimate(Recipe(unknown, [draft], G5, containers=lock))
        assert typical is not None
        assert typical.draft_gb == 2.4, "1.2 billion parameters"


@pytest.mark.parametrize(("requests", "expected"), [("256", 0.0), ("1024", 768 * 128_256 * 30 / 1e9)])
def test_many_requests_at_once_leave_less_memory(requests: str, expected: float) -> None:
    """Sampling takes memory for each of them, on every accelerator."""
    model = of("meta-textgeneration-llama-3-1-8b")
    few, many = (
        context(Recipe(model, [], G5, environment={"SM_VLLM_MAX_NUM_SEQS": number})) for number in ("1", requests)
    )
    assert few is not None
    assert many is not None
    margin = 131_072 * 4096 * 2 * 4 / 1e9
    assert few.left_gb - many.left_gb == pytest.approx(4 * expected, abs=0.01 + margin * (few.fits != many.fits))


@pytest.mark.parametrize(
    ("server", "variable"),
    [
        (Server.vllm(), "SM_VLLM_CPU_OFFLOAD_GB"),
        (Server.vllm(), "SM_VLLM_GPU_MEMORY_UTILIZATION"),
        (Server.vllm(), "SM_VLLM_PIPELINE_PARALLEL_SIZE"),
        (Server.vllm(), "SM_VLLM_SWAP_SPACE"),
        (Server.sglang(), "SM_SGLANG_MAX_TOTAL_TOKENS"),
        (Server.sglang(), "SM_SGLANG_MEM_FRACTION_STATIC"),
    ],
)
def test_only_the_server_knows_the_longest_context_beside_a_cache_of_another_size(
    server: ServerSettings, variable: str
) -> None:
    model = of("meta-textgeneration-llama-3-1-8b")
    of_value = {
        value: context(Recipe(model, [], G5, server=server, environment={variable: value})) for value in ("auto", "2")
    }
    assert of_value["auto"] is not None
    assert of_value["2"] is None


@pytest.mark.parametrize(
    ("kept", "share"), [("auto", 1.0), ("bfloat16", 1.0), ("float16", 1.0), ("fp8", 0.5), ("fp8_e4m3", 0.5)]
)
def test_a_value_of_the_cache_has_the_size_of_its_type(kept: str, share: float) -> None:
    model = of("meta-textgeneration-llama-3-1-8b")
    found = context(Recipe(model, [], G5, environment={"SM_VLLM_KV_CACHE_DTYPE": kept}))
    assert found is not None
    # 32 layers of 8 heads of 128, a key and a value of 2 bytes each.
    assert found.request_gb == pytest.approx(131_072 * 131_072 / 1e9 * share, abs=0.001)


def test_the_size_of_a_cache_of_an_unknown_type_is_not_known() -> None:
    model = of("meta-textgeneration-llama-3-1-8b")
    assert context(Recipe(model, [], G5, environment={"SM_VLLM_KV_CACHE_DTYPE": "int4"})) is None


_LLAMA_8B = of("meta-textgeneration-llama-3-1-8b")
# Llama 3.1: 128,256 words, and a hidden size of 4,096.
_SAMPLING_OF_LARGE, _STEP_OF_LARGE = 768 * 128_256 * 30 / 1e9, 6144 * 4096 * 32 / 1e9


@pytest.mark.parametrize(
    ("instance_type", "environment", "step", "workspace_gb"),
    [
        ("ml.g5.xlarge", {}, 2048, 2.0),
        ("ml.g5.12xlarge", {}, 2048, 2.0),
        ("ml.p4d.24xlarge", {}, 2048, 4.0),
        ("ml.p4de.24xlarge", {}, 2048, 4.0),
        ("ml.p5.4xlarge", {}, 8192, 2.0 + _SAMPLING_OF_LARGE + _STEP_OF_LARGE),
        ("ml.p5.48xlarge", {}, 8192, 4.0 + _SAMPLING_OF_LARGE + _STEP_OF_LARGE),
        ("ml.g7e.24xlarge", {}, 8192, 2.0 + _SAMPLING_OF_LARGE + _STEP_OF_LARGE),
        ("ml.g5.12xlarge", {"SM_VLLM_MAX_NUM_SEQS": "512"}, 2048, 2.0 + 256 * 128_256 * 30 / 1e9),
        ("ml.g5.12xlarge", {"SM_VLLM_MAX_NUM_SEQS": "8"}, 2048, 2.0),
        ("ml.g5.12xlarge", {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "4096"}, 4096, 2.0 + 2048 * 4096 * 32 / 1e9),
        ("ml.p5.4xlarge", {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "1024"}, 1024, 2.0 + _SAMPLING_OF_LARGE),
    ],
)
def test_an_accelerator_needs_memory_for_requests_steps_and_its_switch(
    instance_type: str, environment: dict[str, str], step: int, workspace_gb: float
) -> None:
    row = models.by_id()["meta-textgeneration-llama-3-1-8b"]
    found = _batch(Recipe(_LLAMA_8B, [], instance_type, environment=environment), row)
    assert found == (step, pytest.approx(workspace_gb))


@pytest.mark.parametrize(("degree", "workspace_gb"), [(1, 2.0), (2, 4.0), (8, 4.0)])
def test_two_accelerators_communicate_and_one_does_not(degree: int, workspace_gb: float) -> None:
    techniques = [Quantization.awq(tensor_parallel_degree=degree)]
    row = models.by_id()["meta-textgeneration-llama-3-1-8b"]
    assert _batch(Recipe(_LLAMA_8B, techniques, "ml.p4d.24xlarge"), row) == (2048, workspace_gb)


def test_one_request_at_a_time_is_a_batch() -> None:
    found = estimate(Recipe(_LLAMA_8B, [], G5, environment={"SM_VLLM_MAX_NUM_SEQS": "1"}))
    assert found is not None
    assert found.batch_size == 1


def test_a_cataloged_draft_model_has_its_own_size() -> None:
    draft = SpeculativeDecoding.jumpstart_draft(model_id="huggingface-llm-gemma-2b", accept_eula=True)
    found = estimate(Recipe(_LLAMA_8B, [draft], G5))
    assert found is not None
    assert found.draft_gb == pytest.approx(5.0, rel=0.03), "2.5 billion parameters"


@pytest.mark.parametrize("technique", [Compilation.tensorrt_llm(), PreOptimized()], ids=lambda each: each.name)
def test_what_is_compiled_or_configured_by_jumpstart_has_its_own_longest_context(technique: Technique) -> None:
    assert context(Recipe(_LLAMA_8B, [technique], "ml.p4d.24xlarge")) is None


def test_the_memory_of_a_model_of_unknown_width_and_vocabulary_is_that_of_a_usual_one() -> None:
    row = models.ModelRow("acme/mine", "", parameters_billion=8.0)
    environment = {"SM_VLLM_MAX_NUM_SEQS": "512", "SM_VLLM_MAX_NUM_BATCHED_TOKENS": "4096"}
    _, workspace_gb = _batch(Recipe(_LLAMA_8B, [], "ml.g5.xlarge", environment=environment), row)
    assert workspace_gb == pytest.approx(2.0 + 256 * 152_000 * 30 / 1e9 + 2048 * 4000 * 32 / 1e9)


@pytest.mark.parametrize(
    ("techniques", "instance_type", "environment", "longest"),
    [
        ([], "ml.p5.48xlarge", {}, 131_072),
        ([], "ml.p5.48xlarge", {MAX_MODEL_LEN: "4096"}, 4096),
        ([], "ml.p5.48xlarge", {MAX_MODEL_LEN: "4k"}, 4000),
        ([], "ml.p5.48xlarge", {MAX_MODEL_LEN: "auto"}, None),
        ([AWQ], "ml.g5.2xlarge", {}, 97 * 1024),
        ([Compilation.neuron(maximum_sequence_length=512)], "ml.inf2.48xlarge", {}, 512),
        ([Compilation.tensorrt_llm()], "ml.p4d.24xlarge", {}, 1024 + 512),
    ],
)
def test_the_longest_request_is_planned_set_or_the_models_own(
    techniques: list[Technique], instance_type: str, environment: dict[str, str], longest: int | None
) -> None:
    assert longest_request(Recipe(_LLAMA_8B, techniques, instance_type, environment=environment)) == longest


def test_the_longest_request_of_an_unknown_model_is_not_known() -> None:
    assert longest_request(Recipe(Model.s3("s3://models/mine/"), [], G5)) is None


@pytest.mark.parametrize(("recorded", "longest"), [(4096, 4096), (0, 131_072)])
def test_a_recorded_context_stays_and_zero_is_that_of_the_model(recorded: int, longest: int) -> None:
    given = Recipe(_LLAMA_8B, [AWQ], "ml.g5.2xlarge")
    lock = Lock(contexts={context_name(given) or "": recorded})
    assert longest_request(Recipe(_LLAMA_8B, [AWQ], "ml.g5.2xlarge", containers=lock)) == longest


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({}, ""),
        ({"partition": "mig-3g.40gb"}, "+mig-3g.40gb"),
        ({"techniques": [AWQ]}, "+awq"),
        ({"techniques": [Quantization.awq(tensor_parallel_degree=2)]}, "+awq+tp2"),
        ({"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="a-draft")]}, "+jumpstart_draft=a-draft"),
        ({"environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8"}}, "+kv_cache_dtype=fp8"),
        ({"server": Server.vllm(adapters=Adapters(max_loaded=2, max_rank=8))}, "+max_loras=2+max_lora_rank=8"),
        ({"server": Server.vllm(max_concurrent_requests=8)}, ""),
        ({"environment": {"SM_VLLM_SWAP_SPACE": "4"}}, None),
        ({"environment": {MAX_MODEL_LEN: "4096"}}, None),
        ({"server": Server.vllm(context_length=4096)}, None),
        ({"server": Server.sglang()}, None),
        ({"server": Server.text_generation_inference()}, None),
        ({"instance_type": "ml.inf2.48xlarge"}, None),
        ({"model": Model.s3("${Token[T.1]}")}, None),
    ],
    ids=str,
)
def test_a_recorded_context_is_named_by_all_that_it_depends_on(changed: dict[str, Any], parts: str | None) -> None:
    given = {"model": _LLAMA_8B, "techniques": [], "instance_type": G5}
    base = context_name(Recipe(**given))
    assert base is not None
    assert base.endswith(f"@{G5}")
    assert context_name(Recipe(**{**given, **changed})) == (f"{base}{parts}" if parts is not None else None)
