"""The schemes of quantization that vLLM builds layers for, by compute capability."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from pydantic import BaseModel

from . import load


class Scheme(BaseModel, frozen=True, extra="forbid"):
    """A scheme in the terms of its method, and the compute capabilities of the GPUs for which vLLM builds layers whose
    weights have it: all layers of a ``dense`` model, and those of a mixture of ``experts``; None if that is unknown.
    """

    method: str
    scheme: str
    dense: frozenset[float] | None
    experts: frozenset[float] | None


class Schemes(NamedTuple):
    """The schemes that a ``release`` of vLLM was asked about, and for which compute capabilities."""

    release: str
    capabilities: frozenset[float]
    rows: Mapping[tuple[str, str], Scheme]

    def built(self, method: str, scheme: str, *, experts: bool) -> frozenset[float] | None:
        """Return the compute capabilities for which vLLM builds a model of this kind; None if that is unknown."""
        row = self.rows.get((method, scheme))
        return None if row is None else row.experts if experts else row.dense


@cache
def of_vllm() -> Schemes:
    """Return what the newest release of vLLM in AWS's containers builds."""
    data = load("weight_schemes")
    rows = [Scheme.model_validate(row) for row in data["schemes"]]
    return Schemes(data["release"], frozenset(data["capabilities"]), {(row.method, row.scheme): row for row in rows})
