"""Fit the forecast to published measurements, and determine its errors on others.

    python bench/forecast/fit.py            # print the errors on the held-out part
    python bench/forecast/fit.py --write    # and write calibration.json, fitted to all measurements

The efficiency is a maximum a posteriori estimate: residuals of log(forecast / measured) with a soft L1 loss, which
reduces the weight of outliers, and a normal prior of each factor. Each measurement of a large source has less weight.
The errors, and thus the intervals, are from a cross-validation within the fitted part.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from measured import HERE, Measurement, measurements, split
from rich.console import Console
from rich.table import Table
from scipy.optimize import least_squares, minimize

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from targets import Target, target_table

from constructs_optim.recipe.forecast import CONFIDENCE, FIGURES, PHYSICS, Calibration, Errors, Figure, clipped

_CALIBRATION = HERE.parents[1] / "constructs_optim" / "recipe" / "forecast" / "calibration.json"
# The prior of each member of an efficiency: expected value, and one standard deviation as a factor.
_PRIORS: Mapping[str, tuple[float, float]] = {
    "bandwidth": (0.7, 1.35),
    "cache_bandwidth": (0.6, 1.5),
    "expert_bandwidth": (0.6, 1.5),
    "compute": (0.45, 1.5),
    "link": (0.5, 1.65),
    "layer_seconds": (30e-6, 2.0),
    "step_seconds": (1e-3, 2.0),
    "request_seconds": (10e-6, 2.7),
    "reduction_seconds": (10e-6, 2.0),
    "server_seconds": (20e-3, 2.0),
    "awaited_passes": (0.5, 2.2),
    "together": (0.1, 2.7),
}
_OVERLAP = 2.0
# Standard deviations of factors, of accelerators and of engines.
_OF_ACCELERATORS = {"bandwidth": 1.22, "compute": 1.35}
_OF_ENGINES = {
    "bandwidth": 1.22,
    "compute": 1.22,
    "layer_seconds": 1.65,
    "reduction_seconds": 1.65,
    "server_seconds": 1.65,
    "together": 1.65,
}
_OTHERS = {
    ("operands", "8", "compute"): (0.85, 1.35),
    ("operands", "4", "compute"): (0.7, 1.35),
    ("experts", "", "compute"): (0.6, 1.5),
    ("unswitched", "", "reduction_seconds"): (3.0, 1.65),
}
_WEIGHTS: Mapping[Figure, float] = {
    "time_to_first_token": 0.5,
    "inter_token_latency": 1.0,
    "requests_per_second": 1.0,
}
_SCALE = 0.25
# Sources with more measurements have less weight for each.
_FULL_SOURCE = 20
_FOLDS = 5
_GOAL = 0.2
_COVERED = (0.85, 0.95)
Name = tuple[str, str, str]
"""A factor's location: the part of the calibration, the subject, and the factor's name."""


class Fit:
    """The factors of a calibration as a vector of logarithms."""

    def __init__(self, measured: Sequence[Measurement]) -> None:
        self.measured = measured
        accelerators = sorted({each.instance.accelerator for each in measured})
        engines = sorted({each.engine for each in measured})
        priors: dict[Name, tuple[float, float]] = {("base", "", name): prior for name, prior in _PRIORS.items()}
        priors |= {("accelerators", of, name): (1.0, s) for of in accelerators for name, s in _OF_ACCELERATORS.items()}
        priors |= {("engines", of, name): (1.0, spread) for of in engines for name, spread in _OF_ENGINES.items()}
        priors |= _OTHERS
        self._names = list(priors)
        self._means = np.array([math.log(mean) for mean, _ in priors.values()])
        self._spreads = np.array([math.log(spread) for _, spread in priors.values()])
        counted = Counter(each.source for each in measured)
        self._counts = {source: min(1.0, _FULL_SOURCE / count) ** 0.25 for source, count in counted.items()}

    def calibrated(self) -> Calibration:
        """Return the calibration that fits best, without errors."""
        found = least_squares(
            self._residuals, self._means, loss="soft_l1", x_scale=self._spreads, max_nfev=200, diff_step=1e-4
        )
        return self._calibration(found.x)

    def _residuals(self, values: np.ndarray) -> np.ndarray:
        calibration = self._calibration(values)
        found: list[float] = []
        for each in self.measured:
            forecast = each.forecast(each.efficiency(calibration))
            weight = self._counts[each.source] / _SCALE
            found += [
                weight * _WEIGHTS[figure] * math.log(forecast[figure] / value)
                for figure, value in each.observed.items()
            ]
        return np.array([*found, *((values - self._means) / self._spreads)])

    def _calibration(self, values: np.ndarray) -> Calibration:
        parts: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for (part, of, name), value in zip(self._names, values, strict=True):
            parts[part][of][name] = math.exp(value)
        return Calibration(
            date="",
            source="",
            base={**parts["base"][""], "overlap": _OVERLAP},
            accelerators=parts["accelerators"],
            engines=parts["engines"],
            operands=parts["operands"],
            experts=parts["experts"][""],
            unswitched=parts["unswitched"][""],
        )


Residuals = dict[Figure, list[tuple[str, float]]]
"""Groups and log(measured / forecast), by figure."""


def residuals(measured: Iterable[Measurement], calibration: Calibration) -> Residuals:
    """Return the errors of a calibration's uncorrected forecasts."""
    found: Residuals = {figure: [] for figure in FIGURES}
    for each in measured:
        forecast = each.forecast(each.efficiency(calibration))
        for figure, value in each.observed.items():
            found[figure].append((each.group, log_error(value, forecast[figure])))
    return found


