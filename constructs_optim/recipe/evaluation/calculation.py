"""Calculates each metric of an evaluation from its requests.

``metrics`` defines them, ``pricing`` has the formulas of prices. Where the vendor's reference leaves a choice:

- Failed and empty requests are counted as such and are not part of latencies, rates and token counts: an endpoint that
  fails fast is not a fast endpoint.
- Inter-token latency is a request's time from its first token to its last, for each token after the first piece. Tokens
  that arrive in one piece, as with speculative decoding, are still tokens; those of the first piece took no measurable
  time, and a response that arrived in one piece has no inter-token latency.
- Tokens a second of a request are the mean tokens of a request over its mean client latency, so that they follow from
  means alone, which is all that aiperf's summaries have.
- Percentiles are linearly interpolated, as NumPy's and a spreadsheet's are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from constructs_optim.recipe import pricing
from constructs_optim.recipe.metrics import EVALUATION, PERCENTILES, MetricDefinition, Unit


class ErrorKind(StrEnum):
    """How a request can fail; ``meaning`` is for reports."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> ErrorKind:
        """A kind, whose value is its name in results."""
        kind = str.__new__(cls, value)
        kind._value_, kind.meaning = value, meaning
        return kind

    TIMEOUT = "timeout", "The response was not complete before the timeout."
    CONNECTION = "connection", "No connection could be opened."
    BROKEN_CONNECTION = (
        "broken_connection",
        "The connection broke after the request was sent, before any part of a response.",
    )
    THROTTLED = "throttled", "The endpoint refused the request because there were too many (status 429, or throttling)."
    CLIENT_ERROR = "client_error", "The endpoint refused the request itself (status 4xx)."
    SERVER_ERROR = "server_error", "The endpoint failed before it responded (status 5xx)."
    MODEL_ERROR = "model_error", "The model's server reported an error in the middle of its response."
    CUT_STREAM = "cut_stream", "The response broke off before its end."
    MALFORMED_RESPONSE = "malformed_response", "Part of the response violates the format."


