"""How often requests are left out as a warm-up: of a warm endpoint, and as many as met a cold one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

from row import Row, count

from constructs_optim.evaluator.steady_state import warm_up_length

_REQUESTS = 200
_WARM_MOST, _DISTURBED_MOST, _LEAST = 0.03, 0.15, 0.8


def rows(runs: int, seed: int) -> Iterator[Row]:
    """Yield the rows: warm endpoints, endpoints whose first requests take longer, and disturbed ones."""
    for deviation in (0.05, 0.3, 0.8):
        found = count(runs, seed, lambda random, s=deviation: warm_up_length(_warm(random, s)) > 0)
        yield Row("warm-up", f"warm, deviation {deviation:.0%}", "some left out", found, runs, most=_WARM_MOST)
    found = count(runs, seed, lambda random: warm_up_length(_disturbed(random)) > 0)
    traffic = "warm, a tenth in runs of 8 takes 3 times as long"
    yield Row("warm-up", traffic, "some left out", found, runs, most=_DISTURBED_MOST)
    for cold in (10, 30, 60):
        for times in (2, 3, 6):
            found = count(runs, seed, lambda random, c=cold, t=times: _left_out(_cold(_warm(random), c, t), c))
            traffic = f"{cold} cold, {times} times as long"
            yield Row("warm-up", traffic, f"{cold} left out", found, runs, least=_LEAST)
    found = count(runs, seed, lambda random: _left_out(_later_disturbed(_cold(_warm(random), 30, 4)), 30))
    yield Row("warm-up", "30 cold, 60 to 80 disturbed", "30 left out", found, runs, least=_LEAST)
    for times in (2, 6):
        found = count(runs, seed, lambda random, t=times: _is_alike(_warm(random), t))
        traffic = f"falls gradually from {times} times as long"
        yield Row("warm-up", traffic, "the rest within 10%", found, runs, least=_LEAST)


def _left_out(values: Sequence[float], cold: int) -> bool:
    return warm_up_length(values) == cold


def _warm(random: Random, deviation: float = 0.3) -> list[float]:
    return [random.lognormvariate(0, deviation) for _ in range(_REQUESTS)]


def _cold(values: list[float], cold: int, times: float) -> list[float]:
    return [*(times * value for value in values[:cold]), *values[cold:]]


def _later_disturbed(values: list[float]) -> list[float]:
    return [*values[:60], *(3 * value for value in values[60:80]), *values[80:]]


def _disturbed(random: Random) -> list[float]:
    values, is_disturbed = _warm(random, 0.2), False
    for place in range(len(values)):
        is_disturbed = random.random() < (7 / 8 if is_disturbed else 1 / 72)
        values[place] *= 3 if is_disturbed else 1
    return values


def _is_alike(warm: list[float], times: float) -> bool:
    """Return whether the mean without the warm-up, of which a third remains after each ten requests, is warm."""
    values = [value * (1 + (times - 1) * math.exp(-place / 10)) for place, value in enumerate(warm)]
    cut = warm_up_length(values)
    return sum(values[cut:]) <= 1.1 * sum(warm[cut:])