def cross_validated(measured: Sequence[Measurement]) -> Residuals:
    """Return the errors of forecasts on measurements to which they were not fitted."""
    with ProcessPoolExecutor() as pool:
        folds = list(pool.map(_fold, [(measured, fold) for fold in range(_FOLDS)]))
    return {figure: [error for fold in folds for error in fold[figure]] for figure in FIGURES}


def _fold(given: tuple[Sequence[Measurement], int]) -> Residuals:
    measured, fold = given
    rest = [each for index, each in enumerate(measured) if index % _FOLDS != fold]
    return residuals(measured[fold::_FOLDS], Fit(rest).calibrated())


def with_errors(calibration: Calibration, found: Residuals) -> Calibration:
    """Return the calibration with these errors."""
    return calibration.model_copy(update={"errors": {figure: _errors(errors) for figure, errors in found.items()}})


def _errors(found: Sequence[tuple[str, float]]) -> Errors:
    groups: dict[str, list[float]] = defaultdict(list)
    for group, error in found:
        groups[group].append(error)
    between, within = _spreads([clipped(errors) for errors in groups.values()])
    errors = Errors(between=between, within=within, quantile=1.0, groups=dict(sorted(groups.items())))
    scores = sorted(abs(_score(errors, group, error)) for group, error in found)
    # The conformal quantile: Vovk, Gammerman and Shafer (2005).
    rank = min(len(scores) - 1, math.ceil(CONFIDENCE * (len(scores) + 1)) - 1)
    return errors.model_copy(update={"quantile": scores[rank]})


def _score(errors: Errors, group: str, error: float) -> float:
    """Return a measurement's deviation from the expectation by its group's others, in standard deviations."""
    others = [*errors.groups[group]]
    others.remove(error)
    mean, deviation = errors.model_copy(update={"groups": {group: others}}).of(group)
    return (error - mean) / deviation


