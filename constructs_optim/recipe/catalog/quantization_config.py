"""How weights are quantized, as the ``quantization_config`` of a ``config.json`` says.

Sources: transformers, ``utils/quantization_config.py``; compressed-tensors, ``quant_config.py``; vLLM,
``model_executor/layers/quantization``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, cast

from pydantic import AliasChoices, AliasPath, BeforeValidator, Field

from .geometry import MOST, ConfigPart, Method, Whole
from .quantized_modules import ATTENTION, Choice, Matching, Merged, Module, quantized
from .splits import MOST_SCHEMES, SCHEME, StoredQuantization

_HALF, _MOST_BITS = 16, 64
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
_OF_GROUPS, _GPTQ = "compressed-tensors", "gptq"
# MLX names no method: only the bits per weight and the weights per scale.
_MLX = "mlx"
# ModelOpt: the blocks of algorithms, and methods by parts of the names of algorithms (vLLM, quantization/modelopt.py).
_BLOCKS = {"FP8_PB_WO": (128, 128)}
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
# What methods compare with the names of modules; the others look for a part of the name.
_MATCHINGS: Mapping[str, Matching] = {
    **dict.fromkeys(("fp8", "mxfp8", "mxfp4", "fbgemm_fp8"), "names"),
    **dict.fromkeys(("compressed-tensors", "quark"), "compressed"),
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"), "wildcards"),
}
# Settings that vLLM reads without a default (from_config of each method).
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "auto-round": ("bits", "group_size"),
    "awq": ("bits", "group_size", "zero_point"),
    "fp8": ("activation_scheme",),
    "gptq": ("bits", "group_size", "desc_act", "sym"),
}
# A method that quantizes weights while they are loaded, which no checkpoint has.
_ONLINE = "online"
_EXCLUDED, _INCLUDED = "-:", "+:"
# The class of all layers that compressed-tensors quantizes (vLLM, find_matched_target).
_LINEAR = "Linear"
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
    """How compressed-tensors quantizes weights or activations."""

    num_bits: Whole = None
    type: str | None = None
    strategy: str | None = None
    group_size: Whole = None
    symmetric: bool | None = None
    dynamic: bool | str = False
    block_structure: _Block | None = None
    actorder: str | None = None

    @property
    def scheme(self) -> str:
        """The kind of numbers and what shares a scale, without the size of a group."""
        asymmetric = "asymmetric" if self.symmetric is False else None
        when = {True: "dynamic", "local": "locally dynamic"}.get(self.dynamic)
        return " ".join(filter(None, (f"{self.type}{self.num_bits}", asymmetric, when, f"per {self.strategy}")))

    @property
    def precision(self) -> str | None:
        """The precision of weights in this scheme; None if it has no name."""
        if self.type == "int" and self.num_bits is not None:
            return f"int{self.num_bits}"
        if self.type != "float":
            return None
        return _FLOATS.get((self.num_bits or 0, self.group_size or 0))


class _Group(ConfigPart):
    targets: tuple[str, ...] = (_LINEAR,)
    weights: _Weights | None = None
    input_activations: _Weights | None = None
    format: str | None = None

    def scheme(self, name: str) -> str | None:
        """How the group is quantized; ``name`` is the format of groups that do not state their own."""
        if self.weights is None:
            return None
        inputs = self.input_activations.scheme if self.input_activations is not None else None
        activations = f", activations in {inputs}" if inputs is not None else ""
        return f"{self.format or name}: {self.weights.scheme}{activations}"


class _QuarkNumbers(ConfigPart):
    dtype: str | None = None
    qscheme: str | None = None
    is_dynamic: bool | None = None

    @property
    def scheme(self) -> str:
        return " ".join(filter(None, (self.dtype, "dynamic" if self.is_dynamic else None, self.qscheme)))


class _Quark(ConfigPart):
    weight: _QuarkNumbers | None = None
    input_tensors: _QuarkNumbers | None = None


class _Numbers(NamedTuple):
    """How a matrix is quantized: the weights that share a scale, if they are a part of an output, and the scheme."""

    group_size: int | None
    scheme: str | None


class _Override(ConfigPart):
    """Settings of some modules, instead of those of all."""

    bits: Whole = None
    group_size: Whole = None
    sym: bool | None = None
    desc_act: bool | None = None


def _overrides(given: object) -> object:
    """Return settings by pattern; a pattern without any, such as one with null, has none."""
    if not isinstance(given, dict):
        return given
    settings = cast("dict[object, object]", given)
    return {**settings, **{pattern: _Override() for pattern, each in settings.items() if not isinstance(each, dict)}}


_Overrides = Annotated[Mapping[str, _Override], BeforeValidator(_overrides)]


def _names(given: object) -> object:
    """Return names from a list of them, a list of lists, or a text with commas."""
    if isinstance(given, str):
        return tuple(given.split(","))
    if not isinstance(given, list):
        return given
    names: list[object] = []
    for each in cast("list[object]", given):
        names.extend(cast("list[object]", each) if isinstance(each, list) else [each])
    return tuple(names)


_Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


class QuantizationConfig(ConfigPart):
    """The fields of a ``quantization_config`` that determine what an engine loads."""

    quant_method: Method = ""
    quant_algo: str = Field(
        default="", validation_alias=AliasChoices("quant_algo", AliasPath("quantization", "quant_algo"))
    )
    # Without a quant_method, vLLM sees an algorithm of ModelOpt only here.
    inner_algo: str = Field(default="", validation_alias=AliasPath("quantization", "quant_algo"))
    producer: str = Field(default="", validation_alias=AliasPath("producer", "name"))
    bits: Whole = Field(
        default=None,
        validation_alias=AliasChoices("bits", "w_bit", AliasPath("quant_config", "weight_quant_params", "nbits")),
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
    # GPTQModel: settings by regular expression. GPTQ: the only modules that are quantized. AutoRound: settings by name,
    # and the only blocks.
    dynamic: _Overrides = Field(default={})
    only: _Names = Field(default=(), validation_alias="modules_in_block_to_quantize")
    extra_config: _Overrides = Field(default={})
    blocks_to_quantize: _Names = Field(
        default=(), validation_alias=AliasChoices("block_name_to_quantize", "to_quant_block_names")
    )
    format: str = ""
    sparsity_config: Mapping[str, Any] = {}
    activation_scheme: str = ""
    packing_format: str = ""
    data_type: str = "int"
    zero_point: bool | None = None
    quark: _Quark = Field(default=_Quark(), validation_alias="global_quant_config")
    excepted: tuple[str, ...] | None = Field(
        default=None,
        validation_alias=AliasChoices(
            *("ignored_layers", "modules_to_not_convert", "ignore", "exclude_modules", "exclude"),
            AliasPath("quantization", "exclude_modules"),
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

    def stored(
        self, layers: Mapping[Module, Sequence[int]], attention: Merged | None = ATTENTION
    ) -> StoredQuantization | None:
        """Return how the weights are quantized of a model with these modules in its layers; None if the configuration
        names no method. ``attention`` are the matrices of attention that engines merge, if any.
        """
        if self.method is None:
            return None
        groups = self._groups
        blocks = [each for each in (self.weight_block_size, *(group.block_structure for group in groups)) if each]
        block = _BLOCKS.get(self.quant_algo.upper(), next(iter(blocks), None))
        found = quantized([*self._choices], layers, attention)
        of_modules: dict[Module, int | None] = {module: _size(each.last) for module, each in found.items()}
        most = max((size for size in of_modules.values() if size is not None), default=1)
        symmetric = [each for each in (self.sym, *(group.symmetric for group in groups)) if each is not None]
        return StoredQuantization(
            method=self.method,
            bits=bits if (bits := self.weight_bits) is not None and 0 < bits <= _MOST_BITS else None,
            group_size=most if most > 1 else None,
            group_sizes={module: size for module, size in of_modules.items() if size is not None and size != most},
            block_size=block,
            symmetric=all(symmetric) if symmetric else None,
            # With one group, the order changes nothing.
            activation_order=(self.desc_act and (self._most or 0) > 0)
            or any(each.actorder in _ORDERED for each in groups),
            ignored=tuple(module for module, each in found.items() if not any(each.last)),
            torn=tuple(module for module, each in found.items() if each.is_torn),
            unstated=tuple(name for name in _REQUIRED.get(self.method, ()) if name not in self.model_fields_set),
            schemes=_schemes(each.every for module, each in found.items() if module != "experts"),
            expert_schemes=_schemes(each.every for module, each in found.items() if module == "experts"),
        )

    @property
    def _choices(self) -> Iterator[Choice[_Numbers]]:
        """How modules are quantized by their names, the more specific ones first."""
        yield Choice(None, self.excepted or (), _MATCHINGS.get(self.method or "", "parts"))
        if self._has_groups:
            groups = [(each, _of_group(each, self)) for each in self.config_groups.values() if each.weights is not None]
            yield from (Choice(numbers, each.targets, "compressed") for each, numbers in groups)
            yield from (Choice(numbers) for each, numbers in groups if _LINEAR in each.targets)
            return
        numbers = self.numbers
        dynamic = [
            (None, pattern.removeprefix(_EXCLUDED))
            if pattern.startswith(_EXCLUDED)
            else (self._overridden(override), pattern.removeprefix(_INCLUDED))
            for pattern, override in self.dynamic.items()
        ]
        yield from _in_turn(dynamic, "expressions")
        # AutoRound does not quantize weights of 16 bits.
        extra = [
            (self._overridden(override) if (override.bits or 0) < _HALF else None, pattern)
            for pattern, override in self.extra_config.items()
        ]
        yield from _in_turn(extra, "searched")
        if self.only:
            yield Choice(numbers, self.only, "included")
        elif self.blocks_to_quantize:
            yield Choice(numbers, self.blocks_to_quantize, "begins")
        else:
            yield Choice(numbers)

    @property
    def numbers(self) -> _Numbers:
        """How modules without settings of their own are quantized."""
        return _Numbers(self._most, self._scheme)

    def _overridden(self, override: _Override) -> _Numbers:
        """Return how modules with settings of their own are quantized."""
        stated = {name: value for name, value in override if value is not None}
        return self.model_copy(update=stated).numbers

    @property
    def _groups(self) -> list[_Weights]:
        return [each.weights for each in self.config_groups.values() if each.weights is not None]

    @property
    def _most(self) -> int | None:
        """The most weights that share a scale, at most 0 for all of an output; None if that is not stated."""
        sizes = (self.group_size, *(each.group_size for each in self._groups))
        return max((size for size in sizes if size is not None), default=None)

    @property
    def _has_groups(self) -> bool:
        return bool(self.config_groups) and self.method == _OF_GROUPS

    @property
    def _scheme(self) -> str | None:
        """How all quantized modules are quantized, in the terms of the method; None for methods with few settings.

        tests/conformance/weight_schemes.py asks vLLM about each.
        """
        if self.quant_algo:
            return self.quant_algo.upper()
        if self.method == "fp8" and self.activation_scheme:
            shape = "x".join(map(str, self.weight_block_size or ()))
            return f"{self.activation_scheme} activations{f', weights in blocks of {shape}' if shape else ''}"
        if self.method == "quark" and self.quark.weight is not None:
            inputs = self.quark.input_tensors
            return f"{self.quark.weight.scheme}, activations in {inputs.scheme if inputs is not None else '16 bits'}"
        if self.method == "torchao" and self.type_name:
            return self.type_name
        if self.method == _ONLINE:
            return "stored weights"
        asymmetric = " asymmetric" if self.sym is False else ""
        if self.method == _GPTQ and self.bits is not None:
            order = ", in the order of activations" if self.desc_act and (self._most or 0) > 0 else ""
            return f"int{self.bits}{asymmetric}{order}"
        return f"{self.packing_format} of{asymmetric} {self.data_type}{self.bits}" if self.packing_format else None

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
        sizes = [self.group_size, *(each.group_size for each in self._groups)]
        least = min((size for size in sizes if size is not None and size > 0), default=_GROUP_SIZE)
        return bits_with_scales(bits, self.precision, least)

    @property
    def weight_bits(self) -> int | None:
        """Bits per weight of the layers with the fewest bits; None if unknown."""
        groups = [group.num_bits for group in self._groups]
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
        groups = {group.precision for group in self._groups}
        if groups:
            return groups.pop() if len(groups) == 1 else None
        method, algorithm = self.quant_method.lower(), self.quant_algo.lower()
        if method in _INTEGERS and self.bits is not None:
            return f"int{self.bits}"
        return _PRECISIONS.get(algorithm) or _PRECISIONS.get(method) or (method if method in _OWN_FORMATS else None)


def _in_turn(given: Iterable[tuple[_Numbers | None, str]], matching: Matching) -> Iterator[Choice[_Numbers]]:
    """Yield choices in this order, one for all successive patterns with the same numbers."""
    for numbers, each in groupby(given, key=itemgetter(0)):
        yield Choice(numbers, [pattern for _, pattern in each], matching)


def _of_group(group: _Group, config: QuantizationConfig) -> _Numbers:
    """How compressed-tensors quantizes a group of modules."""
    sparse, scheme = "sparse " if config.sparsity_config else "", group.scheme(config.format)
    size = group.weights.group_size if group.weights is not None else None
    return _Numbers(size, f"{sparse}{scheme}" if scheme is not None else None)


def _size(numbers: Iterable[_Numbers | None]) -> int | None:
    """Return the number of weights that share a scale, 1 without groups; None if nothing is quantized."""
    return max((max(each.group_size or 1, 1) for each in numbers if each is not None), default=None)


def _schemes(found: Iterable[Iterable[_Numbers | None]]) -> tuple[str, ...]:
    """Return the schemes that can be recorded."""
    schemes = dict.fromkeys(each.scheme for of_module in found for each in of_module if each is not None)
    return tuple(sorted(each for each in schemes if each is not None and SCHEME.fullmatch(each)))[:MOST_SCHEMES]
