"""The size of a model as derived from its ``config.json``: columns of ``ModelRow``.

Source: transformers, ``configuration_utils.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, Field

from .geometry import MOST, MOST_ARCHITECTURES, ConfigPart, Geometry, Name, Whole
from .quantization_config import QuantizationConfig
from .splits import Layer, Split, merged_in_attention, module_layers, splits
from .towers import EncoderConfig

_HALF, _WHOLE = 16, 32
_DEFAULT_LABELS = 2


_Positive = Field(strict=True, gt=0, le=MOST)
_Factor = Annotated[int, _Positive] | Annotated[float, _Positive] | None
# What kinds of rope scaling need (transformers 5.24, RotaryEmbeddingConfigMixin.validate_rope of
# modeling_rope_utils.py, which fills in the original positions of some; vLLM 0.30, get_rope of
# layers/rotary_embedding).
_NEEDED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("linear", "dynamic", "ntk", "yarn"), ("factor",)),
    **dict.fromkeys(("deepseek_yarn", "deepseek_llama_scaling"), ("factor", "original_max_position_embeddings")),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    **dict.fromkeys(("longrope", "su"), ("short_factor", "long_factor")),
    **dict.fromkeys(("mrope", "bailing_mrope"), ("mrope_section",)),
    **dict.fromkeys(("default", "proportional", "mllama4", "openpangu"), ()),
}
_LINEAR, WITH_POINT = "linear", "factor_with_a_decimal_point"
"""The factor of linear scaling, of which vLLM takes a whole number for a list (LinearScalingRotaryEmbedding)."""


class _Rope(ConfigPart):
    """How positions beyond those of the training are encoded."""

    rope_type: Name = Field(default="default", validation_alias=AliasChoices("rope_type", "type"))
    # A number in quotes is none (transformers, modeling_rope_utils.py).
    factor: _Factor = None
    original_max_position_embeddings: Whole = None
    low_freq_factor: _Factor = None
    high_freq_factor: _Factor = None
    short_factor: Any = None
    long_factor: Any = None
    mrope_section: Any = None

    @property
    def lacking(self) -> list[str]:
        """The fields that this kind needs and that are missing, as ``yarn.factor``, or the kind if it is unknown."""
        needed = _NEEDED.get(self.rope_type)
        if needed is None:
            return [self.rope_type]
        missing = [name for name in needed if getattr(self, name) is None]
        if self.rope_type == _LINEAR and isinstance(self.factor, int):
            missing.append(WITH_POINT)
        return [f"{self.rope_type}.{name}" for name in missing]


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
# Models whose attention has sinks, weights of their own for no token (transformers, modeling_gpt_oss.py), ALiBi, or
# kernels or sinks that depend on the layer (vLLM 0.30, model_executor/models and models).
_WITH_SINKS, _WITH_ALIBI = frozenset({"gpt_oss"}), frozenset({"bloom"})
_WITH_OTHERS = frozenset(
    {
        *("deepseek_v4", "granite_swa", "granitemoe_swa", "hy_v4", "laguna", "mimo_v2", "mimo_v2_flash", "minimax_m3"),
        *("minimax_m3_vl", "minimax_m3_vl_text", "mpt", "openai_privacy_filter"),
    }
)


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
    quantization_config: QuantizationConfig | None = Field(
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
    vision: EncoderConfig = Field(
        default=EncoderConfig(),
        validation_alias=AliasChoices("vision_config", "vit_config", AliasPath("thinker_config", "vision_config")),
    )
    audio: EncoderConfig = Field(
        default=EncoderConfig(),
        validation_alias=AliasChoices("audio_config", AliasPath("thinker_config", "audio_config")),
    )

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
            "quantization": quantization.stored(module_layers(text), merged_in_attention(text))
            if quantization is not None
            else None,
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
            "splits": {**splits(text), **self._encoders} or None,
            "rope_lacks": text.rope_lacks or None,
            "attention": self._attention_kind,
            "has_fp8_cache": (quantization is not None and quantization.has_fp8_cache) or None,
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
    def _encoders(self) -> dict[Layer, Split]:
        found: dict[Layer, Split] = {"vision": self.vision.split, "audio": self.audio.split}
        return {name: split for name, split in found.items() if split != Split()}

    @property
    def _attention_kind(self) -> str | None:
        """The kind of attention by its name in the catalog's ``attention_backends.json``; None if it is another one.

        Source: vLLM 0.30, the arguments of ``Attention`` and ``MLAAttention`` in ``model_executor/models``.
        """
        text = self.text_config or self
        if text.kv_lora_rank is not None:
            return "sparse latent" if text.is_sparse else "latent"
        kinds = (
            ("sinks", _WITH_SINKS),
            ("both directions", _BOTH_DIRECTIONS),
            ("ALiBi", _WITH_ALIBI),
            (None, _WITH_OTHERS),
        )
        for kind, types in kinds:
            if self.model_type in types or text.model_type in types:
                return kind
        sizes = {text.head_dimension, text.global_head_dim, text.v_head_dim} - {None}
        if text.is_sparse or not self.is_causal or self.use_bidirectional_attention is True:
            return None
        if text.global_head_dim is not None and len(sizes) > 1:
            return "heads of two sizes"
        return f"heads of {text.head_dimension}" if len(sizes) == 1 else None

    @property
    def longest_context(self) -> int | None:
        """The longest context in tokens that vLLM 0.30 accepts without being told to; None if no field states it."""
        stated = self._stated_context
        if stated is None or _SCALES_ITSELF in self.model_type:
            return stated
        factors = [rope.factor or 1 for rope in self._ropes if rope.rope_type not in _SCALED]
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
                factor = rope.factor or 1
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
        return stated if has_original else int(stated * (self.rope.factor or 1))

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
    def rope_lacks(self) -> tuple[str, ...]:
        """What the kinds of rope scaling need and the configuration lacks, as ``yarn.factor``, and unknown kinds."""
        return tuple(name for rope in self._ropes for name in rope.lacking)

    @property
    def _labels(self) -> int | None:
        """The number of classes of a model that classifies; transformers' default is two (``PretrainedConfig``)."""
        if not any("Classification" in name for name in self.architectures):
            return None
        return len(self.id2label) or self.num_labels or _DEFAULT_LABELS

    @property
    def _quantization(self) -> QuantizationConfig | None:
        return self.quantization_config or (self.text_config.quantization_config if self.text_config else None)

    @property
    def _weight_bits(self) -> int | None:
        if self._quantization is not None:
            return self._quantization.weight_bits
        kind = self.dtype or (self.text_config.dtype if self.text_config is not None else None)
        return _WHOLE if kind == "float32" else _HALF

    def _stored_bits(self, module: str, bits: int) -> float:
        return self._quantization.stored_bits(module, bits) if self._quantization is not None else bits
