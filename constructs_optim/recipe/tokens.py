"""Checks of values that may be tokens of the AWS CDK, which are resolved only at deployment."""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

# How the CDK writes a token in text (aws-cdk-lib/core/lib/private/encoding.ts).
TOKEN = re.compile(r"\$\{Token\[[a-zA-Z0-9:._-]+\]\}")
"""A token in text."""
# The AWS CDK encodes number tokens as numbers below this limit.
_NUMBER_TOKENS_BELOW = -1e280


def without_tokens(text: str) -> str:
    """Text with placeholders for tokens, whose own text changes from one synthesis to the next."""
    return TOKEN.sub("${Token}", text)


def is_token(value: object) -> bool:
    """Whether text holds a token: ``Token.is_unresolved`` for text, without a call to Node."""
    return isinstance(value, str) and "${Token[" in value and TOKEN.search(value) is not None


def is_known(value: Any) -> TypeGuard[Any]:
    """Whether a number is known at synthesis: not None, and no token."""
    return value is not None and not (isinstance(value, float) and value < _NUMBER_TOKENS_BELOW)


def matches(pattern: re.Pattern[str], value: object) -> bool:
    """Whether text matches a pattern as a whole, or holds a token."""
    return isinstance(value, str) and (is_token(value) or pattern.fullmatch(value) is not None)


def is_whole(value: object, least: int, most: float = math.inf) -> TypeGuard[int]:
    """Whether a value is a whole number within a range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
