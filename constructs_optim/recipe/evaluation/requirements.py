"""The requirements of an evaluation that a deployment must pass: limits, regressions, and quality of completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

from pydantic import Field, PositiveInt

from constructs_optim.recipe import metrics
from constructs_optim.recipe.metrics.names import EvaluationMetricName
from constructs_optim.recipe.metrics.thresholds import LATENCIES_MS, LEAST_MEANT_MS, Threshold
from constructs_optim.recipe.settings import Settings

from ..documentation import page

_LATENCIES = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "client_latency": "client_latency"}
_FAILED = "client_invocation_errors / client_invocations"
_STATISTICS = ("mean", *metrics.PERCENTILES)
REGRESSION_METRICS: Sequence[EvaluationMetricName] = (
    "time_to_first_token_p50",
    "inter_token_latency_p50",
    "client_latency_p90",
    "output_tokens_per_second",
)
"""The metrics to compare with the replaced endpoint. Higher percentiles of 100 requests are too noisy."""
POOLED_REGRESSION_METRICS: Sequence[EvaluationMetricName] = ("client_latency_p90", "inputs_per_second")
"""The same for a model that generates no text."""


class Limits(TypedDict, total=False):
    """The limits of ``require``. Latencies are in milliseconds, prices in US dollars, and errors a share of requests.

    ``ttft`` is the time to first token, ``itl`` the inter-token latency, ``client_latency`` the time to the whole
    response; https://constructs-optim.dev/metrics/ defines all of them.

    Attributes:
        mean_ttft_ms: the mean time to first token, at most.
        p50_ttft_ms: the median time to first token, at most.
        p90_ttft_ms: the 90th percentile of the time to first token, at most.
        p99_ttft_ms: the 99th percentile of the time to first token, at most.
        mean_itl_ms: the mean inter-token latency, at most.
        p50_itl_ms: the median inter-token latency, at most.
        p90_itl_ms: the 90th percentile of the inter-token latency, at most.
        p99_itl_ms: the 99th percentile of the inter-token latency, at most.
        mean_client_latency_ms: the mean latency as the client sees it, at most.
        p50_client_latency_ms: the median latency as the client sees it, at most.
        p90_client_latency_ms: the 90th percentile of the latency as the client sees it, at most.
        p99_client_latency_ms: the 99th percentile of the latency as the client sees it, at most.
        min_output_tokens_per_second: output tokens per second of all requests together, at least.
        min_input_tokens_per_second: input tokens per second of all requests together, at least.
        min_inputs_per_second: texts that are embedded or classified, or documents that are scored, per second, at
            least; for models that generate no text.
        min_total_throughput: output tokens per second of all users, derived from the median inter-token latency, at
            least.
        min_acceptance_length: mean tokens per step of speculative decoding, at least.
        max_error_rate: the share of requests that fail, at most. Default: 0.01.
        max_price_per_million_input_tokens: the price of a million input tokens, at most.
        max_price_per_million_output_tokens: the price of a million output tokens, at most.
        max_blended_price_per_million_tokens: the price of a million tokens, three input tokens to one output token, at
            most.
    """

    mean_ttft_ms: float
    p50_ttft_ms: float
    p90_ttft_ms: float
    p99_ttft_ms: float
    mean_itl_ms: float
    p50_itl_ms: float
    p90_itl_ms: float
    p99_itl_ms: float
    mean_client_latency_ms: float
    p50_client_latency_ms: float
    p90_client_latency_ms: float
    p99_client_latency_ms: float
    min_output_tokens_per_second: float
    min_input_tokens_per_second: float
    min_inputs_per_second: float
    min_total_throughput: float
    min_acceptance_length: float
    max_error_rate: float
    max_price_per_million_input_tokens: float
    max_price_per_million_output_tokens: float
    max_blended_price_per_million_tokens: float


@dataclass(frozen=True)
class Requirement:
    """A limit on a metric, or on a formula over several: the largest or the smallest value that passes."""

    formula: str
    title: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    name: str = ""

    @property
    def is_on_failures(self) -> bool:
        """Whether it limits the share of requests that fail."""
        return self.formula == _FAILED

    @property
    def is_of_requests(self) -> bool:
        """Whether its value comes from single requests, which chance may explain."""
        return self.formula != "acceptance_length"

    @property
    def percentile(self) -> int | None:
        """The percentile that it limits, such as 99; None if it limits another value."""
        _, _, percentile = self.formula.rpartition("_p")
        return int(percentile) if percentile.isdigit() else None

    @property
    def threshold(self) -> Threshold | None:
        """The limit as a threshold, with the values that an evaluation can measure; None if their range is unknown."""
        location = f"require.{self.name}"
        if self.at_most is not None and self.unit == "ms":
            least, most = LATENCIES_MS
            # The latency between tokens can be below a millisecond.
            least = 0 if self.formula.startswith(_LATENCIES["itl"]) else least
            meant = next(each for name, each in LEAST_MEANT_MS.items() if self.formula.startswith(name))
            return Threshold(location, self.at_most, "ms", least=least, most=most, must_pass=True, least_meant=meant)
        if self.name == "min_acceptance_length":
            return Threshold(location, self.at_least, "tokens", "LessThanThreshold", least=1)
        return None


class QualityRequirement(Settings):
    """A comparison of an endpoint's answers with the replaced endpoint's answers to the same prompts.

    Attributes:
        prompts: a JSON Lines file in S3. Each line has ``messages``, or ``text``, ``prompt`` or ``inputs``, which are
            sent without a chat template (with SGLang, which supports only chats, as a user message). To embed or
            classify, it has ``text``, one or a list; to rerank, ``query`` and a list of ``documents``. A line can have
            a ``reference`` to compare with instead: a completion, or a list of embeddings, scores or labels.
        min_identical: the share of completions that must be identical if neither side changes the weights. Default:
            0.9, because rounding in half precision sometimes selects another token.
        max_difference: the maximum mean difference from the baseline's completions, as a share of their words.
        min_agreement: for a model that generates no text, the least mean agreement with the baseline: the cosine
            similarity of embeddings, the share of the pairs of a query's documents in the same order, or the share of
            the same classes.
        max_tokens: maximum number of tokens of a completion.
        most_prompts: maximum number of prompts to send.
    """

    # A technique that does not change the weights verifies several tokens in one pass, so its sums are rounded in
    # another order: of 450 responses in bfloat16, Medusa heads changed 1 or 2 (docs/medusa.md). All of 50 are then the
    # same in 80 to 90 of 100 evaluations (0.9956^50 to 0.9978^50); at least 45 of them are in all but one of ten
    # million. A draft whose tokens are accepted wrongly changes most of them.
    prompts: str
    min_identical: float = Field(default=0.9, ge=0, le=1)
    max_difference: float = Field(default=0.1, ge=0, le=1)
    min_agreement: float = Field(default=0.99, ge=0, le=1)
    max_tokens: PositiveInt = 128
    most_prompts: PositiveInt = 50


@dataclass(frozen=True)
class Requirements:
    """The requirements of one endpoint. Limits apply at the concurrency ``at_concurrency``, or at all if it is None.

    ``max_regression`` is the share by which the ``compared`` metrics can become worse. Each of these is listed with
    whether higher values are better.
    """

    limits: tuple[Requirement, ...]
    max_regression: float | None = None
    compared: tuple[tuple[str, bool], ...] = ()
    quality: QualityRequirement | None = None
    at_concurrency: int | None = None
    forecast: bool = False


def requirements_of(
    limits: Limits,
    *,
    max_regression: float | None = None,
    regression_metrics: Sequence[EvaluationMetricName] = REGRESSION_METRICS,
    at_concurrency: int | None = None,
    quality: QualityRequirement | None = None,
    forecast: bool = False,
) -> Requirements:
    """Return the requirements for ``require``'s arguments. Raises ValueError for an unknown limit or metric."""
    unknown = sorted(set(limits) - set(Limits.__annotations__))
    if unknown:
        raise ValueError(
            f"require has no {' and no '.join(unknown)}; it has {', '.join(Limits.__annotations__)}, "
            "max_regression, regression_metrics, at_concurrency, quality and forecast"
        )
    # An endpoint that fails responds quickly.
    values: dict[str, float] = {"max_error_rate": 0.01, **cast("Mapping[str, float]", limits)}
    compared = [metrics.find(name) for name in regression_metrics if max_regression is not None]
    for metric in compared:
        if not metric.of_evaluation:
            raise ValueError(f"regression_metrics: an evaluation does not measure {metric.name}; see {page('metrics')}")
        if not metric.direction:
            comparable = ", ".join(each.name for each in metrics.EVALUATION if each.direction)
            raise ValueError(
                f"regression_metrics: {metric.name} describes the load, so no value of it is better or worse; choose "
                f"from {comparable}"
            )
    return Requirements(
        limits=tuple(_requirement(name, values[name]) for name in Limits.__annotations__ if name in values),
        max_regression=max_regression,
        compared=tuple((metric.name, metric.direction > 0) for metric in compared),
        quality=quality,
        at_concurrency=at_concurrency,
        forecast=forecast,
    )


def _requirement(name: str, limit: float) -> Requirement:
    if name == "max_error_rate":
        return Requirement(_FAILED, "share of failed requests", "", at_most=limit, name=name)
    bound, _, metric_name = name.partition("_")
    if bound in _STATISTICS:
        latency = _LATENCIES[metric_name.removesuffix("_ms")]
        metric = metrics.find(latency if bound == "mean" else f"{latency}_{bound}")
        return Requirement(metric.name, metric.title, "ms", at_most=limit, name=name)
    metric = metrics.find(metric_name)
    unit = "US dollars" if metric.shown_unit is metrics.Unit.US_DOLLARS else ""
    side = {"at_most": limit} if bound == "max" else {"at_least": limit}
    return Requirement(metric.name, metric.title, unit, **side, name=name)
