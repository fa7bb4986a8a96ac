"""Servers: what becomes of settings and techniques in each container's variables, and whose variable wins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constructs_optim.recipe import Model, Plan, Recipe, RecipeError, SpeculativeDecoding, plan
from constructs_optim.recipe.catalog import engine_arguments, models
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.servers import Adapters, LmiServer, Server, ServerSettings
from constructs_optim.recipe.techniques import KvCache, Technique

COMMIT = "a" * 40
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
LLAMA_70B = Model.huggingface("meta-llama/Llama-3.3-70B-Instruct", revision=COMMIT, token_secret_arn=SECRET)
LLAMA_8B = Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="1.0.0", accept_eula=True)


def hugging(name: str) -> Model:
    secret = SECRET if name.startswith("meta-llama/") else None
    return Model.huggingface(name, revision=COMMIT, token_secret_arn=secret)


def planned(
    model: Model = LLAMA_8B, *techniques: Technique, instance_type: str = "ml.p5.48xlarge", **changed: Any
) -> Plan:
    return plan(Recipe(model, techniques, instance_type, "us-west-2", **changed))


def variables(*given: Any, **changed: Any) -> dict[str, str]:
    return planned(*given, **changed).container.environment


def speculation(model: Model, *techniques: Technique, **changed: Any) -> dict[str, Any]:
    return json.loads(variables(model, *techniques, **changed)["SM_VLLM_SPECULATIVE_CONFIG"])


@pytest.mark.parametrize(
    "changed", [{"server": Server.vllm(adapters=Adapters())}, {"environment": {"SM_VLLM_ENABLE_LORA": "true"}}]
)
def test_vllm_has_the_routes_by_which_sagemaker_loads_adapters(changed: dict[str, Any]) -> None:
    container = planned(**changed).container
    assert container.environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "true"
    assert container.loads_adapters
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in variables()


def test_sglang_loads_no_adapters_of_sagemaker() -> None:
    given = {"SM_SGLANG_ENABLE_LORA": "true"}
    assert not planned(server=Server.sglang(), environment=given).container.loads_adapters


def test_a_variable_replaces_the_negation_that_the_plan_has() -> None:
    assert variables(LLAMA_70B)["SM_VLLM_NO_ENABLE_PREFIX_CACHING"] == "true"
    own = variables(LLAMA_70B, environment={"SM_VLLM_ENABLE_PREFIX_CACHING": "true"})
    assert own["SM_VLLM_ENABLE_PREFIX_CACHING"] == "true"
    assert "SM_VLLM_NO_ENABLE_PREFIX_CACHING" not in own


def test_a_variable_that_negates_replaces_the_argument_that_the_plan_has() -> None:
    model = hugging("Qwen/Qwen3-8B")
    assert variables(model)["SM_VLLM_ENABLE_AUTO_TOOL_CHOICE"] == "true"
    own = variables(model, environment={"SM_VLLM_NO_ENABLE_AUTO_TOOL_CHOICE": "true"})
    assert "SM_VLLM_ENABLE_AUTO_TOOL_CHOICE" not in own


def test_false_turns_an_argument_off_that_is_on_by_default() -> None:
    own = variables(environment={"SM_VLLM_ASYNC_SCHEDULING": "false", "SM_VLLM_ENFORCE_EAGER": "false"})
    assert own["SM_VLLM_NO_ASYNC_SCHEDULING"] == "true"
    older = variables(
        environment={"SM_VLLM_ASYNC_SCHEDULING": "false"},
        server=Server.vllm(container_version="9.9.9-gpu-py312-cu130-sagemaker"),
    )
    assert older["SM_VLLM_NO_ASYNC_SCHEDULING"] == "true"


def test_a_variable_replaces_another_name_of_its_argument() -> None:
    assert variables(server=Server.sglang())["SM_SGLANG_TP"] == "8"
    own = variables(server=Server.sglang(), environment={"SM_SGLANG_TP_SIZE": "8", "SM_SGLANG_MODEL": "/opt/ml/model"})
    assert own["SM_SGLANG_TP_SIZE"] == "8"
    assert not {"SM_SGLANG_TP", "SM_SGLANG_MODEL_PATH"} & own.keys()


def test_every_number_of_the_plan_is_one_to_the_engines_parsers() -> None:
    for engine in ("vllm", "sglang"):
        known = engine_arguments.of_newest(engine)
        taking = {row.takes for row in known.rows.values()}
        assert {"int", "float", "size", "si_size", "json", "switch"} >= taking - {None}
        for name, row in known.rows.items():
            assert row.of is None or row.of in known.rows, name


@pytest.mark.parametrize(
    ("instance_type", "kept"), [("ml.g5.48xlarge", False), ("ml.p4d.24xlarge", False), ("ml.p5.48xlarge", True)]
)
def test_a_kv_cache_in_fp8_is_recommended_where_gpus_have_fp8(instance_type: str, kept: bool) -> None:
    checkpoint = hugging("RedHatAI/gemma-4-26B-A4B-it-FP8-dynamic")
    assert ("SM_VLLM_KV_CACHE_DTYPE" in variables(checkpoint, instance_type=instance_type)) is kept


ALGORITHMS: list[tuple[Technique, dict[str, str]]] = [
    (
        SpeculativeDecoding.speculator(model=hugging("lmsys/sglang-EAGLE3-LLaMA3.1")),
        {"ALGORITHM": "EAGLE3", "DRAFT_MODEL_PATH": "/opt/ml/additional-model-data-sources/speculator",
         "NUM_STEPS": "3", "EAGLE_TOPK": "1", "NUM_DRAFT_TOKENS": "4"},
    ),
    (
        SpeculativeDecoding.mtp(speculative_tokens=2),
        {"ALGORITHM": "NEXTN", "DRAFT_MODEL_PATH": "/opt/ml/model", "NUM_STEPS": "2", "EAGLE_TOPK": "1",
         "NUM_DRAFT_TOKENS": "3"},
    ),
    (
        SpeculativeDecoding.speculator(model=hugging("google/gemma-4-31B-it-assistant"), speculative_tokens=4),
        {"ALGORITHM": "NEXTN", "DRAFT_MODEL_PATH": "/opt/ml/additional-model-data-sources/speculator",
         "NUM_STEPS": "4", "EAGLE_TOPK": "1", "NUM_DRAFT_TOKENS": "5"},
    ),
    (
        SpeculativeDecoding.ngram(),
        {"ALGORITHM": "NGRAM", "NGRAM_MAX_BFS_BREADTH": "1", "NUM_DRAFT_TOKENS": "6"},
    ),
    (
        SpeculativeDecoding.custom_draft(model=hugging("meta-llama/Llama-3.2-1B")),
        {"ALGORITHM": "STANDALONE", "DRAFT_MODEL_PATH": "/opt/ml/additional-model-data-sources/custom_draft",
         "NUM_STEPS": "4", "EAGLE_TOPK": "1", "NUM_DRAFT_TOKENS": "5"},
    ),
    (
        SpeculativeDecoding.speculator(model=hugging("poolside/Laguna-XS-2.1-DFlash"), speculative_tokens=15),
        {"ALGORITHM": "DFLASH", "DRAFT_MODEL_PATH": "/opt/ml/additional-model-data-sources/speculator",
         "NUM_DRAFT_TOKENS": "16"},
    ),
    (
        SpeculativeDecoding.speculator(model=hugging("acme/dspark"), speculative_tokens=7),
        {"ALGORITHM": "DSPARK", "DRAFT_MODEL_PATH": "/opt/ml/additional-model-data-sources/speculator",
         "DSPARK_BLOCK_SIZE": "7"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("technique", "expected"), ALGORITHMS, ids=lambda value: getattr(value, "label", ""))
def test_sglang_speculates_by_its_own_algorithms(technique: Technique, expected: dict[str, str]) -> None:
    prefix = "SM_SGLANG_SPECULATIVE_"
    # The catalog's speculators are refused for the models that they are not of; of this one, nothing is known.
    given = variables(Model.s3("s3://models/mine/"), technique, server=Server.sglang())
    assert {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)} == expected


@pytest.mark.parametrize(
    ("server", "argument", "variable"),
    [
        (Server.sglang(), "model", "SM_SGLANG_MODEL_PATH"),
        (Server.sglang(), "tensor_parallel_size", "SM_SGLANG_TP"),
        (Server.sglang(), "max_loras", "SM_SGLANG_MAX_LORAS_PER_BATCH"),
        (Server.sglang(), "max_cpu_loras", "SM_SGLANG_MAX_LOADED_LORAS"),
        (Server.sglang(), "max_lora_rank", "SM_SGLANG_MAX_LORA_RANK"),
        (Server.lmi(), "model", "HF_MODEL_ID"),
        (Server.lmi(), "tensor_parallel_size", "OPTION_TENSOR_PARALLEL_DEGREE"),
        (Server.lmi(), "pipeline_parallel_size", "OPTION_PIPELINE_PARALLEL_DEGREE"),
        (Server.lmi(), "max_num_seqs", "OPTION_MAX_ROLLING_BATCH_SIZE"),
        (Server.lmi(), "max_loras", "OPTION_MAX_LORAS"),
    ],
)
def test_a_container_has_its_own_name_for_an_argument_of_vllm(
    server: ServerSettings, argument: str, variable: str
) -> None:
    assert server.variable(argument) == variable


@pytest.mark.parametrize("server", [Server.vllm, Server.sglang, Server.lmi])
@pytest.mark.parametrize("setting", ["context_length", "max_concurrent_requests"])
def test_a_limit_of_a_server_is_at_least_one(server: Any, setting: str) -> None:
    assert getattr(server(**{setting: 1}), setting) == 1
    with pytest.raises(RecipeError, match="1 or more"):
        server(**{setting: 0})


@pytest.mark.parametrize(
    ("server", "variable"),
    [
        (Server.vllm, "VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
        (Server.lmi, "VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
        (Server.sglang, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"),
    ],
)
def test_a_context_beyond_the_models_is_taken_if_the_server_is_told_to(server: Any, variable: str) -> None:
    def refused(**environment: str) -> list[str]:
        longer = server(context_length=140_000)
        found = check(Recipe(LLAMA_8B, [], "ml.p5.48xlarge", "us-west-2", server=longer, environment=environment))
        return [each.suggestion for each in found]

    (suggestion,) = refused()
    assert suggestion.endswith(f"{variable}=1, if you know that the model supports more")
    assert refused(**{variable: "0"}) == [suggestion]
    assert refused(**{variable: "1"}) == []


def test_lmi_speculates_with_a_speculator_on_the_asynchronous_engine() -> None:
    given = variables(LLAMA_8B, SpeculativeDecoding.ngram(), server=Server.lmi())
    assert {name: given.get(name) for name in LmiServer.asynchronous} == {
        "OPTION_ASYNC_MODE": "true",
        "OPTION_ENTRYPOINT": "djl_python.lmi_vllm.vllm_async_service",
        "OPTION_ROLLING_BATCH": "disable",
        "SERVING_FAIL_FAST": "true",
    }
    assert not LmiServer.asynchronous.keys() & variables(LLAMA_8B, server=Server.lmi()).keys()


def test_sglang_has_a_kv_cache_in_fp8() -> None:
    assert variables(LLAMA_8B, KvCache.fp8(), server=Server.sglang())["SM_SGLANG_KV_CACHE_DTYPE"] == "fp8_e4m3"


def advice(model: Model, *techniques: Technique, instance_type: str, server: ServerSettings) -> dict[str, str]:
    found = Recipe(model, techniques, instance_type, "us-west-2", server=server)
    assert not check(found)
    return {each.id.partition(":")[2]: each.message for each in warnings(found)}


def test_sglang_starts_with_a_context_that_does_not_fit_and_refuses_longer_requests() -> None:
    small = advice(LLAMA_8B, instance_type="ml.g5.xlarge", server=Server.sglang(context_length=131_072))
    assert "SGLang starts, but rejects requests of more than about" in small["OPT053"]
    large = advice(LLAMA_8B, instance_type="ml.p5.48xlarge", server=Server.sglang(context_length=131_072))
    assert "OPT053" not in large
    assert "SM_SGLANG_CONTEXT_LENGTH" not in variables(server=Server.sglang(), instance_type="ml.g5.xlarge")


@pytest.mark.parametrize(
    ("technique", "server", "part"),
    [
        (SpeculativeDecoding.mtp(), Server.vllm(), "meta-textgeneration-llama-3-1-8b has no known MTP heads"),
        (SpeculativeDecoding.eagle(), Server.sglang(), "AWS does not document"),
        (SpeculativeDecoding.ngram(prompt_lookup_max=3), Server.sglang(), "looks up n-grams in a trie"),
    ],
)
def test_ways_of_speculating_that_nobody_vouches_for(technique: Technique, server: ServerSettings, part: str) -> None:
    assert part in advice(LLAMA_8B, technique, instance_type="ml.p5.48xlarge", server=server)["OPT070"]


def test_ways_of_speculating_that_are_known() -> None:
    known = hugging("deepseek-ai/DeepSeek-V3.2")
    assert "OPT070" not in advice(
        known, SpeculativeDecoding.mtp(), instance_type="ml.p5en.48xlarge", server=Server.vllm()
    )


def test_the_number_of_proposed_tokens_comes_from_the_models_recipe() -> None:
    model, heads = hugging("deepseek-ai/DeepSeek-V3.2"), SpeculativeDecoding.mtp()
    assert speculation(model, heads, instance_type="ml.p5en.48xlarge")["num_speculative_tokens"] == 3
    own = SpeculativeDecoding.mtp(speculative_tokens=2)
    assert speculation(model, own, instance_type="ml.p5en.48xlarge")["num_speculative_tokens"] == 2
    assert speculation(LLAMA_8B, heads)["num_speculative_tokens"] == 1


def test_the_number_of_proposed_tokens_is_recorded() -> None:
    model, heads = hugging("deepseek-ai/DeepSeek-V3.2"), SpeculativeDecoding.mtp()
    first = planned(model, heads, instance_type="ml.p5en.48xlarge")
    assert first.containers.tuning["deepseek-ai/DeepSeek-V3.2+mtp"].arguments == {"num_speculative_tokens": 3}
    other = models.VllmRecipe(speculation=({"method": "mtp", "num_speculative_tokens": 9},))
    models.override("deepseek-ai/DeepSeek-V3.2", recipe=other)
    again = planned(model, heads, instance_type="ml.p5en.48xlarge", containers=first.containers)
    assert json.loads(again.container.environment["SM_VLLM_SPECULATIVE_CONFIG"])["num_speculative_tokens"] == 3


def test_a_context_that_fits_comes_before_a_longer_one_of_the_models_recipe() -> None:
    of_llama = RecordedModel(
        parameters_billion=8, weight_bits=16, layers=32, key_value_heads=8, head_dimension=128, max_position=131_072
    )
    models.override("acme/mine", recipe=models.VllmRecipe(tuning=models.Tuning(arguments={"max_model_len": 27_000})))
    lock = Lock(models={"acme/mine": of_llama})
    found = variables(hugging("acme/mine"), instance_type="ml.g5.xlarge", containers=lock)
    assert found["SM_VLLM_MAX_MODEL_LEN"] == "25600"


def test_every_speculator_of_the_catalog_has_a_method_that_vllm_has() -> None:
    assert len(models.speculators()) >= 30
    for name, settings in models.speculators().items():
        config = SpeculativeDecoding.speculator(model=hugging(name)).engine_arguments()["speculative_config"]
        method = settings.get("method", "mtp")
        assert config["method"] == ("mtp" if method.endswith("mtp") else method), name
    assistant = SpeculativeDecoding.speculator(model=hugging("google/gemma-4-31B-it-assistant"))
    config = speculation(hugging("google/gemma-4-31B-it"), assistant)
    assert (config["method"], config["num_speculative_tokens"]) == ("mtp", 4)


def draft_gb(*techniques: Technique, model: Model = LLAMA_8B, **changed: Any) -> float:
    memory = planned(model, *techniques, **changed).memory
    assert memory is not None
    return memory.draft_gb


def test_speculators_and_drafts_take_memory() -> None:
    # RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3 has about 0.95 billion parameters in 16 bits.
    heads = SpeculativeDecoding.speculator(model=hugging("acme/heads"))
    assert draft_gb(heads) == pytest.approx(1.9, rel=0.05)
    known = RecordedModel(revision=COMMIT, parameters_billion=0.5, weight_bits=16)
    assert draft_gb(heads, containers=Lock(models={"acme/heads": known})) == 1.0
    # What is not known of a draft is taken to be as large as the smallest Llama model.
    unknown = SpeculativeDecoding.custom_draft(model=hugging("acme/draft"))
    assert draft_gb(unknown) == 2.4
    assert draft_gb(unknown, containers=Lock(models={"acme/draft": known})) == 1.0
    assert draft_gb(SpeculativeDecoding.custom_draft(model=hugging("meta-llama/Llama-3.2-1B"))) == 2.46
    assert draft_gb(SpeculativeDecoding.ngram()) == 0


def test_a_draft_of_hugging_face_is_copied_and_served_beside_the_model() -> None:
    result = planned(LLAMA_8B, SpeculativeDecoding.custom_draft(model=hugging("meta-llama/Llama-3.2-1B")))
    assert [job.name for job in result.jobs] == ["copy-meta-llama-llama-3-2-1b"]
    (channel,) = result.container.channels
    config = json.loads(result.container.environment["SM_VLLM_SPECULATIVE_CONFIG"])
    assert config["model"] == f"/opt/ml/additional-model-data-sources/{channel.name}"


def test_lmi_is_the_newest_of_which_something_is_known() -> None:
    assert "-lmi28." in (planned(server=Server.lmi()).container.image or "")
    pinned = Server.lmi(container_version="0.38.0-lmi29")
    assert "-lmi29." in (planned(server=pinned).container.image or "")


@pytest.mark.parametrize(
    ("server", "variable", "value", "expected"),
    [
        (Server.vllm(container_version="0.26"), "SM_VLLM_HF_OVERRIDES", '{\n "a": [1, 2]\n}', '{"a":[1,2]}'),
        (Server.sglang(), "SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS", '{\n "a": 1\n}', '{"a":1}'),
        (Server.vllm(container_version="0.30"), "SM_VLLM_HF_OVERRIDES", '{\n "a": 1\n}', '{\n "a": 1\n}'),
        (Server.vllm(container_version="0.26"), "SM_VLLM_LORA_MODULES", '[{"name": "a"}]', '{"name":"a"}'),
        (Server.sglang(), "SM_SGLANG_LORA_PATHS", '["a=/x"]', "a=/x"),
        (Server.vllm(container_version="0.30"), "SM_VLLM_LORA_MODULES", '[{"name": "a"}]', '[{"name": "a"}]'),
    ],
)
def test_a_value_is_written_as_the_containers_entry_point_reads_it(
    server: ServerSettings, variable: str, value: str, expected: str
) -> None:
    assert variables(server=server, environment={variable: value})[variable] == expected


@pytest.mark.parametrize(
    ("server", "variable", "value", "advised"),
    [
        (Server.sglang(), "SM_SGLANG_LORA_PATHS", "a=/x b=/y", "takes one value in a variable"),
        (Server.vllm(container_version="0.30"), "SM_VLLM_SERVED_MODEL_NAME", "a b", "JSON array"),
        (Server.vllm(container_version="0.30"), "SM_VLLM_SERVED_MODEL_NAME", '["a", "b"]', None),
        (Server.vllm(container_version="0.30"), "SM_VLLM_CHAT_TEMPLATE", "a b", None),
    ],
)
def test_several_values_with_spaces_are_advised_against(
    server: ServerSettings, variable: str, value: str, advised: str | None
) -> None:
    found = [
        each.message for each in planned(server=server, environment={variable: value}).warnings if "OPT251" in each.id
    ]
    assert [advised in message for message in found if advised is not None] == ([True] if advised is not None else [])
    assert bool(found) is (advised is not None)


NEWER = ", or the release 0.28.0 or newer"


@pytest.mark.parametrize(
    ("server", "variable", "value", "works"),
    [
        (Server.sglang(), "SM_SGLANG_LORA_PATHS", '["a=/x", "b=/y"]', "one value"),
        (Server.sglang(), "SM_SGLANG_SERVED_MODEL_NAME", "mine=", "a value without it"),
        (Server.vllm(container_version="0.27.1"), "SM_VLLM_SERVED_MODEL_NAME", "mine=", f"a value without it{NEWER}"),
        (
            Server.vllm(container_version="0.27.1"),
            "SM_VLLM_SERVED_MODEL_NAME",
            '["a", "b"]',
            f"one value{NEWER}",
        ),
        (
            Server.sglang(),
            "SM_SGLANG_API_KEY",
            "YWJj=",
            "a value without it; a secret belongs in a header of the requests, or in front of the endpoint",
        ),
    ],
)
def test_what_works_for_an_entry_point_is_about_its_server_and_the_argument(
    server: ServerSettings, variable: str, value: str, works: str
) -> None:
    recipe = Recipe(LLAMA_8B, [], "ml.p5.48xlarge", "us-west-2", server=server, environment={variable: value})
    assert [found.suggestion for found in check(recipe) if found.rule == "OPT250"] == [works]


@pytest.mark.parametrize(
    ("takes", "text", "number"),
    [
        *(("size", f"3{unit}", 3 * 10**power) for unit, power in (("k", 3), ("m", 6), ("g", 9), ("t", 12))),
        *(("size", f"3{unit}", 3 * 2**power) for unit, power in (("K", 10), ("M", 20), ("G", 30), ("T", 40))),
        *(("si_size", f"3{unit}", 3 * 10**power) for unit, power in (("k", 3), ("M", 6), ("G", 9), ("T", 12))),
        *(("si_size", f"3{unit}", 3 * 2**power) for unit, power in (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40))),
        ("size", "1.5k", 1500),
        ("size", "1.5K", None),
        ("size", "AUTO", None),
        ("si_size", "1.5M", 1_500_000),
        ("si_size", "1.5Ki", None),
        ("si_size", "auto", None),
        ("si_size", "3m", None),
        ("size", "3Ki", None),
        ("int", " 8 ", 8),
        ("float", "8.0", None),
        (None, "8", 8),
        ("switch", "8", None),
    ],
)
def test_whole_numbers_have_the_units_of_their_engine(takes: Any, text: str, number: int | None) -> None:
    assert engine_arguments.Argument(takes=takes).whole(text) == number


_PERCENT: dict[str, Any] = {"takes": "int", "bounds": {"ge": 1, "le": 100}}
_SHARE: dict[str, Any] = {"takes": "float", "bounds": {"gt": 0, "lt": 1}}
_ONE_OF: dict[str, Any] = {"choices": ("auto", "fp8")}


@pytest.mark.parametrize(
    ("argument", "words", "expected"),
    [
        ({"takes": "int"}, ["8.5"], "a whole number"),
        ({"takes": "float"}, ["x"], "a number"),
        ({"takes": "size"}, ["8Ki"], "a whole number such as 8192 or 8k"),
        ({"takes": "si_size"}, ["8K"], "a whole number such as 8192 or 8k"),
        ({"takes": "json"}, ["{"], "JSON"),
        ({"takes": "switch"}, ["1"], "a value such as true or false"),
        ({"takes": "int"}, [], "a whole number"),
        ({"takes": "switch"}, [], None),
        ({"takes": "json"}, ["{}"], None),
        ({"takes": "int"}, None, None),
        ({"takes": "int"}, ["None"], None),
        ({"takes": "int"}, [""], None),
        ({"takes": "size", "bounds": {"ge": 1}}, ["0"], "a whole number, 1 or greater"),
        (_PERCENT, ["0"], "a whole number, 1 or greater and 100 or less"),
        (_PERCENT, ["101"], "a whole number, 1 or greater and 100 or less"),
        (_PERCENT, ["1", "100"], None),
        (_PERCENT, ["1", "101"], "a whole number, 1 or greater and 100 or less"),
        (_SHARE, ["0"], "a number, greater than 0 and less than 1"),
        (_SHARE, ["1"], "a number, greater than 0 and less than 1"),
        (_SHARE, ["0.5"], None),
        (_ONE_OF, ["fp8"], None),
        (_ONE_OF, ["None"], None),
        (_ONE_OF, ["fp8", "fp4"], "one of auto, fp8"),
        (_ONE_OF, [], "one of auto, fp8"),
        ({}, [], None),
        ({}, ["x"], None),
    ],
)
def test_an_argument_tells_which_words_its_parser_takes(
    argument: dict[str, Any], words: list[str] | None, expected: str | None
) -> None:
    assert engine_arguments.Argument(**argument).expected(words) == expected


def test_the_negation_of_an_argument_is_a_switch() -> None:
    row = engine_arguments.Argument(takes="int", negated=True)
    assert row.expected(["8"], negates=True) == "a value such as true or false"
    assert row.expected([], negates=True) is None


def test_an_argument_is_found_by_an_alias_a_negation_and_a_beginning_that_is_its_own() -> None:
    rows = {
        "max_model_len": engine_arguments.Argument(takes="size"),
        "max_num_seqs": engine_arguments.Argument(takes="int"),
        "max_num_seqs_of_mine": engine_arguments.Argument(takes="int"),
        "seqs": engine_arguments.Argument(of="max_num_seqs"),
        "eager": engine_arguments.Argument(takes="switch", negated=True),
    }
    known = engine_arguments.Arguments(rows)
    names = ["max_num_seqs", "max_mod", "max_num", "seq", "no_eager", "no_seqs", "none"]
    found = [known.find(name) for name in names]
    assert [(each.name, each.negates) if each is not None else None for each in found] == [
        ("max_num_seqs", False),
        ("max_model_len", False),
        None,
        ("max_num_seqs", False),
        ("eager", True),
        None,
        None,
    ]
