"""The lag of this machine while it measured, and what it can have added to the measured times.

The evaluator notes when it handles bytes, which a busy machine lets it do late. How late it was for which bytes is not
known. The bounds assume that every time contains the mean lag, and that the longest times contain the longest lags,
times ``_CAUTION``.

- A lag lengthens the time to the first token and the client latency. At a rate, so does a request that is sent late.
- A lag at one end of the time between two chunks lengthens or shortens it. An inter-token latency is the time between
  the first and the last chunk, divided by the tokens in it.
- A user whose response is noticed late sends the next request late, which lowers the rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.runtime.evaluation.samples import Observation, Sample

_SHARES = 100
# Lags are sampled at regular times, but bytes that arrive together make the event loop late themselves. In simulations,
# twice the sampled lags contain the true medians, 90th percentiles and means of at least nine of ten levels.
_CAUTION = 2.0


class Bounds(NamedTuple):
    """What a sample may be without the lag: with the shortest times, and with the longest."""

    shortest: Sample
    longest: Sample


def mean_shares(seconds: Sequence[float]) -> list[float]:
    """Return the mean of each hundredth of some times in milliseconds, in rising order; each time of fewer ones."""
    rising, shares = sorted(seconds), min(_SHARES, len(seconds))
    edges = pairwise(len(rising) * share // shares for share in range(shares + 1)) if shares else ()
    return [round(1000 * math.fsum(rising[first:last]) / (last - first), 3) for first, last in edges]


@dataclass(frozen=True)
class Lag:
    """How late this machine handled bytes (``arrivals``) and sent requests, as ``mean_shares``; empty if unknown."""

    arrivals: Sequence[float] = ()
    sends: Sequence[float] = ()

    @property
    def mean(self) -> float:
        """What a time contains on average, in milliseconds."""
        return _CAUTION * (_mean(self.arrivals) + _mean(self.sends))

    def evened(self, latencies: Sequence[float]) -> list[float]:
        """Return requests' latencies, in milliseconds, without a lag that makes the longest differ from the others."""
        return self._shortened(latencies, 0.0)

    def bounds(self, sample: Sample, objectives: LatencyObjectives | None = None) -> Bounds:
        """Return the bounds of a sample; ``objectives`` are those of its goodput."""
        if not self.mean:
            return Bounds(sample, sample)
        shortest = self._with_tokens(self._with_requests(sample.observations), -1)
        longest = self._with_tokens(sample.observations, 1)
        latency = sample.drawn().get("client_latency", 0.0)
        faster = max(0.0, 1 - self.mean / latency) if latency else 1.0
        return Bounds(
            sample.with_observations([_with_goodness(each, objectives) for each in shortest], sample.seconds * faster),
            sample.with_observations([_with_goodness(each, objectives) for each in longest], sample.seconds),
        )

    def _shortened(self, latencies: Sequence[float], least: float) -> list[float]:
        late = (_within(latencies, shares, least) for shares in (self.arrivals, self.sends))
        return [max(0.0, latency - sum(both)) for latency, *both in zip(latencies, *late, strict=True)]

    def _with_requests(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return observations whose latencies of the whole request and its first token are shortened."""
        firsts = [value for each in observations if (value := each.time_to_first_token) is not None]
        wholes = [value for each in observations if (value := each.client_latency) is not None]
        first, whole = (iter(self._shortened(latencies, 1.0)) for latencies in (firsts, wholes))
        return [
            replace(
                each,
                time_to_first_token=None if each.time_to_first_token is None else next(first),
                client_latency=None if each.client_latency is None else next(whole),
            )
            for each in observations
        ]

    def _with_tokens(self, observations: Sequence[Observation], way: Literal[-1, 1]) -> list[Observation]:
        """Return observations whose times between chunks are lengthened (1) or shortened (-1)."""
        tokens = [value for each in observations if (value := each.inter_token_latency) is not None]
        of_tokens = iter(_within(tokens, self.arrivals))
        of_gaps = iter(_within([gap for each in observations for gap in each.gaps], self.arrivals))
        moved: list[Observation] = []
        for each in observations:
            gaps = tuple(max(0.0, gap + way * next(of_gaps)) for gap in each.gaps)
            latency = each.inter_token_latency
            if latency is not None:
                latency = max(0.0, latency + way * next(of_tokens) / max(1.0, (each.output_tokens or 0.0) - 1))
            moved.append(replace(each, inter_token_latency=latency, gaps=gaps))
        return moved


def _within(times: Sequence[float], shares: Sequence[float], least: float = 1.0) -> list[float]:
    """Return the lag that each time may contain: the longest times the longest, and each ``least`` times the mean."""
    found, mean = [0.0] * len(times), _mean(shares)
    for rank, place in enumerate(sorted(range(len(times)), key=times.__getitem__) if mean else ()):
        found[place] = _CAUTION * max(least * mean, shares[rank * len(shares) // len(times)])
    return found


def _mean(shares: Sequence[float]) -> float:
    return math.fsum(shares) / len(shares) if shares else 0.0


def _with_goodness(observation: Observation, objectives: LatencyObjectives | None) -> Observation:
    """Return the observation with whether it meets the objectives; a failed request does not."""
    if objectives is None or observation.client_latency is None:
        return observation
    return replace(observation, meets_objectives=objectives.are_met(observation))
