"""What a model's ``config.json`` says of its size: columns of :class:`ModelRow`.

Sources: transformers, ``configuration_utils.py`` and the configurations of its models; compressed-tensors,
``quant_config.py``; vLLM, ``model_executor/layers/quantization``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

_HALF, _WHOLE = 16, 32
# Bits of a weight by the method's name, where the configuration has no number.
_BITS = {"fp8": 8, "fbgemm_fp8": 8, "mxfp8": 8, "mxfp4": 4, "nvfp4": 4, "fp4": 4, "modelopt_fp4": 4}
# Precisions, by the name of a method or an algorithm, of those methods that have a single one.
_PRECISIONS = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "fp8_pb_wo": "fp8",
    "mxfp4": "mxfp4",
    "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
}
_INTEGERS = frozenset({"awq", "gptq"})
# Of weights in 4-bit floating point, by how many share a scale (compressed-tensors, quant_scheme.py).
_FLOAT4 = {16: "nvfp4", 32: "mxfp4"}


class _Weights(BaseModel):
    num_bits: int | None = None
    type: str | None = None
    group_size: int | None = None

    @property
    def precision(self) -> str | None:
        """The precision of weights of this scheme; None where it has no name."""
        if self.type == "int" and self.num_bits is not None:
            return f"int{self.num_bits}"
        if self.type != "float":
            return None
        return "fp8" if self.num_bits == 8 and self.group_size is None else _FLOAT4.get(self.group_size or 0)


class _Group(BaseModel):
    weights: _Weights | None = None


class _Quantization(BaseModel):
    quant_method: str = ""
    quant_algo: str = ""
    bits: int | None = None
    config_groups: Mapping[str, _Group] = {}

    @property
    def weight_bits(self) -> int:
        """Bits of a weight, of the layers that have the fewest."""
        groups = [group.weights.num_bits for group in self.config_groups.values() if group.weights is not None]
        named = [_BITS.get(name.lower()) for name in (self.quant_method, self.quant_algo)]
        known = [bits for bits in (self.bits, *groups, *named) if bits is not None]
        return min(known, default=_HALF)

    @property
    def precision(self) -> str | None:
        """How the weights are quantized, by the names of the catalog; None where layers differ or it is not known."""
        groups = {group.weights.precision for group in self.config_groups.values() if group.weights is not None}
        if groups:
            return groups.pop() if len(groups) == 1 else None
        method, algorithm = self.quant_method.lower(), self.quant_algo.lower()
        if method in _INTEGERS and self.bits is not None:
            return f"int{self.bits}"
        return _PRECISIONS.get(algorithm) or _PRECISIONS.get(method)


class ModelConfig(BaseModel):
    """The members of a ``config.json`` that decide a model's size."""

    text_config: ModelConfig | None = None
    dtype: str | None = Field(default=None, validation_alias=AliasChoices("dtype", "torch_dtype"))
    quantization_config: _Quantization | None = Field(
        default=None, validation_alias=AliasChoices("quantization_config", "compression_config")
    )
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    tie_word_embeddings: bool = False
    max_position_embeddings: int | None = None
    layer_types: tuple[str, ...] = ()
    kv_lora_rank: int | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of a model's row; those of the text part where the model reads more than text.

        Models with multi-head latent attention have no geometry: their KV cache has no keys and values.
        """
        text = self.text_config or self
        heads, hidden = text.num_attention_heads, text.hidden_size
        is_latent = text.kv_lora_rank is not None
        found = {
            "weight_bits": self._weight_bits,
            "precision": self.quantization_config.precision if self.quantization_config is not None else None,
            "layers": text.num_hidden_layers if not is_latent else None,
            "key_value_heads": (text.num_key_value_heads or heads) if not is_latent else None,
            "head_dimension": text.head_dim or (hidden // heads if hidden and heads else None),
            "hidden_size": hidden,
            "vocabulary_size": text.vocab_size,
            "tied_embeddings": text.tie_word_embeddings,
            "attention_heads": heads,
            "max_position": text.max_position_embeddings,
            "full_attention_layers": text.layer_types.count("full_attention") or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def _weight_bits(self) -> int:
        if self.quantization_config is not None:
            return self.quantization_config.weight_bits
        kind = self.dtype or (self.text_config.dtype if self.text_config is not None else None)
        return _WHOLE if kind == "float32" else _HALF
