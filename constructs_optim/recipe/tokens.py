"""Tokens: values that the AWS CDK writes into strings and numbers, and that are known only at deployment."""

from __future__ import annotations

import re
from typing import TypeGuard

_TOKEN = re.compile(r"\$\{Token\[[^\]]*\]\}")
# The AWS CDK writes a number that is known only at deployment as one that no setting can be.
_NUMBER_TOKENS_BELOW = -1e280


def without_tokens(text: str) -> str:
    """A text in which one mark stands for every token: a token's own text changes from one synthesis to the next."""
    return _TOKEN.sub("${Token}", text)


def is_token(value: object) -> bool:
    """Whether a string holds a token."""
    return isinstance(value, str) and _TOKEN.search(value) is not None


def is_known(value: float | None) -> TypeGuard[float]:
    """Whether a number is known now: not None, and no token."""
    return value is not None and not (isinstance(value, float) and value < _NUMBER_TOKENS_BELOW)


def too_late(subject: str) -> str:
    """Why ``subject`` cannot be a token: the reason of a rule that needs the value now."""
    return (
        f"{subject} is a token, known only when the stack is deployed, and what follows from it is decided at synthesis"
    )
