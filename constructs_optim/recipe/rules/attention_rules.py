"""Rules for kernels of attention: which GPUs have them for which settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from constructs_optim.recipe.catalog import attention_backends, engine_models, instances
from constructs_optim.recipe.catalog.attention_backends import BACKEND, BLOCK, CACHE, DATA_TYPE, Backends, Misfit
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.memory import BFLOAT16, engine_setting
from constructs_optim.recipe.parallelism import stored_quantization
from constructs_optim.recipe.recipe import Recipe

from .registry import Finding, rule

# Names of the same value (vLLM, _STR_DTYPE_TO_TORCH_DTYPE of config/model.py), and the default.
_NAMES, _AUTO = {"half": "float16", "float": "float32"}, "auto"
_STORED_CACHE = "fp8"
_IN_WORDS = {
    BACKEND: "the attention backend {}",
    CACHE: "a KV cache in {}",
    DATA_TYPE: "the data type {}",
    BLOCK: "blocks of {} tokens",
}
# Techniques keep the cache in FP8 only on GPUs that compute in it, which OPT012 checks.
_COMPUTES_FP8 = 8.9
# A cache without scales, and methods whose checkpoints have them; those of compressed-tensors only if they say so
# (vLLM 0.30, model_executor/layers/attention/attention.py, _init_kv_cache_quant).
_UNSCALED, _SCALED = (
    "fp8_e5m2",
    frozenset({"fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "quark"}),
)
_OF_GROUPS = "compressed-tensors"


@rule("OPT293", "https://docs.vllm.ai/en/latest/design/attention_backends/")
def _the_gpus_run_the_attention(recipe: Recipe) -> Iterator[Finding]:
    """The GPUs run the model's attention: vLLM has kernels for sparse attention, for a KV cache in FP8, and of some
    backends, only for newer GPUs or other models.
    """
    row, instance, known = recipe.model_row, recipe.instance, engine_models.of_image(recipe.serving_image.image)
    if row is None or row.attention is None or instance is None or known is None or known.title != "vLLM":
        return
    backends, capability = attention_backends.of_vllm(), instance.compute_capability
    if capability not in backends.capabilities:
        return
    settings = _settings(recipe, row, instance, known)
    if settings.get(CACHE) == _UNSCALED and _is_set(recipe, CACHE) and _has_scales(recipe, row):
        reason = f"vLLM {backends.release} reads the scales of the cache from the weights of {recipe.served_model.name}"
        name = recipe.variable(CACHE)
        yield Finding(f"environment.{name}", _UNSCALED, "leave it out", f"{reason}, and {_UNSCALED} has none")
    for misfit in backends.misfits(row.attention, capability, settings):
        yield _finding(recipe, row, instance, settings, misfit, backends)


def _settings(
    recipe: Recipe, row: ModelRow, instance: instances.InstanceRow, known: engine_models.EngineModels
) -> dict[str, str]:
    """Return what the recipe and the model's configuration set of the arguments that choose a backend."""
    found = {name: value for name in (BACKEND, CACHE, DATA_TYPE, BLOCK) if (value := engine_setting(recipe, name))}
    if BACKEND in found:
        found[BACKEND] = found[BACKEND].upper()
    if DATA_TYPE in found:
        found[DATA_TYPE] = _NAMES.get(found[DATA_TYPE], found[DATA_TYPE])
    if recipe.variable(CACHE) not in recipe.variables and (instance.compute_capability or 0) < _COMPUTES_FP8:
        found.pop(CACHE, None)
    if row.has_fp8_cache and found.get(CACHE, _AUTO) == _AUTO:
        found[CACHE] = _STORED_CACHE
    is_old = (instance.compute_capability or 0) < BFLOAT16
    if is_old and found.get(DATA_TYPE, _AUTO) == _AUTO and known.without_float16.has(row.model_type or ""):
        # vLLM, _resolve_auto_dtype of config/model.py.
        found[DATA_TYPE] = "float32"
    return {name: value for name, value in found.items() if value.lower() != _AUTO}


def _finding(
    recipe: Recipe,
    row: ModelRow,
    instance: instances.InstanceRow,
    settings: dict[str, str],
    misfit: Misfit,
    backends: Backends,
) -> Finding:
    capability, kind = instance.compute_capability or 0, row.attention or ""
    names = [name for name, _ in misfit.settings]
    # Techniques that store the cache in FP8 do so on these GPUs alone.
    least = _COMPUTES_FP8 if CACHE in names and not row.has_fp8_cache else 0
    running = {each for each in backends.capabilities - misfit.refused if each >= least}
    other = instances.smallest_instead_of(instance, lambda each: each.compute_capability in running)
    others = f", such as {other.name}" if other is not None else ""
    what = " and ".join(_IN_WORDS[name].format(value) for name, value in sorted(misfit.settings)) or "any setting"
    reason = (
        f"vLLM {backends.release} does not run the attention of {recipe.served_model.name} ({kind}) with {what} on "
        f"GPUs of compute capability {capability:g}, which {instance.name} has"
    )
    order = (BACKEND, CACHE, DATA_TYPE, BLOCK)
    chosen = next((name for name in order if name in names and _is_set(recipe, name)), None)
    gpus = f"other GPUs{others}"
    if chosen is not None:
        left = {name: value for name, value in settings.items() if name != chosen}
        fixes = [] if any(backends.misfits(kind, capability, left)) else ["leave it out"]
        if near := _nearest(settings[chosen], backends.fitting(kind, capability, settings, chosen)):
            fixes.append(f"a value such as {near}")
        variable = recipe.variable(chosen)
        fix = ", or ".join(fixes) or gpus
        return Finding(f"environment.{variable}", recipe.variables[variable], fix, reason)
    if CACHE in names:
        wider = "float16" if capability < BFLOAT16 else "bfloat16"
        variable = f'environment={{"{recipe.variable(CACHE)}": "{wider}"}}'
        cache = variable if row.has_fp8_cache else "a KV cache in 16 bits"
        gpus = f"{cache}, or {gpus}" if others else cache
    return Finding("instance_type", instance.name, gpus if names or others else "another model", reason)


def _has_scales(recipe: Recipe, row: ModelRow) -> bool:
    stored = stored_quantization(recipe)
    return stored is not None and (stored.method in _SCALED or (stored.method == _OF_GROUPS and row.has_fp8_cache))


def _is_set(recipe: Recipe, argument: str) -> bool:
    return recipe.variable(argument) in recipe.variables


def _nearest(value: str, fitting: list[str]) -> str | None:
    """Return the fitting value that is most like another, or the least number."""
    if value.isdecimal():
        return min(fitting, key=int, default=None)
    return next(iter(difflib.get_close_matches(value, fitting, n=1, cutoff=0)), None)
