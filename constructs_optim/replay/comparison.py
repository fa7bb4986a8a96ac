"""The cost and the latencies of traffic with one or more declarations."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from constructs_optim.recipe.objectives import Objectives

from .declaration import Declared
from .simulation import Outcome, simulate
from .traffic import Traffic

_HOURS = 3600.0
Range = tuple[float, float, float]
"""A figure as forecast, and its minimum and maximum for speeds at the ends of the forecast's intervals."""


class Replayed(BaseModel):
    """The result of one endpoint for the traffic. Latencies and waits are in milliseconds, money is in US dollars.

    ``failed`` requests found no copy, or had prompts beyond the context; they count as late. ``missed_first`` and
    ``missed_between`` are the shares of requests slower than the objectives, which are for means; None without such an
    objective. ``waited`` is the share of requests that waited for room in a batch, ``wait`` their mean wait. Latencies
    are None if nothing was served. ``instance_types`` are the types with billed hours. ``copies`` is the minimum and
    maximum number in service. ``capacity`` has seconds since the first request, copies in service and requests in
    flight.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    name: str
    source: str
    instance_types: tuple[str, ...]
    requests: int
    instance_hours: Range
    dollars: Range | None
    failed: int
    time_to_first_token: Range | None
    time_to_first_token_p50: Range | None
    time_to_first_token_p99: Range | None
    inter_token_latency: Range | None
    inter_token_latency_p50: Range | None
    missed_first: Range | None
    missed_between: Range | None
    waited: Range | None
    wait: Range | None
    copies: tuple[int, int]
    capacity: tuple[tuple[float, int, float], ...]
    notes: tuple[str, ...]


def replay(
    declarations: Sequence[tuple[str, Declared]], traffic: Traffic, objectives: Objectives | None = None
) -> list[Replayed]:
    """Replay traffic through declarations with their sources, each three times: as forecast, faster, and slower.

    Latencies are compared with ``objectives``, by default those that the endpoint was chosen for.
    """
    runs = [(declared, traffic, slower) for _, declared in declarations for slower in _paces(declared)]
    with ProcessPoolExecutor() as pool:
        outcomes = list(pool.map(_run, runs))
    return [
        _replayed(source, declared, outcomes[3 * index : 3 * index + 3], objectives or declared.objectives)
        for index, (source, declared) in enumerate(declarations)
    ]


def _run(given: tuple[Declared, Traffic, Sequence[tuple[float, float]]]) -> Outcome:
    declared, traffic, slower = given
    # Each run needs its own scaling, because scaling keeps state.
    scaling = replace(declared.scaling) if declared.scaling is not None else None
    return simulate(replace(declared, scaling=scaling), traffic, slower)


def _paces(declared: Declared) -> Iterator[list[tuple[float, float]]]:
    """Yield factors for the times to the first token and between tokens, by pool: as forecast, and at interval ends."""
    ends = [
        (pool.forecasts.correction("time_to_first_token")[1], pool.forecasts.correction("inter_token_latency")[1])
        for pool in declared.pools
    ]
    yield [(1.0, 1.0) for _ in ends]
    yield [(1 / first, 1 / between) for first, between in ends]
    yield ends


def _replayed(source: str, declared: Declared, outcomes: Sequence[Outcome], objectives: Objectives | None) -> Replayed:
    hours = _range([outcome.instance_hours for outcome in outcomes])
    first = [sorted(outcome.served.first) for outcome in outcomes]
    between = [sorted(outcome.served.between) for outcome in outcomes]
    late = objectives.time_to_first_token if objectives is not None else None
    slow = objectives.inter_token_latency if objectives is not None else None
    notes = declared.notes
    if any(outcome.is_short for outcome in outcomes):
        notes = (*notes, f"{declared.name} needed more instances than are available.")
    return Replayed(
        name=declared.name,
        source=source,
        instance_types=tuple(
            pool.instance_type for pool, spent in zip(declared.pools, outcomes[0].hours, strict=True) if spent
        ),
        requests=len(first[0]) + outcomes[0].served.failed,
        instance_hours=hours,
        dollars=_dollars(declared, outcomes),
        failed=outcomes[0].served.failed,
        time_to_first_token=_of_all(statistics.fmean, first),
        time_to_first_token_p50=_of_all(partial(_quantile, share=0.5), first),
        time_to_first_token_p99=_of_all(partial(_quantile, share=0.99), first),
        inter_token_latency=_of_all(statistics.fmean, between),
        inter_token_latency_p50=_of_all(partial(_quantile, share=0.5), between),
        missed_first=_missed(first, late, outcomes[0].served.failed),
        missed_between=_missed(between, slow, outcomes[0].served.failed),
        waited=_range([len(o.served.waits) / len(o.served.first) for o in outcomes]) if all(first) else None,
        wait=_of_all(statistics.fmean, [outcome.served.waits for outcome in outcomes]),
        copies=outcomes[0].copies,
        capacity=tuple(outcomes[0].capacity),
        notes=notes,
    )


def _dollars(declared: Declared, outcomes: Sequence[Outcome]) -> Range | None:
    costs: list[float] = []
    for outcome in outcomes:
        paid = [(pool.price, hours) for pool, hours in zip(declared.pools, outcome.hours, strict=True) if hours]
        if any(price is None for price, _ in paid):
            return None
        costs.append(sum((price or 0.0) * hours for price, hours in paid))
    return _range(costs)


def _range(values: Sequence[float]) -> Range:
    return values[0], min(values), max(values)


def _of_all(figure: Callable[[Sequence[float]], float], times: Sequence[Sequence[float]]) -> Range | None:
    """Return a figure of each run's times, in milliseconds; None if a run has none."""
    return _range([figure(each) * 1000 for each in times]) if all(times) else None


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1]


