"""The size of a model as derived from its ``config.json``: columns of ``ModelRow``.

Sources: transformers, ``configuration_utils.py`` and ``utils/quantization_config.py``; compressed-tensors,
``quant_config.py``; vLLM, ``model_executor/layers/quantization``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, Field

from .geometry import MOST, MOST_ARCHITECTURES, ConfigPart, Geometry, Method, Name, Whole
from .splits import StoredQuantization, ignored_modules, splits

_HALF, _WHOLE, _MOST_BITS = 16, 32, 64
_DEFAULT_LABELS = 2
# Bits per weight by the method's name, for configurations without a number.
_BITS = {"fp8": 8, "fbgemm_fp8": 8, "mxfp8": 8, "mxfp4": 4, "nvfp4": 4, "fp4": 4, "modelopt_fp4": 4, "eetq": 8}
# Precisions by the name of a method or algorithm, for methods with a single precision.
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
_OF_GROUPS = "compressed-tensors"
# MLX names no method: only the bits per weight and the weights per scale.
_MLX = "mlx"
# Methods by parts of the names of ModelOpt's algorithms.
_OF_ALGORITHMS = {"MIXED_PRECISION": "modelopt_mixed", "MXFP8": "modelopt_mxfp8", "FP4": "modelopt_fp4"}
# Methods with formats of their own, which are named after the method.
_OWN_FORMATS = frozenset({"bitsandbytes", "eetq", "hqq", "quark", "torchao"})
# Bits per weight in the names of torchao's configurations (Int8DynamicActivationInt4WeightConfig, int4_weight_only) and
# of Quark's types (fp8_e4m3, uint4).
_TYPE_BITS = re.compile(r"(?:int|float)(\d+)_?weight|^(?:u?int|fp)(\d+)(?:_e\dm\d)?$", re.IGNORECASE)
# Precisions of floating-point weights, by their bits and the number of weights per scale, 0 without groups
# (compressed-tensors, quant_scheme.py).
_FLOATS = {(8, 0): "fp8", (8, 32): "mxfp8", (4, 16): "nvfp4", (4, 32): "mxfp4"}
# Bits per weight including its share of the scales. NVFP4: 16 weights share 8 bits (compressed-tensors,
# quant_scheme.py). MXFP4 and MXFP8: 32 share 8 bits (OCP Microscaling Formats, 1.0).
_WITH_SCALES = {"fp4": 4 + 8 / 16, "nvfp4": 4 + 8 / 16, "mxfp4": 4 + 8 / 32, "mxfp8": 8 + 8 / 32}
_GROUP_SIZE = 128
# Modules that no method quantizes, and modules that some configurations exclude (AutoAWQ, "modules to not convert").
_NEVER, _EXCEPTED = frozenset({"embed_tokens", "lm_head", "router"}), ("self_attn", "shared_expert")


def bits_with_scales(bits: int, precision: str | None, group_size: int = _GROUP_SIZE) -> float:
    """Return the bits per stored weight including its share of the scales. AWQ and GPTQ store a 16-bit scale and a
    4-bit zero point for each group of weights.
    """
    return _WITH_SCALES.get(precision or "", 4 + (16 + 4) / group_size if bits == 4 else bits)


_Block = tuple[Annotated[int, Field(ge=1, le=MOST)], Annotated[int, Field(ge=1, le=MOST)]]


# Groups of weights that are not neighbors (compressed-tensors, ActivationOrdering).
_ORDERED = frozenset({"group", "dynamic"})


class _Weights(ConfigPart):
    num_bits: Whole = None
    type: str | None = None
    group_size: Whole = None
    symmetric: bool | None = None
    block_structure: _Block | None = None
    actorder: str | None = None

    @property
    def precision(self) -> str | None:
        """The precision of weights in this scheme; None if it has no name."""
        if self.type == "int" and self.num_bits is not None:
            return f"int{self.num_bits}"
        if self.type != "float":
            return None
        return _FLOATS.get((self.num_bits or 0, self.group_size or 0))


class _Group(ConfigPart):
    weights: _Weights | None = None


class _Quantization(ConfigPart):
    quant_method: Method = ""
    quant_algo: str = Field(
        default="", validation_alias=AliasChoices("quant_algo", AliasPath("quantization", "quant_algo"))
    )
    # Without a quant_method, vLLM sees an algorithm of ModelOpt only here.
    inner_algo: str = Field(default="", validation_alias=AliasPath("quantization", "quant_algo"))
    producer: str = Field(default="", validation_alias=AliasPath("producer", "name"))
    bits: Whole = Field(
        default=None,
        validation_alias=AliasChoices("bits", AliasPath("quant_config", "weight_quant_params", "nbits")),
    )
    load_in_4bit: bool = False
    load_in_8bit: bool = False
    type_name: str = Field(
        default="",
        validation_alias=AliasChoices(
            AliasPath("quant_type", "default", "_type"),
            "quant_type",
            AliasPath("global_quant_config", "weight", "dtype"),
        ),
    )
    group_size: Whole = Field(
        default=None,
        validation_alias=AliasChoices("group_size", "q_group_size", AliasPath("quantization", "group_size")),
    )
    # A block's outputs and inputs.
    weight_block_size: _Block | None = None
    desc_act: bool = False
    sym: bool | None = None
    config_groups: Mapping[str, _Group] = {}
    excepted: tuple[str, ...] | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "modules_to_not_convert", "ignore", "exclude_modules", AliasPath("quantization", "exclude_modules")
        ),
    )

    # How the KV cache is stored: an algorithm's name, or a scheme like that of weights.
    cache: str | _Weights = Field(
        default="",
        validation_alias=AliasChoices(
            "kv_cache_scheme", "kv_cache_quant_algo", AliasPath("quantization", "kv_cache_quant_algo")
        ),
    )

    @property
    def has_fp8_cache(self) -> bool:
        """Whether the KV cache is stored in FP8, unless the engine is told otherwise."""
        if self.method is None:
            return False
        if isinstance(self.cache, str):
            return self.cache.lower() == "fp8"
        return (self.cache.num_bits, self.cache.type) == (8, "float")

    @property
    def stored(self) -> StoredQuantization | None:
        """How the weights are quantized; None if the configuration names no method."""
        if self.method is None:
            return None
        groups = [each.weights for each in self.config_groups.values() if each.weights is not None]
        sizes = [size for size in (self.group_size, *(each.group_size for each in groups)) if size is not None]
        blocks = [each for each in (self.weight_block_size, *(group.block_structure for group in groups)) if each]
        symmetric = [each for each in (self.sym, *(group.symmetric for group in groups)) if each is not None]
        return StoredQuantization(
            method=self.method,
            bits=bits if (bits := self.weight_bits) is not None and 0 < bits <= _MOST_BITS else None,
            group_size=max((size for size in sizes if size > 0), default=None),
            block_size=next(iter(blocks), None),
            symmetric=all(symmetric) if symmetric else None,
            # With one group, the order changes nothing.
            activation_order=(self.desc_act and bool(sizes) and max(sizes) > 0)
            or any(each.actorder in _ORDERED for each in groups),
            ignored=ignored_modules(self.excepted or ()),
        )

    @property
    def method(self) -> str | None:
        """The name under which engines have the method; None if the configuration names none.

        Source: vLLM, ``_normalize_quantization_config`` of ``transformers_utils/model_arch_config_convertor.py``, and
        ``override_quantization_method`` of ``quantization/modelopt.py``.
        """
        is_of_modelopt = self.producer == "modelopt" and bool(self.quant_method or self.inner_algo)
        if self.quant_algo and (is_of_modelopt or self.quant_method.lower().startswith("modelopt")):
            return next((name for part, name in _OF_ALGORITHMS.items() if part in self.quant_algo.upper()), "modelopt")
        if not (self.quant_method or self.quant_algo) and self.bits is not None and self.group_size is not None:
            return _MLX
        return self.quant_method.lower().replace("compressed_tensors", "compressed-tensors") or None

    def stored_bits(self, module: str, bits: int) -> float:
        """Return the bits per weight of a kind of module, including scales, if quantized weights have ``bits``."""
        is_excepted = any(kind in module and any(kind in name for name in self.excepted or ()) for kind in _EXCEPTED)
        if module in _NEVER or is_excepted:
            return max(_HALF, bits)
        sizes = [self.group_size, *(each.weights.group_size for each in self.config_groups.values() if each.weights)]
        least = min((size for size in sizes if size is not None and size > 0), default=_GROUP_SIZE)
        return bits_with_scales(bits, self.precision, least)

    @property
    def weight_bits(self) -> int | None:
        """Bits per weight of the layers with the fewest bits; None if unknown."""
        groups = [group.weights.num_bits for group in self.config_groups.values() if group.weights is not None]
        named = [_BITS.get(name.lower()) for name in (self.quant_method, self.quant_algo)]
        loaded = [4 if self.load_in_4bit else 8 if self.load_in_8bit else None]
        typed = [int(found[1] or found[2]) if (found := _TYPE_BITS.search(self.type_name)) is not None else None]
        known = [bits for bits in (self.bits, *groups, *named, *loaded, *typed) if bits is not None]
        # If no group quantizes weights, only the KV cache is quantized, or the weights are sparse.
        return min(known, default=_HALF if self.quant_method == _OF_GROUPS else None)

    @property
    def precision(self) -> str | None:
        """The precision of the weights by the catalog's names, or the method's name if it has a format of its own; None
        if layers differ or the precision is unknown.
        """
        groups = {group.weights.precision for group in self.config_groups.values() if group.weights is not None}
        if groups:
            return groups.pop() if len(groups) == 1 else None
        method, algorithm = self.quant_method.lower(), self.quant_algo.lower()
        if method in _INTEGERS and self.bits is not None:
            return f"int{self.bits}"
        return _PRECISIONS.get(algorithm) or _PRECISIONS.get(method) or (method if method in _OWN_FORMATS else None)


class _Rope(ConfigPart):
    """How positions beyond those of the training are encoded."""

    rope_type: str = Field(default="", validation_alias=AliasChoices("rope_type", "type"))
    factor: float = Field(default=1.0, gt=0, le=MOST)
    original_max_position_embeddings: Whole = None


# The kinds of rope scaling with which the configuration states positions that are already scaled (vLLM,
# _get_and_verify_max_len of config/model.py): all since 0.30, and of all releases those below.
_SCALED_BEFORE = frozenset({"su", "longrope", "llama3"})
_SCALED = _SCALED_BEFORE | {"yarn", "deepseek_yarn", "deepseek_llama_scaling"}
# Before, vLLM multiplied the original positions.
_YARN = "yarn"
# Gemma 3 states scaled positions too.
_SCALES_ITSELF = "gemma3"


# Models in which the tokens of an image attend to each other (vLLM 0.30, is_mm_prefix_lm of
# transformers_utils/model_arch_config_convertor.py).
_BOTH_DIRECTIONS = frozenset({"bagel", "gemma3", "molmo2", "moondream3", "paligemma"})
# The least compute capability of GPUs with FP8 caches in Triton's kernels, and in FlashInfer's (vLLM 0.30,
# v1/attention/backends/triton_attn.py, mla/triton_mla.py and flashinfer.py).
_TRITON_FP8, _FLASHINFER_FP8 = 8.9, 8.0


class ModelConfig(Geometry):
    """The fields of a ``config.json`` that determine a model's size."""

    # The part of a model that reads more than text, under the names that its owners give it (transformers,
    # get_text_config of configuration_utils.py; vLLM, transformers_utils/configs).
    text_config: ModelConfig | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "text_config", "llm_config", "language_config", AliasPath("thinker_config", "text_config")
        ),
    )
    # A configuration with several architectures has the one that runs first (vLLM, ModelConfig.architectures).
    architectures: Annotated[tuple[Name, ...], Field(max_length=MOST_ARCHITECTURES)] = ()
    # The Python classes in the repository that read and run the model.
    auto_map: Mapping[str, Any] = {}
    num_labels: Whole = None
    is_causal: bool = True
    # True, or the kinds of tokens that do.
    use_bidirectional_attention: bool | str | None = None
    id2label: Mapping[str, Any] = {}
    dtype: str | None = Field(default=None, validation_alias=AliasChoices("dtype", "torch_dtype"))
    quantization_config: _Quantization | None = Field(
        # The last is MLX's (mlx-lm, save_config of utils.py).
        default=None,
        validation_alias=AliasChoices("quantization_config", "compression_config", "quantization"),
    )
    # The names of the longest context, of which the smallest counts, and one that comes before all (vLLM,
    # derive_max_model_len_and_key of transformers_utils/model_arch_config_convertor.py).
    max_position_embeddings: Whole = None
    n_positions: Whole = None
    max_seq_len: Whole = None
    seq_length: Whole = None
    max_target_positions: Whole = None
    max_sequence_length: Whole = None
    max_seq_length: Whole = None
    seq_len: Whole = None
    model_max_length: Whole = None
    original_max_position_embeddings: Whole = None
    rope: _Rope | Mapping[str, _Rope | None] | None = Field(
        default=None, validation_alias=AliasChoices("rope_parameters", "rope_scaling")
    )
    # The part that reads images or sound, whose parameters are not summed.
    tower: Any = Field(default=None, validation_alias=AliasChoices("vision_config", "audio_config"))

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of a model's row, from the text part if the model reads more than text.

        Models with multi-head latent attention have the size of their latent instead of keys and values. The size of
        the weights is present for text-only models with an architecture whose parameters can be summed.
        """
        text, quantization, bits = self.text_config or self, self._quantization, self._weight_bits
        # transformers ties the text part's embeddings if the whole model's are tied.
        text = text.model_copy(update={"tie_word_embeddings": text.tie_word_embeddings or self.tie_word_embeddings})
        found = {
            "architectures": self.architectures or None,
            "model_type": self.model_type or None,
            "has_code": "AutoConfig" in self.auto_map or None,
            "labels": self._labels,
            "is_bidirectional": (not self.is_causal or self.use_bidirectional_attention is True) or None,
            "quantization": quantization.stored if quantization is not None else None,
            "weight_bits": bits,
            "precision": quantization.precision if quantization is not None else None,
            "head_dimension": text.head_dimension,
            "hidden_size": text.hidden_size,
            "vocabulary_size": text.vocab_size,
            "tied_embeddings": text.tie_word_embeddings,
            "attention_heads": text.num_attention_heads,
            "max_position": (longest := text.longest_context),
            "max_position_in_vllm_0_29": other if (other := text.longest_context_in_vllm_0_29) != longest else None,
            "max_position_in_sglang": other if (other := text.longest_context_in_sglang) != longest else None,
            "full_attention_layers": text.full_attention_layers,
            "splits": splits(text) or None,
            "sparse_attention": True if text.is_sparse and text.kv_lora_rank is not None else None,
            "fp8_cache_capability": self._fp8_cache_capability,
            **text.cache,
        }
        if (modules := text.modules) and bits is not None and self.tower is None:
            stored = sum(count * self._stored_bits(module, bits) for module, count in modules.items())
            found |= {
                "parameters_billion": round(sum(modules.values()) / 1e9, 3),
                "stored_gb": round(stored / 8e9, 3),
            }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def _fp8_cache_capability(self) -> float | None:
        """The least compute capability of GPUs on which vLLM stores the KV cache as the configuration says; None if
        that is not FP8. For latent attention, attention in both directions, and heads of two sizes
        (Gemma4Config of vLLM 0.30, model_executor/models/config.py), older GPUs have Triton's kernels alone.
        """
        text, quantization = self.text_config or self, self._quantization
        if quantization is None or not quantization.has_fp8_cache:
            return None
        has_two_sizes = text.global_head_dim not in (None, text.head_dimension)
        is_of_triton = text.kv_lora_rank is not None or has_two_sizes or self.model_type in _BOTH_DIRECTIONS
        return _TRITON_FP8 if is_of_triton else _FLASHINFER_FP8

    @property
    def longest_context(self) -> int | None:
        """The longest context in tokens that vLLM 0.30 accepts without being told to; None if no field states it."""
        stated = self._stated_context
        if stated is None or _SCALES_ITSELF in self.model_type:
            return stated
        factors = [rope.factor for rope in self._ropes if rope.rope_type not in _SCALED]
        return int(stated * (factors[-1] if factors else 1))

    @property
    def longest_context_in_vllm_0_29(self) -> int | None:
        """The same for releases of vLLM up to 0.29."""
        stated = self._stated_context
        if stated is None or _SCALES_ITSELF in self.model_type:
            return stated
        positions, factor = stated, 1.0
        for rope in self._ropes:
            if rope.rope_type not in _SCALED_BEFORE:
                factor = rope.factor
            if rope.rope_type == _YARN:
                # Without them, transformers fills in max_position_embeddings (standardize_rope_params).
                original = self.original_max_position_embeddings or rope.original_max_position_embeddings
                positions = original or self.max_position_embeddings or stated
        return max(int(positions * factor), self.model_max_length or 0)

    @property
    def longest_context_in_sglang(self) -> int | None:
        """The same for SGLang.

        Source: ``get_context_length`` of ``srt/utils/hf_transformers/common.py``, the same from 0.5.13 to 0.5.20.
        """
        named = (
            *(self.max_sequence_length, self.seq_length, self.max_seq_len, self.model_max_length),
            *(self.max_position_embeddings, self.n_positions),
        )
        stated = next((each for each in named if each is not None), None)
        if stated is None or not isinstance(self.rope, _Rope) or _SCALES_ITSELF in self.model_type:
            return stated
        # transformers fills in the original positions of these kinds (standardize_rope_params).
        has_original = self.rope.original_max_position_embeddings is not None or self.rope.rope_type in _SCALED
        return stated if has_original else int(stated * self.rope.factor)

    @property
    def _stated_context(self) -> int | None:
        named = (
            *(self.max_position_embeddings, self.n_positions, self.max_seq_len, self.seq_length),
            *(self.max_target_positions, self.max_sequence_length, self.max_seq_length, self.seq_len),
        )
        return self.model_max_length or min((each for each in named if each is not None), default=None)

    @property
    def _ropes(self) -> list[_Rope]:
        """How positions are encoded, in each kind of layer if they differ."""
        ropes = [self.rope] if isinstance(self.rope, _Rope) else (self.rope or {}).values()
        return [rope for rope in ropes if rope is not None]

    @property
    def _labels(self) -> int | None:
        """The number of classes of a model that classifies; transformers' default is two (``PretrainedConfig``)."""
        if not any("Classification" in name for name in self.architectures):
            return None
        return len(self.id2label) or self.num_labels or _DEFAULT_LABELS

    @property
    def _quantization(self) -> _Quantization | None:
        return self.quantization_config or (self.text_config.quantization_config if self.text_config else None)

    @property
    def _weight_bits(self) -> int | None:
        if self._quantization is not None:
            return self._quantization.weight_bits
        kind = self.dtype or (self.text_config.dtype if self.text_config is not None else None)
        return _WHOLE if kind == "float32" else _HALF

    def _stored_bits(self, module: str, bits: int) -> float:
        return self._quantization.stored_bits(module, bits) if self._quantization is not None else bits