def _spreads(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return standard deviations between and within groups, by maximum likelihood of the random-effects model."""

    def unlikely(logs: np.ndarray) -> float:
        between, within = np.exp(2 * logs)
        total = 0.0
        for group in groups:
            n, mean = len(group), statistics.fmean(group)
            spread = sum((error - mean) ** 2 for error in group)
            joint = within + n * between
            total += (n - 1) * math.log(within) + math.log(joint) + spread / within + n * mean**2 / joint
        return total

    found = minimize(unlikely, np.log([0.2, 0.3]), method="Nelder-Mead")
    between, within = np.exp(found.x)
    return float(max(between, 0.02)), float(within)


def log_error(measured: float, forecast: float) -> float:
    """Return the error as a logarithm."""
    return math.log(measured / forecast)


class Tested:
    """The errors of a calibration on measurements to which it was not fitted."""

    def __init__(self, measured: Sequence[Measurement], calibration: Calibration) -> None:
        self.errors: dict[Figure, list[float]] = {figure: [] for figure in FIGURES}
        self.covered: dict[Figure, list[bool]] = {figure: [] for figure in FIGURES}
        self.beyond_physics = 0
        for figure, found in residuals(measured, calibration).items():
            of_figure = calibration.errors[figure]
            for group, error in found:
                mean, deviation = of_figure.of(group)
                self.errors[figure].append(math.expm1(abs(error - mean)))
                self.covered[figure].append(abs(error - mean) <= of_figure.quantile * deviation)

    def median(self, figure: Figure) -> float:
        """Return the median error."""
        return statistics.median(self.errors[figure])

    def coverage(self) -> float:
        """Return the share of measurements within their intervals."""
        every = [each for covered in self.covered.values() for each in covered]
        return sum(every) / len(every)


def beaten_physics(measured: Iterable[Measurement]) -> list[str]:
    """Return measurements that are faster than bandwidth and compute allow."""
    found: list[str] = []
    for each in measured:
        alone = each.model_copy(update={"load": "users", "at": 1.0}).forecast(PHYSICS)
        for figure in ("time_to_first_token", "inter_token_latency"):
            value = each.observed.get(figure)
            if value is not None and value < alone[figure]:
                found.append(f"{each.source}, {each.where}: {figure} {value:.4g} s, at least {alone[figure]:.4g}")
        rate, most = each.rate, each.most_possible
        if rate is not None and rate > most:
            found.append(f"{each.source}, {each.where}: {rate:.4g} requests a second, at most {most:.4g}")
    return found


def main() -> int:
    """Fit, test, print, and optionally write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write calibration.json, fitted to all measurements")
    options = parser.parse_args()
    console = Console()
    fitted, tested = split(measurements())
    calibration = with_errors(Fit(fitted).calibrated(), cross_validated(fitted))
    for claim in beaten_physics(measurements()):
        console.print(f"faster than physics: {claim}")
    result = Tested(tested, calibration)
    table = Table(title=f"{len(fitted)} measurements fitted, {len(tested)} tested")
    for heading in ("figure", "tested", "median error", "90% of errors below", "within interval"):
        table.add_column(heading)
    for figure in FIGURES:
        errors, covered = sorted(result.errors[figure]), result.covered[figure]
        high = errors[int(0.9 * len(errors))]
        share = sum(covered) / len(covered)
        table.add_row(figure, str(len(errors)), f"{result.median(figure):.1%}", f"{high:.0%}", f"{share:.1%}")
    console.print(table)
    coverage = result.coverage()
    targets = [
        Target(f"median error of {figure}", f"{result.median(figure):.1%}", f"at most {_GOAL:.0%}", holds)
        for figure in ("requests_per_second", "inter_token_latency")
        if (holds := result.median(figure) <= _GOAL) is not None
    ]
    low, high = _COVERED
    targets.append(
        Target("intervals that hold", f"{coverage:.1%}", f"{low:.0%} to {high:.0%}", low <= coverage <= high)
    )
    console.print(target_table(targets))
    if options.write:
        every = measurements()
        final = with_errors(Fit(every).calibrated(), cross_validated(every)).model_copy(
            update={
                "date": dt.date.today().isoformat(),
                "source": f"Fitted by bench/forecast/fit.py to {len(every)} published measurements of "
                "bench/forecast/measurements.jsonl; bench/forecast/sources.json has where each was published.",
            }
        )
        _CALIBRATION.write_text(json.dumps(_rounded(final.model_dump(mode="json")), indent=1) + "\n", encoding="utf-8")
    return 0 if all(target.holds for target in targets) else 1


def _rounded(value: object) -> object:
    """Round numbers to four significant digits, and omit empty parts."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items() if each not in ({}, None)}
    return value


if __name__ == "__main__":
    sys.exit(main())
