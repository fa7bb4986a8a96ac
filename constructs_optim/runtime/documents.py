"""Readers for JSON documents of unknown origin and structure; missing values read as empty."""

from __future__ import annotations

import re
import sys
from typing import TypeGuard

from pydantic_core import from_json

MOST_BYTES = 32_000_000
"""The size up to which a JSON document is read."""
# An escape in a JSON string; the group is half of a surrogate pair without its other half.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_ARTIFACT_KEY = re.compile(r"[0-9a-f]{64}")


def json_value(content: str | bytes, *, most: int = MOST_BYTES) -> object:
    """Return the value of a JSON document that users, models, hubs, or other programs wrote.

    Half a surrogate pair becomes U+FFFD, so that any text in the value can be written as UTF-8. If an object has a name
    twice, the last value counts. The limits are the same on all Python versions: pydantic's parser allows 200 levels,
    and a number must fit in a double (RFC 8259, section 6).

    Raises:
        ValueError: if the content is not JSON in UTF-8, has more than ``most`` bytes, is nested too deeply, or has a
            number that is not finite or too large.
    """
    encoded = content if isinstance(content, bytes) else _utf8(content)
    if len(encoded) > most:
        raise ValueError(f"it has {len(encoded):,} bytes, and at most {most:,} are read")
    encoded = encoded.removeprefix(b"\xef\xbb\xbf")
    if b"\\ud" in encoded or b"\\uD" in encoded:
        encoded = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], encoded)
    try:
        value: object = from_json(encoded, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(str(error).replace("recursion limit exceeded", "more than 200 nested levels")) from None
    _require_doubles(value)
    return value


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _require_doubles(value: object) -> None:
    """Refuse numbers beyond a double's range, with which later arithmetic would fail."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if is_object(item):
            waiting.extend(item.values())
        elif is_list(item):
            waiting.extend(item)
        elif isinstance(item, int | float) and not abs(item) <= sys.float_info.max:
            raise ValueError("a number is too large")


def is_artifact_key(value: object) -> TypeGuard[str]:
    """Return whether ``value`` has the form of an artifact key: a SHA-256 in lower-case hexadecimal."""
    return isinstance(value, str) and _ARTIFACT_KEY.fullmatch(value) is not None


def is_component_arn(value: object) -> TypeGuard[str]:
    """Return whether ``value`` is the ARN of an inference component."""
    return isinstance(value, str) and ":inference-component/" in value


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether ``value`` is a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether ``value`` is a JSON array."""
    return isinstance(value, list)


def object_in(value: object) -> dict[str, object]:
    """Return ``value`` if it is a JSON object, otherwise an empty one."""
    return value if is_object(value) else {}


def list_in(value: object) -> list[object]:
    """Return ``value`` if it is a JSON array, otherwise an empty one."""
    return value if is_list(value) else []


def nested(value: object, *names: str) -> object:
    """Return the value at a path of names; None if a name is missing."""
    for name in names:
        value = object_in(value).get(name)
    return value


def not_created(request: str) -> str:
    """Return the physical ID of a resource that ``request`` failed to create; its deletion gets this ID."""
    return f"not-created-{request}"


def failed_request(physical_id: object) -> str | None:
    """Return the request in a physical ID from ``not_created``; None for any other ID."""
    prefix, _, request = str(physical_id).partition("not-created-")
    return request if request and not prefix else None
