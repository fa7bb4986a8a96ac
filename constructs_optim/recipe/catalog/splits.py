"""How a model's layers are split among accelerators, and which splits an engine accepts.

Sources: vLLM 0.30, ``QKVParallelLinear`` of ``model_executor/layers/linear.py``, ``model_executor/layers/mamba``, and
``model_executor/layers/quantization``. tests/conformance/test_engine_splits.py compares this with the layers that vLLM
builds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, Field

from .geometry import MOST, Geometry, Method, Name
from .quantized_modules import ATTENTION, LATENT, Merged, Module

Layer = Literal[
    "hidden",
    "attention",
    "key_value",
    "global_key_value",
    "mlp",
    "experts",
    "shared_experts",
    "state_space",
    "linear_attention_keys",
    "linear_attention",
    "attention_gates",
    "delta_gates",
    "layer_inputs",
    "vision",
    "audio",
]
"""A kind of layer, or a part of it that is split by its own number of heads; ``hidden`` is never split. ``vision`` and
``audio`` are the encoders of images and sound."""
MODULES: Mapping[Layer, Module] = {
    "attention": "self_attn",
    "key_value": "self_attn",
    "mlp": "mlp",
    "experts": "experts",
    "shared_experts": "shared_expert",
    "linear_attention": "linear_attn",
}
_HEADS: Mapping[Layer, str] = {
    "attention": "attention heads",
    "key_value": "heads of keys and values",
    "global_key_value": "heads of keys and values in layers with full attention",
    "state_space": "state-space heads",
    "linear_attention_keys": "key heads of linear attention",
    "linear_attention": "value heads of linear attention",
    "vision": "attention heads of the vision encoder",
    "audio": "attention heads of the audio encoder",
}
_GROUPS = "groups of state-space heads"
_WIDTHS: Mapping[Layer, str] = {
    "hidden": "the hidden size",
    "attention": "the width of all attention heads",
    "key_value": "the width of all heads of keys",
    "mlp": "the width of an MLP",
    "experts": "the width of an expert",
    "shared_experts": "the width of the shared experts",
    "linear_attention": "the width of linear attention",
    "state_space": "the number of state-space heads, each with an output of its own",
    "attention_gates": "the number of attention heads, each with a gate of its own",
    "delta_gates": "the number of heads of delta attention, each with a gate of its own",
    "layer_inputs": "the width of the inputs of all layers",
    "vision": "the width of an MLP of the vision encoder",
    "audio": "the width of an MLP of the audio encoder",
}
# Widths of outputs alone. Groups of weights are of the inputs; blocks are also of the outputs, if these are split.
_OUTPUTS = frozenset[Layer]({"state_space", "attention_gates", "delta_gates", "layer_inputs"})
# Outputs of a matrix that the engine makes of several, of which each must consist of whole blocks even if nothing is
# split (vLLM, in_proj_qkvgfab of models/kimi_k3/nvidia/kda.py, and validate_fp8_block_shape).
_MERGED = frozenset[Layer]({"delta_gates"})
# If there are more accelerators than heads of keys and values, several accelerators hold copies of the same head.
_COPIED = frozenset[Layer]({"key_value", "global_key_value"})
# Encoders, whose weights are rarely quantized.
_ENCODERS = frozenset[Layer]({"vision", "audio"})
_COMPRESSED, _FP8, _GROUPED = "compressed-tensors", "fp8", frozenset({"awq", "gptq"})
# vLLM divides groups and blocks of experts, down to these numbers, until they fit (moe_wna16.py, fp8.py).
_LEAST_GROUP, _LEAST_BLOCK = 32, 32
# The layers of Nemotron-H are all named mixer. Other names of state-space layers are in no list of quantized modules.
_WITH_MIXERS = "nemotron_h"
SCHEME = re.compile(r"[A-Za-z0-9_.:, -]{1,200}")
"""How weights and activations are quantized, in the terms of a method."""
MOST_SCHEMES = 100
_Schemes = Annotated[tuple[Annotated[str, Field(pattern=f"^{SCHEME.pattern}$")], ...], Field(max_length=MOST_SCHEMES)]
_Width = Annotated[int, Field(ge=1, le=MOST)]


class Split(BaseModel, frozen=True, extra="forbid"):
    """What is split among accelerators in a kind of layer.

    ``heads`` is the number of heads, ``groups`` the number of their groups. ``width`` is the number of outputs of the
    layer's first matrix and of inputs of its last.
    """

    heads: _Width | None = None
    groups: _Width | None = None
    width: _Width | None = None


class StoredQuantization(BaseModel, frozen=True, extra="forbid"):
    """How weights are quantized, as their ``quantization_config`` says.

    ``group_size`` weights of an output, or a block of ``block_size`` outputs and inputs, share a scale. With
    ``activation_order``, groups consist of weights that are not neighbors (``desc_act`` or ``actorder``). ``ignored``
    are kinds of modules that are not quantized; ``group_sizes`` are those of kinds whose groups have another size, 1
    without groups. ``torn`` are kinds with matrices that are quantized in different ways although engines merge them.
    ``unstated`` are settings that engines need and the configuration lacks. ``schemes`` are how layers are quantized,
    in the terms of the method, and ``expert_schemes`` how experts are.
    """

    method: Method
    bits: Annotated[int, Field(ge=1, le=64)] | None = None
    group_size: _Width | None = None
    block_size: tuple[_Width, _Width] | None = None
    symmetric: bool | None = None
    activation_order: bool = False
    ignored: tuple[Module, ...] = ()
    group_sizes: Mapping[Module, _Width] = {}
    torn: tuple[Module, ...] = ()
    unstated: tuple[Name, ...] = ()
    schemes: _Schemes = ()
    expert_schemes: _Schemes = ()

    def unit(self, layer: Layer, *, refined: bool) -> int:
        """Return the number that must divide an accelerator's part of the width of a kind of layer.

        ``refined`` tells whether the engine divides blocks of experts until they fit.
        """
        module = MODULES.get(layer)
        if module in self.ignored:
            return 1
        group, block = self.group_size or 1, self.block_size or (1, 1)
        if module is not None:
            group = self.group_sizes.get(module, group)
        if layer in _OUTPUTS:
            return block[0]
        if layer == "hidden" and self.block_size is not None:
            return 1
        if self.method == _COMPRESSED:
            return block[0] if layer in _COPIED else max(group, *block)
        if layer in _COPIED:
            return 1
        if self.method == _FP8 or self.block_size is not None:
            return min(block[1], _LEAST_BLOCK) if layer == "experts" and refined else block[1]
        if layer == "experts":
            return min(group, _LEAST_GROUP) if self.method in _GROUPED else 1
        return group


class Misfit(NamedTuple):
    """Something that cannot be split: ``number`` of ``what``, of which an accelerator holds a multiple of ``unit``."""

    number: int
    what: str
    unit: int = 1

    def over(self, degree: int) -> str:
        """Return the reason in words, for ``degree`` accelerators."""
        if self.what in (*_HEADS.values(), _GROUPS):
            return f"{self.number} {self.what} cannot be spread evenly over {degree} accelerators"
        if self.unit == 1:
            return f"{self.what} is {self.number}, which {degree} accelerators cannot split evenly"
        part = f", of which each of {degree} accelerators would hold {self.number / degree:g}" if degree > 1 else ""
        return f"{self.what} is {self.number}{part}, not a multiple of the {self.unit} weights that share a scale"


def splits(model: Geometry) -> dict[Layer, Split]:
    """Return what is split in each kind of layer of a model, as far as its configuration tells."""
    heads, keys, dimension = model.num_attention_heads, model.key_value_heads, model.head_dimension
    is_latent = model.kv_lora_rank is not None
    values = model.v_head_dim if is_latent else dimension
    linear, value = model.linear_num_value_heads, model.linear_value_head_dim
    found: dict[Layer, Split] = {
        "hidden": split_of(width=model.hidden_size),
        "attention": split_of(heads, width=(heads or 0) * (values or 0)),
        "key_value": split_of() if is_latent else split_of(keys, width=(keys or 0) * (dimension or 0)),
        "global_key_value": split_of(model.num_global_key_value_heads),
        "mlp": split_of(width=_dense_width(model)),
        "experts": split_of(width=_expert_width(model)),
        "shared_experts": split_of(width=_shared_width(model)),
        "state_space": split_of(
            model.mamba_num_heads,
            model.n_groups if model.mamba_num_heads else None,
            model.mamba_num_heads if model.model_type == _WITH_MIXERS else None,
        ),
        "linear_attention_keys": split_of(model.linear_num_key_heads),
        "linear_attention": split_of(linear, width=(linear or 0) * (value or 0)),
        "attention_gates": split_of(width=model.gates),
        "delta_gates": split_of(width=model.delta_heads),
        "layer_inputs": split_of(width=(model.hidden_size_per_layer_input or 0) * (model.num_hidden_layers or 0)),
    }
    return {name: split for name, split in found.items() if split != Split()}


def module_layers(model: Geometry) -> dict[Module, list[int]]:
    """Return the layers of each kind of module that a model has, as far as its configuration tells."""
    layers, states = range(model.num_hidden_layers or 1), model.state_layers
    dense = {*range(model.first_k_dense_replace or 0), *model.mlp_only_layers} if model.experts else set(layers)
    having: dict[Module, Callable[[int], bool]] = {
        "self_attn": lambda layer: layer not in states,
        "mlp": lambda layer: layer in dense,
        "experts": lambda layer: layer not in dense,
        "shared_expert": lambda layer: layer not in dense,
        "linear_attn": lambda layer: layer in states,
    }
    kinds = {module for layer in splits(model) if (module := MODULES.get(layer)) is not None} or {"self_attn"}
    return {module: [*filter(has, layers)] or [*layers] for module, has in having.items() if module in kinds}


def merged_in_attention(model: Geometry) -> Merged | None:
    """Return the matrices of attention that the engine merges, if any."""
    if model.kv_lora_rank is None:
        return ATTENTION
    return LATENT if model.q_lora_rank is not None else None


def split_of(heads: int | None = None, groups: int | None = None, width: int | None = None) -> Split:
    """Return what is split of a layer, without numbers that no layer has."""
    numbers = {"heads": heads, "groups": groups, "width": width}
    return Split.model_validate({name: number for name, number in numbers.items() if number and 0 < number <= MOST})


def _dense_width(model: Geometry) -> int | None:
    """Return the width of the layers without a choice of experts; None if there are none."""
    if not model.experts:
        return model.mlp_width
    is_dense = model.first_k_dense_replace or model.mlp_only_layers or (model.sparse_step or 1) > 1
    if model.dense_intermediate_size is None and not is_dense:
        return None
    return model.dense_intermediate_size or model.intermediate_size


def _expert_width(model: Geometry) -> int | None:
    return (model.moe_intermediate_size or model.intermediate_size) if model.experts else None


def _shared_width(model: Geometry) -> int | None:
    if not model.experts:
        return None
    return model.shared_intermediate_size or (model.n_shared_experts or 0) * (model.moe_intermediate_size or 0)


def misfits(
    parts: Mapping[Layer, Split],
    degree: int,
    weights: StoredQuantization | None = None,
    *,
    refined: bool = False,
) -> Iterator[Misfit]:
    """Yield what ``degree`` accelerators cannot split evenly of a model's layers."""
    for name, split in parts.items():
        heads, groups = split.heads or degree, split.groups or 1
        if heads % degree and not (name in _COPIED and degree % heads == 0):
            yield Misfit(heads, _HEADS[name])
            continue
        if groups > 1 and groups % degree:
            yield Misfit(groups, _GROUPS)
        unit = 1 if weights is None or name in _ENCODERS else weights.unit(name, refined=refined)
        if name in _OUTPUTS - _MERGED and degree == 1:
            continue
        holders = 1 if name == "hidden" else min(degree, heads) if name in _COPIED else degree
        if split.width is not None and split.width % (holders * unit):
            yield Misfit(split.width, _WIDTHS[name], unit)
