"""Which modules of a model are quantized, and how, by the names and patterns in its ``quantization_config``.

Sources: vLLM 0.30, ``model_executor/layers/quantization``: ``utils/quant_utils.py`` (is_layer_skipped), ``modelopt.py``
(is_layer_excluded), ``utils/gptq_utils.py``, ``inc/config_parser.py`` and ``compressed_tensors/utils.py``.
"""

from __future__ import annotations

import re
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
# Patterns that are longer, or that Rust's engine of regular expressions does not have, name nothing. It needs no more
# time than the length of the name.
_LONGEST = 1000
_LAYER, _NUMBER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?:\.|$)"), re.compile(r"\d+")
_RANGE = re.compile(r"\d-\d")
_EXPRESSION, _SPECIAL = "re:", frozenset("*+?^$()[]{}|\\")
_MOST_LAYERS = 200
# Some methods see experts one by one; to the others they are one module.
_ONE, _OF_EACH = ".experts.0.", frozenset[Matching]({"compressed", "searched"})
Numbers = TypeVar("Numbers")
"""How matrices are quantized, in the terms of the caller."""


class Choice(NamedTuple, Generic[Numbers]):
    """How the modules are quantized that one of ``patterns`` names; None if they are not."""

    numbers: Numbers | None
    patterns: Sequence[str] = ()
    matching: Matching = "classes"

    def names(self, module: str) -> bool:
        """Return whether a pattern names a module, which is given by its whole name."""
        if self.matching == "classes":
            return True
        if _ONE in module and self.matching not in _OF_EACH:
            return False
        return any(_NAMES[self.matching](each, module) for each in self.patterns)

    def of_layer(self, number: int) -> Choice[Numbers]:
        """Return the choice with the patterns that are not of another layer."""
        kept = [each for each in self.patterns if (found := _LAYER.search(each)) is None or int(found[1]) == number]
        return self._replace(patterns=kept)


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
    stated = {
        int(number) for choice in choices for each in choice.patterns for number in _NUMBER.findall(each[:_LONGEST])
    }
    has_range = any(_RANGE.search(each) for choice in choices for each in choice.patterns)
    found: dict[Module, Quantized[Numbers]] = {}
    for module, own in layers.items():
        # Layers that no pattern names do not differ, unless a pattern has a range.
        other = next((number for number in own if number not in stated), None)
        numbers = [number for number in own[:_MOST_LAYERS] if has_range or number in stated or number == other]
        of_layers = [(f".{number}.", [choice.of_layer(number) for choice in choices]) for number in numbers]
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


def _chosen(choices: Iterable[Choice[Numbers]], layer: str, name: str) -> Choice[Numbers] | None:
    """Return the first choice that names a module of a layer."""
    spelled = [f"{prefix}{layer}{name}" for prefix in _PREFIXES]
    return next((choice for choice in choices if any(map(choice.names, spelled))), None)


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)) if len(pattern) <= _LONGEST else None
    except SchemaError:
        return None


def _found(pattern: str, module: str) -> bool:
    expression = _expression(pattern)
    return expression is not None and expression.isinstance_python(module)


def _begun(pattern: str, module: str) -> bool:
    return _found(f"^(?:{pattern})", module)


def _searched(pattern: str, module: str) -> bool:
    if module == pattern or module.endswith(f".{pattern}"):
        return True
    return not _SPECIAL.isdisjoint(pattern) and _found(pattern, module)


def _compressed(pattern: str, module: str) -> bool:
    if pattern.startswith(_EXPRESSION):
        return _begun(pattern.removeprefix(_EXPRESSION), module)
    return pattern == module


def _wildcard(pattern: str, module: str) -> bool:
    if pattern in module:
        return True
    return "*" in pattern and _found(f"^(?:{'.*'.join(map(re.escape, pattern.split('*')))})$", module)


# A list of experts names all experts together too.
_NAMES: Mapping[Matching, Callable[[str, str], bool]] = {
    "names": lambda pattern, module: pattern == module or (module.endswith(".experts") and module in pattern),
    "parts": lambda pattern, module: pattern in module,
    "wildcards": _wildcard,
    "expressions": _begun,
    "begins": lambda pattern, module: module.startswith(pattern),
    "compressed": _compressed,
    "searched": _searched,
}