@dataclass(slots=True)
class Request:
    """One request, with times in seconds of a monotonic clock; None where a value is not known.

    ``end`` is when its response was complete, or when it failed; ``last_token`` is ``end`` by default. ``first_tokens``
    arrived in the first piece of the response.
    """

    start: float
    end: float
    first_token: float | None = None
    last_token: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: ErrorKind | None = None
    tokenizer_failed: bool = False
    first_tokens: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether it succeeded, with a response of no token or of none that the tokenizer could parse."""
        if self.error is not None:
            return False
        return self.first_token is None or self.output_tokens == 0 or (self.tokenizer_failed and not self.output_tokens)

    @property
    def is_measured(self) -> bool:
        """Whether it adds to latencies, rates and token counts."""
        return self.error is None and not self.is_empty

    @property
    def client_latency(self) -> float:
        """Milliseconds from sending it to its whole response."""
        return (self.end - self.start) * 1000

    @property
    def time_to_first_token(self) -> float | None:
        """Milliseconds from sending it to its first token."""
        return None if self.first_token is None else (self.first_token - self.start) * 1000

    @property
    def inter_token_latency(self) -> float | None:
        """Milliseconds a token after the first piece; None for a response that arrived in one piece."""
        if self.first_token is None or self.output_tokens is None or self.arrived_whole:
            return None
        last = self.end if self.last_token is None else self.last_token
        timed = self.output_tokens - self.first_tokens
        return (last - self.first_token) * 1000 / timed if timed > 0 else None

    @property
    def arrived_whole(self) -> bool:
        """Whether several tokens arrived, all in one piece."""
        last = self.end if self.last_token is None else self.last_token
        return self.first_token is not None and (self.output_tokens or 0) > 1 and last <= self.first_token


def summarize(
    requests: Iterable[Request],
    seconds: float,
    concurrency: int,
    *,
    instance_price_per_hour: float | None = None,
    discount: float = 0.0,
) -> dict[str, float]:
    """Every metric of an evaluation at one concurrency that can be calculated, by name, in its published unit.

    ``requests`` has those that failed as well; ``seconds`` is from the first request to the last response. There are no
    prices without ``instance_price_per_hour``, of all instances. Raises ValueError where ``seconds`` is 0.
    """
    sent = list(requests)
    measured = [request for request in sent if request.is_measured]
    if measured and not seconds > 0:
        raise ValueError(f"seconds is {seconds}, and completed requests took time")
    values: dict[str, float] = {
        "concurrency": concurrency,
        "client_invocations": len(sent),
        "client_invocation_errors": sum(request.error is not None for request in sent),
        "tokenizer_failed": sum(request.tokenizer_failed for request in sent),
        "empty_inference_response": sum(request.is_empty for request in sent),
    }
    for name in ("time_to_first_token", "inter_token_latency", "client_latency"):
        latencies = sorted(value for request in measured if (value := getattr(request, name)) is not None)
        if latencies:
            values[name] = sum(latencies) / len(latencies)
            values |= {f"{name}_{which}": percentile(latencies, float(which[1:])) for which in PERCENTILES}
    for kind in ("input_tokens", "output_tokens"):
        values |= _tokens(kind, measured, seconds)
    if values.get("inter_token_latency_p50", 0) > 0:
        values["total_throughput"] = pricing.total_throughput(concurrency, values["inter_token_latency_p50"])
    if instance_price_per_hour is not None:
        values |= _prices(values, instance_price_per_hour, discount)
    return {metric.name: float(values[metric.name]) for metric in EVALUATION if metric.name in values}


def errors_by_kind(requests: Iterable[Request]) -> dict[str, int]:
    """The number of failed requests by kind of error."""
    counted = Counter(request.error for request in requests if request.error is not None)
    return {kind.value: counted[kind] for kind in ErrorKind if kind in counted}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that ``percent`` (0 to 100) of the values do not exceed, linearly interpolated."""
    rank = (len(ordered) - 1) * percent / 100
    below = int(rank)
    if below + 1 == len(ordered):
        return ordered[below]
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (rank - below)


_OF_THE_LOAD = (
    "concurrency",
    "client_invocations",
    "input_tokens",
    "output_tokens",
    "drafts",
    "instance_price_per_hour",
)


def direction(metric: MetricDefinition) -> int:
    """Whether higher values of a metric are better (1), worse (-1), or neither (0)."""
    if metric.name in _OF_THE_LOAD:
        return 0
    if metric.shown_unit is Unit.COUNT_PER_SECOND or metric.name == "acceptance_length":
        # Input tokens arrive as fast as requests are completed: both rates measure the endpoint.
        return 1
    return -1


def relative_change(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    """The relative change of a metric: 0.5 for an increase by half. None where a value is missing, or zero before."""
    if name not in before or name not in after:
        return None
    if before[name] == after[name]:
        return 0.0
    return None if before[name] == 0 else after[name] / before[name] - 1


def _tokens(kind: str, measured: Sequence[Request], seconds: float) -> dict[str, float]:
    counted = [(count, request) for request in measured if (count := getattr(request, kind)) is not None]
    if not counted:
        return {}
    total = sum(count for count, _ in counted)
    waited = sum(request.client_latency for _, request in counted)
    values = {kind: total / len(counted), f"{kind}_per_second": total / seconds}
    return values | ({f"{kind}_per_second_per_request": total * 1000 / waited} if waited > 0 else {})


def _prices(values: Mapping[str, float], hourly: float, discount: float) -> dict[str, float]:
    prices = {"instance_price_per_hour": hourly}
    for kind in ("input", "output"):
        if values.get(f"{kind}_tokens_per_second", 0) > 0:
            price = pricing.price_per_million_tokens(hourly, values[f"{kind}_tokens_per_second"], discount)
            prices[f"price_per_million_{kind}_tokens"] = price
    if "total_throughput" in values:
        price = pricing.blended_price_per_million_tokens(hourly, values["total_throughput"], discount)
        prices["blended_price_per_million_tokens"] = price
    return prices
