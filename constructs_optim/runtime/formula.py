"""Formulas over measured values: numbers, operations, names like ``request_latency.p50``, and ``IF(a > b, c, d)``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
}


def calculate(formula: str, values: Mapping[str, float]) -> float | None:
    """Return the value of a formula; None if a value is missing or a divisor is zero."""
    try:
        return _value(ast.parse(formula, mode="eval").body, values)
    except (KeyError, ZeroDivisionError):
        return None
    except SyntaxError as error:
        raise ValueError(f"{formula!r} is not a formula: {error.msg}") from None


def names_in(formula: str) -> set[str]:
    """Return the names of the values in a formula, without dotted ones."""
    return {node.id for node in ast.walk(ast.parse(formula, mode="eval")) if isinstance(node, ast.Name)}


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(left, values), _value(right, values))
        case ast.Constant(int() | float() as number):
            return float(number)
        case ast.Call(ast.Name("IF"), [ast.Compare(left, [ast.Gt()], [right]), chosen, otherwise]):
            return _value(chosen if _value(left, values) > _value(right, values) else otherwise, values)
        case ast.Name(name):
            return values[name]
        case ast.Attribute(ast.Name(name), part):
            return values[f"{name}.{part}"]
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not a number, a name, IF(... > ...), or one of + - * /")
