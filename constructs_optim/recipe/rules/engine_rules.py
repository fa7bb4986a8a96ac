"""Rules for what the engine loads: the architecture of the model and the quantization of its weights."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable, Iterator

from constructs_optim.recipe.catalog import engine_models, images, instances
from constructs_optim.recipe.catalog.engine_models import EngineModels
from constructs_optim.recipe.catalog.model_config import BOTH_DIRECTIONS, FLASHINFER_FP8, TRITON_FP8, WITH_SINKS
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.catalog.splits import StoredQuantization
from constructs_optim.recipe.memory import BFLOAT16, engine_setting
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import VllmServer, by_name

from .quantization_rules import DEPRECATED, without_float32
from .registry import Finding, rule

_SUPPORTED = "https://docs.vllm.ai/en/latest/models/supported_models/"
_QUANTIZED = "https://docs.vllm.ai/en/latest/features/quantization/"
_CODE = "https://docs.vllm.ai/en/latest/models/supported_models/#transformers"
_TRUSTED = "trust_remote_code"
_CACHE = "kv_cache_dtype"
# The least compute capability of GPUs with kernels for sparse latent attention (vLLM 0.30, supports_compute_capability
# of v1/attention/backends/mla/*sparse*.py).
_SPARSE = 9.0
_BACKEND, _FLASH = "attention_backend", "FLASH_ATTN"
_NOT_LATENT = frozenset({_FLASH, "FLASHINFER", "FLEX_ATTENTION", "TRITON_ATTN"})
# vLLM 0.30, v1/attention/backends/fa_utils.py, get_flash_attn_version.
_WITH_ALIBI, _HOPPER, _BLACKWELL = frozenset({"bloom"}), 9.0, 10.0
# Settings with which the engine reads another configuration.
_CHANGING = ("hf_overrides", "hf_config_path", "config_format")
# Developer guide, "Resources for using Hugging Face with Amazon SageMaker AI".
_OTHER_MODELS = (
    "AWS's Hugging Face inference container, which runs what transformers runs: HuggingFaceModel of the SageMaker "
    "Python SDK deploys it"
)
_OTHER_WEIGHTS = "the model's weights in 16 bits, FP8, or AWQ"


@rule("OPT289", _SUPPORTED)
def _the_engine_loads_the_architecture(recipe: Recipe) -> Iterator[Finding]:
    """The engine loads the model's architecture: the release of the engine in the container has no code for it."""
    row, known = recipe.model_row, engine_models.of_image(recipe.serving_image.image)
    if row is None or known is None or known.loads(recipe.architectures) is not False:
        return
    name, architectures, table = recipe.served_model.name, recipe.architectures, known.architectures
    named = " and ".join(architectures)
    if any(map(known.is_draft, architectures)):
        reason = f"{named} proposes tokens for another model, and serves no requests itself"
        yield Finding("model", name, "SpeculativeDecoding.speculator(model=...) of the model that it is for", reason)
        return
    reason = f"{known.title} {known.release} does not load {named}, the architecture of {name}"
    plugin = next((known.plugins.rows[each].plugin for each in architectures if known.plugins.has(each)), None)
    span = next((table.span(each) for each in architectures if each in table.rows), None)
    if plugin is not None:
        reason += f": it needs the plugin {plugin}, which AWS's containers do not have"
    elif span is not None:
        reason += f": {span} load it"
    elif not engine_models.transformers().encoder_decoder.isdisjoint(architectures):
        reason += ", which has an encoder and a decoder"
    server = _server_that(recipe, lambda models: models.loads(architectures))
    yield Finding("model", name, server or f"another model, or {_OTHER_MODELS}", reason)


def _server_that(recipe: Recipe, loads: Callable[[EngineModels], bool | None]) -> str:
    """Return the first server whose image loads something and serves the recipe, as it is declared; empty without."""
    # Other servers do not pool.
    servers = by_name() if recipe.task.generates else [VllmServer.name]
    for image in images.serving(recipe.serves, servers):
        known = engine_models.of_image(image)
        if known is not None and loads(known) and image.has_engine(recipe.least_engine):
            return f'Server.{image.server}(container_version="{image.tag}")'
    return ""


