"""Readers for JSON documents of unknown structure; missing values read as empty."""

from __future__ import annotations

import re
from typing import TypeGuard

_ARTIFACT_KEY = re.compile(r"[0-9a-f]{64}")


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
