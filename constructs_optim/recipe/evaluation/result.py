"""What an evaluation found, as data: one document for what was measured from a laptop and what was measured in the
cloud.

A document is of one subject, at every concurrency. Its metrics have the names and units of ``evaluation_metrics``:
latencies in milliseconds, prices in US dollars, rates a second. What could not be measured is left out, and ``notes``
say why.
"""

from __future__ import annotations

import datetime as dt
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from constructs_optim.recipe.metrics import EVALUATION

SCHEMA_VERSION = 1
"""Goes up when a document of before could be misread; a field that is added keeps it."""

_METRICS = frozenset(metric.name for metric in EVALUATION)


class _Part(BaseModel):
    # A later release may add fields: what an older one does not know, it passes over.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True
    )


class Subject(_Part):
    """What was evaluated.

    Attributes:
        label: its name in reports, for instance ``baseline``.
        endpoint_name: of a SageMaker endpoint.
        variant_name: the production variant that served it. Default: none named.
        inference_component_name: the inference component that served it. Default: none.
        url: of a server that is no SageMaker endpoint, without a query and credentials.
        model: the name under which the server knows the model.
        artifact_key: of the artifact that was served, where it is one.
        instance_type: for instance ``ml.g5.12xlarge``.
        instance_count: how many there were.
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
    """What was sent, and how it was counted.

    Attributes:
        prompts: how many different ones.
        prompts_digest: SHA-256 of the prompts: two results compare where it is the same.
        tool: what sent the requests, with its version.
        format: how requests and answers were written: ``openai``, ``lmi`` or ``tgi``.
        parameters: of generation, as they were sent: ``max_tokens``, ``temperature`` and others.
        requests: sent at each concurrency; None where time was the limit, or where each had a number of its own.
        seconds: for which requests were sent at each concurrency; None where their number was the limit.
        warm_up: requests sent before each concurrency and not counted.
        timeout_seconds: after which a request counts as an error.
        tokens_counted_by: the model's own ``tokenizer``, or the ``server`` where there was none.
        tokenizer: where it came from.
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
    """What was measured at one concurrency.

    Attributes:
        concurrency: users at the same time.
        seconds: from the first request to the last answer.
        metrics: values by the names of ``evaluation_metrics``, in their units.
        errors: how many requests ended with each kind of error (``evaluation.ErrorKind``).
        complete: whether all requests that were asked for were made; an interrupted evaluation keeps what it measured.
        retries: requests that were sent a second time, because the server had closed the connection while it was idle.
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
        unknown = sorted(set(metrics) - _METRICS)
        if unknown:
            raise ValueError(
                f"no metrics of an evaluation: {', '.join(unknown)}; docs/metrics.md lists those there are"
            )
        return metrics


class Price(_Part):
    """What tokens are charged for.

    Attributes:
        instance_price_per_hour: of all instances together, in US dollars, before the discount.
        discount: what a savings plan takes off, as a share.
        source: where the price comes from.
    """

    instance_price_per_hour: PositiveFloat
    discount: float = Field(default=0.0, ge=0, lt=1)
    source: str


class EvaluationResult(_Part):
    """One subject's evaluation.

    Attributes:
        schema_version: ``schema`` in JSON.
        subject: what was evaluated.
        workload: what was sent.
        started: when.
        levels: by rising concurrency.
        price: None where it is not known, with the reason in ``notes``.
        notes: what a reader has to know to judge the values.
    """

    schema_version: Literal[1] = Field(default=SCHEMA_VERSION, alias="schema")
    subject: Subject
    workload: Workload
    started: dt.datetime
    levels: tuple[Level, ...]
    price: Price | None = None
    notes: tuple[str, ...] = ()

    @field_validator("levels")
    @classmethod
    def _levels_rise(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        users = [level.concurrency for level in levels]
        if users != sorted(set(users)):
            raise ValueError(f"the levels are of concurrency {users}: each belongs there once, by rising concurrency")
        return levels

    @property
    def complete(self) -> bool:
        """Whether nothing was interrupted."""
        return all(level.complete for level in self.levels)

    def to_json(self) -> str:
        """The document, to be written to a file."""
        return self.model_dump_json(indent=1, exclude_none=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> EvaluationResult:
        """Read a document.

        Raises:
            pydantic.ValidationError: where it is none, or of another version of the schema.
        """
        return cls.model_validate_json(text)
