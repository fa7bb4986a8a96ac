"""Rules for arguments of the engine that limit each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import NamedTuple, cast

from pydantic_core import from_json

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.memory import (
    MAX_MODEL_LEN,
    engine_setting,
    longest_request,
    step_tokens,
    whole_setting,
)
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import VllmServer

from .registry import Finding, rule

_REQUESTS, _STEP, _CHUNKED = "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill"
# The settings of a server for arguments.
_SETTINGS = {_REQUESTS: "max_concurrent_requests", MAX_MODEL_LEN: "context_length", _CHUNKED: "chunked_prefill"}
# Sizes whose product is the number of GPUs, besides the tensor parallel degree.
_SIZES = ("pipeline_parallel_size", "data_parallel_size", "prefill_context_parallel_size")
# Arguments with which some of these GPUs are on other machines, or share one.
_ELSEWHERE = (
    "data_parallel_external_lb",
    "data_parallel_hybrid_lb",
    "data_parallel_rank",
    "data_parallel_size_local",
    "distributed_executor_backend",
    "nnodes",
)
# Arguments whose value is JSON: what it lacks without a key beside another, and how vLLM says so.
_CONNECTOR, _ROLE, _SPECULATION = "kv_connector", "kv_role", "speculative_config"
# Methods of speculation that look tokens up in the prompt, and those with a model of their own (vLLM, __post_init__ of
# config/speculative.py).
_LOOKUPS = frozenset({"ngram", "ngram_gpu"})
_WITH_MODEL = frozenset({"dflash", "draft_model", "eagle", "eagle3", "medusa", "mlp_speculator"})
# The least size of blocks in the kernels of FlashAttention, FlashInfer, Triton and FlexAttention (vLLM 0.24 to 0.30,
# get_supported_kernel_block_sizes of v1/attention/backends).
_BLOCK = 16


def _is_on(recipe: Recipe, argument: str) -> bool:
    return (engine_setting(recipe, argument) or "false").strip().lower() == "true"


def _always(_: Recipe) -> bool:
    return True


def _loads_adapters(recipe: Recipe) -> bool:
    return _is_on(recipe, "enable_lora")


def _limits_prompts(recipe: Recipe) -> bool:
    """Return whether a step takes whole prompts, and has a limit of its own."""
    return _is_unchunked(recipe) and whole_setting(recipe, _STEP) is not None


def _is_unchunked(recipe: Recipe) -> bool:
    server, name = recipe.serving_settings, recipe.variable(_CHUNKED)
    # The entry point of vLLM's container leaves a variable out whose value is "false".
    is_left_out = server.name == VllmServer.name and name in recipe.variables
    is_off = (engine_setting(recipe, _CHUNKED) or "true").strip().lower() == "false" and not is_left_out
    return is_off or _is_on(recipe, f"no_{_CHUNKED}")


class _AtMost(NamedTuple):
    """An argument that must not exceed another. ``source`` is where vLLM checks it, the same from 0.24 to 0.30."""

    smaller: str
    larger: str
    source: str
    applies: Callable[[Recipe], bool] = _always
    when: str = ""


_AT_MOST = (
    _AtMost(_REQUESTS, _STEP, "config/scheduler.py, verify_max_model_len"),
    _AtMost(
        MAX_MODEL_LEN,
        _STEP,
        "config/scheduler.py, verify_max_model_len",
        _limits_prompts,
        " without chunked prefill, with which a step would take a part of a prompt",
    ),
    _AtMost("long_prefill_token_threshold", MAX_MODEL_LEN, "config/scheduler.py, verify_max_model_len"),
    _AtMost(
        "max_loras",
        "max_cpu_loras",
        "config/lora.py, _validate_lora_config",
        _loads_adapters,
        ", because loaded adapters are also cached",
    ),
)


@rule("OPT302", "https://docs.vllm.ai/en/latest/configuration/engine_args/")
def _arguments_agree(recipe: Recipe) -> Iterator[Finding]:
    """The engine's arguments agree with each other, with the model, and with the number of GPUs: vLLM checks them
    together, and does not start otherwise.
    """
    if recipe.serving_settings.name not in images.VLLM or recipe.instance is None or recipe.instance.kind != "gpu":
        return
    for relation in _AT_MOST:
        smaller, larger = _value(recipe, relation.smaller), _value(recipe, relation.larger)
        if smaller is None or larger is None or smaller <= larger or not relation.applies(recipe):
            continue
        reason = f"vLLM needs {relation.smaller} ({smaller}) to be at most {relation.larger} ({larger}){relation.when}"
        fixes = {
            relation.smaller: f"{larger} or less, or {recipe.variable(relation.larger)} of {smaller} or more",
            relation.larger: f"{smaller} or more, or {recipe.variable(relation.smaller)} of {larger} or less",
        }
        yield from _finding(recipe, fixes, reason)
    yield from _experts(recipe)
    yield from _blocks(recipe)
    yield from _accelerators(recipe)
    yield from _decode_contexts(recipe)
    yield from _keys(recipe)


def _value(recipe: Recipe, argument: str) -> int | None:
    """Return an argument's value, or the default that vLLM derives; None if it is unknown."""
    if (chosen := whole_setting(recipe, argument)) is not None or engine_setting(recipe, argument) is not None:
        return chosen
    if argument == MAX_MODEL_LEN:
        return longest_request(recipe)
    if argument != _STEP or recipe.serving_settings.name != VllmServer.name or not recipe.task.generates:
        return None
    # Without chunked prefill, a step takes the longest request by default, and this mode has larger steps.
    is_other = _is_unchunked(recipe) or engine_setting(recipe, "performance_mode") is not None
    return None if is_other else step_tokens(recipe)


