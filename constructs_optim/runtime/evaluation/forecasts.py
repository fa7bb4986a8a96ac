"""Compares what was measured with the forecast that the choice for the endpoint's objectives was made by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from ..requests.run_properties import Forecast
from .formatting import counted, number, users_of

# The share of right forecasts that are exceeded: of one interval of 90 %, and of all together that are required.
_BEYOND, _REFUSED = 0.05, 0.05


class Compared(NamedTuple):
    """A forecast beside its measurement."""

    forecast: Forecast
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measurement is within the interval."""
        return self.forecast.low <= self.measured <= self.forecast.high

    @property
    def document(self) -> dict[str, Any]:
        """It as data, for the result."""
        forecast = self.forecast
        return {
            "concurrency": forecast.concurrency,
            "metric": forecast.metric,
            "value": forecast.value,
            "low": forecast.low,
            "high": forecast.high,
            "measured": self.measured,
            "holds": self.holds,
        }

    def __str__(self) -> str:
        """For instance ``mean time to first token at 25 users is 812 ms, and 154 (47 to 507) ms was forecast``."""
        forecast = self.forecast
        interval = f"{number(forecast.value)} ({number(forecast.low)} to {number(forecast.high)}) {forecast.unit}"
        return f"{_subject(forecast)} is {number(self.measured)} {forecast.unit}, and {interval} was forecast"


def _subject(forecast: Forecast) -> str:
    return f"{forecast.title} at {users_of(forecast.concurrency)}"


def other_fleet(forecasts: Sequence[Forecast], instance_type: str, copies: int) -> str | None:
    """Why forecasts cannot be compared: what served is not what they are of. None where it is."""
    for each in forecasts:
        if (each.instance_type, each.copies) != (instance_type, copies):
            forecast = f"{counted(each.copies, 'copy', 'copies')} on {each.instance_type}"
            served = f"{counted(copies, 'copy', 'copies')} on {instance_type}"
            return f"the forecast is of {forecast}, and {served} served"
    return None


def compared(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> Iterator[Compared]:
    """Each forecast of a metric that was measured; ``levels`` are the metrics by concurrency."""
    for forecast in forecasts:
        measured = levels.get(forecast.concurrency, {}).get(forecast.metric)
        if measured is not None:
            yield Compared(forecast, measured)


def missed(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A message for each forecast, all of latencies, that was not measured or is exceeded.

    An endpoint that is faster than forecast is a finding too, but no reason to stop a deployment. What is allowed is
    wider than the intervals: where forecasts are right, all of them together are exceeded in one deployment of twenty.
    """
    found = {each.forecast: each.measured for each in compared(forecasts, levels)}
    normal = NormalDist()
    wider = normal.inv_cdf(1 - _REFUSED / max(1, len(forecasts))) / normal.inv_cdf(1 - _BEYOND)
    messages: list[str] = []
    for each in forecasts:
        most = each.value * (each.high / each.value) ** wider
        if each not in found:
            messages.append(f"{_subject(each)} was not measured, and its forecast is required")
        elif found[each] > most:
            messages.append(f"{Compared(each, found[each])}, of which at most {number(most)} {each.unit} is allowed")
    return messages


def outside(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A finding for each measurement outside of its interval, with the correction that it suggests."""
    return [
        f"{each}: {each.measured / each.forecast.value:.2g} times as much"
        for each in compared(forecasts, levels)
        if not each.holds
    ]
