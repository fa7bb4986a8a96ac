"""The result of an evaluation, as data: the same document for measurements from a laptop and in the cloud.

A document has one subject, at every concurrency. Its metrics have the names and units of ``recipe.metrics``: latencies
in milliseconds, prices in US dollars, rates a second. Metrics that could not be measured are missing, and ``notes``
have the reason.
"""

from __future__ import annotations

import datetime as dt
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from constructs_optim.recipe.metrics import EVALUATION

_METRICS = frozenset(metric.name for metric in EVALUATION)


class _Part(BaseModel):
    # A later release may add fields, which older releases ignore.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True
    )


class Subject(_Part):
    """What was evaluated: a SageMaker endpoint, or the ``url`` of another server, without query and credentials.

    ``label`` is its name in reports; ``model`` is the name under which the server knows the model.
    """

    label: str
    endpoint_name: str | None = None
    variant_name: str | None = None
    inference_component_name: str | None = None
    url: str | None = None
    model: str | None = None
    artifact_key: str | None = None
    instance_type: str | None = None
    instance_count: PositiveInt | None = None


class Workload(_Part):
    """What was sent, and how tokens were counted.

    ``prompts`` is the number of different prompts: two results are comparable where ``prompts_digest``, their SHA-256,
    is the same. ``format`` is ``openai`` or ``lmi``. ``requests`` were sent at every concurrency, None where their
    number differs by concurrency or ``seconds`` limited them; ``warm_up`` requests before them do not count.
    """

    prompts: PositiveInt
    prompts_digest: str | None = None
    tool: str | None = None
    format: str | None = None
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    requests: PositiveInt | None = None
    seconds: PositiveFloat | None = None
    warm_up: NonNegativeInt = 0
    timeout_seconds: PositiveFloat | None = None
    tokens_counted_by: Literal["tokenizer", "server"] | None = None
    tokenizer: str | None = None


class Level(_Part):
    """The measurements at one concurrency, the number of users.

    ``errors`` counts by ``ErrorKind``. An interrupted level is not ``complete``, and keeps its measurements.
    ``retries`` were sent a second time, because the server had closed the idle connection.
    """

    concurrency: PositiveInt
    seconds: float = Field(ge=0)
    metrics: dict[str, float]
    errors: dict[str, NonNegativeInt] = Field(default_factory=dict)
    complete: bool = True
    retries: NonNegativeInt = 0

    @field_validator("metrics")
    @classmethod
    def _metrics_are_defined(cls, metrics: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(metrics.keys() - _METRICS):
            raise ValueError(f"no metrics of an evaluation: {', '.join(unknown)}; docs/metrics.md lists all")
        return metrics


class Price(_Part):
    """What tokens are charged for: the price of all instances together in US dollars, before the discount (a share)."""

    instance_price_per_hour: PositiveFloat
    discount: float = Field(default=0.0, ge=0, lt=1)
    source: str


class EvaluationResult(_Part):
    """One subject's evaluation, by rising concurrency; ``notes`` are what a reader must know to judge the values.

    ``price`` is None where it is not known, with the reason in ``notes``.
    """

    # Raised when older documents could be misread; not for an added field.
    schema_version: Literal[1] = Field(default=1, alias="schema")
    subject: Subject
    workload: Workload
    started: dt.datetime
    levels: tuple[Level, ...]
    price: Price | None = None
    notes: tuple[str, ...] = ()

    @field_validator("levels")
    @classmethod
    def _concurrency_rises(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        users = [level.concurrency for level in levels]
        if users != sorted(set(users)):
            raise ValueError(f"the levels are of concurrency {users}, and have to be unique and by rising concurrency")
        return levels

    @property
    def complete(self) -> bool:
        """Whether nothing was interrupted."""
        return all(level.complete for level in self.levels)
