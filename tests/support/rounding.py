"""Numbers for files that are compared on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def rounded(value: object) -> object:
    """The same with four digits in every number: the last ones depend on the machine."""
    match value:
        case float():
            return float(f"{value:.4g}")
        case Mapping():
            return {str(name): rounded(each) for name, each in cast("Mapping[Any, object]", value).items()}
        case list() | tuple():
            return [rounded(each) for each in cast("list[object]", value)]
        case _:
            return value
