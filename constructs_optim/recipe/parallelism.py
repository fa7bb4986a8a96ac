"""What tensor parallelism splits of a recipe's model."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from .catalog import engine_models
from .catalog.engine_models import EngineModels
from .catalog.models import ModelRow
from .catalog.splits import Layer, Misfit, Split, StoredQuantization, misfits
from .catalog.towers import split_towers
from .memory import engine_setting, has_such_a_cache
from .recipe import Recipe

ENCODER_MODE, WHOLE_ENCODERS = "mm_encoder_tp_mode", "data"
"""vLLM's argument for how encoders run on several accelerators, and its value for a whole encoder on each."""
# vLLM does not build the encoder of inputs of which a request may have none (vLLM 0.30, get_limit_per_prompt of
# config/multimodal.py).
_LIMITS = TypeAdapter(dict[str, Any])
# The least compute capability of GPUs with instructions for FP8, on which vLLM divides blocks of experts (vLLM 0.30,
# model_executor/layers/quantization/fp8.py).
_WITH_FP8 = 8.9


def misfits_of(recipe: Recipe, degree: int | None = None) -> list[Misfit]:
    """Return what a tensor parallel degree, by default the recipe's, cannot split of the model; empty if unknown."""
    row, instance, degree = recipe.model_row, recipe.instance, degree or recipe.tensor_parallel_degree
    if row is None or instance is None or instance.kind != "gpu" or degree is None:
        return []
    if any(technique.hub_configuration for _, technique in recipe.located_techniques):
        return []
    known = engine_models.of_image(recipe.serving_image.image)
    parts = _parts(recipe, row, degree, known)
    # Other servers also split the attention heads.
    if not has_such_a_cache(recipe):
        attention: dict[Layer, Split] = {"attention": parts["attention"]} if "attention" in parts else {}
        return [*misfits(attention, degree)]
    has_fp8 = (instance.compute_capability or 0) >= _WITH_FP8
    refined = has_fp8 and (known is None or known.features.has("fp8_refined_experts"))
    return [*misfits(parts, degree, stored_quantization(recipe), refined=refined)]


def _parts(recipe: Recipe, row: ModelRow, degree: int, known: EngineModels | None) -> dict[Layer, Split]:
    # Without the encoders of other engines, and those that the engine does not build.
    has_encoders = known is not None and known.title == "vLLM" and not _reads_text_alone(recipe)
    whole = engine_setting(recipe, ENCODER_MODE) == WHOLE_ENCODERS
    parts = split_towers(recipe.architectures if has_encoders else (), row.splits, degree, whole=whole)
    if not parts and row.attention_heads is not None:
        parts["attention"] = Split(heads=row.attention_heads)
    # With expert parallelism, every accelerator holds whole experts.
    if (engine_setting(recipe, "enable_expert_parallel") or "false").lower() == "true":
        parts.pop("experts", None)
    return parts


def _reads_text_alone(recipe: Recipe) -> bool:
    """Return whether the engine is told to leave out an encoder."""
    if (engine_setting(recipe, "language_model_only") or "false").lower() == "true":
        return True
    try:
        return 0 in _LIMITS.validate_json(engine_setting(recipe, "limit_mm_per_prompt") or "{}").values()
    except ValidationError:
        return False


def stored_quantization(recipe: Recipe) -> StoredQuantization | None:
    """Return how the served weights are quantized; None if they are not, or if it is unknown."""
    for _, technique in recipe.located_techniques:
        if technique.weight_bits is not None and technique.ready_made is None:
            return technique.quantization
    row = recipe.row(recipe.served_model)
    return row.quantization if row is not None else None
