"""Whether vLLM builds the models that plans serve, and refuses those that rules refuse (``make conformance``)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from constructs_optim.recipe import KvCache, Model, Quantization, Recipe, plan
from constructs_optim.recipe.catalog import engine_models, instances, model_configs, models
from constructs_optim.recipe.memory import planned_context
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.techniques import Technique

from .builds import Question, question, refusals
from .quantization_configs import AWQ, COMPRESSED, NOT_OF_TEXT
from .weight_schemes import IN_INTEGERS

pytestmark = pytest.mark.engine

COMMIT = "0" * 40
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
SAMPLES = "s3://samples/chat/"
RELEASE = engine_models.transformers().vllm
# The rules about what an engine builds; the engine has no memory here, and no other server.
RULES = frozenset({"OPT054", "OPT289", "OPT290", "OPT291", "OPT292", "OPT293", "OPT307"})
# The least numbers of plans and refusals, so that a catalog that cannot be planned fails here.
LEAST_PLANNED, LEAST_REFUSED = 6000, 800
MOST_TOO_STRICT = 0.02
STACKS: dict[str, list[Technique]] = {
    "none": [],
    "kv_cache=fp8": [KvCache.fp8()],
    "awq": [Quantization.awq()],
    "awq, groups of 32": [Quantization.awq(group_size=32)],
    "fp8_block": [Quantization.fp8_block()],
    "fp8_dynamic": [Quantization.fp8_dynamic()],
    "w4a16": [Quantization.w4a16(calibration_data=SAMPLES)],
    "nvfp4": [Quantization.nvfp4(calibration_data=SAMPLES)],
    "mxfp4": [Quantization.mxfp4()],
}
# Arguments that need a tokenizer, that test_engine_plans.py asks about, and the length, which test_engine_models.py
# asks about.
LEFT_OUT = frozenset(
    f"SM_VLLM_{name}"
    for name in (
        *("SERVED_MODEL_NAME", "REASONING_PARSER", "REASONING_CONFIG", "TOOL_CALL_PARSER", "ENABLE_AUTO_TOOL_CHOICE"),
        "MAX_MODEL_LEN",
    )
)
# More layers than any model has; vLLM needs the name of a module in each layer.
MOST_LAYERS = 128
# Without these fields, transformers or vLLM would build a model of other sizes, and without those of a model type or a
# quantization, none: some of the catalog's copies come from model cards and the like, which do not have all fields.
GEOMETRY = (
    "model_type",
    "hidden_size",
    "vocab_size",
    "num_hidden_layers or layers_block_type",
)
MLP = "intermediate_size or moe_intermediate_size or block_configs or hidden_dim"
# Models whose width of an MLP follows from the hidden size.
FOURFOLD = frozenset({"bloom", "falcon", "gpt2"})
OF_ARCHITECTURE = {
    "BailingMoeV2_5ForCausalLM": ("use_bias",),
    "BailingMoeV3ForCausalLM": ("no_kda_lora",),
    "Dots3NoteForCausalLM": ("num_attention_heads",),
    "KimiLinearForCausalLM": ("linear_attn_config.kda_layers",),
    "Lfm2ForCausalLM": ("conv_dim",),
    "MiniMaxM3SparseForConditionalGeneration": ("vision_config.img_token_compression_config",),
    "NemotronH_Nano_Omni_Reasoning_V3": ("force_image_size",),
    "Qwen2_5_VLForConditionalGeneration": ("vision_config.depth",),
}
OF_QUANTIZATION = {"fp8": ("activation_scheme",), "gptq": ("group_size",)}
# As in test_engine_splits.py.
ROUNDED = frozenset({"nvfp4", "mxfp4", "modelopt_fp4", "gptq"})


class Case(NamedTuple):
    """A recipe, and the rules that refuse it."""

    name: str
    model: str
    recipe: Recipe
    rules: frozenset[str]


@cache
def hosts() -> list[instances.InstanceRow]:
    """The instance type with the most memory of each compute capability and number of accelerators."""
    found = {
        (row.compute_capability, row.parallel_units): row
        for row in instances.by_size()
        if row.hosts_endpoints and row.kind == "gpu"
    }
    return [*found.values()]


def cases() -> Iterator[Case]:
    """Every model whose configuration the catalog has, with every technique, on every accelerator."""
    for row in (*models.by_id().values(), *models.of_hugging_face().values()):
        config = model_configs.fields(row.model_id)
        if config is None or "architectures" not in config:
            continue
        needs_code = row.recipe is not None and row.recipe.needs_code
        if "/" in row.model_id:
            model = Model.huggingface(row.model_id, revision=COMMIT, allow_code=needs_code, token_secret_arn=SECRET)
        else:
            model = Model.jumpstart(row.model_id, version="1.0.0", accept_eula=True)
        for title, techniques in STACKS.items():
            if row.weight_bits < 16 and any(each.kind == "quantization" for each in techniques):
                continue
            for host in hosts():
                recipe = Recipe(model, techniques, host.name, "us-west-2")
                rules = frozenset(violation.rule for violation in check(recipe))
                if rules <= RULES:
                    yield Case(f"{row.model_id}, {title}, {host.name}", row.model_id, recipe, rules)


def asked(case: Case) -> Question:
    """The question of a case: the configuration that a job would write, and the variables that the plan sets."""
    recipe, host = case.recipe, case.recipe.instance
    assert host is not None
    assert recipe.tensor_parallel_degree is not None
    config = with_all_modules(model_configs.fields(case.model) or {})
    for technique in recipe.techniques:
        if technique.kind == "quantization":
            config = {**config, "quantization_config": written(technique, config)}
    variables = {name: value for name, value in environment(case).items() if name not in LEFT_OUT}
    capability = host.compute_capability or 0
    return question(config, recipe.tensor_parallel_degree, (int(capability), round(capability * 10) % 10), variables)


def environment(case: Case) -> Mapping[str, str]:
    """The container's variables: those of the plan, or of what would have been planned."""
    recipe = case.recipe
    if not case.rules:
        return plan(recipe).container.environment
    own = {"model": "/opt/ml/model", "tensor_parallel_size": recipe.tensor_parallel_degree}
    length = {"max_model_len": length} if (length := planned_context(recipe)) is not None else {}
    return recipe.serving_settings.environment({**recipe.engine_arguments, **own, **length}) | dict(
        recipe.tuning.environment
    )


