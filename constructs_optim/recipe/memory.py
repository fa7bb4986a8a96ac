"""Will it fit? Weights and KV cache against the accelerators' memory, in GB (10^9 bytes).

What a served model takes: weights in their precision, a draft's as well, and the KV cache of the requests in flight.
LMI lets vLLM use nine tenths of each accelerator's memory (``gpu_memory_utilization``); a copy of the model has the
memory of the accelerators that it is spread over.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from .catalog import instances, models
from .recipe import Recipe
from .techniques import Technique

USABLE = 0.9
DEFAULT_BATCH_SIZE = 8
_DEFAULT_SEQUENCE_LENGTH = 4096
# A SageMaker draft's size is not published; the smallest Llama that drafts has 1.2 billion parameters.
_DRAFT_PARAMETERS_BILLION = 1.2
_NUMBER = re.compile(r"\d{1,9}")


class MemoryEstimate(BaseModel):
    """What one copy of the model takes, in GB, and what it has.

    ``kv_cache_gb`` is for ``batch_size`` requests of ``sequence_length`` tokens; None where the model's geometry is
    not known.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    weights_gb: float
    draft_gb: float
    kv_cache_gb: float | None
    batch_size: int
    sequence_length: int
    available_gb: float

    @property
    def fixed_gb(self) -> float:
        """What is needed before the first request comes."""
        return self.weights_gb + self.draft_gb

    @property
    def total_gb(self) -> float:
        """All of it."""
        return self.fixed_gb + (self.kv_cache_gb or 0)


def estimate(recipe: Recipe) -> MemoryEstimate | None:
    """The estimate for a recipe; None where the model's size or the instance is not known."""
    row, instance, degree = recipe.model_row, recipe.instance, recipe.tensor_parallel_degree
    if row is None or row.parameters_billion is None or instance is None or not isinstance(degree, int) or degree < 1:
        return None
    techniques = [technique for _, technique in recipe.known_techniques]
    batch, length = _requests(recipe, techniques)
    token = row.key_value_bytes_a_token
    memory = instance.total_accelerator_memory_gb * min(degree, instance.parallel_units) / instance.parallel_units
    return MemoryEstimate(
        weights_gb=round(weights_gb(row, techniques), 3),
        draft_gb=round(_draft_gb(row, techniques), 3),
        kv_cache_gb=round(token * batch * length / 1e9, 3) if token is not None else None,
        batch_size=batch,
        sequence_length=length,
        available_gb=round(memory * USABLE, 3),
    )


def weights_gb(row: models.ModelRow, techniques: list[Technique]) -> float:
    """The weights after all techniques: Llama 3 70B is 140 GB in half precision and 35 GB in INT4."""
    bits = next((t.weight_bits for t in techniques if t.weight_bits is not None), None)
    stored = min(bits, row.weight_bits) if bits is not None else row.weight_bits
    return (row.parameters_billion or 0) * stored / 8


def smallest_fit(recipe: Recipe, found: MemoryEstimate) -> str | None:
    """The instance type with the least accelerator memory that holds it, of those its techniques run on."""
    families = [t.tested_families | t.other_families for _, t in recipe.known_techniques]
    fitting = [
        row
        for row in instances.by_name().values()
        if row.hosts_endpoints
        and all(row.family in allowed for allowed in families)
        and row.total_accelerator_memory_gb * USABLE >= found.total_gb
    ]
    smallest = instances.smallest(fitting)
    return smallest.name if smallest is not None else None


def _requests(recipe: Recipe, techniques: list[Technique]) -> tuple[int, int]:
    """Requests in flight and their length: as compiled, as the environment says, or what is usual."""
    given = recipe.variables
    batch = next(filter(None, (_checked(t.batch_size) for t in techniques)), None)
    length = next(filter(None, (_checked(t.sequence_length) for t in techniques)), None)
    return (
        batch or _number(given.get("OPTION_MAX_ROLLING_BATCH_SIZE")) or DEFAULT_BATCH_SIZE,
        length or _number(given.get("OPTION_MAX_MODEL_LEN")) or _DEFAULT_SEQUENCE_LENGTH,
    )


def _checked(number: object) -> int | None:
    """A technique's number where it is one: its settings may not have been checked yet."""
    try:
        found = number() if callable(number) else None
    except TypeError:
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 10**9 else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def added_parameters(row: models.ModelRow, technique: Technique) -> int:
    """Weights that a technique adds to a model; 0 where the model's shape is not known."""
    if row.hidden_size is None or row.vocabulary_size is None:
        return 0
    return technique.added_parameters(row.hidden_size, row.vocabulary_size)


def _draft_gb(row: models.ModelRow, techniques: list[Technique]) -> float:
    """Heads by what they add; a draft of the hub's by its own size, another one by what drafts usually are."""
    for technique in techniques:
        added = added_parameters(row, technique)
        if added:
            return added * 2 / 1e9
        if technique.kind == "speculative_decoding":
            draft = getattr(technique, "model_id", None)
            found = models.find(draft) if isinstance(draft, str) else None
            billions = found.parameters_billion if found is not None else None
            return (billions or _DRAFT_PARAMETERS_BILLION) * 2
    return 0.0