def _finding(recipe: Recipe, fixes: dict[str, str], reason: str) -> Iterator[Finding]:
    """Yield a finding about the first argument that the user has set."""
    for argument, fix in fixes.items():
        name, setting = recipe.variable(argument), _SETTINGS.get(argument, "")
        if name in recipe.variables:
            yield Finding(f"environment.{name}", recipe.variables[name], fix, reason)
            return
        if setting in recipe.serving_settings.model_fields_set:
            yield Finding(f"server.{setting}", getattr(recipe.serving_settings, setting), fix, reason)
            return


def _experts(recipe: Recipe) -> Iterator[Finding]:
    """Yield expert parallelism without experts (vLLM, _verify_with_expert_parallelism of config/model.py), and its load
    balancing without it (config/parallel.py).
    """
    parallel, balanced = "enable_expert_parallel", "enable_eplb"
    row = recipe.model_row
    if row is not None and _is_dense(row) and _is_on(recipe, parallel):
        fix = "leave it out: only the experts of a mixture of experts can be on GPUs of their own"
        yield from _finding(recipe, {parallel: fix}, f"{recipe.served_model.name} has no experts")
    elif _is_on(recipe, balanced) and not _is_on(recipe, parallel):
        fix = f"leave it out, or set {recipe.variable(parallel)} to true"
        yield from _finding(recipe, {balanced: fix}, "vLLM balances experts only with expert parallelism")


def _is_dense(row: ModelRow) -> bool:
    """Return whether a model is known to have no experts, of which each token needs a part."""
    total = row.parameters_billion or 0
    return "mlp" in row.splits and "experts" not in row.splits and (row.active_parameters_billion or total) >= total


def _blocks(recipe: Recipe) -> Iterator[Finding]:
    """Yield a size of the KV cache's blocks that no kernel of attention has."""
    size, row = whole_setting(recipe, "block_size"), recipe.model_row
    # Encoders have no cache, and models without attention no blocks.
    if size is None or size % _BLOCK == 0 or recipe.is_encoder or row is None or row.attention_heads is None:
        return
    fix = f"a multiple of {_BLOCK}, or leave it out"
    reason = f"vLLM's kernels have blocks of {_BLOCK} tokens or a multiple of it"
    yield from _finding(recipe, {"block_size": fix}, reason)


