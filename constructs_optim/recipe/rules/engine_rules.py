"""Rules for what the engine loads: the architecture of the model and the quantization of its weights."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable, Iterator

from constructs_optim.recipe.catalog import engine_models, images, instances, weight_schemes
from constructs_optim.recipe.catalog.engine_models import EngineModels
from constructs_optim.recipe.catalog.model_config import BOTH_DIRECTIONS, FLASHINFER_FP8, TRITON_FP8, WITH_SINKS
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.catalog.splits import StoredQuantization
from constructs_optim.recipe.memory import BFLOAT16, engine_setting
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.parallelism import stored_quantization
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import VllmServer, by_name

from .quantization_rules import DEPRECATED
from .registry import Finding, rule

_SUPPORTED = "https://docs.vllm.ai/en/latest/models/supported_models/"
_QUANTIZED = "https://docs.vllm.ai/en/latest/features/quantization/"
_CODE = "https://docs.vllm.ai/en/latest/models/supported_models/#transformers"
_TRUSTED = "trust_remote_code"
_CACHE = "kv_cache_dtype"
# The least compute capability of GPUs with kernels for sparse latent attention (vLLM 0.30, supports_compute_capability
# of v1/attention/backends/mla/*sparse*.py).
_SPARSE = 9.0
_FLOAT32 = "float32"
# vLLM, _STR_DTYPE_TO_TORCH_DTYPE of config/model.py.
_NAMES = {"half": "float16", "float": _FLOAT32}
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
        return
    schemes = weight_schemes.of_vllm()
    if known.title == "vLLM" and known.release == schemes.release:
        yield from _unbuilt(recipe, stored, schemes, f"{engine} does not load {weights}")


def _unbuilt(
    recipe: Recipe, stored: StoredQuantization, schemes: weight_schemes.Schemes, reason: str
) -> Iterator[Finding]:
    """Yield the schemes for which the engine has no layers, or only on other GPUs."""
    if stored.unstated:
        lacking = f"{reason}: its quantization_config lacks {' and '.join(stored.unstated)}, which it needs"
        fix = f"{_OTHER_WEIGHTS}, or a config.json with all settings in its quantization_config"
        yield Finding("model", recipe.served_model.name, fix, lacking)
    for module in stored.torn:
        torn = f"{reason}: only some matrices of {module} are, or not in the same way, and the engine merges them"
        yield Finding("model", recipe.served_model.name, _OTHER_WEIGHTS, torn)
    instance, of_experts = recipe.instance, [(scheme, True) for scheme in stored.expert_schemes]
    of_others = [(scheme, False) for scheme in stored.schemes if scheme not in stored.expert_schemes]
    for scheme, has_experts in (*of_experts, *of_others):
        built = schemes.built(stored.method, scheme, experts=has_experts)
        if built == frozenset():
            where = " in experts" if has_experts and schemes.built(stored.method, scheme, experts=False) else ""
            yield Finding("model", recipe.served_model.name, _OTHER_WEIGHTS, f"{reason} ({scheme}){where}")
        elif built and instance is not None and instance.compute_capability in schemes.capabilities - built:
            *others, newest = [f"{capability:g}" for capability in sorted(built)]
            named = f"{', '.join(others)} or {newest}" if others else newest
            example = _such_as(instance, lambda each, suited=built: each.compute_capability in suited)
            fix = f"other GPUs{example}" if example else _OTHER_WEIGHTS
            only = f"{reason} ({scheme}) on its GPUs, only on those of compute capability {named}"
            yield Finding("instance_type", instance.name, fix, only)


def _newer(instance: instances.InstanceRow, least: float) -> str:
    """Return newer GPUs in words, with the smallest instance type that has them."""
    return f"newer GPUs{_such_as(instance, lambda row: not _is_older(row, least))}"


def _such_as(instance: instances.InstanceRow, suits: Callable[[instances.InstanceRow], bool]) -> str:
    """Return the smallest instance type that suits, and whose accelerators have as much memory together, in words."""
    memory = instance.total_accelerator_memory_gb
    found = (row for row in instances.by_size() if row.hosts_endpoints and row.total_accelerator_memory_gb >= memory)
    return next((f", such as {row.name}" for row in found if suits(row)), "")


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
    """The GPUs and the model support the data type: vLLM does not run some models in float16, GPUs older than compute
    capability 8.0 have no bfloat16, and vLLM loads few methods of quantization in float32, which is left.
    """
    row, instance, known = recipe.model_row, recipe.instance, engine_models.of_image(recipe.serving_image.image)
    name, chosen = recipe.variable("dtype"), recipe.variables.get(recipe.variable("dtype"))
    if known is None or instance is None:
        return
    if chosen is None or chosen == "auto":
        yield from _chosen_data_type(recipe, known, instance)
    elif chosen == "bfloat16" and _is_older(instance, BFLOAT16):
        fix = f"auto, or GPUs of compute capability {BFLOAT16:g} or newer"
        reason = f"{instance.name} ({instance.accelerator}) has no bfloat16"
        yield Finding(f"environment.{name}", chosen, fix, reason)
    elif chosen in ("float16", "half") and row is not None and known.without_float16.has(row.model_type or ""):
        reason = f"{known.title} {known.release} does not run {row.model_type} models in float16"
        yield Finding(f"environment.{name}", chosen, "auto", reason)
    elif (method := _not_loaded_in(recipe, known, data_type := _NAMES.get(chosen, chosen))) is not None:
        reason = f"{known.title} {known.release} does not load weights that are quantized with {method} in {data_type}"
        yield Finding(f"environment.{name}", chosen, "auto", reason)


def _chosen_data_type(recipe: Recipe, known: EngineModels, instance: instances.InstanceRow) -> Iterator[Finding]:
    """Yield a data type that the engine chooses for the GPUs, and in which it does not load the quantization.

    Without bfloat16 and float16, float32 is left (vLLM 0.30, _resolve_auto_dtype of config/model.py).
    """
    row = recipe.model_row
    if row is None or not _is_older(instance, BFLOAT16) or not known.without_float16.has(row.model_type or ""):
        return
    if (method := _not_loaded_in(recipe, known, _FLOAT32)) is not None:
        reason = (
            f"{known.title} {known.release} runs {row.model_type} models in float32 on {instance.name} "
            f"({instance.accelerator}), which has no bfloat16, and does not load weights that are quantized with "
            f"{method} in float32"
        )
        yield Finding("instance_type", instance.name, _newer(instance, BFLOAT16), reason)


def _not_loaded_in(recipe: Recipe, known: EngineModels, data_type: str) -> str | None:
    """Return the method of quantization of the served weights if the engine does not load it in a data type."""
    weights = stored_quantization(recipe)
    method = weights.method if weights is not None else (engine_setting(recipe, "quantization") or "").lower()
    rows = known.quantization.rows
    # Names of methods without a configuration of their own choose how weights are quantized while they are loaded.
    found = [rows[each].dtypes for each in (method, "online") if method in rows and each in rows and rows[each].dtypes]
    return method if found and data_type not in found[0] else None


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
        example = _such_as(instance, lambda each: not _is_older(each, own)).removeprefix(", such as ")
        fix = f"leave it out, or use newer GPUs ({example})"
        yield Finding(f"environment.{recipe.variable(_CACHE)}", chosen, fix, reason)
    elif _is_older(instance, least) and (engine_setting(recipe, _CACHE) or "auto") == "auto":
        wider = "float16" if _is_older(instance, BFLOAT16) else "bfloat16"
        reason = (
            f"the configuration of {recipe.served_model.name} asks for a KV cache in FP8, for which {engine} has "
            f"kernels only on GPUs of compute capability {least:g} or newer"
        )
        fix = f'environment={{"{recipe.variable(_CACHE)}": "{wider}"}}, or {_newer(instance, least)}'
        yield Finding("instance_type", instance.name, fix, reason)


@rule("OPT307", "https://docs.vllm.ai/en/latest/api/vllm/model_executor/layers/rotary_embedding/")
def _the_configuration_says_how_positions_are_encoded(recipe: Recipe) -> Iterator[Finding]:
    """The model's configuration says how positions are encoded: it has the numbers that the kind of rope scaling needs,
    such as the factor of YaRN.
    """
    row, known = recipe.model_row, engine_models.of_image(recipe.serving_image.image)
    if row is None or not row.rope_lacks or known is None or known.title != "vLLM":
        return
    if any(engine_setting(recipe, name) is not None for name in _CHANGING):
        return
    kind, _, _ = row.rope_lacks[0].partition(".")
    lacking = " and ".join(name.partition(".")[2] for name in row.rope_lacks)
    reason = (
        f"the configuration of {recipe.served_model.name} asks for the rope scaling {kind}, and has no number "
        f"{lacking}, without which {known.title} {known.release} does not start"
    )
    fix = f"another model, or {lacking} in rope_scaling of its config.json"
    yield Finding("model", recipe.served_model.name, fix, reason)
