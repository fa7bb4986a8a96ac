"""The calibration of forecasts by measurements: the efficiency of accelerators and engines, and the forecasts' errors.

``bench/forecast`` writes ``calibration.json`` from published measurements, which the file names. Evaluations of
deployed endpoints add to it: ``Calibration.learning``.

The error of a forecast is the product of a factor that similar measurements share and a factor of its own. Both are
log-normal, with the spreads ``between`` and ``within`` groups, where a group is a model family on an accelerator (a
random-effects model: Laird and Ware, 1982). The more measurements ``n`` a group has, the better its shared factor is
known: the logarithm of the measured factor is multiplied by ``n / (n + within² / between²)``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from .roofline import Copy, Efficiency

Figure = Literal["time_to_first_token", "inter_token_latency", "requests_per_second"]
FIGURES: tuple[Figure, ...] = ("time_to_first_token", "inter_token_latency", "requests_per_second")
CONFIDENCE = 0.9
"""The probability that a value is in its interval."""
# Without a switch between accelerators, an all-reduce takes longer. PCIe has at most 64 GB per second.
_SWITCHED_GB = 100e9
# Larger errors of published measurements (2.7 times) are clipped: they tell more about the measurement than its group.
_FAR = 1.0
_SHARES = ("bandwidth", "cache_bandwidth", "expert_bandwidth", "compute", "link")


class _Data(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Errors(_Data):
    """The errors of the forecasts of one figure.

    ``between`` and ``within`` are standard deviations of log(measured / forecast). ``quantile`` is the number of
    standard deviations on each side of a 90% interval. ``groups`` has the logarithms of published measurements by
    ``<family>@<accelerator>``, ``own_groups`` the logarithms of the user's own, and ``own_recipes`` these by recipe.
    """

    between: float = Field(gt=0)
    within: float = Field(gt=0)
    quantile: float = Field(gt=0)
    groups: Mapping[str, Sequence[float]] = {}
    own_groups: Mapping[str, Sequence[float]] = {}
    own_recipes: Mapping[str, Sequence[float]] = {}

    def of(self, group: str, recipe: str = "") -> tuple[float, float]:
        """Return the expected log(measured / forecast), and its standard deviation.

        A user's environment can differ from the published ones as much as groups differ, and a recipe from other
        recipes of its group as much as these differ from each other. In the published measurements, errors of a single
        recipe vary as much between loads.
        """
        noise = self.within**2
        mean, shared = _updated(0.0, self.between**2, noise, clipped(self.groups.get(group, ())))
        if own := self.own_groups.get(group, ()):
            mean, own_shared = _updated(mean, shared + self.between**2, noise, own)
            # A measurement never increases the uncertainty about other recipes.
            shared = min(shared, own_shared)
        if measured := self.own_recipes.get(recipe, ()):
            mean, shared = _updated(mean, shared + noise, noise, measured)
        return mean, math.sqrt(shared + noise)


def clipped(errors: Iterable[float]) -> list[float]:
    """Return the logarithms of errors, limited to the largest error that is informative about a group."""
    return [max(-_FAR, min(_FAR, each)) for each in errors]


def _updated(mean: float, variance: float, noise: float, measured: Sequence[float]) -> tuple[float, float]:
    """Return mean and variance after measurements with this variance of noise."""
    if not measured:
        return mean, variance
    weight = len(measured) / (len(measured) + noise / variance)
    # The median, because single measurements can be far off.
    return mean + weight * (statistics.median(measured) - mean), variance * (1 - weight)


class Calibration(_Data):
    """The efficiency by accelerator and engine, and the errors of each figure.

    ``base`` has the fields of ``Efficiency``. The others have factors for these: by ``accelerators``, by
    ``engines``, by ``operands`` (their bits), for mixtures of ``experts``, and for ``unswitched`` accelerators.
    """

    date: str
    source: str
    base: Mapping[str, float]
    accelerators: Mapping[str, Mapping[str, float]] = {}
    engines: Mapping[str, Mapping[str, float]] = {}
    operands: Mapping[str, Mapping[str, float]] = {}
    experts: Mapping[str, float] = {}
    unswitched: Mapping[str, float] = {}
    errors: Mapping[Figure, Errors] = {}

    def efficiency(self, copy: Copy, accelerator: str, engine: str, bits: str) -> Efficiency:
        """Return the efficiency of an engine with a copy whose operands have ``bits``; no share is above 1."""
        factors: list[Mapping[str, float]] = [
            self.accelerators.get(accelerator, {}),
            self.engines.get(engine, {}),
            self.operands.get(bits, {}),
            self.experts if not copy.is_dense else {},
            self.unswitched if copy.link < _SWITCHED_GB else {},
        ]
        values = {name: base * math.prod(each.get(name, 1.0) for each in factors) for name, base in self.base.items()}
        return Efficiency(**{name: min(1.0, value) if name in _SHARES else value for name, value in values.items()})

    def learning(self, measured: Iterable[Measured]) -> Calibration:
        """Return the calibration with the user's own measurements added."""
        errors = dict(self.errors)
        for each in measured:
            known, error = errors[each.figure], math.log(each.measured / each.forecast)
            update = {
                "own_groups": {**known.own_groups, each.group: (*known.own_groups.get(each.group, ()), error)},
                "own_recipes": {**known.own_recipes, each.recipe: (*known.own_recipes.get(each.recipe, ()), error)},
            }
            errors[each.figure] = known.model_copy(update=update)
        return self.model_copy(update={"errors": errors})


@dataclass(frozen=True)
class Measured:
    """A figure of an evaluation, and its forecast without correction."""

    figure: Figure
    group: str
    recipe: str
    measured: float
    forecast: float


@cache
def published() -> Calibration:
    """Return the calibration from published measurements."""
    return Calibration.model_validate_json(Path(__file__).with_name("calibration.json").read_bytes())
