"""The arguments of vLLM and SGLang in each release that AWS's containers include."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from operator import ge, gt, le, lt
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel
from pydantic_core import from_json

from . import engine_models, load

# vLLM, human_readable_int of utils/argparse_utils.py: 8k is 8000, 8K is 8192. Decimals are for k, m, g and t only.
_VLLM_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# SGLang, human_readable_int of srt/utils/common.py: 8k is 8000, 8Ki is 8192. Decimals are for k, M, G and T only.
_SGLANG_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SUFFIXED = re.compile(r"(\d+)(\.\d+)?([a-zA-Z]+)")


def _with_unit(text: str, units: Mapping[str, int]) -> int:
    found = _SUFFIXED.fullmatch(text)
    unit = units.get(found[3]) if found is not None else None
    if found is None or unit is None or (found[2] is not None and unit % 10):
        return int(text)
    return int(Decimal(found[1] + (found[2] or "")) * unit)


def _vllm_size(text: str) -> int | None:
    # Some arguments accept "auto".
    return None if text.lower() == "auto" else _with_unit(text, _VLLM_UNITS)


def _sglang_size(text: str) -> int:
    return _with_unit(text, _SGLANG_UNITS)


_READ: Mapping[str, Callable[[str], object]] = {
    "int": int,
    "float": float,
    "size": _vllm_size,
    "si_size": _sglang_size,
    "json": from_json,
}
_IN_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "size": "a whole number such as 8192 or 8k",
    "si_size": "a whole number such as 8192 or 8k",
    "json": "JSON",
    "switch": "a value such as true or false",
}
_COMPARED: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "gt": (gt, "greater than {:g}"),
    "ge": (ge, "{:g} or greater"),
    "lt": (lt, "less than {:g}"),
    "le": (le, "{:g} or less"),
}
# vLLM, optional_type of engine/arg_utils.py.
_NO_VALUE = frozenset({"", "None"})


class Argument(BaseModel, frozen=True):
    """An argument of an engine; the catalog file's ``source`` describes it. ``choices`` is empty if any text is valid.

    In ``Arguments``, ``bounds``, ``choices`` and ``keys`` fit the release, and what says since when is empty.
    """

    of: str | None = None
    takes: Literal["int", "float", "size", "si_size", "json", "switch"] | None = None
    negated: bool = False
    many: bool = False
    bounds: Mapping[str, float] = {}
    bounds_since: str | None = None
    choices: tuple[str, ...] = ()
    choices_since: Mapping[str, str] = {}
    choices_until: Mapping[str, str] = {}
    any_case: bool = False
    keys: Mapping[str, Argument] = {}
    since: str | None = None
    until: str | None = None

    def expected(self, words: Sequence[str] | None, *, negates: bool = False) -> str | None:
        """Return what the parser accepts instead of invalid words after the argument; None if they are valid.

        ``words`` are None if the argument is left out. ``negates``: whether its name is the negation, a switch.
        """
        if words is None:
            return None
        if negates or self.takes == "switch":
            return _IN_WORDS["switch"] if words else None
        if self.choices:
            is_one = words and all(_is_choice(self, word) or word in _NO_VALUE for word in words)
            return None if is_one else f"one of {', '.join(self.choices)}"
        if self.takes is None:
            return None
        try:
            read = [_READ[self.takes](word.strip()) for word in words if word not in _NO_VALUE]
        except ValueError:
            return _IN_WORDS[self.takes]
        if self.keys and not all(isinstance(each, dict) for each in read):
            return "a JSON object"
        if not all(_is_within(self, each) for each in read):
            return f"{_IN_WORDS[self.takes].partition(' such as')[0]}, {_limits(self)}"
        return None if words else _IN_WORDS[self.takes]

    def wrong_keys(self, text: str) -> Iterator[WrongKey]:
        """Yield what the class that JSON becomes does not accept in it."""
        try:
            read = from_json(text)
        except ValueError:
            return
        yield from _wrong_keys(self, read)

    def whole(self, value: str) -> int | None:
        """Return the whole number that the parser reads from a value; None for other values, and for ``auto``."""
        try:
            read = _READ[self.takes or "int"](value.strip())
        except (KeyError, ValueError):
            return None
        return read if isinstance(read, int) else None


class WrongKey(NamedTuple):
    """A key of JSON that an engine does not accept, or whose value it does not: ``given`` is the one or the other.

    ``expected`` is None for an unknown key. ``known`` are the keys, or the values, that it accepts.
    """

    path: str
    given: str
    known: tuple[str, ...]
    expected: str | None


def _wrong_keys(within: Argument, read: object, path: str = "") -> Iterator[WrongKey]:
    if not isinstance(read, dict) or not within.keys:
        return
    for key, value in cast("dict[str, object]", read).items():
        # speculative_config may have hyphens (vLLM, create_speculative_config of engine/arg_utils.py).
        row = within.keys.get(key.replace("-", "_"))
        if row is None:
            yield WrongKey(f"{path}{key}", key, tuple(within.keys), None)
        elif isinstance(value, str) and row.choices and not _is_choice(row, value):
            yield WrongKey(f"{path}{key}", value, row.choices, f"one of {', '.join(row.choices)}")
        elif not _is_within(row, value):
            yield WrongKey(f"{path}{key}", key, (), f"a number, {_limits(row)}")
        else:
            yield from _wrong_keys(row, value, f"{path}{key}.")


def _is_choice(row: Argument, word: str) -> bool:
    return word in row.choices or (row.any_case and word.lower() in {each.lower() for each in row.choices})


def _is_within(row: Argument, value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    return all(_COMPARED[name][0](value, limit) for name, limit in row.bounds.items())


def _limits(row: Argument) -> str:
    return " and ".join(_COMPARED[name][1].format(limit) for name, limit in row.bounds.items())


class Found(NamedTuple):
    """An argument by its canonical name. ``negates`` tells whether the given name was its negation."""

    name: str
    row: Argument
    negates: bool = False


class Arguments(NamedTuple):
    """The arguments of a release by their names with underscores."""

    rows: Mapping[str, Argument]

    def find(self, name: str) -> Found | None:
        """Return the argument with this name or alias, ``no_`` and its name, or an unambiguous prefix of its name.

        The engines' parsers accept prefixes (argparse, ``allow_abbrev``).
        """
        begun = [name] if name in self.rows else [known for known in self.rows if known.startswith(name)]
        if len(begun) == 1:
            row = self.rows[begun[0]]
            return Found(row.of, self.rows[row.of]) if row.of is not None else Found(begun[0], row)
        own = name.removeprefix("no_")
        negated = self.rows.get(own)
        return Found(own, negated, negates=True) if negated is not None and negated.negated else None


def of_newest(engine: str) -> Arguments:
    """Return the arguments of an engine's newest known release; none of an engine that is not listed."""
    listed = load("engine_arguments")["engines"].get(engine)
    found = of_release(engine, listed["releases"][-1]) if listed is not None else None
    return found if found is not None else Arguments({})


