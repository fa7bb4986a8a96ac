"""The metric math of dashboards, as far as theirs goes: arithmetic over time series, and ``PERIOD``.

The syntax of arithmetic is Python's, so Python's own parser reads it; nothing is evaluated but what is listed here.
Source: Amazon CloudWatch user guide, "Using math expressions with CloudWatch metrics".
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

Values = Sequence[float | None]


class UnknownExpression(ValueError):
    """An expression that is not calculated here. In CloudWatch it may well work."""


def calculated(expression: str, series: Mapping[str, Values], *, period_seconds: int) -> list[float | None]:
    """The values of an expression at each time; None where an operand has none, and where it divides by zero.

    Args:
        expression: metric math over the ids of ``series``.
        series: values at the same times.
        period_seconds: between two times.

    Raises:
        UnknownExpression: for functions other than PERIOD, unknown ids, and what is no arithmetic.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UnknownExpression(f"no arithmetic: {expression}") from error
    length = max((len(values) for values in series.values()), default=0)
    found = _Calculation(expression, series, period_seconds).of(tree)
    return list(found) if isinstance(found, list) else [found] * length


class _Calculation:
    def __init__(self, expression: str, series: Mapping[str, Values], period_seconds: int) -> None:
        self._expression, self._series, self._period = expression, series, float(period_seconds)

    def of(self, node: ast.expr) -> float | list[float | None]:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return float(value)
            case ast.Name(id=name) if name in self._series:
                return list(self._series[name])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._both(ast.Sub(), 0.0, self.of(operand))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op, right=right):
                return self._both(op, self.of(left), self.of(right))
            case ast.Call(func=ast.Name(id="PERIOD"), args=[ast.Name(id=name)], keywords=[]) if name in self._series:
                return self._period
            case _:
                raise UnknownExpression(f"not calculated here: {self._expression}")

    def _both(
        self, op: ast.operator, left: float | list[float | None], right: float | list[float | None]
    ) -> float | list[float | None]:
        if isinstance(left, float) and isinstance(right, float):
            found = _one(op, left, right)
            if found is None:
                raise UnknownExpression(f"divides by zero: {self._expression}")
            return found
        length = len(left) if isinstance(left, list) else len(right) if isinstance(right, list) else 0
        lefts = left if isinstance(left, list) else [left] * length
        rights = right if isinstance(right, list) else [right] * length
        return [_one(op, a, b) for a, b in zip(lefts, rights, strict=True)]


def _one(op: ast.operator, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case _:
            return left / right if right else None
