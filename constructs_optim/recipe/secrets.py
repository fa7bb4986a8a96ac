"""What errors show in place of secrets. Consoles and build logs keep errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from constructs_optim.runtime.secret_shapes import kind_of_secret, may_be_secret

__all__ = ["NOT_SHOWN", "kind_of_secret", "without_secrets"]
NOT_SHOWN = "(not shown)"
"""The value of a violation about a secret."""


def without_secrets(value: object, name: str = "", instead: object = NOT_SHOWN) -> object:
    """Return a value with ``instead`` in place of the texts in it that may be secrets, by their names or themselves."""
    if isinstance(value, str):
        return instead if may_be_secret(name, value) else value
    if isinstance(value, dict):
        members = cast("Mapping[object, object]", value).items()
        return {key: without_secrets(each, str(key), instead) for key, each in members}
    if isinstance(value, list):
        return [without_secrets(each, name, instead) for each in cast("Sequence[object]", value)]
    return value
