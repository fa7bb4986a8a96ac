"""The settings of attention with which vLLM does not run a kind of attention, by compute capability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import NamedTuple

from pydantic import BaseModel

from . import load

BACKEND, CACHE, DATA_TYPE, BLOCK = "attention_backend", "kv_cache_dtype", "dtype", "block_size"
"""The arguments of the engine by which it chooses a backend of attention."""
Settings = frozenset[tuple[str, str]]
"""Values of these arguments."""


class _Row(BaseModel, frozen=True, extra="forbid"):
    attention_backend: str | None = None
    kv_cache_dtype: str | None = None
    dtype: str | None = None
    block_size: str | None = None
    refused: frozenset[float]

    @property
    def settings(self) -> Settings:
        stated = self.model_dump(exclude={"refused"}, exclude_none=True)
        return frozenset(stated.items())


class Misfit(NamedTuple):
    """Settings with which vLLM does not run attention on GPUs with these compute capabilities; without ``settings``, it
    does not run it at all.
    """

    settings: Settings
    refused: frozenset[float]


class Backends(NamedTuple):
    """What a ``release`` of vLLM was asked about: GPUs with these capabilities, and these values of arguments."""

    release: str
    capabilities: frozenset[float]
    asked: Mapping[str, tuple[str, ...]]
    attention: Mapping[str, Mapping[Settings, frozenset[float]]]

    def misfits(self, kind: str, capability: float, settings: Mapping[str, str]) -> Iterator[Misfit]:
        """Yield the smallest parts of the settings with which vLLM does not run a kind of attention on these GPUs."""
        rows = self.attention.get(kind, {})
        for size in range(3):
            parts = map(frozenset, combinations(sorted(settings.items()), size))
            found = [Misfit(part, rows[part]) for part in parts if capability in rows.get(part, ())]
            if found:
                yield from found
                return

    def fitting(self, kind: str, capability: float, settings: Mapping[str, str], argument: str) -> list[str]:
        """Return the values of an argument with which vLLM runs a kind of attention, with the other settings."""
        values = self.asked[argument]
        return [each for each in values if not any(self.misfits(kind, capability, {**settings, argument: each}))]


@cache
def of_vllm() -> Backends:
    """Return what the newest release of vLLM in AWS's containers runs."""
    data = load("attention_backends")
    capabilities = frozenset(data["capabilities"])
    kinds: dict[str, dict[Settings, frozenset[float]]] = {}
    for kind, stated in data["attention"].items():
        never = [frozenset({(name, value)}) for name, values in stated["never"].items() for value in values]
        rows = {row.settings: row.refused for row in map(_Row.model_validate, stated["refused"])}
        kinds[kind] = {**dict.fromkeys(never, capabilities), **rows}
    asked = {name: tuple(values) for name, values in data["asked"].items()}
    return Backends(data["release"], capabilities, asked, kinds)
