"""Estimates of weights and KV cache, and of the accelerators' memory, in GB (10^9 bytes).

vLLM uses 90% of each accelerator's memory (``gpu_memory_utilization``); since 0.21, 92% including CUDA graphs
(``config/cache.py``, ``CacheConfig``; pull request 30515). It does not start if the KV cache cannot hold one request of
the longest context: the model's own, or ``max_model_len``. tests/recipe/test_memory_facts.py compares the estimates
with reports of servers.
"""

from __future__ import annotations

from typing import NamedTuple

from .catalog import engine_arguments, engine_models, images, models
from .catalog.instances import InstanceRow
from .catalog.quantization_config import bits_with_scales
from .plan_data import MemoryEstimate
from .recipe import Recipe, once
from .settings import as_text
from .techniques import Medusa, SpeculativeDecoding, Technique

USABLE = 0.9
MAX_MODEL_LEN = "max_model_len"
"""The engine argument for the maximum context length."""
# Settings that change the size of the cache or of a token in it. With one of these, only the server checks the size.
_CACHE_SETTINGS = (
    "cpu_offload_gb",
    "gpu_memory_utilization",
    "max_total_tokens",
    "mem_fraction_static",
    "pipeline_parallel_size",
    "swap_space",
)
# Size of a value of the KV cache relative to half precision, by the beginning of ``kv_cache_dtype``.
_SHARE_OF_HALF = {"auto": 1.0, "bfloat16": 1.0, "float16": 1.0, "fp8": 0.5}
LEAST_CONTEXT = 2048
"""The minimum context for chats, in tokens."""
_CONTEXT_STEP = 1024
# Parameters of embeddings and output layer, divided by the cube root of all parameters, for models of unknown width:
# 490,000 for Qwen3 32B, 510,000 for Llama 3 70B, 525,000 for Llama 3 8B. Mixtures of experts have fewer.
_EMBEDDED = 500_000
# vLLM's recipes state 1.2 times the size of the files, rounded up to GB (vllm-project/recipes, CLAUDE.md, "VRAM
# formula").
_RECIPES_SHARE = 1.2
# Per accelerator: CUDA context, graphs and activations. vLLM's own profiles show 0.6 GiB (pull request 14447: 0.20
# outside of PyTorch, 0.37 of activations) to 3.05 GiB (10511, Llama 3 8B: 1.79 and 1.26).
_WORKSPACE_GB, _LEAST_WORKSPACE_GB = 2.0, 0.6
# The workspace is for vLLM's usual 256 concurrent requests and steps of 2,048 tokens. On accelerators with 70 GiB or
# more, except the A100, vLLM reserves memory for 1,024 and 8,192 (engine/arg_utils.py, get_batch_defaults).
_REQUESTS, _STEP = 256, 2048
_LARGE_GIB, _NOT_LARGE, _REQUESTS_OF_LARGE, _STEP_OF_LARGE = 70, "a100", 1024, 8192
# Per request and word of the vocabulary: logits in 16 and in 32 bits, their sorted values and indices, and the buffers
# of sorting (v1/sample/ops/topk_topp_sampler.py, apply_top_k_top_p_pytorch).
_SAMPLED_BYTES = 2 + 4 + 12 + 12
# Per token of a step and hidden unit: the outputs of 8 experts in 16 bits (layers/fused_moe/fused_moe.py,
# intermediate_cache3), and as much again for intermediate results.
_STEP_BYTES = 2 * 8 * 2
# Communication between accelerators that NVSwitch connects: 2.10 GiB outside of PyTorch on 8 A100 (vLLM 0.7.1 in LMI on
# ml.p4d.24xlarge), and 0.1 on one (issue 12330). Families whose names begin with p have NVSwitch.
_COMMUNICATION_GB, _SWITCHED = 2.0, "p"
# For models of unknown vocabulary: Llama 3 has 128,256 words, Qwen3 151,936, gpt-oss 201,088.
_VOCABULARY = 152_000
# A margin on every accelerator per token of the longest request and hidden unit: its hidden states in 16 bits. Servers
# that prefill in steps need less, vision towers more. The value follows from tests/recipe/memory_facts.json. Without
# it, the estimate contradicts one of the 18 facts about models that do not fit (Qwen3-VL 235B on 8 A100, so the value
# rests on this fact). With 3 bytes, it contradicts more than two of the facts about models that fit.
_MARGIN_BYTES = 2
# Hidden size divided by the cube root of the parameters per token, for models of unknown width: 1.4 for Qwen3.5
# 35B-A3B, 1.9 for Qwen3 Coder 480B-A35B, 2.0 for Llama 3.1 8B and 70B, 2.2 for DeepSeek V3.
_WIDTH = 2
DEFAULT_BATCH_SIZE = 8
_DEFAULT_SEQUENCE_LENGTH = 4096
# SageMaker does not publish the size of its draft models; the smallest Llama model has 1.2 billion parameters.
_DRAFT_PARAMETERS_BILLION = 1.2
# An EAGLE-3 head has one layer of the model's width (attention, and an MLP of 3.5 times the width, with inputs of twice
# the width), a projection of three hidden states, the model's embeddings, and an output layer of 32,000 tokens: vLLM,
# model_executor/models/llama_eagle3.py. Llama 3.1 8B: 0.96 billion.
_HEAD_MATRICES, _HEAD_OUTPUTS = 18, 32_000
# vLLM does not start if a request of the longest context does not fit. SGLang starts, and rejects requests that do not
# fit (sglang/srt/managers/tp_worker.py, max_req_len). Text Generation Inference sizes its cache in another way.
_SGLANG = "sglang"
_SIZED = images.VLLM | {_SGLANG}
# The first release of vLLM for which the positions of a model with YaRN are those that its configuration states.
_SCALED_YARN = "0.30"
_HALF_BITS = 16
_WITH_HEADS = SpeculativeDecoding.speculator | SpeculativeDecoding.eagle | SpeculativeDecoding.mtp
# The size of values in 32 bits, relative to half precision, and the engines' names of them.
_WIDENED, _WHOLE = 2.0, ("float", "float32", "fp32")
BFLOAT16 = 8.0
"""The least compute capability of GPUs with bfloat16."""
# A larger number is a mistake that the engine reports, or a token's.
_LARGEST = 10**15


