"""What a setting can be, in the words of a rule: pydantic's own speak of inputs, and of Python's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = {
    "bool_parsing": "True or False",
    "bool_type": "True or False",
    "dict_type": "a dictionary",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "string_type": "text",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "{} or less"),
}


def what_works(problem: Mapping[str, Any]) -> str:
    """What would be valid instead.

    Args:
        problem: one of pydantic's ``ValidationError.errors()``.
    """
    kind, about, given = problem["type"], problem.get("ctx", {}), problem["input"]
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return words.format(about[bound])
    expected = about.get("expected")
    if expected is None:
        return str(problem["msg"]).removeprefix("Input should be ")
    as_text = isinstance(given, str) and "'" not in str(expected)
    return f"one of {expected}{', as a number and not as text' if as_text else ''}"
