"""What measurements have taught: the efficiency of accelerators and engines, and how wrong forecasts were.

``calibration.json`` is written by ``bench/forecast`` from published measurements, and says from which. Evaluations of
deployed endpoints add to it: :meth:`Calibration.learning`.

A forecast is off by a factor that similar measurements share, and by one of its own. Both are log-normal, with the
spreads ``between`` and ``within`` groups of a model family on an accelerator (a random-effects model: Laird and Ware,
1982). Of a group with ``n`` measurements, the shared factor is known the better the more there are:
it shrinks towards 1 by ``n / (n + within² / between²)``.
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
"""The probability of an interval."""
# Where accelerators have no switch between them, an all-reduce takes longer. PCIe has at most 64 GB a second.
_SWITCHED_GB = 100e9
# What a published measurement is further off (2.7 times) says more of the measurement than of its group.
_FAR = 1.0
_SHARES = ("bandwidth", "cache_bandwidth", "expert_bandwidth", "compute", "link")


class _Data(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Errors(_Data):
    """How wrong the forecasts of one figure were.

    ``between`` and ``within`` are standard deviations of log(measured / forecast), ``quantile`` how many of them an
    interval with a probability of 90 % has on each side. ``groups`` has the logarithms of published measurements by
    ``<family>@<accelerator>``; ``own_groups`` those of the user's own, and ``own_recipes`` the same by recipe.
    """

    between: float = Field(gt=0)
    within: float = Field(gt=0)
    quantile: float = Field(gt=0)
    groups: Mapping[str, Sequence[float]] = {}
    own_groups: Mapping[str, Sequence[float]] = {}
    own_recipes: Mapping[str, Sequence[float]] = {}

    def of(self, group: str, recipe: str = "") -> tuple[float, float]:
        """What to expect of log(measured / forecast), and its standard deviation.

        A user's own environment may differ from the published ones as much as groups do, and a recipe from others of
        its group as much as they do from each other. Under other loads, one recipe differs from itself as much again:
        so it is in the published measurements.
        """
        noise = self.within**2
        mean, shared = _updated(0.0, self.between**2, noise, clipped(self.groups.get(group, ())))
        if own := self.own_groups.get(group, ()):
            mean, own_shared = _updated(mean, shared + self.between**2, noise, own)
            # Nobody knows less of other recipes after a measurement.
            shared = min(shared, own_shared)
        if measured := self.own_recipes.get(recipe, ()):
            mean, shared = _updated(mean, shared + noise, noise, measured)
        return mean, math.sqrt(shared + noise)


def clipped(errors: Iterable[float]) -> list[float]:
    """Logarithms of errors, those that are far off counted as the largest that says something of a group."""
    return [max(-_FAR, min(_FAR, each)) for each in errors]


def _updated(mean: float, variance: float, noise: float, measured: Sequence[float]) -> tuple[float, float]:
    """Mean and variance after measurements with that variance of their noise."""
    if not measured:
        return mean, variance
    weight = len(measured) / (len(measured) + noise / variance)
    # Single measurements are far off: the median bears them.
    return mean + weight * (statistics.median(measured) - mean), variance * (1 - weight)


class Calibration(_Data):
    """The efficiency by accelerator and engine, and the errors of each figure.

    ``base`` has the members of :class:`Efficiency`; the others have factors of them: ``accelerators``, ``engines`` and
    ``operands`` (by the bits of what is multiplied), ``experts`` for mixtures of experts, ``unswitched`` for
    accelerators without a switch.
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
        """The efficiency of an engine with a copy whose operands have so many bits; no share is above 1."""
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
        """The calibration with the user's own measurements."""
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
    """A figure of an evaluation, with what an uncorrected forecast says of it."""

    figure: Figure
    group: str
    recipe: str
    measured: float
    forecast: float


@cache
def published() -> Calibration:
    """The calibration by published measurements."""
    return Calibration.model_validate_json(Path(__file__).with_name("calibration.json").read_bytes())