@cache
def of_release(engine: str, release: str | None) -> Arguments | None:
    """Return the arguments of an engine's release; None if the release is unknown."""
    data: dict[str, Any] = load("engine_arguments")["engines"].get(engine, {"releases": [], "arguments": {}})
    releases: list[str] = data["releases"]
    if release not in releases:
        return None
    order = {known: number for number, known in enumerate(releases)}
    loaded = engine_models.of_release(engine, release)
    tables = {"quantization": loaded.quantization, "load_format": loaded.load_formats} if loaded is not None else {}
    rows = {name: Argument.model_validate(row) for name, row in data["arguments"].items()}

    def is_within(since: str | None, until: str | None) -> bool:
        return order[since or releases[0]] <= order[release] <= order[until or releases[-1]]

    def of_this(name: str, row: Argument) -> Argument:
        if name in tables and not row.choices:
            # Any text for the parser, which does not know the tables of the engine.
            return row.model_copy(update={"choices": tuple(filter(tables[name].has, tables[name].rows))})
        since, until = row.choices_since, row.choices_until
        has = tuple(choice for choice in row.choices if is_within(since.get(choice), until.get(choice)))
        own = {
            "bounds": row.bounds if is_within(row.bounds_since, None) else {},
            "choices": has,
            "keys": had(row.keys),
        }
        return row.model_copy(update={**own, "bounds_since": None, "choices_since": {}, "choices_until": {}})

    def had(rows: Mapping[str, Argument]) -> dict[str, Argument]:
        return {name: of_this(name, row) for name, row in rows.items() if is_within(row.since, row.until)}

    return Arguments(had(rows))
