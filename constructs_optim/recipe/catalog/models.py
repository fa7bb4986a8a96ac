"""JumpStart models, the techniques they support, and the size of their weights and KV cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from . import load


@dataclass(frozen=True)
class License:
    """A licence that must be accepted before the weights may be used."""

    name: str
    url: str


@dataclass(frozen=True)
class ModelRow:
    """One JumpStart model. A column is None where the source leaves it blank.

    ``supports`` has the techniques that the sources list as supported, by their names there, and ``pre_compiled`` where
    SageMaker has the compiled artifact.

    ``parameters_billion`` is the vendor's own figure, ``weight_bits`` the precision of the stored weights, and
    ``stored_gb`` their size where it does not follow from these two. The size of the KV cache follows from ``layers``,
    ``key_value_heads`` and ``head_dimension``; ``full_attention_layers`` keep all tokens of a request, the remaining
    layers only those of a short window. The size of prediction heads and embeddings follows from ``hidden_size`` and
    ``vocabulary_size``; embeddings are a single matrix where they are tied, two otherwise. ``attention_heads`` counts
    query heads, ``max_position`` is the maximum context length in tokens. ``active_parameters_billion`` is the number
    of parameters per token of a mixture of experts.
    """

    model_id: str
    family: str
    supports: frozenset[str] = frozenset()
    gated: bool | None = None
    license: License | None = None
    parameters_billion: float | None = None
    weight_bits: int = 16
    layers: int | None = None
    key_value_heads: int | None = None
    head_dimension: int | None = None
    hidden_size: int | None = None
    vocabulary_size: int | None = None
    tied_embeddings: bool = False
    attention_heads: int | None = None
    max_position: int | None = None
    full_attention_layers: int | None = None
    stored_gb: float | None = None
    active_parameters_billion: float | None = None

    @property
    def key_value_bytes_a_token(self) -> int | None:
        """Bytes of KV cache that a token takes in half precision: a key and a value in every layer."""
        if self.layers is None or self.key_value_heads is None or self.head_dimension is None:
            return None
        return 2 * 2 * self.layers * self.key_value_heads * self.head_dimension

    @property
    def embedding_parameters(self) -> int | None:
        """Weights of the embeddings and of the output layer, which quantization leaves in 16 bits."""
        if self.hidden_size is None or self.vocabulary_size is None:
            return None
        return (1 if self.tied_embeddings else 2) * self.hidden_size * self.vocabulary_size

    def context_bytes(self, tokens: int) -> int | None:
        """Bytes of KV cache that one long request takes, in half precision; windows of sliding layers are short."""
        if self.key_value_bytes_a_token is None or self.layers is None:
            return None
        return self.key_value_bytes_a_token * tokens * (self.full_attention_layers or self.layers) // self.layers


@cache
def by_id() -> dict[str, ModelRow]:
    """Every known model, with the changes of :func:`override`."""
    data = load("models")
    return {row["model_id"]: _row(row, data["families"]) for row in data["models"]}


def find(model_id: str) -> ModelRow | None:
    """The model of that id."""
    return by_id().get(model_id)


def override(model_id: str, **columns: Any) -> ModelRow:
    """Add a model of your own, or change columns of a catalogued model, for the rest of the process.

    Args:
        model_id: the hub's id.
        **columns: columns of :class:`ModelRow`; all other columns keep their values.

    Raises:
        ValueError: for an unknown column.
    """
    known = set(ModelRow.__dataclass_fields__) - {"model_id"}
    unknown = sorted(set(columns) - known)
    if unknown:
        raise ValueError(f"a model has no column {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if "supports" in columns:
        columns = {**columns, "supports": frozenset(columns["supports"])}
    row = by_id().get(model_id, ModelRow(model_id, family="custom"))
    by_id()[model_id] = replace(row, **columns)
    return by_id()[model_id]


def _row(raw: dict[str, Any], families: dict[str, list[str]]) -> ModelRow:
    columns = dict(raw)
    supports = {*families[raw["family"]], *columns.pop("supports")} - {*columns.pop("lacks", ())}
    licence = columns.pop("license")
    return ModelRow(**columns, supports=frozenset(supports), license=License(**licence) if licence else None)