def _accelerators(recipe: Recipe) -> Iterator[Finding]:
    """Yield parallelism over more GPUs than the instance has (vLLM, __post_init__ of config/parallel.py)."""
    instance, degree = recipe.instance, recipe.tensor_parallel_degree
    sizes = {name: size for name in _SIZES if (size := whole_setting(recipe, name)) is not None and size > 1}
    if instance is None or degree is None or any(engine_setting(recipe, name) is not None for name in _ELSEWHERE):
        return
    if sizes and (needed := degree * prod(sizes.values())) > instance.parallel_units:
        reason = (
            f"with a tensor parallel degree of {degree}, vLLM needs {needed} GPUs, and {instance.name} has "
            f"{instance.parallel_units}"
        )
        fix = "leave it out: the plan uses the GPUs with tensor parallelism"
        yield from _finding(recipe, dict.fromkeys(sizes, fix), reason)


def _decode_contexts(recipe: Recipe) -> Iterator[Finding]:
    """Yield a number of GPUs that share the contexts of decoding, and cannot (vLLM, __post_init__ of config/parallel.py
    and verify_with_parallel_config of config/model.py).
    """
    argument, degree, row = "decode_context_parallel_size", recipe.tensor_parallel_degree, recipe.model_row
    size = whole_setting(recipe, argument)
    if size is None or size == 1 or degree is None or engine_setting(recipe, _SIZES[-1]) is not None:
        return
    model, split = recipe.served_model.name, row.splits.get("key_value") if row is not None else None
    heads, queries = split.heads if split is not None else None, row.attention_heads if row is not None else None
    reason = f"vLLM spreads contexts over a part of {degree} GPUs, the tensor parallel degree" if degree % size else ""
    if not reason and heads and queries and (size > degree // heads or (queries // heads) % size):
        reason = (
            f"with a tensor parallel degree of {degree}, vLLM has {degree // heads} copies of the {heads} heads "
            f"of keys and values of {model} to spread contexts over, for {queries // heads} heads of queries each"
        )
    if reason:
        yield from _finding(recipe, {argument: "1, or leave it out"}, reason)


def _keys(recipe: Recipe) -> Iterator[Finding]:
    """Yield JSON with a key that needs another (vLLM, __post_init__ of config/kv_transfer.py and speculative.py)."""
    transfer, speculation = _object(recipe, "kv_transfer_config"), _object(recipe, _SPECULATION)
    if transfer.get(_CONNECTOR) is not None and transfer.get(_ROLE) is None:
        fix = f'"{_ROLE}": "kv_both", "kv_producer" or "kv_consumer" beside {_CONNECTOR}'
        yield from _finding(recipe, {"kv_transfer_config": fix}, f"vLLM needs {_ROLE} with a {_CONNECTOR}")
    method, most, least = (speculation.get(name) for name in ("method", "prompt_lookup_max", "prompt_lookup_min"))
    if method in _WITH_MODEL and speculation.get("model") is None:
        fix = '"model" beside the method, or a technique of speculative decoding'
        yield from _finding(recipe, {_SPECULATION: fix}, f"{method} proposes tokens with a model of its own")
    if method in _LOOKUPS and speculation.get("num_speculative_tokens") is None:
        fix = '"num_speculative_tokens" beside the method'
        yield from _finding(recipe, {_SPECULATION: fix}, f"vLLM needs the number of tokens that {method} proposes")
    if method in _LOOKUPS and isinstance(most, int) and isinstance(least, int) and least > most:
        fix = f'"prompt_lookup_min" of {most} or less'
        reason = f"vLLM looks for {least} to {most} tokens in the prompt, and the least number exceeds the most"
        yield from _finding(recipe, {_SPECULATION: fix}, reason)


def _object(recipe: Recipe, argument: str) -> Mapping[str, object]:
    """Return the JSON object of a variable; empty if it has none. Keys of speculation may have hyphens."""
    text = recipe.variables.get(recipe.variable(argument), "")
    try:
        read = from_json(text)
    except ValueError:
        return {}
    # OPT029 refuses other JSON.
    given = cast("dict[str, object]", read) if isinstance(read, dict) else {}
    return {key.replace("-", "_"): value for key, value in given.items()}
