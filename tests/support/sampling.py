"""Parameters of which ``make test`` tries a sample, and ``make nightly`` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(number: int, values: Iterable[Any]) -> list[Any]:
    """``values``, of which all but the first of each ``number`` are for the exhaustive suite."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.exhaustive)
        if place % number
        else value
        for place, value in enumerate(values)
    ]
