"""Copies of the ``config.json`` of cataloged models: the fields that determine what engines do with a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain, cycle, islice, repeat
from typing import Any, cast

from . import load
from .model_config import ModelConfig

# Fields with one item for each layer, for which the file may have the period that repeats.
_OF_LAYERS = ("layer_types", "layers_block_type", "mlp_layer_types", "num_attention_heads_per_layer", "indexer_types")


@cache
def _entries() -> dict[str, Mapping[str, Any]]:
    return {entry["model_id"]: entry for entry in load("model_configs")["models"]}


def fields(model_id: str) -> dict[str, Any] | None:
    """Return the fields of a model's ``config.json`` that the catalog has, by Hugging Face or JumpStart ID; None if it
    has none.
    """
    entry = _entries().get(model_id)
    if entry is None:
        return None
    base = fields(entry["like"]) if "like" in entry else None
    return _with_layers({**(base or {}), **entry["config"]})


@cache
def of_model(model_id: str) -> ModelConfig | None:
    """Return a model's configuration, by Hugging Face or JumpStart ID; None if the catalog has none."""
    found = fields(model_id)
    return None if found is None else ModelConfig.model_validate(found)


def columns(model_id: str) -> dict[str, Any]:
    """Return the columns of ``ModelRow`` that follow from a model's configuration; empty if the catalog has none.

    Without the size of the files: vLLM's recipes have it, and the sum of the modules leaves out the layers that some
    quantized checkpoints keep in more bits. Some copies of configurations lack settings that the models' own have.
    """
    config = of_model(model_id)
    found = config.columns if config is not None else {}
    if (stored := found.get("quantization")) is not None:
        found["quantization"] = stored.model_copy(update={"unstated": ()})
    return {name: value for name, value in found.items() if name != "stored_gb"}


def _with_layers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with a list of all layers in place of a period."""
    layers = config.get("num_hidden_layers")
    return {
        name: _listed(cast("dict[str, int]", value), layers)
        if name in _OF_LAYERS and isinstance(value, dict) and layers is not None
        else _with_layers(cast("dict[str, Any]", value))
        if isinstance(value, dict)
        else value
        for name, value in config.items()
    }


def _listed(period: Mapping[str, int], layers: int) -> list[str | int]:
    kinds = chain.from_iterable(repeat(kind, count) for kind, count in period.items())
    return [int(kind) if kind.isdigit() else kind for kind in islice(cycle(kinds), layers)]
