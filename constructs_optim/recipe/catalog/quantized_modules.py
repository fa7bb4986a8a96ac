"""Which modules of a model are quantized, and how, by the names and patterns in its ``quantization_config``.

Sources: vLLM 0.30, ``model_executor/layers/quantization``: ``utils/quant_utils.py`` (is_layer_skipped), ``modelopt.py``
(is_layer_excluded), ``utils/gptq_utils.py``, ``inc/config_parser.py``, ``utils/config_utils.py`` and
``compressed_tensors``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from time import process_time
from typing import Generic, Literal, NamedTuple, TypeVar

import regex
from pydantic_core import SchemaError, SchemaValidator, core_schema

Module = Literal["self_attn", "mlp", "experts", "shared_expert", "linear_attn"]
"""The name of a kind of module in names of modules."""
Matching = Literal[
    "names", "parts", "included", "begins", "wildcards", "expressions", "compressed", "searched", "classes"
]
"""What a method compares with the name of a module: ``names`` (whole ones), ``parts`` of names (``included`` if they
are the only ones that are quantized), their first parts (``begins``), ``wildcards`` (parts, and patterns with ``*``),
regular ``expressions`` from the start of the name, ``compressed`` (names, and such expressions after ``re:``),
``searched`` (names, their ends, and regular expressions), or nothing: all these modules are of the ``classes`` that a
configuration names.
"""
_PREFIXES = ("model.layers", "model.language_model.layers", "language_model.model.layers")
_EXPERTS = ("mlp", "block_sparse_moe", "feed_forward", "mixer")


class Merged(NamedTuple):
    """Matrices of a module that engines merge into one, and its name."""

    parts: tuple[str, ...]
    name: str


class _Matrices(NamedTuple):
    """The names of matrices of a module: those that engines merge, and the last, whose inputs are split."""

    merged: tuple[Merged, ...]
    last: str


ATTENTION = Merged(("q_proj", "k_proj", "v_proj"), "qkv_proj")
"""The matrices of attention."""
LATENT = Merged(("q_a_proj", "kv_a_proj_with_mqa"), "fused_qkv_a_proj")
"""Those of latent attention whose queries are compressed too."""


def _of_attention(merged: Merged | None) -> tuple[_Matrices, ...]:
    return (_Matrices((_within("self_attn", merged),) if merged is not None else (), "self_attn.o_proj"),)


def _within(module: str, merged: Merged) -> Merged:
    return Merged(tuple(f"{module}.{name}" for name in merged.parts), f"{module}.{merged.name}")


def _of_mlp(module: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj") -> _Matrices:
    return _Matrices((_within(module, Merged((gate, up), "gate_up_proj")),), f"{module}.{down}")


# The spellings of a module, of which a model has one. Experts are also named together.
_SPELLINGS: Mapping[Module, tuple[_Matrices, ...]] = {
    "self_attn": _of_attention(ATTENTION),
    "mlp": (_of_mlp("mlp"), _of_mlp("feed_forward"), _of_mlp("feed_forward", "w1", "w3", "w2")),
    "experts": (
        *(_of_mlp(f"{part}.experts.0") for part in _EXPERTS),
        *(_of_mlp(f"{part}.experts.0", "w1", "w3", "w2") for part in _EXPERTS),
        *(_Matrices((), f"{part}.experts") for part in _EXPERTS),
    ),
    "shared_expert": (
        *(_of_mlp(f"mlp.{name}") for name in ("shared_expert", "shared_experts")),
        _of_mlp("feed_forward.shared_expert"),
        _of_mlp("block_sparse_moe.shared_experts"),
        _of_mlp("mixer.shared_experts"),
    ),
    "linear_attn": (
        _Matrices((), "linear_attn.out_proj"),
        _Matrices(
            (
                _within("linear_attn", Merged(("in_proj_qkv", "in_proj_z"), "in_proj_qkvz")),
                _within("linear_attn", Merged(("in_proj_b", "in_proj_a"), "in_proj_ba")),
            ),
            "linear_attn.out_proj",
        ),
    ),
}
# Patterns that are longer name nothing, nor do those beyond a number that no configuration has. Rust's engine of
# regular expressions needs no more time than the length of the name. It has no lookaheads and lookbehinds, which
# another one has, until its time is over.
_LONGEST, _MOST_EXPRESSIONS, _MOST_LAYERS = 1000, 200, 200
_LOOKS_AROUND, _MOST_AROUND, _SECONDS_PER_NAME, _SECONDS = re.compile(r"\(\?<?[=!]"), 20, 0.05, 0.2
_LAYER, _NUMBER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,9})\."), re.compile(r"(?<!\d)\d{1,9}(?!\d)")
# The same in an expression without alternatives.
_ONE_LAYER = re.compile(r"[^|]*\b(?:layers|h|blocks)\\?\.(\d{1,9})\\?\.(?![*+?{])[^|]*")
# Expressions that name some layers without their whole numbers.
_RANGE = re.compile(r"\[(?!0-9\][+*])[^\]]*\d[^\]]*\]|\\d(?![+*])|\d\.?[{*+?]|\d[\[\\][d\d]|\(\?")
_AT_THE_END = re.compile(r"\b(?:layers|h|blocks)\.\d+$")
_EXPRESSION, _SPECIAL = "re:", frozenset("*+?^$()[]{}|\\")
# Some methods see experts one by one; to the others they are one module.
_ONE, _TOGETHER, _OF_EACH = ".experts.0.", ".experts", frozenset[Matching]({"compressed", "searched"})
# Of experts, compressed-tensors sees these names alone, whatever they are called.
_OF_EXPERTS = ("gate_proj", "up_proj", "down_proj")
# Of merged matrices, some methods see the merged one alone, and others never.
_MERGED_ALONE, _NEVER_MERGED = frozenset[Matching]({"expressions"}), frozenset[Matching]({"included"})
# A method for which merged matrices must have the same numbers. The others take those of the first.
_SAME: Matching = "searched"
Numbers = TypeVar("Numbers")
"""How matrices are quantized, in the terms of the caller."""


class Choice(NamedTuple, Generic[Numbers]):
    """How the modules are quantized that one of ``patterns`` names; None if they are not."""

    numbers: Numbers | None
    patterns: Sequence[str] = ()
    matching: Matching = "classes"


class Quantized(NamedTuple, Generic[Numbers]):
    """How the last and all matrices of a kind of module are quantized in a model's layers, None for not at all, and
    whether engines would have to merge matrices that differ.
    """

    last: frozenset[Numbers | None]
    every: frozenset[Numbers | None]
    is_torn: bool


def quantized(
    choices: Sequence[Choice[Numbers]], layers: Mapping[Module, Sequence[int]], attention: Merged | None = ATTENTION
) -> Mapping[Module, Quantized[Numbers]]:
    """Return how each kind of module is quantized in its layers: by the first choice that names it, if any.

    ``attention`` are the matrices of attention that engines merge, if any.
    """
    read = [_Names(choice) for choice in choices]
    stated = {int(number) for each in read for number in each.stated}
    has_range = any(each.has_range for each in read)
    of_layer = defaultdict[int | None, list[int]](list)
    for position, each in enumerate(read):
        for layer in each.layers:
            of_layer[layer].append(position)
    found: dict[Module, Quantized[Numbers]] = {}
    for module, own in layers.items():
        # Layers that no pattern names do not differ, unless a pattern has a range.
        other = next((number for number in own if number not in stated), None)
        numbers = [number for number in own[:_MOST_LAYERS] if has_range or number in stated or number == other]
        of_layers = [
            (number, [read[position] for position in sorted({*of_layer[None], *of_layer[number]})])
            for number in numbers
        ]
        spellings = _of_attention(attention) if module == "self_attn" else _SPELLINGS[module]
        # The spelling that most patterns name.
        chosen = max(
            ([_matrices(left, layer, names) for layer, left in of_layers] for names in spellings),
            key=lambda of: sum(_is_named(each) for groups in of for group in groups for each in group),
        )
        # Those of experts are in one module.
        together = [[[*chain.from_iterable(groups)]] for groups in chosen] if module == "experts" else chosen
        found[module] = Quantized(
            last=frozenset(_numbers(groups[-1][-1]) for groups in chosen),
            every=frozenset(_numbers(each) for groups in chosen for group in groups for each in group),
            is_torn=any(_is_torn(group, module) for groups in together for group in groups),
        )
    return found


def _numbers(choice: Choice[Numbers] | None) -> Numbers | None:
    return choice.numbers if choice is not None else None


def _is_named(choice: Choice[Numbers] | None) -> bool:
    return choice is not None and choice.matching != "classes"


def _is_torn(group: Sequence[Choice[Numbers] | None], module: Module) -> bool:
    """Return whether matrices of one module are quantized in ways that cannot be merged."""
    numbers = {_numbers(each) for each in group}
    has_same = module == "experts" or any(each is not None and each.matching == _SAME for each in group)
    return len(numbers) > 1 and (has_same or None in numbers)


def _matrices(choices: Sequence[_Names[Numbers]], layer: int, names: _Matrices) -> list[list[Choice[Numbers] | None]]:
    """Return the choices for the matrices of a module in a layer: those of each that is merged, and of the last."""
    return [*(_merged(choices, layer, each) for each in names.merged), [_chosen(choices, layer, names.last)]]


def _merged(choices: Sequence[_Names[Numbers]], layer: int, names: Merged) -> list[Choice[Numbers] | None]:
    """Return the choices for matrices that engines merge: one for all, if it is the first and names the merged one."""
    of_parts = [each for each in choices if each.choice.matching not in _MERGED_ALONE]
    parts = [_chosen(of_parts, layer, name) for name in names.parts]
    for each in choices:
        has_part, matching = any(part is each.choice for part in parts), each.choice.matching
        if has_part and matching == _SAME:
            return parts
        if matching not in _NEVER_MERGED and each.names(layer, names.name):
            return [each.choice] * len(parts)
        if has_part:
            return parts
    return parts


def not_quantized(names: Sequence[str], matching: Matching) -> tuple[Module, ...]:
    """Return the kinds of modules that names exclude from quantization in every layer."""
    found = quantized(
        [Choice(None, names, matching), Choice("quantized")], dict.fromkeys(_SPELLINGS, range(_MOST_LAYERS))
    )
    return tuple(module for module, each in found.items() if not any(each.last))


class _Names(Generic[Numbers]):
    """The patterns of a choice, by the layer that they are of; None for patterns of any layer."""

    def __init__(self, choice: Choice[Numbers]) -> None:
        self.choice = choice
        self.stated, self.has_range = set[str](), False
        self._whole, self._others = defaultdict[int | None, set[str]](set), defaultdict[int | None, list[str]](list)
        of_any_layer, around = 0, 0
        for pattern in choice.patterns:
            if len(pattern) > _LONGEST:
                continue
            self.stated.update(_NUMBER.findall(pattern))
            is_expression = _is_expression(pattern, choice.matching)
            looks_around = is_expression and _LOOKS_AROUND.search(pattern) is not None
            around += looks_around
            if looks_around and around > _MOST_AROUND:
                continue
            if not is_expression and choice.matching in _WHOLE_NAMES:
                found = _LAYER.search(pattern)
                of_layer = self._whole[int(found[1]) if found is not None else None]
                of_layer.add(pattern)
                if choice.matching == "names":
                    # A list of experts names all experts together too.
                    of_layer.add(f"{pattern.partition(f'{_TOGETHER}.')[0]}{_TOGETHER}")
                continue
            layers = _layers_of(pattern, is_expression=is_expression)
            of_any_layer += is_expression and not layers
            if of_any_layer <= _MOST_EXPRESSIONS or layers:
                for layer in layers or (None,):
                    self._others[layer].append(pattern)
                # Such patterns name some layers without their whole numbers.
                self.has_range |= not layers and (_RANGE if is_expression else _AT_THE_END).search(pattern) is not None

    @property
    def layers(self) -> set[int | None]:
        """The layers whose modules patterns can name; None for any."""
        return {None} if self.choice.matching == "classes" else {*self._whole, *self._others}

    def names(self, layer: int, module: str) -> bool:
        """Return whether a pattern names a module of a layer."""
        return any(self._names(layer, f"{prefix}.{layer}.{module}") for prefix in _PREFIXES)

    def _names(self, layer: int, module: str) -> bool:
        matching = self.choice.matching
        if matching == "classes":
            return True
        is_one = _ONE in module
        if is_one and (matching not in _OF_EACH or (matching == "compressed" and not module.endswith(_OF_EXPERTS))):
            return False
        if matching == "compressed" and module.endswith(_TOGETHER):
            return False
        parts = module.split(".")
        wholes = (".".join(parts[first:]) for first in range(len(parts) if matching == "searched" else 1))
        whole = (self._whole.get(None, frozenset[str]()), self._whole.get(layer, frozenset[str]()))
        if any(part in names for part in wholes for names in whole):
            return True
        patterns = (*self._others.get(None, ()), *self._others.get(layer, ()))
        return any(_MATCHES[matching](each, module) for each in patterns)


def _is_expression(pattern: str, matching: Matching) -> bool:
    match matching:
        case "expressions":
            return True
        case "compressed":
            return pattern.startswith(_EXPRESSION)
        case "wildcards":
            return "*" in pattern
        case "searched":
            return not _SPECIAL.isdisjoint(pattern)
        case _:
            return False


def _layers_of(pattern: str, *, is_expression: bool) -> frozenset[int]:
    """Return the only layers whose modules a pattern can name; empty if they can be of any layer."""
    found = _ONE_LAYER.fullmatch(pattern) if is_expression else _LAYER.search(pattern)
    if found is not None:
        return frozenset({int(found[1])})
    if not is_expression or _RANGE.search(pattern) is not None:
        return frozenset()
    return frozenset(int(number) for number in _NUMBER.findall(pattern))


def _chosen(choices: Iterable[_Names[Numbers]], layer: int, name: str) -> Choice[Numbers] | None:
    """Return the first choice that names a module of a layer."""
    return next((each.choice for each in choices if each.names(layer, name)), None)


class _Backtracking:
    """A regular expression that may need more time than there is, and then finds nothing."""

    def __init__(self, pattern: str) -> None:
        self._expression, self._left = regex.compile(pattern), _SECONDS

    def isinstance_python(self, text: str) -> bool:
        """Return whether the expression is found in a text, like pydantic's validators."""
        if self._left <= 0:
            return False
        began = process_time()
        try:
            return self._expression.search(text, timeout=_SECONDS_PER_NAME) is not None
        except TimeoutError:
            return False
        finally:
            self._left -= process_time() - began


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> SchemaValidator | _Backtracking | None:
    try:
        if _LOOKS_AROUND.search(pattern):
            return _Backtracking(pattern)
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except (SchemaError, regex.error):
        return None


def _found(pattern: str, module: str) -> bool:
    expression = _expression(pattern)
    return expression is not None and expression.isinstance_python(module)


def _begun(pattern: str, module: str) -> bool:
    return _found(f"^(?:{pattern})", module)


def _wildcard(pattern: str, module: str) -> bool:
    if pattern in module:
        return True
    return "*" in pattern and _found(f"^(?:{'.*'.join(map(re.escape, pattern.split('*')))})$", module)


# Methods that compare whole names, or their ends, unless a pattern is a regular expression.
_WHOLE_NAMES = frozenset[Matching]({"names", "compressed", "searched"})
_MATCHES: Mapping[Matching, Callable[[str, str], bool]] = {
    **dict.fromkeys(("parts", "included"), lambda pattern, module: pattern in module),
    "wildcards": _wildcard,
    "expressions": _begun,
    "begins": lambda pattern, module: module.startswith(pattern),
    "compressed": lambda pattern, module: _begun(pattern.removeprefix(_EXPRESSION), module),
    "searched": _found,
}
