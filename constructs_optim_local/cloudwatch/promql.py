"""The subset of PromQL that dashboards, alarms and scaling of serving engines need: instant queries over samples.

promql-parser parses queries, and this module evaluates them: selectors, ``rate``, ``increase``, ``*_over_time``,
histograms, sums and other aggregations, arithmetic, comparisons and set operators. It refuses everything else.

Sources: Prometheus 3, "Querying basics", "Operators" and "Functions", and its ``promql/functions.go``
(``extrapolatedRate``) and ``promql/quantile.go``. Histograms are native, with custom buckets, as CloudWatch stores
OpenTelemetry's.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import promql_parser as parser

LOOKBACK_SECONDS = 300.0
Labels = frozenset[tuple[str, str]]


class PromqlError(ValueError):
    """A query that cannot be parsed, or uses unsupported PromQL."""


@dataclass(frozen=True)
class Histogram:
    """Cumulative counts of observations by the upper bounds of their buckets, as in an exposition."""

    buckets: tuple[tuple[float, float], ...]
    total: float
    count: float

    def combine(self, other: Histogram, function: Callable[[float, float], float]) -> Histogram:
        """Return the sum or the difference of two histograms."""
        if [bound for bound, _ in self.buckets] != [bound for bound, _ in other.buckets]:
            raise PromqlError("histograms have different buckets")
        pairs = zip(self.buckets, other.buckets, strict=True)
        buckets = tuple((bound, function(mine, theirs)) for (bound, mine), (_, theirs) in pairs)
        return Histogram(buckets, function(self.total, other.total), function(self.count, other.count))

    def scaled(self, factor: float) -> Histogram:
        """Return a multiple of the histogram."""
        buckets = tuple((bound, factor * count) for bound, count in self.buckets)
        return Histogram(buckets, factor * self.total, factor * self.count)

    def quantile(self, share: float) -> float:
        """Return a quantile, by linear interpolation within a bucket."""
        if self.count <= 0 or math.isnan(share):
            return math.nan
        rank, below, start = share * self.count, 0.0, 0.0
        for index, (bound, count) in enumerate(self.buckets):
            if count >= rank:
                if math.isinf(bound):
                    return self.buckets[index - 1][0] if index else math.nan
                if index == 0 and bound <= 0:
                    return bound
                return start + (bound - start) * (rank - below) / (count - below) if count > below else bound
            below, start = count, bound
        return math.nan


Value = float | Histogram
Vector = dict[Labels, Value]
Samples = Sequence[tuple[float, Value]]


@dataclass(frozen=True)
class Series:
    """The samples of one time series in order of time: pairs of seconds since 1970 and a value."""

    name: str
    labels: Labels
    samples: Samples


def evaluate(query: str, series: Iterable[Series], at: float) -> dict[Labels, float]:
    """Return the result of an instant query: numbers by their labels. A scalar has no labels.

    Raises:
        PromqlError: if the query is invalid or not supported.
    """
    try:
        expression = parser.parse(query)
    except ValueError as error:
        raise PromqlError(str(error)) from None
    result = _Evaluation(list(series), at).of(expression)
    if not isinstance(result, dict):
        return {frozenset(): result}
    return {labels: _number(value) for labels, value in result.items()}


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else math.nan if not left or math.isnan(left) else left * math.inf,
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}


class _Evaluation:
    def __init__(self, series: Sequence[Series], at: float) -> None:
        self._series, self._at = series, at

    def of(self, expression: Any) -> float | Vector:
        match expression:
            case parser.NumberLiteral():
                return float(expression.val)
            case parser.ParenExpr():
                return self.of(expression.expr)
            case parser.UnaryExpr():
                return self._binary("*", -1.0, self.of(expression.expr))
            case parser.VectorSelector():
                return self._instant(expression)
            case parser.AggregateExpr():
                return self._aggregated(expression)
            case parser.Call():
                return self._called(expression.func.name, expression.args)
            case parser.BinaryExpr():
                return self._operated(expression)
            case _:
                raise PromqlError(f"the local cloud does not support {type(expression).__name__}: {expression}")

    def _selected(self, selector: Any) -> list[Series]:
        if selector.offset is not None or selector.at is not None:
            raise PromqlError("the local cloud does not support offset and @")
        matchers = [(each.name, _MATCHES[_op(each.op)], each.value) for each in selector.matchers.matchers]
        found: list[Series] = []
        for series in self._series:
            labels = {**dict(series.labels), "__name__": series.name}
            if selector.name in (None, series.name) and all(
                matches(labels.get(name, ""), value) for name, matches, value in matchers
            ):
                found.append(series)
        return found

    def _instant(self, selector: Any) -> Vector:
        found: Vector = {}
        for series in self._selected(selector):
            samples = [value for at, value in series.samples if self._at - LOOKBACK_SECONDS < at <= self._at]
            if samples:
                found[series.labels] = samples[-1]
        return found

    def _range(self, selector: Any) -> tuple[dict[Labels, Samples], float]:
        if not isinstance(selector, parser.MatrixSelector):
            raise PromqlError(f"{selector} is not a range of a metric, and the local cloud does not support subqueries")
        seconds = selector.range.total_seconds()
        start = self._at - seconds
        found = {
            series.labels: [(at, value) for at, value in series.samples if start < at <= self._at]
            for series in self._selected(selector.vector_selector)
        }
        return {labels: samples for labels, samples in found.items() if samples}, seconds

    def _called(self, name: str, arguments: Sequence[Any]) -> Vector:
        match name:
            case "rate" | "increase":
                ranges, seconds = self._range(arguments[0])
                per = seconds if name == "rate" else 1.0
                rates = {labels: _increase(samples, self._at, seconds) for labels, samples in ranges.items()}
                return {
                    labels: value.scaled(1 / per) if isinstance(value, Histogram) else value / per
                    for labels, value in rates.items()
                    if value is not None
                }
            case "last_over_time":
                return {labels: samples[-1][1] for labels, samples in self._range(arguments[0])[0].items()}
            case "max_over_time" | "min_over_time" | "avg_over_time":
                ranges, _ = self._range(arguments[0])
                return {
                    labels: _AGGREGATES[name.removesuffix("_over_time")]([_number(value) for _, value in samples])
                    for labels, samples in ranges.items()
                }
            case "histogram_quantile":
                share = self.of(arguments[0])
                vector = self.of(arguments[1])
                if isinstance(share, dict) or not isinstance(vector, dict):
                    raise PromqlError("histogram_quantile takes a number and a vector")
                return {
                    labels: value.quantile(share) for labels, value in vector.items() if isinstance(value, Histogram)
                }
            case "histogram_sum" | "histogram_count":
                vector = self.of(arguments[0])
                histograms = vector if isinstance(vector, dict) else {}
                return {
                    labels: value.total if name == "histogram_sum" else value.count
                    for labels, value in histograms.items()
                    if isinstance(value, Histogram)
                }
            case _:
                raise PromqlError(f"the local cloud does not support the function {name}")

    def _aggregated(self, expression: Any) -> Vector:
        vector = self.of(expression.expr)
        if not isinstance(vector, dict) or expression.param is not None:
            raise PromqlError(f"the local cloud does not support {expression}")
        modifier = expression.modifier
        named = set(modifier.labels) if modifier is not None else set[str]()
        excludes = modifier is not None and "Without" in str(modifier.type)
        groups: dict[Labels, list[Value]] = {}
        for labels, value in vector.items():
            key = frozenset(pair for pair in labels if (pair[0] in named) is not excludes)
            groups.setdefault(key, []).append(value)
        name = str(expression.op)
        return {labels: _aggregate(name, values) for labels, values in groups.items()}

    def _operated(self, expression: Any) -> float | Vector:
        left, right, name = self.of(expression.lhs), self.of(expression.rhs), str(expression.op)
        modifier = expression.modifier
        if modifier is not None and modifier.return_bool:
            raise PromqlError("the local cloud does not support bool")
        if name in ("and", "or", "unless"):
            if not isinstance(left, dict) or not isinstance(right, dict):
                raise PromqlError(f"{name} needs two vectors")
            key = _key(modifier)
            mine, theirs = {key(labels) for labels in left}, {key(labels) for labels in right}
            match name:
                case "and":
                    return {labels: value for labels, value in left.items() if key(labels) in theirs}
                case "unless":
                    return {labels: value for labels, value in left.items() if key(labels) not in theirs}
                case _:
                    return left | {labels: value for labels, value in right.items() if key(labels) not in mine}
        return self._binary(name, left, right, _key(modifier))

    def _binary(
        self,
        name: str,
        left: float | Vector,
        right: float | Vector,
        key: Callable[[Labels], Labels] = lambda labels: labels,
    ) -> float | Vector:
        if name in _ARITHMETIC:
            function = _ARITHMETIC[name]
            pairs = _pairs(left, right, key)
            if not isinstance(pairs, dict):
                return function(*pairs)
            return {labels: function(*both) for labels, both in pairs.items()}
        if name in _COMPARISONS:
            compare, pairs = _COMPARISONS[name], _pairs(left, right, key)
            if not isinstance(pairs, dict):
                raise PromqlError("a comparison of two numbers needs bool, which the local cloud does not support")
            # The result keeps the vector's value, on whichever side it is.
            kept = 0 if isinstance(left, dict) else 1
            return {labels: both[kept] for labels, both in pairs.items() if compare(*both)}
        raise PromqlError(f"the local cloud does not support the operator {name}")


def _pairs(
    left: float | Vector, right: float | Vector, key: Callable[[Labels], Labels]
) -> tuple[float, float] | dict[Labels, tuple[float, float]]:
    if not isinstance(left, dict):
        if not isinstance(right, dict):
            return left, right
        return {labels: (left, _number(value)) for labels, value in right.items()}
    if not isinstance(right, dict):
        return {labels: (_number(value), right) for labels, value in left.items()}
    others = {key(labels): value for labels, value in right.items()}
    if len(others) < len(right) or len({key(labels) for labels in left}) < len(left):
        raise PromqlError("many-to-many matching is not allowed: aggregate both sides")
    return {
        labels: (_number(value), _number(others[key(labels)]))
        for labels, value in left.items()
        if key(labels) in others
    }


def _key(modifier: Any) -> Callable[[Labels], Labels]:
    """Return the labels by which series of two sides match: all, those that ``on`` names, or all but the ignored."""
    matching = modifier.matching if modifier is not None else None
    if matching is None:
        return lambda labels: labels
    named, includes = set(matching.labels), "Include" in str(matching.type)
    return lambda labels: frozenset(pair for pair in labels if (pair[0] in named) is includes)


def _increase(samples: Samples, at: float, seconds: float) -> Value | None:
    """Return the increase of a counter over a range, extrapolated to the range's ends as Prometheus does."""
    if len(samples) < 2:
        return None
    (first_at, first), (last_at, last) = samples[0], samples[-1]
    pairs = list(pairwise(samples))
    if isinstance(first, Histogram):
        result: Value = _histogram(last).combine(first, operator.sub)
        for (_, before), (_, after) in pairs:
            if _histogram(after).count < _histogram(before).count:
                result = _histogram(result).combine(_histogram(before), operator.add)
    else:
        resets = sum(_number(before) for (_, before), (_, after) in pairs if _number(after) < _number(before))
        result = _number(last) - first + resets
    to_start, to_end, sampled = first_at - (at - seconds), at - last_at, last_at - first_at
    between = sampled / (len(samples) - 1)
    if not isinstance(first, Histogram) and not isinstance(result, Histogram) and result > 0 and first >= 0:
        to_start = min(to_start, sampled * first / result)
    covered = sampled + sum(gap if gap < 1.1 * between else between / 2 for gap in (to_start, to_end))
    factor = covered / sampled
    return result.scaled(factor) if isinstance(result, Histogram) else result * factor


_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}


def _aggregate(name: str, values: Sequence[Value]) -> Value:
    if name == "count":
        return float(len(values))
    first = values[0]
    if isinstance(first, Histogram) and name == "sum":
        for value in values[1:]:
            first = first.combine(_histogram(value), operator.add)
        return first
    if name not in _AGGREGATES:
        raise PromqlError(f"the local cloud does not support the aggregation {name}")
    return float(_AGGREGATES[name]([_number(value) for value in values]))


def _number(value: Value) -> float:
    if isinstance(value, Histogram):
        raise PromqlError("a histogram is not a number: use histogram_quantile(...) or histogram_sum(...)")
    return value


def _histogram(value: Value) -> Histogram:
    if not isinstance(value, Histogram):
        raise PromqlError("a series has both numbers and histograms")
    return value


def _op(op: Any) -> str:
    names = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
    return names[str(op).rpartition(".")[2]]