@once
def estimate(recipe: Recipe) -> MemoryEstimate | None:
    """Return the estimate for a recipe; None if the model's size or the instance is unknown."""
    row, instance, degree = recipe.model_row, recipe.instance, recipe.tensor_parallel_degree
    if row is None or row.parameters_billion is None or instance is None or not isinstance(degree, int) or degree < 1:
        return None
    techniques = [technique for _, technique in recipe.located_techniques]
    # Batch size and request length: as compiled, from the environment, or the defaults.
    batch, length = recipe.compiled_shape or (None, None)
    batch = batch or batch_size(recipe) or DEFAULT_BATCH_SIZE
    length = length or whole_setting(recipe, MAX_MODEL_LEN) or _DEFAULT_SEQUENCE_LENGTH
    cache = 0 if recipe.is_encoder else _cached(recipe, row.context_bytes(length))
    memory = instance.total_accelerator_memory_gb * min(degree, instance.parallel_units) / instance.parallel_units
    return MemoryEstimate(
        weights_gb=round(weights_gb(row, techniques) * (_WIDENED if runs_in_float32(recipe) else 1), 3),
        draft_gb=round(_draft_gb(recipe, row, techniques), 3),
        kv_cache_gb=round(cache * batch / 1e9, 3) if cache is not None else None,
        batch_size=batch,
        sequence_length=length,
        available_gb=round(memory * USABLE, 3),
    )


