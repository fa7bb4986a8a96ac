"""Compares measurements with the forecasts from which the recipe was chosen for the endpoint's objectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from ..requests.run_properties import Forecast
from .formatting import counted, number, users_of

# The probability that a correct forecast is exceeded: for one 90% interval, and for all required ones together.
_BEYOND, _REFUSED = 0.05, 0.05


class Compared(NamedTuple):
    """A forecast and its measurement."""

    forecast: Forecast
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measurement lies within the interval."""
        return self.forecast.low <= self.measured <= self.forecast.high

    @property
    def document(self) -> dict[str, Any]:
        """Return the comparison as data, for the result."""
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
        """Return, for example, ``mean latency at 25 users is 812 ms, but the forecast is 154 (47 to 507) ms``."""
        forecast = self.forecast
        interval = f"{number(forecast.value)} ({number(forecast.low)} to {number(forecast.high)}) {forecast.unit}"
        return f"{_subject(forecast)} is {number(self.measured)} {forecast.unit}, but the forecast is {interval}"


def _subject(forecast: Forecast) -> str:
    return f"{forecast.title} at {users_of(forecast.concurrency)}"


def other_fleet(forecasts: Sequence[Forecast], instance_type: str, copies: int) -> str | None:
    """Return why the forecasts do not apply: they are for a fleet other than the serving one. None if they apply."""
    for each in forecasts:
        if (each.instance_type, each.copies) != (instance_type, copies):
            forecast = f"{counted(each.copies, 'copy', 'copies')} on {each.instance_type}"
            served = f"{counted(copies, 'copy', 'copies')} on {instance_type}"
            return f"the forecast is for {forecast}, but {served} served"
    return None


def compared(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> Iterator[Compared]:
    """Yield each forecast whose metric was measured; ``levels`` are the metrics by concurrency."""
    for forecast in forecasts:
        measured = levels.get(forecast.concurrency, {}).get(forecast.metric)
        if measured is not None:
            yield Compared(forecast, measured)


def missed(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> list[str]:
    """Return a message for each forecast (all are for latencies) that is exceeded or whose metric was not measured.

    An endpoint that is faster than its forecast is a finding too, but does not stop a deployment. The allowed values
    are wider than the intervals: if all forecasts are correct, any of them is exceeded in one deployment of twenty.
    """
    found = {each.forecast: each.measured for each in compared(forecasts, levels)}
    normal = NormalDist()
    wider = normal.inv_cdf(1 - _REFUSED / max(1, len(forecasts))) / normal.inv_cdf(1 - _BEYOND)
    messages: list[str] = []
    for each in forecasts:
        most = each.value * (each.high / each.value) ** wider
        if each not in found:
            messages.append(f"{_subject(each)} was not measured, but must meet its forecast")
        elif found[each] > most:
            messages.append(f"{Compared(each, found[each])} and allows at most {number(most)} {each.unit}")
    return messages


def outside(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> list[str]:
    """Return a finding for each measurement outside its interval, with the ratio of measurement to forecast."""
    return [
        f"{each}: {each.measured / each.forecast.value:.2g} times as much"
        for each in compared(forecasts, levels)
        if not each.holds
    ]