@rule("OPT290", _QUANTIZED)
def _the_engine_loads_the_quantization(recipe: Recipe) -> Iterator[Finding]:
    """The engine loads the quantization of the weights: the release of the engine in the container lacks the method, or
    does not load weights that are quantized in this way.
    """
    model, known = recipe.served_model, engine_models.of_image(recipe.serving_image.image)
    row = recipe.row(model) if isinstance(model, Model) else None
    stored = row.quantization if row is not None else None
    is_made = any(each.weight_bits is not None and each.ready_made is None for _, each in recipe.located_techniques)
    if stored is None or known is None or is_made:
        return
    engine, table = f"{known.title} {known.release}", known.quantization
    weights = f"the weights of {model.name}, which are quantized with {stored.method}"
    if not table.has(stored.method):
        yield _other_weights(recipe, f"{engine} does not load {weights}", stored)
        return
    for lacking in known.lacks(stored):
        yield _other_weights(recipe, f"{engine} does not load {weights} {lacking}", stored)
    if table.is_deprecated(stored.method) and engine_setting(recipe, DEPRECATED) != "true":
        fix = f'environment={{"{recipe.variable(DEPRECATED)}": "true"}}, or {_OTHER_WEIGHTS}'
        yield Finding("model", model.name, fix, f"{engine} loads {weights}, only on request: the method is deprecated")
    least = (table.rows[stored.method].least_capability or 0) / 10
    if recipe.instance is not None and _is_older(recipe.instance, least):
        reason = f"{engine} loads {weights}, only on GPUs of compute capability {least:g} or newer"
        yield Finding("instance_type", recipe.instance_type, _newer(recipe.instance, least), reason)


def _newer(instance: instances.InstanceRow, least: float) -> str:
    return f"newer GPUs, such as {_smallest(instance, least)}"


def _smallest(instance: instances.InstanceRow, least: float) -> str:
    """Return the smallest instance type whose GPUs have a compute capability, and together as much memory."""
    memory = instance.total_accelerator_memory_gb
    return next(
        row.name
        for row in instances.by_size()
        if row.hosts_endpoints and row.total_accelerator_memory_gb >= memory and not _is_older(row, least)
    )


def _other_weights(recipe: Recipe, reason: str, stored: StoredQuantization) -> Finding:
    """Return a finding about weights that the engine does not load. Another release of it may load them."""
    server = _server_that(recipe, lambda known: known.quantization.has(stored.method) and not any(known.lacks(stored)))
    fix = f"{_OTHER_WEIGHTS}{f', or {server}' if server else ''}"
    return Finding("model", recipe.served_model.name, fix, reason)


@rule("OPT291", _CODE)
def _the_engine_reads_the_configuration(recipe: Recipe) -> Iterator[Finding]:
    """The engine reads the model's configuration: neither it nor its transformers knows the model's type, which only
    code in the model's repository does, if anything.
    """
    row, model, known = recipe.model_row, recipe.served_model, engine_models.of_image(recipe.serving_image.image)
    if row is None or row.model_type is None or known is None or known.title != "vLLM" or known.knows(row.model_type):
        return
    is_changed = any(engine_setting(recipe, name) is not None for name in _CHANGING)
    if is_changed or (engine_setting(recipe, _TRUSTED) or "false").lower() != "false":
        return
    reason = (
        f"{known.title} {known.release} and transformers {engine_models.transformers().release} do not know "
        f"{row.model_type}, the type of {model.name}"
    )
    if row.has_code or (row.recipe is not None and row.recipe.needs_code):
        setting = (
            "allow_code=True"
            if model.kind == "huggingface"
            else f'environment={{"{recipe.variable(_TRUSTED)}": "true"}}'
        )
        fix = f"review the Python files in its repository, and then set {setting}: the engine runs them"
        yield Finding("model", model.name, fix, f"{reason}, and its repository has the code that reads it")
    else:
        yield Finding("model", model.name, "another model", reason)


def _is_older(row: instances.InstanceRow, least: float) -> bool:
    return row.compute_capability is not None and row.compute_capability < least


@rule("OPT292", "https://docs.vllm.ai/en/latest/configuration/engine_args/")
def _the_data_type_is_supported(recipe: Recipe) -> Iterator[Finding]:
    """The GPUs and the model support the data type: vLLM does not run some models in float16, most quantized weights in
    float32, and GPUs older than compute capability 8.0 have no bfloat16.
    """
    row, instance, known = recipe.model_row, recipe.instance, engine_models.of_image(recipe.serving_image.image)
    name, chosen = recipe.variable("dtype"), recipe.variables.get(recipe.variable("dtype"))
    if known is None or instance is None or chosen is None:
        return
    if chosen == "bfloat16" and _is_older(instance, BFLOAT16):
        fix = f"auto, or GPUs of compute capability {BFLOAT16:g} or newer"
        reason = f"{instance.name} ({instance.accelerator}) has no bfloat16"
        yield Finding(f"environment.{name}", chosen, fix, reason)
    elif chosen in ("float16", "half") and row is not None and known.without_float16.has(row.model_type or ""):
        reason = f"{known.title} {known.release} does not run {row.model_type} models in float16"
        yield Finding(f"environment.{name}", chosen, "auto", reason)
    elif (method := without_float32(recipe, chosen)) is not None:
        reason = f"{known.title} {known.release} has no kernels in float32 for weights that are quantized with {method}"
        yield Finding(f"environment.{name}", chosen, "auto", reason)


def _has_fp8_cache(recipe: Recipe) -> bool:
    return (engine_setting(recipe, _CACHE) or "").startswith("fp8")


