"""The spread between runs: how much measurements of one endpoint differ beyond the chance within each of them.

Two runs are hours and neighbors apart. No number of requests in one run shows this spread, so it is estimated from the
runs of each version. As long as too few are known, ``ASSUMED`` takes its place. All runs of a version use the instances
of one deployment, so none of them shows how much deployments differ: ``DEPLOYED``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from .samples import student_quantile

ASSUMED = 0.07
"""The assumed standard deviation of a metric's logarithm between runs. Two runs on one H200 differed by 7.8% and 11% in
the median time to first token, and by 12% in tokens per second (docs/evaluation.md): 10% on average, or 7% a run."""
DEPLOYED = 0.04
"""The assumed standard deviation of a metric's logarithm between deployments, whose instances have other GPUs. GPUs of
one model in one cluster differ by 8% on average, and by up to 22% (Sinha and others, "Not All GPUs Are Created Equal",
International Conference for High Performance Computing, Networking, Storage, and Analysis, 2022)."""
FEWEST_RUNS = 6
"""The number of runs of one version whose own spread takes the place of the assumed one."""
_NORMAL = NormalDist()


@dataclass(frozen=True)
class RunSpread:
    """The standard deviation of a logarithm between runs.

    Attributes:
        deviation: the standard deviation.
        freedom: the degrees of freedom of its estimate; None if it is assumed.
        deployed: the standard deviation between deployments, which more runs do not reduce.
    """

    deviation: float = 0.0
    freedom: int | None = None
    deployed: float = 0.0

    @property
    def total(self) -> float:
        """The standard deviation of both."""
        return math.hypot(self.deviation, self.deployed)

    def arm(self, level: float) -> float:
        """Return what the logarithm exceeds with the probability ``level``.

        The parts vary independently, so their squares add up (Zou and Donner, Statistics in Medicine 27 (2008),
        1693-1702).
        """
        normal = _NORMAL.inv_cdf(1 - level)
        quantile = normal if self.freedom is None else student_quantile(1 - level, self.freedom)
        return math.hypot(quantile * self.deviation, normal * self.deployed)

    def of_means(self, *runs: int) -> RunSpread:
        """Return the spread of a mean of so many runs, or of the ratio of two means of two deployments."""
        deployed = DEPLOYED * math.sqrt(len(runs)) if len(runs) > 1 else 0.0
        return replace(self, deviation=self.deviation * math.sqrt(sum(1 / each for each in runs)), deployed=deployed)


NO_SPREAD = RunSpread()
"""The spread of sides that are of the same run."""


def run_spread(name: str, versions: Sequence[Sequence[Mapping[str, float]]], noise: float) -> RunSpread:
    """Return a metric's spread from the metrics of each version's runs.

    ``noise`` is the standard deviation of the logarithm that the requests within a run explain. The rest is the spread
    between runs (method of moments: DerSimonian and Laird, Controlled Clinical Trials 7 (1986), 177-188).
    """
    squares, freedom = 0.0, 0
    for runs in versions:
        logarithms = [math.log(value) for metrics in runs if (value := metrics.get(name, 0.0)) > 0]
        if len(logarithms) > 1:
            mean = math.fsum(logarithms) / len(logarithms)
            squares += math.fsum((each - mean) ** 2 for each in logarithms)
            freedom += len(logarithms) - 1
    if freedom < FEWEST_RUNS - 1:
        return RunSpread(ASSUMED)
    return RunSpread(math.sqrt(max(0.0, squares / freedom - noise**2)), freedom)
