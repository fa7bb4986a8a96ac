"""How much less clustered outcomes show than as many independent ones.

Outcomes form clusters if the turns of a conversation or similar prompts succeed or fail together, or if those of the
same minutes do. The sum of such outcomes varies more than that of independent ones. The factor by which its variance is
larger is the design effect (Kish, Survey Sampling, 1965): the outcomes show as much as their number, divided by the
design effect.
"""

from __future__ import annotations

import base64
import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, PlainSerializer, PlainValidator

_Number = TypeVar("_Number", int, float)
_GROUPS = 1_024
_LARGEST, _LARGEST_SAME, _SAME = 0.1, 0.5, 0.9
_MOST_SPANS = 512
_FEWEST_SPANS = 8
# Quantile of the normal distribution: a clustering is taken as real if independent outcomes show it in 5% of cases.
_CRITICAL = 1.64
# The sums of groups vary more than by this factor in 5% of cases, only because independent outcomes share groups.
_BY_SHARING = 1 + _CRITICAL * math.sqrt(2 / _GROUPS)
_STRONGEST = 0.999
# A new key is taken for a known one in less than 0.1% of cases after 20,000 keys, and in 5% after 80,000.
_BITS, _BITS_A_KEY = 2**19, 4


def _decoded(value: object) -> bytearray:
    try:
        bits = bytearray(base64.b64decode(value, validate=True)) if isinstance(value, str) else None
    except ValueError:
        bits = None
    if bits is None or len(bits) not in (0, _BITS // 8):
        raise ValueError(f"it is not a filter of {_BITS:,} bits in Base64")
    return bits


class KnownKeys(BaseModel):
    """The keys so far, in 64 KB however many they are. It may take a new key for a known one, but never the reverse.

    Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", Communications of the ACM 13 (1970),
    422-426.
    """

    bits: Annotated[
        bytearray,
        PlainValidator(_decoded),
        PlainSerializer(lambda bits: base64.b64encode(bits).decode(), return_type=str),
    ] = Field(default_factory=bytearray)

    def __contains__(self, key: int) -> bool:
        return bool(self.bits) and all(self.bits[place >> 3] >> (place & 7) & 1 for place in _places(key))

    def add(self, key: int) -> None:
        """Add a key of 80 bits."""
        self.bits = self.bits or bytearray(_BITS // 8)
        for place in _places(key):
            self.bits[place >> 3] |= 1 << (place & 7)


def _places(key: int) -> Sequence[int]:
    return [(key >> 20 * each) % _BITS for each in range(_BITS_A_KEY)]


class Groups(BaseModel):
    """The number of outcomes in each group, and their sum."""

    sizes: list[int] = []
    sums: list[int] = []

    def add(self, group: int, size: int, value: int) -> None:
        """Add outcomes to a group."""
        missing = group + 1 - len(self.sizes)
        if missing > 0:
            self.sizes += [0] * missing
            self.sums += [0] * missing
        self.sizes[group] += size
        self.sums[group] += value

    def add_of(self, text: str, value: int) -> None:
        """Add an outcome to the group of a text.

        There are 1,024 groups, so that texts may share one by chance. That changes no estimate of a design effect on
        average: what independent clusters add to the variance of a sum is the same in groups as it is alone.
        """
        self.add(zlib.crc32(text.encode()) % _GROUPS, 1, value)

    def design_effect_around(self, mean: float, variance: float) -> float:
        """Return the design effect of outcomes that have this mean and variance, as a test assumes.

        If a cluster is as likely to be above the mean as below it, the test then holds its level however few clusters
        there are (Efron, Journal of the American Statistical Association 64 (1969), 1278-1302).
        """
        independent = variance * sum(self.sizes)
        found = self._squares(mean) / independent if independent > 0 else 1.0
        return found if found > _BY_SHARING else 1.0

    def design_effect_with_one_more(self, variance: float) -> float:
        """Return the design effect if the texts had one more cluster, of outcomes that all differ in the same way.

        It has the clusters' average size, each weighted by its size. So outcomes that have not differed yet show no
        more than the number of their clusters: the next one may differ as a whole.
        """
        total = sum(self.sizes)
        if not total:
            return 1.0
        size = max(1.0, sum(each**2 for each in self.sizes) / total - total / _GROUPS)
        independent = variance * math.fsum(each * (1 - each / total) for each in self.sizes)
        return max(1.0, (self._squares(math.fsum(self.sums) / total) + size**2) / (independent + size))

    def _squares(self, mean: float) -> float:
        return math.fsum((found - size * mean) ** 2 for size, found in zip(self.sizes, self.sums, strict=True))

    def design_effect(self, variance: float) -> float:
        """Return the design effect of outcomes that have this variance and can depend on others of their group.

        A group with more than a tenth of all outcomes is a part of the traffic rather than a cluster in it. But if
        nearly all of its outcomes differ in the same way, it may be a single prompt, as long as it is not most of the
        traffic.
        """
        total = sum(self.sizes)
        clusters = [
            size <= (_LARGEST_SAME if abs(found) > _SAME * size else _LARGEST) * total
            for size, found in zip(self.sizes, self.sums, strict=True)
        ]
        return _Spread.of(self.sizes, self.sums, variance, clusters).clustering


class Spans(BaseModel):
    """Groups of successive spans of ``minutes``. The spans become longer, so that there are never more than 512."""

    minutes: int = 1
    groups: Groups = Groups()

    def add(self, minute: int, size: int, value: int) -> None:
        """Add outcomes of a minute."""
        while minute >= _MOST_SPANS * self.minutes:
            self.minutes *= 2
            self.groups = Groups(sizes=_in_twos(self.groups.sizes), sums=_in_twos(self.groups.sums))
        self.groups.add(minute // self.minutes, size, value)

    def design_effect(self, variance: float) -> float:
        """Return the design effect of outcomes that have this variance and can depend on each other over time."""
        known = [number for number, size in enumerate(self.groups.sizes) if size]
        return _over_time(
            [self.groups.sizes[number] for number in known], [self.groups.sums[number] for number in known], variance
        )


def design_effect_of_series(values: Sequence[float]) -> float:
    """Return the design effect of values in order of time.

    It depends only on the order of the values' sizes, so that it is the same in whatever unit they are, and however far
    the largest ones are from the others.
    """
    ordered = sorted(values)
    ranks = [(bisect_left(ordered, value) + bisect_right(ordered, value)) / len(values) - 1 for value in values]
    variance = math.fsum(rank * rank for rank in ranks) / max(1, len(ranks))
    return _over_time([1] * len(ranks), ranks, variance)


def _over_time(sizes: Sequence[int], sums: Sequence[float], variance: float) -> float:
    """Return the largest design effect that spans of any length show."""
    largest = 1.0
    while len(sizes) >= _FEWEST_SPANS:
        spread = _Spread.of(sizes, sums, variance, [True] * len(sizes))
        largest = max(largest, spread.clustering * spread.inflation)
        sizes, sums = _in_twos(sizes), _in_twos(sums)
    return largest


@dataclass(frozen=True)
class _Spread:
    """How far the sums of groups are from what the mean of all outcomes lets expect.

    Attributes:
        deviations: each group's distance from its expected sum.
        clustering: the factor by which the sums vary more than those of independent outcomes.
    """

    deviations: Sequence[float]
    clustering: float

    @staticmethod
    def of(sizes: Sequence[int], sums: Sequence[float], variance: float, clusters: Sequence[bool]) -> _Spread:
        """Groups that are not among the ``clusters`` count as if their outcomes were independent."""
        total = sum(sizes)
        if not total or variance <= 0:
            return _Spread((), 1.0)
        mean = math.fsum(sums) / total
        deviations = [found - size * mean for size, found in zip(sizes, sums, strict=True)]
        found = independent = squares = 0.0
        for size, deviation, is_cluster in zip(sizes, deviations, clusters, strict=True):
            expected = variance * size * (1 - size / total if is_cluster else 1)
            independent += expected
            found += deviation**2 if is_cluster else expected
            squares += size**2 if is_cluster else 0
        # The sum of a group's outcomes has heavier tails than a normal variable if few of them differ.
        noise = math.sqrt(2 * squares / total**2 + 1 / (total * variance))
        is_clustered = found > (1 + _CRITICAL * noise) * independent
        return _Spread(deviations, found / independent if is_clustered and independent > 0 else 1.0)

    @property
    def inflation(self) -> float:
        """The factor for successive groups that are alike, as in a first-order autoregression.

        The correlation is corrected for its bias in short series (Kendall, Biometrika 41 (1954), 403-404).
        """
        number, squares = len(self.deviations), math.fsum(deviation**2 for deviation in self.deviations)
        products = math.fsum(map(mul, self.deviations, self.deviations[1:]))
        if squares <= 0 or products / squares <= _CRITICAL / math.sqrt(number):
            return 1.0
        correlation = products / squares
        correlation = min(_STRONGEST, correlation + (1 + 3 * correlation) / number)
        return (1 + correlation) / (1 - correlation)


def _in_twos(values: Sequence[_Number]) -> list[_Number]:
    """Return the sums of successive pairs; the last value may be alone."""
    pairs = zip(values[::2], values[1::2], strict=False)
    return [*(first + second for first, second in pairs), *(values[-1:] if len(values) % 2 else ())]