def _is_latent(row: ModelRow) -> bool | None:
    """Return whether the attention is latent, without heads of keys and values; None if that is unknown."""
    return "key_value" not in row.splits if "attention" in row.splits else None


def _unfit_backend(row: ModelRow, instance: instances.InstanceRow, named: str) -> str | None:
    """Return what of the model or the GPUs an attention backend does not run, in words; None if it is known to run it,
    or if that is unknown.

    Source: vLLM 0.24 to 0.30, validate_configuration of v1/attention/backend.py, and the backends' support.
    """
    is_latent, has_sinks = _is_latent(row), row.model_type in WITH_SINKS
    least = _HOPPER if has_sinks and named == _FLASH else BFLOAT16
    if is_latent is False and "MLA" in named:
        return "is for latent attention (MLA), which the model does not have"
    if is_latent and named in _NOT_LATENT:
        return "does not run latent attention (MLA), which the model has"
    if named in (_FLASH, "FLASHINFER") and _is_older(instance, least):
        runs = "runs the model's attention sinks" if has_sinks else "runs"
        return f"{runs} only on GPUs of compute capability {least:g} or newer"
    return None


def _fp8_cache_capability(recipe: Recipe, row: ModelRow) -> float:
    """Return the least compute capability of GPUs on which vLLM keeps the cache in the FP8 that the user asks for.

    FlashInfer's kernels, which older GPUs have, do not scale each token, and have no sinks (v1/attention/backends,
    supports_sink of flashinfer.py), no heads of two sizes, and no latent attention or attention in both directions.
    """
    is_of_triton = row.model_type in WITH_SINKS | BOTH_DIRECTIONS or "global_key_value" in row.splits
    if is_of_triton or _is_latent(row) or (engine_setting(recipe, _CACHE) or "").endswith("per_token_head"):
        return TRITON_FP8
    return row.fp8_cache_capability or FLASHINFER_FP8


@rule("OPT293", "https://docs.vllm.ai/en/latest/design/attention_backends/")
def _the_gpus_run_the_attention(recipe: Recipe) -> Iterator[Finding]:
    """The GPUs run the model's attention: vLLM has kernels for sparse attention, for a KV cache in FP8, and of some
    backends, only for newer GPUs or other models.
    """
    row, instance, known = recipe.model_row, recipe.instance, engine_models.of_image(recipe.serving_image.image)
    if row is None or instance is None or known is None or known.title != "vLLM":
        return
    engine, least = f"{known.title} {known.release}", row.fp8_cache_capability or 0
    chosen, backend = recipe.variables.get(recipe.variable(_CACHE), ""), recipe.variable(_BACKEND)
    named = recipe.variables.get(backend, "")
    if (unfit := _unfit_backend(row, instance, named.upper())) is not None:
        fix = "leave it out: vLLM chooses one that does"
        yield Finding(f"environment.{backend}", named, fix, f"the attention backend {named.upper()} {unfit}")
    if row.sparse_attention and _is_older(instance, _SPARSE):
        reason = f"{engine} runs the sparse attention of {recipe.served_model.name}, only on GPUs of compute capability"
        yield Finding("instance_type", instance.name, _newer(instance, _SPARSE), f"{reason} {_SPARSE:g} or newer")
    elif row.model_type in _WITH_ALIBI and instance.compute_capability == _HOPPER and _has_fp8_cache(recipe):
        reason = (
            f"{engine} runs the attention of {row.model_type} models (ALiBi) with FlashAttention 2 on GPUs of compute "
            f"capability {_HOPPER:g}, which has no KV cache in FP8"
        )
        fix = f"a KV cache in 16 bits, or {_newer(instance, _BLACKWELL)}"
        yield Finding("instance_type", instance.name, fix, reason)
    elif chosen.startswith("fp8") and _is_older(instance, own := _fp8_cache_capability(recipe, row)):
        reason = (
            f"{engine} has kernels for this KV cache of {row.model_type or 'the'} models only on GPUs of compute "
            f"capability {own:g} or newer, and {instance.name} has {instance.compute_capability:g}"
        )
        fix = f"leave it out, or use newer GPUs ({_smallest(instance, own)})"
        yield Finding(f"environment.{recipe.variable(_CACHE)}", chosen, fix, reason)
    elif _is_older(instance, least) and (engine_setting(recipe, _CACHE) or "auto") == "auto":
        wider = "float16" if _is_older(instance, BFLOAT16) else "bfloat16"
        reason = (
            f"the configuration of {recipe.served_model.name} asks for a KV cache in FP8, for which {engine} has "
            f"kernels only on GPUs of compute capability {least:g} or newer"
        )
        fix = f'environment={{"{recipe.variable(_CACHE)}": "{wider}"}}, or {_newer(instance, least)}'
        yield Finding("instance_type", instance.name, fix, reason)
