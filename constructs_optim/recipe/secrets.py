"""What errors show in place of secrets. Consoles and build logs keep errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import cast

from constructs_optim.runtime.secret_shapes import kind_of_secret, may_be_secret

__all__ = ["NOT_SHOWN", "kind_of_secret", "may_be_secret", "without_secrets"]
NOT_SHOWN = "(not shown)"
"""The value of a violation about a secret."""

# Errors show 200 characters, and a search for secrets takes a second per megabyte. But some secrets are recognized only
# by their end, and AWS Secrets Manager keeps secrets of up to 65,536 characters (botocore's SecretStringType).
_MOST_CHARACTERS = 100_000
_MOST_MEMBERS = 1_000


def without_secrets(value: object, name: str = "", instead: object = NOT_SHOWN) -> object:
    """Return a value with ``instead`` in place of the texts in it that may be secrets, by their names or themselves.

    Only the first 100,000 characters of a text are read and returned, and the first 1,000 members of a list or a
    dictionary, where one ``instead`` stands for the others.
    """
    if isinstance(value, str):
        text = value[:_MOST_CHARACTERS]
        return instead if may_be_secret(name[:_MOST_CHARACTERS], text) else text
    if isinstance(value, dict):
        members = cast("Mapping[object, object]", value)
        first = islice(members.items(), _MOST_MEMBERS)
        shown = {key: without_secrets(each, str(key), instead) for key, each in first}
        return shown | ({instead: instead} if len(members) > _MOST_MEMBERS else {})
    if isinstance(value, list):
        items = cast("Sequence[object]", value)
        return [
            *(without_secrets(each, name, instead) for each in items[:_MOST_MEMBERS]),
            *([instead] if len(items) > _MOST_MEMBERS else ()),
        ]
    return value
