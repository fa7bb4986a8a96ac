"""The result of an evaluation: the same document for measurements from a laptop and in the cloud.

A document has one subject, at every concurrency. Its metrics have the names and units of ``recipe.metrics``: latencies
in milliseconds, prices in US dollars, rates per second. Metrics that could not be measured are missing, and ``notes``
explain why.
"""

from __future__ import annotations

import datetime as dt
from typing import ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from constructs_optim.recipe.metrics import EVALUATION

from ..documentation import page
from .objectives import LatencyObjectives

TokenKind = Literal["input", "output"]
_METRICS = frozenset(metric.name for metric in EVALUATION)


def load_label(
    concurrency: int | None, request_rate: float | None, end_rate: float | None = None, turns: float = 1.0
) -> str:
    """Return a load's name for reports: its users, or its requests or conversations per second."""
    if concurrency is not None:
        return f"{concurrency} user" if concurrency == 1 else f"{concurrency} users"
    unit = "request" if turns == 1 else "conversation"
    if end_rate is not None:
        return f"{request_rate:g} to {end_rate:g} {unit}s/s"
    return f"{request_rate:g} {unit}/s" if request_rate == 1 else f"{request_rate:g} {unit}s/s"


class _Part(BaseModel):
    # A later release can add fields, which older releases ignore.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True
    )


class EvaluatedRecipe(_Part):
    """The served recipe: techniques as on the command line, the server's name, and the container image."""

    model: str
    techniques: tuple[str, ...] = ()
    server: str | None = None
    image: str | None = None


class ForecastComparison(_Part):
    """A metric's forecast with its 90% interval, and the measured value; ``holds``: whether it is in the interval."""

    concurrency: PositiveInt
    metric: str
    value: PositiveFloat
    low: PositiveFloat
    high: PositiveFloat
    measured: float
    holds: bool


class Subject(_Part):
    """The evaluated SageMaker endpoint, or the ``url`` of another server, without query and credentials.

    ``label`` is its name in reports, ``model`` the model's name in requests, and ``copies`` the number of copies of the
    model. ``recipe`` is known if an app with this library serves the model.
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
    copies: PositiveInt | None = None
    recipe: EvaluatedRecipe | None = None


class TokenCounts(_Part):
    """How the input or output tokens of the completed requests were counted.

    ``by_server`` is the number of requests with the server's count, and ``by_tokenizer`` that of the requests with the
    tokenizer's, because the server sent no plausible count. The server counted ``difference`` more tokens than the
    tokenizer, as a share of the tokenizer's count (-0.1: a tenth fewer); None if no request has both counts.
    """

    by_server: NonNegativeInt
    by_tokenizer: NonNegativeInt = 0
    difference: float | None = None


class Workload(_Part):
    """The requests, and how tokens were counted.

    ``prompts`` is the number of different prompts. Two results are comparable if ``prompts_digest``, the prompts'
    SHA-256, is the same. ``format`` is ``openai`` or ``lmi``. ``requests`` is the number of requests under every load,
    None if it differs or ``seconds`` limited it; ``warm_up`` requests before them do not count. In an open loop,
    requests followed ``arrivals`` with this ``burstiness``, or were replayed at this ``speed``. ``command`` repeats the
    evaluation, with these ``versions``. ``tokens_counted_by`` is where most counts of output tokens come from;
    ``token_counts`` has the details, by kind of tokens. ``tokenizer`` is the tokenizer's source.
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
    arrivals: str | None = None
    burstiness: PositiveFloat | None = None
    speed: PositiveFloat | None = None
    command: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    tokens_counted_by: Literal["tokenizer", "server"] | None = None
    tokenizer: str | None = None
    token_counts: dict[TokenKind, TokenCounts] = Field(default_factory=dict[TokenKind, TokenCounts])


class Level(_Part):
    """The measurements at one ``concurrency``, the number of users, or at one ``request_rate``, in requests per second.

    A rate can change linearly to ``end_rate``. ``turns`` is the mean number of requests per conversation; with more
    than one, the rate counts conversations. ``intervals`` are the 95% confidence intervals of individual metrics.
    ``errors`` counts errors by ``ErrorKind``. An interrupted level is not ``complete``, but keeps its measurements.
    ``retries`` counts requests that were sent again because the server had closed the idle connection.
    """

    concurrency: PositiveInt | None = None
    request_rate: PositiveFloat | None = None
    end_rate: PositiveFloat | None = None
    turns: PositiveFloat = 1.0
    seconds: float = Field(ge=0)
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]] = Field(default_factory=dict)
    errors: dict[str, NonNegativeInt] = Field(default_factory=dict)
    complete: bool = True
    retries: NonNegativeInt = 0

    @model_validator(mode="after")
    def _has_one_load(self) -> Self:
        if (self.concurrency is None) == (self.request_rate is None):
            raise ValueError("a level has either a concurrency or a request rate")
        return self

    @property
    def load(self) -> str:
        """The load's name in reports."""
        return load_label(self.concurrency, self.request_rate, self.end_rate, self.turns)

    @field_validator("metrics")
    @classmethod
    def _metrics_are_defined(cls, metrics: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(metrics.keys() - _METRICS):
            names = ", ".join(unknown)
            raise ValueError(f"an evaluation has no metrics {names}; {page('metrics')} lists all metrics")
        return metrics


class Price(_Part):
    """The price of all instances together in US dollars, before the discount (a share)."""

    instance_price_per_hour: PositiveFloat
    discount: float = Field(default=0.0, ge=0, lt=1)
    source: str


class RateLimit(_Part):
    """The highest request rate that ``meets`` the objectives, and the lowest that ``misses`` them; None if there is
    none.

    Rates are in requests per second. Rates between the two can be ``undecided``. ``too_busy`` are those of them for
    which the lag of the measuring machine may be why.
    """

    meets: PositiveFloat | None = None
    misses: PositiveFloat | None = None
    undecided: tuple[PositiveFloat, ...] = ()
    too_busy: tuple[PositiveFloat, ...] = ()


class EvaluationResult(_Part):
    """One subject's evaluation, by rising concurrency or rate.

    ``notes`` explain how to interpret the values. ``missing`` lists loads that were not measured before the evaluation
    ended. ``limit`` is the highest rate that meets the ``objectives``, if the evaluation searched for it. ``price`` is
    None if it is unknown; ``notes`` have the reason. ``forecast`` compares the result with the forecast of the choice
    for the endpoint's objectives.
    """

    # Increased if older documents could be misread, but not for an added field.
    schema_version: Literal[1] = Field(default=1, alias="schema")
    subject: Subject
    workload: Workload
    started: dt.datetime
    levels: tuple[Level, ...]
    missing: tuple[str, ...] = ()
    price: Price | None = None
    objectives: LatencyObjectives | None = None
    limit: RateLimit | None = None
    forecast: tuple[ForecastComparison, ...] = ()
    notes: tuple[str, ...] = ()

    @field_validator("levels")
    @classmethod
    def _load_rises(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        loads = [(level.concurrency or 0, level.request_rate or 0.0, level.end_rate or 0.0) for level in levels]
        if loads != sorted(set(loads), key=lambda load: (load[0] == 0, load)):
            given = ", ".join(level.load for level in levels)
            raise ValueError(f"the levels are {given}, but must be unique, in order of rising concurrency or rate")
        return levels

    @property
    def complete(self) -> bool:
        """Whether the evaluation ran without interruption."""
        return not self.missing and all(level.complete for level in self.levels)