def _missed(times: Sequence[Sequence[float]], limit: float | None, failed: int) -> Range | None:
    if limit is None or not any(len(each) + failed for each in times):
        return None
    return _range([(sum(time * 1000 > limit for time in each) + failed) / (len(each) + failed) for each in times])


def sentence(before: Replayed, after: Replayed) -> str:
    """Compare two results: ``Chat/Qwen: $231 instead of $1,155, 23 instance-hours instead of 115``."""
    parts: list[str] = []
    if after.dollars is not None and before.dollars is not None:
        parts.append(f"${_plain(after.dollars[0])} instead of ${_plain(before.dollars[0])}")
    parts.append(f"{_plain(after.instance_hours[0])} instance-hours instead of {_plain(before.instance_hours[0])}")
    for name, new, old in (
        ("first token", after.missed_first, before.missed_first),
        ("other tokens", after.missed_between, before.missed_between),
    ):
        if new is not None and old is not None:
            was = "" if f"{new[0]:.1%}" == f"{old[0]:.1%}" else f" instead of {old[0]:.1%}"
            parts.append(f"{name} late in {new[0]:.1%} of requests{was}")
    if after.failed or before.failed:
        parts.append(f"{after.failed:,} requests failed instead of {before.failed:,}")
    return f"{after.name}: {', '.join(parts)}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def busiest(traffic: Traffic) -> tuple[float, float]:
    """Return the requests per second on average, and in the busiest hour."""
    hours = Counter(int(at // _HOURS) for at in traffic.seconds)
    duration = max(traffic.duration, 1.0)
    return len(traffic) / duration, max(hours.values(), default=0) / min(_HOURS, duration)


def chart(replayed: Sequence[Replayed], path: Path, style: Path) -> None:
    """Draw requests in flight and copies in service over time, one line per declaration."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=style):
        figure = Figure(figsize=(8.0, 4.5), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for each in replayed:
            days = [seconds / 86_400 for seconds, _, _ in each.capacity]
            label = f"{each.name} ({each.source})"
            above.plot(days, [flying for _, _, flying in each.capacity], label=label, linewidth=0.8)
            below.step(days, [copies for _, copies, _ in each.capacity], where="post", label=label)
        above.set_ylabel("requests in flight")
        below.set_ylabel("copies in service")
        below.set_xlabel("days")
        below.set_ylim(bottom=0)
        above.legend()
        figure.savefig(path)
