"""Copies of a model for the forecast: from the catalog's rows of model and instance type.

If the catalog does not know a model's layers, their number and their KV cache per token follow from the model's size,
as in models with a known ``config.json``: 46 to 128 hidden units per layer (Qwen3 30B-A3B to Llama 3 8B), and 8 heads
with 128 keys and values each.
"""

from __future__ import annotations

import math

from constructs_optim.recipe.catalog.instances import InstanceRow
from constructs_optim.recipe.catalog.models import ModelRow

from .roofline import Copy, Draft

_WIDTH, _WIDTH_A_LAYER, _CACHE_BYTES_A_LAYER = 2, 90, 2 * 2 * 8 * 128
# Bits of operands by precision of the weights. INT4 weights are multiplied in half precision. MXFP4 weights are too if
# there are no 4-bit matrix units, and otherwise with 8-bit activations (vLLM, gpt-oss).
_OPERANDS = {"fp8": 8, "int8": 8, "mxfp8": 8, "nvfp4": 4, "fp4": 4}
_HALF = 16
# JumpStart's names of families, and the names of the publishers on Hugging Face.
_MAKERS = {"LLaMA": "Meta", "LLaMA 3.1": "Meta", "Mixtral": "Mistral", "Qwen3": "Qwen", "gpt-oss": "OpenAI"}
# Default number of requests in a batch: vLLM, engine/arg_utils.py, get_batch_defaults; TensorRT-LLM,
# llmapi/llm_args.py, max_batch_size. Text Generation Inference is limited only by memory.
_REQUESTS, _REQUESTS_OF_LARGE, _LARGE_GIB = 256, 1024, 70
_MOST_REQUESTS = {"tensorrt-llm": 2048}


def operand_bits(precision: str | None, instance: InstanceRow) -> str:
    """Return the bits of the instance's matrix units that multiply weights of a precision."""
    wanted = _OPERANDS.get(precision or "", _HALF)
    if precision == "mxfp4" and "4" in instance.teraflops:
        wanted = 8
    return str(min(bits for bits in map(int, instance.teraflops) if bits >= wanted))


def copy_of(
    row: ModelRow,
    instance: InstanceRow,
    *,
    weight_bytes: float,
    precision: str | None,
    units: int,
    pipeline: int = 1,
    accelerators: int | None = None,
    cache_share: float = 1.0,
    cache_room: float = math.inf,
    draft: Draft | None = None,
) -> Copy:
    """Return a copy on ``units`` GPUs or NeuronCores for each stage of a ``pipeline``.

    ``accelerators`` is the number that the copy occupies, by default the number for its units. ``cache_share`` is the
    size of the KV cache relative to half precision, ``cache_room`` the memory for it in bytes.
    """
    parameters = (row.parameters_billion or 0.0) * 1e9
    active = (row.active_parameters_billion or row.parameters_billion or 0.0) * 1e9
    # A token reads one row of the input embeddings. The other table, or the tied one, is the output layer.
    looked_up = (row.embedding_parameters or 0) / 2 if not row.tied_embeddings else 0.0
    output = (row.embedding_parameters or 0) - looked_up
    hidden = row.hidden_size or _WIDTH * active ** (1 / 3)
    layers = row.layers or hidden / _WIDTH_A_LAYER
    # An accelerator holds at least one key and value head, so fewer heads than accelerators are replicated.
    replicas = max(1.0, units / (row.key_value_heads or units)) * cache_share
    known = row.cache_bytes is not None
    # If layers have short windows, count only those that keep all tokens.
    cached = row.cache_bytes if known else row.context_bytes(1)
    return Copy(
        parameters=parameters,
        active_parameters=min(active, parameters) - looked_up,
        prompt_parameters=min(active, parameters) - looked_up - output,
        weight_bytes=weight_bytes - 2 * looked_up,
        layers=layers,
        hidden_size=hidden,
        cache_bytes=replicas * (cached if cached is not None else layers * _CACHE_BYTES_A_LAYER),
        window_bytes=replicas * row.window_bytes if known else 0.0,
        state_bytes=replicas * row.state_bytes if known else 0.0,
        window=row.window,
        flops=instance.teraflops[operand_bits(precision, instance)] * 1e12,
        bandwidth=instance.memory_bandwidth * 1e9,
        link=instance.link_bandwidth * 1e9,
        accelerators=accelerators or max(1, units * pipeline // instance.cores_per_accelerator),
        tensor_parallel=units,
        pipeline=pipeline,
        cache_room=cache_room,
        draft=draft,
    )


def group_of(row: ModelRow, accelerator: str) -> str:
    """Return the group of errors: a publisher's models, dense or mixtures of experts, on an accelerator."""
    active = row.active_parameters_billion or row.parameters_billion or 0.0
    is_mixture = active < 0.9 * (row.parameters_billion or 0.0)
    return f"{_MAKERS.get(row.family, row.family)}{' (experts)' if is_mixture else ''}@{accelerator}"


def engine_limit(engine: str, instance: InstanceRow) -> float:
    """Return the engine's default maximum number of requests in a batch."""
    is_large = instance.accelerator != "a100" and instance.accelerator_memory_mib >= _LARGE_GIB * 2**10
    return _MOST_REQUESTS.get(engine, _REQUESTS_OF_LARGE if is_large else _REQUESTS)
