"""Calculates each metric of an evaluation from its requests.

``recipe.metrics`` defines the metrics, with formulas of those that follow from others, and
``runtime.evaluation.samples`` calculates the metrics with an interval. Choices that the vendor's reference leaves open:

- Failed and empty requests are counted separately and excluded from latencies, rates and token counts, because an
  endpoint that fails fast is not fast.
- Inter-token latency is a request's time from its first to its last token, divided by the number of tokens after the
  first piece. With speculative decoding, a piece can have several tokens, and each counts. Tokens of the first piece
  take no measurable time, so a response in one piece has no inter-token latency.
- Rates cover the time in which the load was complete. A request that began earlier or ended later contributes its
  tokens in proportion to its time in this window, whether or not it counts otherwise.
- A request's tokens per second are the mean tokens over the mean client latency, because aiperf's summaries have only
  means.
- Percentiles are linearly interpolated, as in NumPy and spreadsheets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import Level, Price
from constructs_optim.recipe.metrics import EVALUATION
from constructs_optim.runtime.evaluation.differences import Measured, intervals
from constructs_optim.runtime.evaluation.samples import Observation, Sample
from constructs_optim.runtime.formula import calculate

from .load import MeasuredLevel
from .options import ClosedLoop, Load, OpenLoop
from .requests import Request, errors_by_kind
from .streaming import Record

_DIGITS = 6


def summarize_level(
    load: Load, level: MeasuredLevel, price: Price | None, objectives: LatencyObjectives | None = None
) -> Level:
    """Return the metrics of a side under a load, at the price of all its instances."""
    concurrency = load.concurrency if isinstance(load, ClosedLoop) else None
    sample = sample_of(level, objectives)
    metrics = summarize(level.counted, sample, concurrency, price)
    if drafts := sum(segment.drafts for segment in level.segments):
        accepted = sum(segment.accepted for segment in level.segments)
        metrics |= {"acceptance_length": 1 + accepted / drafts, "drafts": drafts}
    return Level(
        concurrency=concurrency,
        request_rate=None if isinstance(load, ClosedLoop) else load.request_rate,
        end_rate=load.end_rate if isinstance(load, OpenLoop) else None,
        turns=load.turns if isinstance(load, OpenLoop) else 1.0,
        seconds=round(level.seconds, 3),
        metrics={name: round(value, _DIGITS) for name, value in metrics.items()},
        intervals={
            name: (round(low, _DIGITS), round(high, _DIGITS))
            for name, (low, high) in intervals(Measured(metrics, sample)).items()
        },
        errors=errors_by_kind(level.counted),
        complete=level.complete,
        retries=sum(record.retried for record in level.counted),
    )


def summarize(
    requests: Sequence[Request], sample: Sample, concurrency: int | None, price: Price | None = None
) -> dict[str, float]:
    """Return every metric that can be calculated, by name, in its published unit.

    ``requests`` are the counted requests, including failed ones, and ``sample`` has their measurements. For an open
    loop, ``concurrency`` is None, and the metric is the mean number of concurrent requests. ``price`` is of all
    instances; without it, there are no prices. Raises ValueError if requests completed but the sample has no time.
    """
    measured = [request for request in requests if request.is_measured]
    if measured and not sample.seconds > 0:
        raise ValueError(f"seconds is {sample.seconds}, but completed requests take time")
    values: dict[str, float] = {
        "client_invocations": len(requests),
        "client_invocation_errors": sum(request.error is not None for request in requests),
        **sample.drawn(),
    }
    if all(request.inputs is None for request in requests):
        values["tokenizer_failed"] = sum(request.tokenizer_failed for request in requests)
        values["empty_inference_response"] = sum(request.is_empty for request in requests)
    for kind in ("input_tokens", "output_tokens"):
        counts = [count for request in measured if (count := getattr(request, kind)) is not None]
        values |= {kind: sum(counts) / len(counts)} if counts else {}
    if concurrency is not None:
        values["concurrency"] = concurrency
    if price is not None:
        values |= {"instance_price_per_hour": price.instance_price_per_hour, "discount": price.discount}
    for metric in EVALUATION:
        if metric.formula is not None and (value := calculate(metric.formula, values)) is not None:
            values[metric.name] = value
    if concurrency is None and sample.seconds > 0:
        # Not in the formulas, which are about simulated users.
        values["concurrency"] = sample.mean_under_way
    return {metric.name: float(values[metric.name]) for metric in EVALUATION if metric.name in values}


def sample_of(level: MeasuredLevel, objectives: LatencyObjectives | None = None) -> Sample:
    """Return the requests of a level, one segment's window after the other."""
    counted: list[Observation] = []
    around: list[Observation] = []
    passed = 0.0
    for number, (begin, end) in level.windows.items():
        for record in level.records:
            if record.segment == number:
                observed = observation_of(record, begin, end, passed, objectives)
                (counted if record.counted else around).append(observed)
        passed += end - begin
    return Sample(counted, passed, around)


def observation_of(
    request: Request, begin: float, end: float, passed: float = 0.0, objectives: LatencyObjectives | None = None
) -> Observation:
    """Return the observation of a request, in a window after ``passed`` seconds of earlier windows."""
    observed = Observation(
        request.start,
        prompt=f"{request.prompt}, turn {request.turn}" if isinstance(request, Record) else None,
        meets_objectives=False if objectives is not None else None,
    )
    if request.is_measured:
        observed = replace(
            observed,
            time_to_first_token=request.time_to_first_token,
            inter_token_latency=request.inter_token_latency,
            client_latency=request.client_latency,
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            inputs=request.inputs,
            gaps=tuple(request.gaps),
            meets_objectives=objectives.are_met(request) if objectives is not None else None,
        )
    inside = observed.inside(begin, end)
    return replace(inside, start=inside.start + passed)