def written(technique: Technique, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that a technique's job writes."""
    if technique.name != "awq":
        return COMPRESSED[technique.name]
    excepted = {"modules_to_not_convert": NOT_OF_TEXT} if config.keys() & {"vision_config", "audio_config"} else {}
    return {**AWQ, **excepted, "group_size": technique.model_dump()["group_size"]}


def with_all_modules(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the modules of every layer, for which the catalog's copy has one name. ModelOpt's have
    patterns themselves, and compressed-tensors has expressions.
    """
    quantized = config.get("quantization_config") or {}
    excepted = quantized.get("modules_to_not_convert", ())
    if not any(".*" in name for name in excepted):
        return dict(config)
    names = dict.fromkeys(name.replace(".*", f".{layer}", 1) for name in excepted for layer in range(MOST_LAYERS))
    return {**config, "quantization_config": {**quantized, "modules_to_not_convert": [*names]}}


def lacking(config: Mapping[str, Any]) -> str | None:
    """What the catalog's copy of a configuration lacks of what vLLM builds the model with; None if it has it all."""
    text = next((config[name] for name in ("text_config", "llm_config", "language_config") if name in config), {})
    quantized = config.get("quantization_config") or {}
    if any("targets" not in group for group in quantized.get("config_groups", {}).values()):
        return "targets"
    parts = ((part, config[part]) for part in ("linear_attn_config", "vision_config") if part in config)
    found = {*config, *text, *(f"{part}.{name}" for part, inner in parts for name in inner)}
    width = () if config.get("model_type") in FOURFOLD else (MLP,)
    needed = [*GEOMETRY, *width, *OF_ARCHITECTURE.get(config["architectures"][0], ())]
    fields = [name for name in needed if not any(each in found for each in name.split(" or "))]
    method = quantized.get("quant_method", "modelopt")
    fields += [name for name in OF_QUANTIZATION.get(method, ()) if quantized and name not in quantized]
    is_mixed = quantized.get("quantization", quantized).get("quant_algo") == "MIXED_PRECISION"
    return next(iter(fields), "quantized_layers" if is_mixed and method == "modelopt" else None)


def reason_not_to_ask(case: Case) -> str | None:
    """Why vLLM is not asked about a case, in words; None if it is."""
    config = model_configs.fields(case.model) or {}
    known = engine_models.of_release("vllm", RELEASE)
    assert known is not None
    if case.recipe.engine != RELEASE:
        return f"served by another release than {RELEASE}"
    if "OPT291" not in case.rules and "model_type" in config and not known.knows(config["model_type"]):
        return "read by code in the model's repository"
    return "without all fields in the catalog's copy of config.json" if lacking(config) is not None else None


def reason_of_refusal(case: Case) -> str | None:
    """Why a rule refuses what vLLM builds; None if there is no reason."""
    stored = case.recipe.model_row.quantization if case.recipe.model_row is not None else None
    methods = {technique.name for technique in case.recipe.techniques} | {stored.method if stored else ""}
    if case.rules == {"OPT054"} and methods & ROUNDED:
        return "vLLM rounds the number of an accelerator's groups down, and loads the wrong scales"
    if case.rules == {"OPT290"} and stored is not None and any(map(IN_INTEGERS.search, stored.schemes)):
        return "vLLM's kernel for weights and activations in integers refuses the first request on these GPUs"
    if case.rules == {"OPT054"} and case.recipe.tensor_parallel_degree == 1 and "fp8_block" in methods:
        return "the rule takes every MLP for a gated one, of which vLLM makes two matrices one"
    return None


# It takes about an hour on two cores of its own.
@pytest.mark.timeout(14_400)
def test_vllm_builds_what_is_planned_and_refuses_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    every = [(case, reason_not_to_ask(case)) for case in cases()]
    questions = [(case, asked(case)) for case, reason in every if reason is None]
    answers = refusals(question for _, question in questions)
    planned = [(case, answers.get(question)) for case, question in questions if not case.rules]
    stopped = [(case, answers.get(question)) for case, question in questions if case.rules]
    too_lax = {case.name: answer for case, answer in planned if answer is not None}
    built = [case for case, answer in stopped if answer is None]
    too_strict = {case.name: reason_of_refusal(case) for case in built}
    with capsys.disabled():
        sys.stdout.write(
            f"\nvLLM {RELEASE} builds {len(planned) - len(too_lax)} of {len(planned)} planned models, and refuses "
            f"{len(stopped) - len(built)} of {len(stopped)} that rules refuse, in answer to "
            f"{len({question for _, question in questions})} questions\n"
        )
        for reason, number in Counter(too_strict.values()).items():
            sys.stdout.write(f"{number} that it builds are refused because {reason}\n")
        for reason, number in Counter(reason for _, reason in every if reason is not None).items():
            sys.stdout.write(f"{number} were not asked: {reason}\n")
    assert too_lax == {}
    assert [name for name, reason in too_strict.items() if reason is None] == []
    assert len(built) <= MOST_TOO_STRICT * len(questions)
    assert len(planned) >= LEAST_PLANNED
    assert len(stopped) >= LEAST_REFUSED
