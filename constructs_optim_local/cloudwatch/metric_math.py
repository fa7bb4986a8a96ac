"""The subset of CloudWatch's metric math that alarms on endpoints need: arithmetic, comparisons, IF, FILL, aggregates.

Source: CloudWatch user guide, "Using math expressions with CloudWatch metrics". A time series is a mapping from the
start of a period, in seconds since 1970, to a value. If only one of two series has a value, the other one counts as 0;
a period with a zero divisor has no result ("Basic arithmetic functions", "Comparison and logical operators"). SEARCH,
which alarms may not use, and anomaly detection are not supported.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Series = Mapping[int, float]
Value = Any  # a number, a Series or a list of Series

_BINARY: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.AST], Callable[[float, float], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "SUM": math.fsum,
    "AVG": lambda values: math.fsum(values) / len(values),
    "MIN": min,
    "MAX": max,
}
_EACH: dict[str, Callable[[float], float]] = {"ABS": abs, "CEIL": math.ceil, "FLOOR": math.floor}
_WORDS = ((r"&&", " and "), (r"\|\|", " or "), (r"\bAND\b", " and "), (r"\bOR\b", " or "), (r"\^", "**"))


class MathError(ValueError):
    """An invalid expression, or one that uses unsupported metric math."""


def names(expression: str) -> set[str]:
    """Return the IDs to which an expression refers.

    Raises:
        MathError: if the expression is invalid.
    """
    tree = _parsed(expression)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions}
    return found - {"REPEAT"}


def evaluate(expression: str, values: Mapping[str, Series], times: Sequence[int], period: int) -> Series:
    """Return the series to which an expression evaluates.

    Args:
        expression: the metric math expression.
        values: series by ID.
        times: the starts of the periods, in seconds since 1970.
        period: the length of the periods in seconds.

    Raises:
        MathError: if the expression cannot be evaluated.
    """
    result = _Evaluator(values, times, period).value(_parsed(expression).body)
    if isinstance(result, list):
        raise MathError(f"{expression} gives several time series, and an alarm watches one")
    return result if isinstance(result, Mapping) else dict.fromkeys(times, float(result))


def _parsed(expression: str) -> ast.Expression:
    text = expression
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    try:
        return ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise MathError(f"{expression} is not a metric math expression: {error.msg}") from None


class _Evaluator:
    def __init__(self, values: Mapping[str, Series], times: Sequence[int], period: int) -> None:
        self._values, self._times, self._period = values, times, period

    def value(self, node: ast.AST) -> Value:
        match node:
            case ast.Constant(value=int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in self._values:
                return self._values[name]
            case ast.Name(id=name):
                raise MathError(f"{name} is not the ID of another metric")
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [series for item in items for series in _listed(self.value(item))]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _each(operator.neg, self.value(operand))
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _BINARY:
                return _pairs(_BINARY[type(kind)], self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[kind], comparators=[right]) if type(kind) in _COMPARISONS:
                return _pairs(_COMPARISONS[type(kind)], self.value(left), self.value(right))
            case ast.BoolOp(op=kind, values=parts):
                join = (lambda a, b: bool(a and b)) if isinstance(kind, ast.And) else (lambda a, b: bool(a or b))
                result = self.value(parts[0])
                for part in parts[1:]:
                    result = _pairs(join, result, self.value(part))
                return result
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, arguments)
            case _:
                raise MathError(f"the local cloud does not support {ast.unparse(node)}")

    def _call(self, name: str, arguments: Sequence[ast.expr]) -> Value:
        if name == "METRICS":
            part = self.value(arguments[0]) if arguments else ""
            return [series for key, series in self._values.items() if part in key]
        if name == "FILL" and len(arguments) == 2:
            repeat = isinstance(arguments[1], ast.Name) and arguments[1].id == "REPEAT"
            filling = None if repeat else self.value(arguments[1])
            return self._filled(self.value(arguments[0]), filling)
        values = [self.value(argument) for argument in arguments]
        match name, values:
            case ("IF", [condition, *choices]) if 1 <= len(choices) <= 2:
                return self._chosen(condition, choices)
            case ("PERIOD", [_]):
                return float(self._period)
            case ("DIFF" | "RATE", [Mapping() as series]):
                steps = list(zip(sorted(series), sorted(series)[1:], strict=False))
                return {b: (series[b] - series[a]) / ((b - a) if name == "RATE" else 1) for a, b in steps}
            case (_, [value]) if name in _EACH:
                return _each(_EACH[name], value)
            case (_, [list() as several]) if name in _AGGREGATES:
                times = sorted({at for series in several for at in series})
                return {at: _AGGREGATES[name]([s[at] for s in several if at in s]) for at in times}
            case (_, [Mapping() as series]) if name in _AGGREGATES:
                return _AGGREGATES[name](list(series.values())) if series else dict[int, float]()
            case _:
                raise MathError(
                    f"the local cloud does not support {name} with {len(values)} argument(s) of these kinds"
                )

    def _filled(self, value: Value, filling: Value) -> Value:
        if isinstance(value, list):
            return [self._filled(series, filling) for series in value]
        filled, last = dict[int, float](), None
        for at in self._times:
            other = last if filling is None else _at(filling, at)
            found = value.get(at, other)
            if found is not None:
                filled[at] = last = found
        return filled

    def _chosen(self, condition: Value, choices: Sequence[Value]) -> Value:
        chosen = dict[int, float]()
        for at in condition if isinstance(condition, Mapping) else self._times:
            holds = bool(_at(condition, at))
            found = _at(choices[0], at) if holds else _at(choices[1], at) if len(choices) > 1 else None
            if found is None and holds and isinstance(condition, Mapping):
                # "has the value of 0, if the corresponding data point of metric1 is TRUE and [...] does not exist in
                # metric2": "Using IF expressions".
                found = 0.0
            if found is not None:
                chosen[at] = found
        return chosen


def _listed(value: Value) -> list[Series]:
    return value if isinstance(value, list) else [value]


def _at(value: Value, at: int) -> float | None:
    return value.get(at) if isinstance(value, Mapping) else value


def _each(function: Callable[[float], float], value: Value) -> Value:
    if isinstance(value, list):
        return [_each(function, series) for series in value]
    return {at: function(one) for at, one in value.items()} if isinstance(value, Mapping) else function(value)


def _pairs(function: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, list) or isinstance(right, list):
        several = left if isinstance(left, list) else right
        return [
            _pairs(function, left[i] if left is several else left, right[i] if right is several else right)
            for i in range(len(several))
        ]
    if not isinstance(left, Mapping) and not isinstance(right, Mapping):
        return float(function(left, right)) if right or function is not operator.truediv else dict[int, float]()
    times = sorted({at for value in (left, right) if isinstance(value, Mapping) for at in value})
    result = dict[int, float]()
    for at in times:
        a, b = _at(left, at) or 0.0, _at(right, at) or 0.0
        if b or function is not operator.truediv:
            result[at] = float(function(a, b))
    return result
