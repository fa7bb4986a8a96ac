"""Checks of values that may be tokens of the AWS CDK, which are resolved only at deployment."""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

# The CDK's form of a token in text (aws-cdk-lib/core/lib/private/encoding.ts).
TOKEN = re.compile(r"\$\{Token\[[a-zA-Z0-9:._-]+\]\}")
"""A token in text."""
# The AWS CDK encodes number tokens as numbers below this limit.
_NUMBER_TOKENS_BELOW = -1e280


def without_tokens(text: str) -> str:
    """Return text with placeholders for tokens, because the text of tokens differs between syntheses."""
    return TOKEN.sub("${Token}", text)


def is_token(value: object) -> bool:
    """Return whether text contains a token, like ``Token.is_unresolved`` but without a call to Node."""
    return isinstance(value, str) and "${Token[" in value and TOKEN.search(value) is not None


def is_known(value: Any) -> TypeGuard[Any]:
    """Return whether a number is known at synthesis: neither None nor a token."""
    return value is not None and not (isinstance(value, float) and value < _NUMBER_TOKENS_BELOW)


def matches(pattern: re.Pattern[str], value: object) -> bool:
    """Return whether a whole text matches a pattern, or contains a token."""
    return isinstance(value, str) and (is_token(value) or pattern.fullmatch(value) is not None)


def is_whole(value: object, least: int, most: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is a whole number within a range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
