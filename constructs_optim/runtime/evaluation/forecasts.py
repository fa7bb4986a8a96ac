"""Compares what was measured with the forecast that the choice for the endpoint's objectives was made by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..requests.run_properties import Forecast


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
        unit = f" {forecast.unit}" if forecast.unit else ""
        interval = f"{forecast.value:.4g} ({forecast.low:.4g} to {forecast.high:.4g}){unit}"
        return f"{_subject(forecast)} is {self.measured:.4g}{unit}, and {interval} was forecast"


def _subject(forecast: Forecast) -> str:
    users = f"{forecast.concurrency} user{'' if forecast.concurrency == 1 else 's'}"
    return f"{forecast.title or forecast.metric} at {users}"


def compared(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> Iterator[Compared]:
    """Each forecast of a metric that was measured; ``levels`` are the metrics by concurrency."""
    for forecast in forecasts:
        measured = levels.get(forecast.concurrency, {}).get(forecast.metric)
        if measured is not None:
            yield Compared(forecast, measured)


def missed(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A message for each forecast, all of latencies, that was not measured or whose interval is exceeded.

    An endpoint that is faster than forecast is a finding too, but no reason to stop a deployment.
    """
    found = {each.forecast: each for each in compared(forecasts, levels)}
    return [
        f"{found[each]}, which is required"
        if each in found
        else f"{_subject(each)} was not measured, and its forecast is required"
        for each in forecasts
        if each not in found or found[each].measured > each.high
    ]


def outside(forecasts: Sequence[Forecast], levels: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A finding for each measurement outside of its interval, with the correction that it suggests."""
    return [
        f"{each}: {each.measured / each.forecast.value:.2g} times as much"
        for each in compared(forecasts, levels)
        if not each.holds
    ]
