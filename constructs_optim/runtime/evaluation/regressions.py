"""Judges whether metrics are worse than in the replaced version by more than is allowed, and not by chance alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ..requests.run_properties import Comparison as Compared
from .differences import COUNTS, POWER, SAMPLED, Comparison, Difference, Measured
from .formatting import number, users_of
from .repetitions import MOST_MEASUREMENTS, Refusal, Undecided, is_worth_repeating
from .run_spread import DEPLOYED, NO_SPREAD

_NORMAL = NormalDist()
# The smallest margin of a comparison, so that "no regression at all" does not need an unlimited number of requests.
_LEAST_MARGIN = 0.01


def comparison_of(compared: Sequence[Compared], allowed: float, concurrencies: int) -> Comparison:
    """Return how the metrics of a version are compared with those of the replaced one."""
    directions = {each.metric: 1 if each.better == "higher" else -1 for each in compared}
    return Comparison(directions, concurrencies, max(allowed, _LEAST_MARGIN), across_runs=True)


@dataclass(frozen=True)
class Regressions:
    """A version and the replaced one, at one concurrency.

    Attributes:
        users: the concurrency.
        before, after: the versions' measurements.
        comparison: how they are compared.
        allowed: how much worse each metric may be, as a share.
    """

    users: int
    before: Measured
    after: Measured
    comparison: Comparison
    allowed: float

    def judged(self, compared: Sequence[Compared], differences: Sequence[Difference]) -> Iterator[Refusal | Undecided]:
        """Yield the metrics that are worse by more than is allowed."""
        by_name = {each.name: each for each in differences}
        for each in compared:
            earlier, at = self.before.metrics.get(each.metric), f"{each.title or each.metric} at {users_of(self.users)}"
            if earlier is None or (earlier <= 0 and each.metric not in COUNTS):
                continue
            if each.metric in self.after.metrics:
                yield from self._worse(each, at, by_name[each.metric])
            else:
                yield Refusal(f"{at} was not measured, but was {number(earlier)} before")

    def _worse(self, compared: Compared, at: str, difference: Difference) -> Iterator[Refusal | Undecided]:
        is_count = compared.metric in COUNTS
        # For counts, the change of the share of requests.
        change = difference.change or 0.0 if is_count else difference.after / difference.before - 1
        worse = -change if compared.better == "higher" else change
        if worse <= self.allowed:
            return
        told = (
            f"{at} {'fell' if change < 0 else 'rose'} from {number(difference.before)} to {number(difference.after)}, "
            f"{worse:.1%} worse than in the replaced version"
        )
        if difference.low is not None and difference.high is not None:
            told += f" (95% interval {difference.low:+.1%} to {difference.high:+.1%})"
        if difference.verdict == "worse" or compared.metric not in SAMPLED:
            yield Refusal(f"{told}; {self.allowed:.1%} is allowed")
            return
        if difference.verdict == "same":
            least = f"{_LEAST_MARGIN:.0%}, the smallest difference that a gate judges"
            yield Undecided(f"{told}, which is within {least}", is_worth_repeating=False)
            return
        told += ", which may be chance alone"
        if difference.requests is not None:
            told += f": {difference.requests:,} requests on each side would decide it"
        if is_count or difference.low is None or difference.high is None:
            yield Undecided(told, is_worth_repeating=False)
            return
        undecided = _Undecided(
            abs(math.log1p(change)),
            (math.log1p(difference.high) - math.log1p(difference.low)) / 2,
            len(self.before.each_run),
            len(self.after.each_run),
            _NORMAL.inv_cdf(1 - self.comparison.critical_level / 2),
        )
        if difference.requests is None and (deciding := undecided.deciding) is not None:
            told += f": {deciding:,} measurements of each version would decide it"
        elif difference.requests is None:
            told += (
                f": deployments of one version differ by about {DEPLOYED:.0%}, so no number of measurements shows a "
                "difference of this size"
            )
        yield Undecided(told, undecided.is_worth_repeating)


@dataclass(frozen=True)
class _Undecided:
    """A change that does not exceed the reach of its interval.

    Attributes:
        change, reach: both of the logarithm.
        before, after: the number of runs of each version.
        critical: the quantile of the interval.
    """

    change: float
    reach: float
    before: int
    after: int
    critical: float

    @property
    def _of_deployments(self) -> float:
        """The part of the reach that no number of runs reduces."""
        return self.critical * NO_SPREAD.of_means(self.before, self.after).total

    def reach_of(self, before: int, after: int) -> float:
        """Return the reach with other numbers of runs."""
        of_runs = max(0.0, self.reach**2 - self._of_deployments**2)
        of_runs *= (1 / before + 1 / after) / (1 / self.before + 1 / self.after)
        return math.hypot(math.sqrt(of_runs), self._of_deployments)

    @property
    def deciding(self) -> int | None:
        """The runs of each version that decide such a change with a probability of ``POWER``; None if none do."""
        certain = self.change / (1 + _NORMAL.inv_cdf(POWER) / self.critical)
        left = certain**2 - self._of_deployments**2
        if left <= 0:
            return None
        return max(2, math.ceil((self.reach_of(1, 1) ** 2 - self._of_deployments**2) / left))

    @property
    def is_worth_repeating(self) -> bool:
        """Whether repetitions have a fair chance to show the change."""
        # The part of the error that is due to the runs of this version.
        of_runs = math.sqrt(max(0.0, self.reach**2 - self._of_deployments**2))
        error = of_runs / self.critical / math.sqrt(1 + self.after / self.before)
        return is_worth_repeating(self.change, error, self.after, self.reach_of(self.before, MOST_MEASUREMENTS))
