"""JumpStart models and the techniques they support."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from .files import load


@dataclass(frozen=True)
class License:
    """A licence that must be accepted before the weights may be used."""

    name: str
    url: str


@dataclass(frozen=True)
class ModelRow:
    """One JumpStart model. A column is None where the service's matrix leaves it blank."""

    model_id: str
    family: str
    quantization: bool | None
    speculative_decoding: bool | None
    sagemaker_draft_model: bool | None
    gated: bool | None
    license: License | None

    def supports(self, column: str) -> bool | None:
        """What the matrix says of a technique's column."""
        return getattr(self, column)


@cache
def by_id() -> MappingProxyType[str, ModelRow]:
    """Every catalogued model."""
    return MappingProxyType({row["model_id"]: _row(row) for row in load("models")["models"]})


def find(model_id: str) -> ModelRow | None:
    """The model of that id."""
    return by_id().get(model_id)


def _row(raw: dict[str, Any]) -> ModelRow:
    licence = raw["license"]
    return ModelRow(**{**raw, "license": License(**licence) if licence else None})
