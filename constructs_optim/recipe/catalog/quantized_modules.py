"""Which modules of a model are quantized, and how, by the names and patterns in its ``quantization_config``.

Sources: vLLM 0.30, ``model_executor/layers/quantization``: ``utils/quant_utils.py`` (is_layer_skipped), ``modelopt.py``
(is_layer_excluded), ``utils/gptq_utils.py``, ``inc/config_parser.py`` and ``compressed_tensors/utils.py``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Generic, Literal, NamedTuple, TypeVar

from pydantic_core import SchemaError, SchemaValidator, core_schema

Module = Literal["self_attn", "mlp", "experts", "shared_expert", "linear_attn"]
"""The name of a kind of module in names of modules."""
Matching = Literal["names", "parts", "begins", "wildcards", "expressions", "compressed", "searched", "classes"]
"""What a method compares with the name of a module: ``names`` (whole ones), ``parts`` of names, their first parts
(``begins``), ``wildcards`` (parts, and patterns with ``*``), regular ``expressions`` from the start of the name,
``compressed`` (names, and such expressions after ``re:``), ``searched`` (names, their ends, and regular expressions),
or nothing: all these modules are of the ``classes`` that a configuration names.
"""
_PREFIXES = ("model.layers", "model.language_model.layers", "language_model.model.layers")
_EXPERTS = ("mlp", "block_sparse_moe", "feed_forward", "mixer")


class _Matrices(NamedTuple):
    """The names of matrices of a module: those that engines merge into one, and the last, whose inputs are split."""

    merged: tuple[str, ...]
    last: str


def _of_mlp(module: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj") -> _Matrices:
    return _Matrices((f"{module}.{gate}", f"{module}.{up}"), f"{module}.{down}")


# The spellings of a module, of which a model has one. Experts are also named together.
_SPELLINGS: Mapping[Module, tuple[_Matrices, ...]] = {
    "self_attn": (_Matrices(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "self_attn.o_proj"),),
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
    "linear_attn": (_Matrices((), "linear_attn.out_proj"),),
}
# Patterns that are longer, or that the engine of regular expressions (Rust's) does not have, name nothing, nor do those
# beyond a number that no configuration has. The engine needs no more time than the length of the name.
_LONGEST, _MOST_EXPRESSIONS, _MOST_LAYERS = 1000, 2000, 200
_LAYER, _NUMBER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?:\.|$)"), re.compile(r"\d+")
_RANGE = re.compile(r"\d-\d")
_EXPRESSION, _SPECIAL = "re:", frozenset("*+?^$()[]{}|\\")
# Some methods see experts one by one; to the others they are one module.
_ONE, _TOGETHER, _OF_EACH = ".experts.0.", ".experts", frozenset[Matching]({"compressed", "searched"})
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
    choices: Sequence[Choice[Numbers]], layers: Mapping[Module, Sequence[int]]
) -> Mapping[Module, Quantized[Numbers]]:
    """Return how each kind of module is quantized in its layers: by the first choice that names it, if any."""
    read = [_Names(choice) for choice in choices]
    stated = {int(number) for each in read for number in each.stated}
    has_range = any(each.has_range for each in read)
    found: dict[Module, Quantized[Numbers]] = {}
    for module, own in layers.items():
        # Layers that no pattern names do not differ, unless a pattern has a range.
        other = next((number for number in own if number not in stated), None)
        numbers = [number for number in own[:_MOST_LAYERS] if has_range or number in stated or number == other]
        of_layers = [(number, [each for each in read if each.can_name(number)]) for number in numbers]
        # The spelling that most patterns name.
        chosen = max(
            (
                [[_chosen(left, layer, name) for name in (*names.merged, names.last)] for layer, left in of_layers]
                for names in _SPELLINGS[module]
            ),
            key=lambda of: sum(each is not None and each.matching != "classes" for group in of for each in group),
        )
        matrices = [[each.numbers if each is not None else None for each in group] for group in chosen]
        # vLLM takes the numbers of the first of merged matrices for all of them, but not those of experts.
        merged = matrices if module == "experts" else [[each is None for each in group[:-1]] for group in matrices]
        found[module] = Quantized(
            last=frozenset(group[-1] for group in matrices),
            every=frozenset(each for group in matrices for each in group),
            is_torn=any(len(set(group)) > 1 for group in merged),
        )
    return found


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
        self._whole, self._others = set[str](), defaultdict[int | None, list[str]](list)
        expressions = 0
        for pattern in choice.patterns:
            if len(pattern) > _LONGEST:
                continue
            self.stated.update(_NUMBER.findall(pattern))
            is_expression = _is_expression(pattern, choice.matching)
            expressions += is_expression
            if not is_expression and choice.matching in _WHOLE_NAMES:
                self._whole.add(pattern)
                if choice.matching == "names":
                    # A list of experts names all experts together too.
                    self._whole.add(f"{pattern.partition(f'{_TOGETHER}.')[0]}{_TOGETHER}")
            elif expressions <= _MOST_EXPRESSIONS:
                self.has_range |= is_expression and _RANGE.search(pattern) is not None
                for layer in _layers_of(pattern, is_expression=is_expression):
                    self._others[layer].append(pattern)

    def can_name(self, layer: int) -> bool:
        """Return whether patterns can name modules of a layer."""
        is_any = self.choice.matching == "classes" or bool(self._whole)
        return is_any or bool(self._others.get(None)) or layer in self._others

    def name(self, layer: int, module: str) -> bool:
        """Return whether a pattern names a module of a layer, which is given by its whole name."""
        matching = self.choice.matching
        if matching == "classes":
            return True
        if _ONE in module and matching not in _OF_EACH:
            return False
        parts = module.split(".")
        wholes = (".".join(parts[first:]) for first in range(len(parts) if matching == "searched" else 1))
        if not self._whole.isdisjoint(wholes):
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


def _layers_of(pattern: str, *, is_expression: bool) -> Iterable[int | None]:
    """Return the only layers whose modules a pattern can name; None if they can be of any layer."""
    if (found := _LAYER.search(pattern)) is not None:
        return [int(found[1])]
    numbers = {int(number) for number in _NUMBER.findall(pattern)} if is_expression else set[int]()
    return numbers if numbers and _RANGE.search(pattern) is None else [None]


def _chosen(choices: Iterable[_Names[Numbers]], layer: int, name: str) -> Choice[Numbers] | None:
    """Return the first choice that names a module of a layer."""
    spelled = [f"{prefix}.{layer}.{name}" for prefix in _PREFIXES]
    return next((each.choice for each in choices if any(each.name(layer, module) for module in spelled)), None)


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
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
    "parts": lambda pattern, module: pattern in module,
    "wildcards": _wildcard,
    "expressions": _begun,
    "begins": lambda pattern, module: module.startswith(pattern),
    "compressed": lambda pattern, module: _begun(pattern.removeprefix(_EXPRESSION), module),
    "searched": _found,
}
