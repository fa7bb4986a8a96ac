"""Which values of a resource change: single ones, as a reviewer would point at them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from constructs_optim.templates.text import text_of

from .resource_changes import ResourceChange

_LONGEST = 80
_MOST = 8


def value_differences(change: ResourceChange, without: Collection[str] = ()) -> list[str]:
    """The values that change, ``Request.StoppingCondition.MaxRuntimeInSeconds: 36000 becomes 7200``, at most eight.

    Left out is what only refers to another resource: that one is told of. Of long values the name alone is told.
    ``without``: properties that are told of elsewhere.
    """
    if change.before is None or change.after is None:
        return []
    found = list(
        dict.fromkeys(
            text
            for name in change.properties
            if name not in without
            for text in _between(name, change.before.properties.get(name), change.after.properties.get(name))
        )
    )
    return found if len(found) <= _MOST else [*found[:_MOST], f"{len(found) - _MOST} more values change"]


def _between(path: str, before: Any, after: Any) -> Iterator[str]:
    match before, after:
        case Mapping(), Mapping() if not (_is_function(before) or _is_function(after)):
            for name in dict.fromkeys([*before, *after]):
                yield from _between(f"{path}.{name}", before.get(name), after.get(name))
        case list(), list() if len(before) == len(after):
            for place, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from _between(path if len(before) == 1 else f"{path}[{place}]", old, new)
        case _:
            yield from _told(path, text_of(before), text_of(after))


def _told(path: str, before: str, after: str) -> Iterator[str]:
    if before == after or before.startswith("${") or after.startswith("${"):
        return
    if max(len(before), len(after)) > _LONGEST:
        yield f"{path} changes"
    elif before == "none":
        yield f"{path} is set to {after}"
    elif after == "none":
        yield f"{path} is no longer set (it was {before})"
    else:
        yield f"{path}: {before} becomes {after}"


def _is_function(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))