def weights_gb(row: models.ModelRow, techniques: list[Technique]) -> float:
    """Return the size of the weights after all techniques: Llama 3 70B is 140 GB in half precision, 39.5 GB in INT4.

    Groups of quantized weights have scales, and embeddings and output layer stay in 16 bits (AutoAWQ, "modules to not
    convert"; llm-compressor, whose recipes ignore ``lm_head``). The files of a quantized model or a checkpoint are at
    least as large as vLLM's recipe says, because some layers can have more bits. For models in 16 bits this does not
    apply, because some recipes state the memory of a whole machine. Engines load weights that are stored in 32 bits in
    16 (vLLM, ``_resolve_auto_dtype`` of ``config/model.py``; SGLang, ``_get_and_verify_dtype`` of
    ``configs/model_config.py``).
    """
    made, billions = _made(row, techniques), row.parameters_billion or 0
    if made is None and row.stored_gb is not None:
        return row.stored_gb if row.weight_bits < _HALF_BITS else min(row.stored_gb, billions * _HALF_BITS / 8)
    stored = min(row.weight_bits if made is None or made.weight_bits is None else made.weight_bits, _HALF_BITS)
    precision = served_precision(row, techniques)
    kept = 0.0
    if stored < _HALF_BITS:
        embedded = row.embedding_parameters or _EMBEDDED * (billions * 1e9) ** (1 / 3)
        kept = min(embedded / 1e9, billions)
    least = 0.0
    if made is None and row.memory_gb is not None and (row.weight_bits < _HALF_BITS or row.is_checkpoint):
        least = (row.memory_gb - 1) / _RECIPES_SHARE
    return max(least, (billions - kept) * bits_with_scales(stored, precision) / 8 + kept * 2)


def served_precision(row: models.ModelRow, techniques: list[Technique]) -> str | None:
    """Return the precision of the weights after all techniques, by the catalog's names; None if unknown."""
    made = _made(row, techniques)
    return row.precision if made is None else next(iter(made.precisions), None)


def _made(row: models.ModelRow, techniques: list[Technique]) -> Technique | None:
    """Return the technique that quantizes the weights below their stored precision, if any."""
    return next((t for t in techniques if t.weight_bits is not None and t.weight_bits < row.weight_bits), None)


@once
def batch_size(recipe: Recipe) -> int | None:
    """Return the maximum number of requests in a batch; None if it is not set, or known only at deployment."""
    return whole_setting(recipe, "max_num_seqs")


@once
def runs_in_float32(recipe: Recipe) -> bool:
    """Return whether the engine runs a model in 32 bits: as it is told to, or, for vLLM, one that it does not run in
    float16, on GPUs without bfloat16.

    Source: vLLM, ``_resolve_auto_dtype`` of ``config/model.py``, and ``CudaPlatformBase.supported_dtypes``.
    """
    row, chosen = recipe.model_row, engine_setting(recipe, "dtype") or "auto"
    is_quantized = any(each.weight_bits is not None for _, each in recipe.located_techniques)
    if row is None or row.weight_bits < _HALF_BITS or is_quantized:
        return False
    instance, known = recipe.instance, engine_models.of_image(recipe.serving_image.image)
    if chosen != "auto" or instance is None or known is None:
        return chosen in _WHOLE
    is_older = (instance.compute_capability or BFLOAT16) < BFLOAT16
    return is_older and known.without_float16.has(row.model_type or "")


def engine_setting(recipe: Recipe, argument: str) -> str | None:
    """Return the value of an engine argument as text: from the environment, the server's settings, a technique, or the
    model's recipe.
    """
    setting = recipe.engine_arguments.get(argument)
    return recipe.variables.get(recipe.variable(argument), as_text(setting) if setting is not None else None)


def arguments_of_engine(recipe: Recipe) -> engine_arguments.Arguments:
    """Return the arguments of the engine that serves, or those of its newest release.

    LMI passes arguments that it does not rename to vLLM's parser (djl-serving, ``construct_vllm_args_list`` of
    ``vllm_rb_properties.py``).
    """
    engine = "vllm" if recipe.serving_settings.name in images.VLLM else recipe.serving_settings.name
    return engine_arguments.of_release(engine, recipe.engine) or engine_arguments.of_newest(engine)


def whole_setting(recipe: Recipe, argument: str) -> int | None:
    """Return an engine argument that is a positive whole number, as the engine's parser reads it: 8k is 8000.

    None if it is not set, or is something else. Text Generation Inference has no units.
    """
    text, server = engine_setting(recipe, argument), recipe.serving_settings
    if text is None:
        return None
    name = server.variable(argument).removeprefix(server.prefix).lower()
    number = arguments_of_engine(recipe).rows.get(name, engine_arguments.Argument()).whole(text)
    return number if number is not None and 0 < number <= _LARGEST else None


