"""A model's configuration with few layers and, where memory is short, fewer experts: the kinds of its layers remain.

Sources of the fields: transformers, the configurations of its models; Mistral's ``params.json`` (vLLM,
``transformers_utils/configs/mistral.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.runtime.documents import is_list, is_object, object_in

# The parts of a model that read text, under the names that their owners give them (recipe/catalog/model_config.py).
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# Some configurations state the kinds of layers instead.
_KINDS = ("layer_types", "layers_block_type")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts")
# After how many layers a kind of layer comes again.
_PERIODS = (
    *("full_attention_interval", "attn_layer_period", "expert_layer_period", "sliding_window_pattern"),
    *("_sliding_window_pattern", "interleave_moe_layer_step", "decoder_sparse_step", "global_attn_every_n_layers"),
)
# One character per layer (Nemotron-H).
_PATTERN = "hybrid_override_pattern"
_DENSE = "first_k_dense_replace"
# The places of layers of one kind.
_PLACES = ("mlp_only_layers", "full_attn_idxs", "attn_layer_indices")
_FEWEST, _MOST = 2, 8
_BYTES_PER_WEIGHT = 2
# vLLM chooses groups of experts by their two best (model_executor/layers/fused_moe/router/grouped_topk_router.py).
_FEWEST_OF_GROUP = 2

Config = Mapping[str, object]


class FewLayers(NamedTuple):
    """A configuration, and how many of the layers and the experts remain; ``experts`` is None without any."""

    config: dict[str, object]
    layers: tuple[int, int] | None
    experts: tuple[int, int] | None = None


def with_few_layers(config: Config) -> FewLayers:
    """Return a configuration with one layer of each kind, and at least two; unchanged if it states no layers."""
    text = _text_of(config)
    name = next((name for name in _COUNTS if _whole(text, name)), None)
    listed = [len(value) for kinds in _KINDS if is_list(value := text.get(kinds))]
    layers = _whole(text, name) if name is not None else max(listed, default=0)
    if not layers:
        return FewLayers(dict(config), None, _experts(text))
    kept = _kept(text, layers)
    of_layers = {other: _chosen(text[other], kept) for other in _per_layer(text, layers)}
    places = {
        other: [kept.index(place) for place in kept if place in given]
        for other in _PLACES
        if is_list(given := text.get(other))
    }
    changed = {**text, **of_layers, **places}
    if name is not None:
        changed[name] = len(kept)
    if _DENSE in text:
        changed[_DENSE] = sum(place < _whole(text, _DENSE) for place in kept)
    # The last layers read keys and values of earlier ones, which may be gone.
    if "num_kv_shared_layers" in text:
        changed["num_kv_shared_layers"] = 0
    if "max_window_layers" in text:
        changed["max_window_layers"] = min(_whole(text, "max_window_layers"), len(kept))
    return FewLayers(_with_text(config, changed), (len(kept), layers), _experts(text))


def with_fewer_experts(given: FewLayers) -> FewLayers | None:
    """Return the configuration with half of its experts; None if routing needs all that are left."""
    text = _text_of(given.config)
    if given.experts is None:
        return None
    left, groups = given.experts[0] // 2, max(_whole(text, "n_group"), 1)
    fewest = max(*(_whole(text, name) for name in _PER_TOKEN), _FEWEST_OF_GROUP * groups, _FEWEST)
    if left < fewest or left % groups or given.experts[0] % 2:
        return None
    changed = {**text, **{name: left for name in _EXPERTS if name in text}}
    return FewLayers(_with_text(given.config, changed), given.layers, (left, given.experts[1]))


def weights_bytes(config: Config) -> int:
    """Return about how many bytes the weights need in 16 bits; more for an architecture that cannot be summed."""
    whole = ModelConfig.model_validate(config)
    text = ModelConfig.model_validate(_text_of(config))
    tower = object_in(config.get("vision_config"))
    depth, across = _whole(tower, "depth") or _whole(tower, "num_hidden_layers"), _whole(tower, "hidden_size")
    # Attention has four matrices of a layer's width, and an MLP eight.
    of_tower = 12 * depth * across * across
    summed = sum((whole.modules or text.modules).values())
    if summed:
        return _BYTES_PER_WEIGHT * (summed + of_tower)
    width, layers = text.hidden_size or 0, text.num_hidden_layers or 0
    heads = (text.num_attention_heads or 0) * (text.head_dimension or 0)
    experts = (text.experts or 0) * (text.moe_intermediate_size or text.intermediate_size or 0)
    inner = max(text.intermediate_size or 0, experts)
    layer = 4 * width * heads + 3 * width * inner
    return _BYTES_PER_WEIGHT * (2 * width * (text.vocab_size or 0) + layers * layer + of_tower)


def _text_of(config: Config) -> Config:
    part = next((config[name] for name in _TEXT_PARTS if is_object(config.get(name))), None)
    return _text_of(part) if is_object(part) else config


def _with_text(config: Config, text: dict[str, object]) -> dict[str, object]:
    name = next((name for name in _TEXT_PARTS if is_object(config.get(name))), None)
    return text if name is None else {**config, name: _with_text(object_in(config[name]), text)}


def _kept(text: Config, layers: int) -> list[int]:
    """Return the places of the first layer of each kind; of the first layers if nothing tells them apart."""
    named, dense = list(_per_layer(text, layers)), _whole(text, _DENSE)
    if not named and not 0 < dense < layers:
        longest = max(_whole(text, name) for name in _PERIODS)
        return list(range(min(layers, max(longest, _FEWEST), _MOST)))
    lists = [text[name] for name in named]
    kinds: dict[str, list[int]] = {}
    for place in range(layers):
        kind = json.dumps([place < dense, *(each[place] for each in lists if isinstance(each, str | list))])
        kinds.setdefault(kind, []).append(place)
    firsts = [places[0] for places in kinds.values()][:_MOST]
    others = [place for place in range(layers) if place not in firsts]
    return sorted([*firsts, *others[: max(0, _FEWEST - len(firsts))]])


def _per_layer(text: Config, layers: int) -> Iterator[str]:
    """Yield the names of the fields that have a value for each layer."""
    for name, value in text.items():
        is_pattern = name == _PATTERN and isinstance(value, str)
        is_of_layers = is_list(value) and value != list(range(layers)) and name not in _PLACES
        if (is_pattern or is_of_layers) and isinstance(value, str | list) and len(value) == layers > 1:
            yield name


def _chosen(value: object, kept: list[int]) -> object:
    if isinstance(value, str):
        return "".join(value[place] for place in kept)
    return [value[place] for place in kept] if is_list(value) else value


def _experts(text: Config) -> tuple[int, int] | None:
    found = next((_whole(text, name) for name in _EXPERTS if _whole(text, name)), 0)
    return (found, found) if found else None


def _whole(config: Config, name: str) -> int:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
