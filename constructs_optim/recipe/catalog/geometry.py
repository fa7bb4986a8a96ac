"""The geometry of a model from its ``config.json``: parameters of its modules, and bytes that its layers keep per
request.

Sources: transformers, the configurations of its models; vLLM, ``v1/kv_cache_interface.py``. For the states of linear
attention: vLLM, ``model_executor/layers/mamba/mamba_utils.py``. For multi-query attention: vLLM,
``transformers_utils/model_arch_config_convertor.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, cast

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic import field_validator as checked

# Far beyond any model's, and small enough that the work for each number and each layer is.
MOST, _MOST_LAYERS = 1_000_000_000, 10_000
MOST_ARCHITECTURES = 8
"""The number of architectures that a configuration may name."""
# Some models have a list with one number per layer instead; their sizes are not derived.
Whole = Annotated[int, Field(strict=True, ge=-MOST, le=MOST)] | None
Name = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_.-]+$")]
"""A name of an architecture or a type of models."""
Method = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_./-]+$")]
"""A name of a method of quantization."""
_Layers = Annotated[int, Field(strict=True, ge=0, le=_MOST_LAYERS)] | None
_OfLayers = Field(max_length=_MOST_LAYERS)
# Architectures that consist of the modules in ``Geometry.modules``: tests/recipe/test_geometry.py compares their
# sums with published sizes.
_SUMMED = frozenset(
    {"deepseek_v3", "gpt_oss", "kimi_k2", "llama", "minimax_m2", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"}
)
# Models whose MLPs are four times as wide as their layers, unless the file says otherwise (transformers,
# modeling_bloom.py, and the configuration classes of the others).
_FOURFOLD = frozenset(
    {
        *("RefinedWeb", "RefinedWebModel", "bloom", "codegen", "falcon"),
        *("gpt2", "gpt_bigcode", "gpt_neo", "gptj", "mpt"),
    }
)
# What a layer keeps of a request: all tokens, a window of tokens, a state of fixed size, or nothing.
_ALL, _WINDOW, _STATE, _NOTHING = "full_attention", "sliding_attention", "linear_attention", "none"
_KINDS = {
    _ALL: _ALL,
    "attention": _ALL,
    _WINDOW: _WINDOW,
    "chunked_attention": _WINDOW,
    _STATE: _STATE,
    "mamba": _STATE,
}
# Nemotron-H: attention, Mamba, experts and MLP.
_LETTERS = {"*": _ALL, "M": _STATE, "E": _NOTHING, "-": _NOTHING}
# Llama 4: every fourth layer attends to all tokens, the others to a chunk (transformers, configuration_llama4.py).
_CHUNKED_INTERVAL = 4
# vLLM keeps two states per request when prefix caching is on (MambaSpec.max_memory_usage_bytes).
_STATES = 2
_HALF = 2
"""Bytes per value of the KV cache in half precision."""
# The number of one-byte values that share a 4-byte scale in a key of the indexer, which chooses the tokens that sparse
# attention reads (vLLM 0.30, model_executor/models/deepseek_v2.py, Indexer).
_INDEXED_GROUP = 128
_INDEXER = "full"


class ConfigPart(BaseModel):
    """A part of a configuration file. A field that cannot be read has its default, because an engine may read it.

    Their names in the file, or the first of several, are added to the validation's context if that is a set.
    """

    @checked("*", mode="wrap")
    @classmethod
    def _or_default(cls, given: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        name = str(info.field_name)
        default = cls.model_fields[name].get_default(call_default_factory=True)
        if given is None:
            return default
        try:
            return read(given)
        except ValidationError:
            unread: object = info.context
            if isinstance(unread, set):
                cast("set[str]", unread).add(cls._name_in_files(name))
            return default

    @classmethod
    def _name_in_files(cls, field: str) -> str:
        """Return the first name that a field has in a file."""
        alias = cls.model_fields[field].validation_alias
        first = alias.choices[0] if isinstance(alias, AliasChoices) else alias
        return ".".join(map(str, first.path)) if isinstance(first, AliasPath) else first or field


class _BlockAttention(ConfigPart):
    n_heads_in_group: Whole = None
    no_op: bool = False


class _Block(ConfigPart):
    """A layer that a search of architectures has chosen (Nemotron NAS)."""

    attention: _BlockAttention = _BlockAttention()


class Geometry(ConfigPart):
    """The fields of a ``config.json``, or of its text part, that determine a model's size.

    A field is None if the file lacks it.
    """

    model_type: Name = ""
    # Older models have names of their own (transformers, attribute_map of their configuration classes; vLLM,
    # transformers_utils/configs/chatglm.py and mpt.py).
    num_hidden_layers: _Layers = Field(
        default=None, validation_alias=AliasChoices("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    )
    num_attention_heads: Whole = Field(
        default=None,
        validation_alias=AliasChoices(
            "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"
        ),
    )
    num_key_value_heads: Whole = Field(
        default=None,
        validation_alias=AliasChoices(
            "num_key_value_heads",
            "num_kv_heads",
            "n_head_kv",
            "multi_query_group_num",
            AliasPath("attn_config", "kv_n_heads"),
        ),
    )
    # Falcon has one head of keys and values, except in its newer architecture.
    multi_query: bool = False
    new_decoder_architecture: bool = False
    head_dim: Whole = Field(default=None, validation_alias=AliasChoices("head_dim", "kv_channels"))
    hidden_size: Whole = Field(default=None, validation_alias=AliasChoices("hidden_size", "n_embd", "d_model"))
    vocab_size: Whole = Field(default=None, validation_alias=AliasChoices("vocab_size", "padded_vocab_size"))
    tie_word_embeddings: bool = False
    # MLPs, and mixtures of experts, whose first layers may be dense.
    intermediate_size: Whole = Field(
        default=None,
        validation_alias=AliasChoices(
            "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", AliasPath("ffn_config", "ffn_hidden_size")
        ),
    )
    moe_intermediate_size: Whole = None
    experts: Whole = Field(
        default=None,
        validation_alias=AliasChoices(
            "num_experts",
            "num_local_experts",
            "n_routed_experts",
            "moe_num_experts",
            AliasPath("ffn_config", "moe_num_experts"),
        ),
    )
    n_shared_experts: Whole = Field(
        default=None, validation_alias=AliasChoices("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    )
    shared_intermediate_size: Whole = Field(
        default=None,
        validation_alias=AliasChoices(
            "shared_intermediate_size",
            "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "share_expert_dim",
        ),
    )
    first_k_dense_replace: Whole = Field(
        default=None,
        validation_alias=AliasChoices("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    )
    # A width of the dense layers of a mixture that differs from the experts'.
    dense_intermediate_size: Whole = Field(
        default=None, validation_alias=AliasChoices("intermediate_size_mlp", "dense_intermediate_size")
    )
    mlp_only_layers: Annotated[tuple[int, ...], _OfLayers] = ()
    sparse_step: Whole = Field(
        default=None, validation_alias=AliasChoices("decoder_sparse_step", "interleave_moe_layer_step")
    )
    # Windows.
    layer_types: Annotated[tuple[str, ...], _OfLayers] | None = Field(
        default=None, validation_alias=AliasChoices("layer_types", "layers_block_type")
    )
    sliding_window: Whole = None
    sliding_window_pattern: Whole = None
    attention_chunk_size: Whole = None
    num_global_key_value_heads: Whole = None
    global_head_dim: Whole = None
    # The last layers, which use the keys and values of earlier ones (vLLM, models/gemma4.py).
    num_kv_shared_layers: Whole = None
    # Other descriptions of layers that differ in what they keep, which is not counted here.
    uncounted: Any = Field(
        default=None,
        validation_alias=AliasChoices(
            "hybrid_layer_pattern",
            "compress_ratios",
            "sparse_attention_config",
            "layer_group_size",
            "linear_attn_config",
        ),
    )
    # A further input of every layer (vLLM, models/gemma4.py), and gates of attention's outputs (models/laguna.py).
    hidden_size_per_layer_input: Whole = None
    gating: bool | str = True
    # Heads of Kimi Delta Attention; in Ling 3, as many as those of attention (vLLM, models/bailing_moe_v3.py).
    delta_heads: Whole = Field(default=None, validation_alias=AliasPath("linear_attn_config", "num_heads"))
    no_kda_lora: bool | None = None
    # Layers that differ from each other.
    block_configs: Annotated[tuple[_Block, ...], _OfLayers] = ()
    # Multi-head latent attention.
    kv_lora_rank: Whole = None
    q_lora_rank: Whole = None
    qk_nope_head_dim: Whole = None
    qk_rope_head_dim: Whole = None
    v_head_dim: Whole = None
    index_head_dim: Whole = None
    # Layers that choose tokens, "full", and those that share a choice and keep no keys for it.
    indexer_types: Annotated[tuple[str, ...], _OfLayers] | None = None
    # Linear attention: Gated DeltaNet, Mamba and Mamba 2.
    full_attention_interval: Whole = Field(
        default=None, validation_alias=AliasChoices("full_attention_interval", "attn_layer_period")
    )
    attn_layer_offset: Whole = None
    attn_layer_indices: Annotated[tuple[int, ...], _OfLayers] | None = None
    hybrid_override_pattern: Annotated[str, _OfLayers] | None = None
    linear_num_key_heads: Whole = None
    linear_num_value_heads: Whole = None
    linear_key_head_dim: Whole = None
    linear_value_head_dim: Whole = None
    mamba_num_heads: Whole = Field(default=None, validation_alias=AliasChoices("mamba_num_heads", "mamba_n_heads"))
    mamba_head_dim: Whole = Field(default=None, validation_alias=AliasChoices("mamba_head_dim", "mamba_d_head"))
    mamba_expand: Whole = None
    ssm_state_size: Whole = Field(default=None, validation_alias=AliasChoices("ssm_state_size", "mamba_d_state"))
    n_groups: Whole = Field(default=None, validation_alias=AliasChoices("n_groups", "mamba_n_groups"))
    convolution: Whole = Field(
        default=4, validation_alias=AliasChoices("linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv")
    )
    state_dtype: str | None = Field(
        default=None, validation_alias=AliasChoices("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    )

    @property
    def key_value_heads(self) -> int | None:
        """The number of heads with their own keys and values; by default the number of attention heads."""
        if self.multi_query and not self.new_decoder_architecture:
            return 1
        if (groups := self._groups) and self.num_attention_heads:
            return self.num_attention_heads // max(groups)
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def _groups(self) -> list[int]:
        """The attention heads per head of keys and values, of each layer with attention; empty if layers do not differ.

        Source: vLLM, ``NemotronNasModelArchConfigConvertor``.
        """
        attention = [block.attention for block in self.block_configs if not block.attention.no_op]
        sizes = [each.n_heads_in_group for each in attention if each.n_heads_in_group]
        return sizes if len(sizes) == len(attention) else []

    @property
    def mlp_width(self) -> int | None:
        """The width of an MLP."""
        if self.intermediate_size is None and self.model_type in _FOURFOLD and self.hidden_size is not None:
            return 4 * self.hidden_size
        return self.intermediate_size

    @property
    def head_dimension(self) -> int | None:
        """The size of a head."""
        hidden, heads = self.hidden_size, self.num_attention_heads
        return self.head_dim or (hidden // heads if hidden and heads else None)

    @property
    def is_sparse(self) -> bool:
        """Whether an indexer chooses the tokens that attention reads."""
        return self.index_head_dim is not None

    @property
    def gates(self) -> int | None:
        """The number of attention heads, if each has a gate of its own."""
        is_gated = self.model_type == "laguna" and self.gating in (True, "per-head")
        return self.num_attention_heads if is_gated or self.no_kda_lora is not None else None

    @property
    def full_attention_layers(self) -> int | None:
        """The number of layers that keep all tokens; None if the configuration does not describe each layer."""
        return None if self.uncounted else self._kinds.count(_ALL) or None

    @property
    def state_layers(self) -> frozenset[int]:
        """The layers that keep a state instead of tokens."""
        return frozenset(number for number, kind in enumerate(self._kinds) if kind == _STATE)

    @property
    def cache(self) -> dict[str, int]:
        """Columns of the KV cache in half precision; empty if it is unknown what a layer keeps.

        A window without a pattern of layers counts as no window, because servers interpret it differently.
        """
        layers, heads, dimension = self.num_hidden_layers, self.key_value_heads, self.head_dimension
        if self.uncounted:
            return {}
        if self.kv_lora_rank is not None:
            if layers is None or self.qk_rope_head_dim is None:
                return {}
            # All heads share one latent and position, which every accelerator stores in full.
            latent, key = _HALF * (self.kv_lora_rank + self.qk_rope_head_dim), self.index_head_dim or 0
            indexers = self.indexer_types.count(_INDEXER) if self.indexer_types else layers
            indexed = indexers * (key + key // _INDEXED_GROUP * 4)
            return {"cache_bytes": layers * latent + indexed, "key_value_heads": 1}
        if (groups := self._groups) and self.num_attention_heads and dimension is not None and heads is not None:
            every = sum(self.num_attention_heads // group for group in groups)
            return {"cache_bytes": 2 * _HALF * every * dimension, "key_value_heads": heads}
        keeping = (layers or 0) - (self.num_kv_shared_layers or 0)
        kinds, window, state = (
            Counter(self._kinds[:keeping]),
            self.sliding_window or self.attention_chunk_size,
            self._state,
        )
        if not kinds or kinds[_ALL] == layers:
            found = {"layers": layers, "key_value_heads": heads}
            return {name: size for name, size in found.items() if size is not None}
        if heads is None or dimension is None or None in kinds or kinds.total() != keeping:
            return {}
        if (kinds[_WINDOW] and window is None) or (kinds[_STATE] and state is None):
            return {}
        of_all = self.num_global_key_value_heads or heads
        found = {
            "layers": layers,
            "cache_bytes": 2 * _HALF * kinds[_ALL] * of_all * (self.global_head_dim or dimension),
            "window_bytes": 2 * _HALF * kinds[_WINDOW] * heads * dimension,
            "window": window if kinds[_WINDOW] else None,
            "state_bytes": _STATES * kinds[_STATE] * (state or 0),
            "key_value_heads": min(heads, of_all),
        }
        return {name: size for name, size in found.items() if size}

    @property
    def _kinds(self) -> list[str | None]:
        """What each layer keeps, with None for unknown; empty if the configuration does not describe the layers."""
        layers = range(self.num_hidden_layers or 0)
        if self.hybrid_override_pattern is not None:
            return [_LETTERS.get(letter) for letter in self.hybrid_override_pattern]
        if self.layer_types:
            return [_KINDS.get(kind) for kind in self.layer_types]
        if self.attn_layer_indices is not None:
            return [_ALL if layer in self.attn_layer_indices else _STATE for layer in layers]
        linear, chunked = self.full_attention_interval, _CHUNKED_INTERVAL if self.attention_chunk_size else None
        interval = linear or self.sliding_window_pattern or chunked
        if interval is None:
            return []
        # Jamba's configuration says which layer of each interval attends. In other models it is the last one.
        which = interval - 1 if self.attn_layer_offset is None else self.attn_layer_offset
        return [_ALL if layer % interval == which else _STATE if linear else _WINDOW for layer in layers]

    @property
    def _state(self) -> int | None:
        """Bytes of a layer's state: a matrix per head, and the last tokens of the convolution; None without a state."""
        delta = (
            self.linear_num_key_heads,
            self.linear_num_value_heads,
            self.linear_key_head_dim,
            self.linear_value_head_dim,
        )
        match (*delta, self._mamba_width, self.ssm_state_size):
            case (int(keys), int(values), int(key), int(value), *_):
                matrix, channels = values * key * value, 2 * keys * key + values * value
            case (*_, int(width), int(state)):
                # Mamba 1 has no groups, and its convolution covers only its width.
                matrix, channels = width * state, width + 2 * (self.n_groups or 0) * state
            case _:
                return None
        return matrix * (4 if self.state_dtype == "float32" else 2) + 2 * channels * ((self.convolution or 4) - 1)

    @property
    def _mamba_width(self) -> int | None:
        """The width of all heads of a Mamba layer, given directly or as a multiple of the hidden size."""
        match (self.mamba_num_heads, self.mamba_head_dim, self.mamba_expand, self.hidden_size):
            case (int(heads), int(dimension), *_):
                return heads * dimension
            case (*_, int(factor), int(width)):
                return factor * width
            case _:
                return None

    @property
    def modules(self) -> dict[str, int]:
        """Parameters by kind of module, without biases and norms; empty if the architecture cannot be summed."""
        layers, width, words, inner = self.num_hidden_layers, self.hidden_size, self.vocab_size, self.intermediate_size
        attention = self._attention
        if self.model_type not in _SUMMED or not (layers and width and words and inner and attention):
            return {}
        experts, expert = self.experts or 0, 3 * width * (self.moe_intermediate_size or inner)
        dense = (self.first_k_dense_replace or 0) if experts else layers
        return {
            "self_attn": layers * attention,
            "mlp": dense * 3 * width * inner,
            "experts": (layers - dense) * experts * expert,
            "shared_experts": (layers - dense) * (self.n_shared_experts or 0) * expert,
            "router": (layers - dense) * experts * width,
            "embed_tokens": words * width,
            "lm_head": 0 if self.tie_word_embeddings else words * width,
        }

    @property
    def _attention(self) -> int | None:
        """The number of parameters of a layer's attention."""
        latent = (self.kv_lora_rank, self.qk_nope_head_dim, self.qk_rope_head_dim, self.v_head_dim)
        match (self.hidden_size, self.num_attention_heads, self.key_value_heads, self.head_dimension, *latent):
            case (int(width), int(heads), _, _, int(rank), int(plain), int(turned), int(value)):
                query = heads * (plain + turned)
                queries = (width + query) * self.q_lora_rank if self.q_lora_rank else width * query
                return queries + width * (rank + turned) + rank * heads * (plain + value) + heads * value * width
            case (int(width), int(heads), int(keys), int(dimension), None, *_):
                return 2 * width * dimension * (heads + keys)
            case _:
                return None