class Context(NamedTuple):
    """The maximum length of a request, in tokens, if vLLM or SGLang serves the model.

    ``requested`` is the environment's maximum, or else the model's own. ``fits`` is the length that fits next to the
    weights and the usual workspace, ``fits_at_best`` next to the smallest measured workspace. ``must_fit`` tells
    whether the server fails to start with a longer maximum. ``request_gb`` is the KV cache of a request of
    ``requested`` tokens, ``left_gb`` the memory available for it.
    """

    requested: int
    fits: int
    fits_at_best: int
    request_gb: float
    left_gb: float
    must_fit: bool

    @property
    def shortened(self) -> int | None:
        """The maximum to set instead, a multiple of 1,024 tokens; None if ``requested`` fits or need not fit."""
        if self.requested <= self.fits or not self.must_fit:
            return None
        return min(self.requested, max(self.fits // _CONTEXT_STEP * _CONTEXT_STEP, LEAST_CONTEXT))


@once
def context(recipe: Recipe) -> Context | None:
    """Return the maximum request length of a recipe that vLLM or SGLang serves; None for other servers.

    Also None if the catalog lacks the model's geometry, or if the environment changes the cache's settings (16 bits per
    value, 90% of the memory) or has a length that is known only at deployment.

    Source: vLLM, ``check_enough_kv_cache_memory`` of ``v1/core/kv_cache_utils.py``; before V1,
    ``raise_if_cache_size_invalid`` of ``worker/worker.py``.
    """
    row, memory = recipe.model_row, estimate(recipe)
    if row is None or memory is None or not has_such_a_cache(recipe):
        return None
    if any((engine_setting(recipe, name) or "auto") != "auto" for name in _CACHE_SETTINGS):
        return None
    is_set = engine_setting(recipe, MAX_MODEL_LEN) is not None
    # The server itself checks anything that is not a positive whole number (a token, -1, auto).
    length = whole_setting(recipe, MAX_MODEL_LEN) if is_set else model_context(recipe)
    step, workspace = _batch(recipe, row)
    of_model = row.context_bytes(length, step) if length is not None else None
    if not length or of_model is None:
        return None
    cache_bytes = _cached(recipe, of_model + _draft_cache(recipe, row, of_model, length))
    if cache_bytes is None:
        return None
    accelerators = _degree(recipe)
    # An accelerator holds at least one key and value head, so fewer heads than accelerators are replicated.
    request = cache_bytes * max(1, accelerators / (row.key_value_heads or accelerators))
    beside = memory.available_gb - memory.fixed_gb
    left = (beside - accelerators * workspace) * 1e9
    margin = accelerators * _width(row) * _MARGIN_BYTES
    fits = max(0, int(left / (request / length + margin)))
    return Context(
        requested=length,
        fits=fits,
        fits_at_best=max(0, int((beside - accelerators * _LEAST_WORKSPACE_GB) * 1e9 * length / request)),
        request_gb=round(request / 1e9, 3),
        left_gb=round(max(0.0, left - margin * min(length, fits)) / 1e9, 3),
        must_fit=recipe.serving_settings.name in images.VLLM,
    )


def _width(row: models.ModelRow) -> float:
    """Return the model's hidden size, or an estimate from the parameters per token."""
    return row.hidden_size or _WIDTH * (1e9 * (row.active_parameters_billion or row.parameters_billion or 0)) ** (1 / 3)


def _batch(recipe: Recipe, row: models.ModelRow) -> tuple[int, float]:
    """Return the tokens of a step, and each accelerator's memory in GB that is neither for weights nor KV cache."""
    instance = recipe.instance
    assert instance is not None  # noqa: S101 - there is an estimate
    is_switched = _degree(recipe) > 1 and instance.family.startswith(_SWITCHED)
    requests, step = batch_size(recipe) or _batch_defaults(instance)[0], step_tokens(recipe)
    sampling = max(0, requests - _REQUESTS) * (row.vocabulary_size or _VOCABULARY) * _SAMPLED_BYTES
    working = (sampling + max(0, step - _STEP) * _width(row) * _STEP_BYTES) / 1e9
    return step, _WORKSPACE_GB + working + (_COMMUNICATION_GB if is_switched else 0)


def _batch_defaults(instance: InstanceRow) -> tuple[int, int]:
    """Return vLLM's usual number of requests, and of tokens of a step."""
    is_large = instance.accelerator != _NOT_LARGE and instance.accelerator_memory_mib >= _LARGE_GIB * 2**10
    return (_REQUESTS_OF_LARGE, _STEP_OF_LARGE) if is_large else (_REQUESTS, _STEP)


def step_tokens(recipe: Recipe) -> int:
    """Return the maximum tokens of a step, of all its requests: as set, or vLLM's default for the accelerators."""
    default = _batch_defaults(recipe.instance)[1] if recipe.instance is not None else _STEP
    return whole_setting(recipe, "max_num_batched_tokens") or default


def _degree(recipe: Recipe) -> int:
    """Return the tensor parallel degree, which every recipe with an estimate has."""
    assert recipe.tensor_parallel_degree is not None  # noqa: S101 - there is an estimate
    return recipe.tensor_parallel_degree


def context_name(recipe: Recipe) -> str | None:
    """Return the lock file's name for the longest context: everything that the plan's length depends on.

    None if the plan sets no length: for other servers, if the user sets a length or the size of the cache, and for a
    model whose location is known only at deployment.
    """
    instance, settings = recipe.instance, recipe.serving_settings.arguments()
    if instance is None or recipe.recorded_name is None or not has_such_a_cache(recipe):
        return None
    if recipe.serving_settings.name not in images.VLLM:
        return None
    given = {name for name in (*_CACHE_SETTINGS, MAX_MODEL_LEN) if recipe.variable(name) in recipe.variables}
    if given or MAX_MODEL_LEN in settings:
        return None
    parts = [_context_part(technique) for _, technique in recipe.located_techniques]
    degree, kept = recipe.tensor_parallel_degree, recipe.variables.get(recipe.variable("kv_cache_dtype"))
    parts += [recipe.partition] if recipe.partition is not None else []
    parts += [f"tp{degree}"] if degree != instance.parallel_units else []
    parts += [f"{name}={value}" for name, value in settings.items() if "lora" in name and name != "enable_lora"]
    parts += [f"kv_cache_dtype={kept}"] if kept is not None else []
    return "+".join([f"{recipe.recorded_name}@{instance.name}", *parts])


def _context_part(technique: Technique) -> str:
    beside = technique.beside.served_name if technique.beside is not None else getattr(technique, "model_id", None)
    return f"{technique.name}={beside}" if beside else technique.name


@once
def planned_context(recipe: Recipe) -> int | None:
    """Return the longest context that the plan sets: the recorded one, or else what fits, at most the model's own.

    None for the engine's default, of a model whose ``config.json`` is unknown or that generates no text. The default of
    the others can be another one: vLLM serves models with LongRoPE with their original positions
    (``_get_and_verify_max_len``).
    """
    name, row = context_name(recipe), recipe.model_row
    recorded = recipe.containers.contexts.get(name or "")
    if recorded is not None:
        return recorded or None
    longest = context(recipe)
    if longest is not None and longest.shortened is not None:
        return longest.shortened
    if name is None or row is None or row.model_type is None or not recipe.task.generates:
        # The tokenizer's limit, which config.json does not have, also counts for a model that pools.
        return None
    return model_context(recipe)


def longest_request(recipe: Recipe) -> int | None:
    """Return the maximum tokens of a request, prompt and response: compiled, planned, set, or the model's own.

    None if it is unknown or known only at deployment.
    """
    if recipe.compiled_shape is not None:
        return recipe.compiled_shape[1]
    if (planned := planned_context(recipe)) is not None:
        return planned
    if engine_setting(recipe, MAX_MODEL_LEN) is not None:
        return whole_setting(recipe, MAX_MODEL_LEN)
    return model_context(recipe)


def model_context(recipe: Recipe) -> int | None:
    """Return the longest context that the release of the server derives from the model's ``config.json``.

    None if it is unknown.
    """
    row, server, release = recipe.model_row, recipe.serving_settings.name, recipe.engine
    if row is None:
        return None
    own = row.max_position_in_sglang if server == _SGLANG else None
    if server in images.VLLM and release is not None and not images.is_from(release, _SCALED_YARN):
        own = row.max_position_in_vllm_0_29
    return own or row.max_position


def _cached(recipe: Recipe, bytes_in_half: int | None) -> int | None:
    """Return a KV cache's size in its type, given its size in half precision; None if unknown."""
    share = cache_share(recipe)
    return int(bytes_in_half * share) if bytes_in_half is not None and share is not None else None


@once
def cache_share(recipe: Recipe) -> float | None:
    """Return the size of the KV cache relative to half precision; None if its type is unknown."""
    kept = engine_setting(recipe, "kv_cache_dtype") or "auto"
    share = _SHARE_OF_HALF.get(kept.partition("_")[0])
    return _WIDENED if kept == "auto" and runs_in_float32(recipe) else share


def cache_room_gb(recipe: Recipe) -> float | None:
    """Return the memory in GB for the KV cache of one copy; None if the model's size is unknown."""
    row, memory = recipe.model_row, estimate(recipe)
    if row is None or memory is None:
        return None
    _, workspace = _batch(recipe, row)
    return max(0.0, memory.available_gb - memory.fixed_gb - _degree(recipe) * workspace)


def has_such_a_cache(recipe: Recipe) -> bool:
    """Return whether the server sizes its KV cache by the longest context, as vLLM and SGLang do on GPUs."""
    return (
        recipe.instance is not None
        and recipe.instance.kind == "gpu"
        and not recipe.is_encoder
        and recipe.serving_settings.name in _SIZED
        and not any(t.hub_configuration or t.kind == "compilation" for _, t in recipe.located_techniques)
    )


def _draft_gb(recipe: Recipe, row: models.ModelRow, techniques: list[Technique]) -> float:
    """Return the size of heads or of a draft model: from the catalog or the lock file, or else a typical size.

    The model's own MTP heads count as its weights.
    """
    for technique in techniques:
        if isinstance(technique, Medusa):
            return technique.added_parameters(row) * 2 / 1e9
        draft = _draft(recipe, technique)
        if draft is not None and draft.parameters_billion is not None:
            return weights_gb(draft, [])
        if isinstance(technique, SpeculativeDecoding.speculator | SpeculativeDecoding.eagle):
            return _head_gb(row)
        if technique.draft_provider:
            return _DRAFT_PARAMETERS_BILLION * 2
    return 0.0


def _draft(recipe: Recipe, technique: Technique) -> models.ModelRow | None:
    """Return the row of a technique's draft model, if known."""
    if isinstance(technique, SpeculativeDecoding.jumpstart_draft):
        return models.find(technique.model_id)
    return recipe.row(technique.beside) if technique.beside is not None else None


def _draft_cache(recipe: Recipe, row: models.ModelRow, of_model: int, length: int) -> int:
    """Return the bytes of a draft's KV cache for a long request, in half precision: a draft model's own, or that of one
    of the model's layers for heads. Zero if unknown.
    """
    for _, technique in recipe.located_techniques:
        if isinstance(technique, _WITH_HEADS):
            return of_model // (row.full_attention_layers or row.layers) if row.layers is not None else 0
        draft = _draft(recipe, technique)
        if draft is not None:
            return draft.context_bytes(length) or 0
    return 0


def _head_gb(row: models.ModelRow) -> float:
    """Return the size of an EAGLE-3 head in 16 bits, or a typical size if the model's width is unknown."""
    if row.hidden_size is None or row.vocabulary_size is None:
        return _DRAFT_PARAMETERS_BILLION * 2
    width = row.hidden_size
    return (_HEAD_MATRICES * width * width + (row.vocabulary_size + _HEAD_OUTPUTS) * width) * 2 / 1e9
