"""Arguments that are named wrongly: Python says which, and not what was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .catalog.matching import close_matches

_Function = TypeVar("_Function", bound=Callable[..., Any])
_UNNAMED = frozenset({"self", "cls", "scope", "id"})
_NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def knows_its_arguments(function: _Function) -> _Function:
    """Have a function, or a constructor, name what may have been meant by each argument that it has not."""
    known = [name for name, p in inspect.signature(function).parameters.items() if p.kind in _NAMED]
    called = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def with_known(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= allowed:
            raise TypeError(_what_is_unknown(called, [n for n in kwargs if n not in allowed], known)) from None
        return function(*args, **kwargs)

    allowed = frozenset(known)
    return cast(_Function, with_known)


def _what_is_unknown(called: str, unknown: list[str], known: list[str]) -> str:
    named = [name for name in known if name not in _UNNAMED]
    told = []
    for name in unknown:
        # Without underscores, instancetype is closer to instance_type than to instance_pools.
        bare = {each.replace("_", ""): each for each in named}
        near = [bare[each] for each in close_matches(name.replace("_", ""), bare)]
        near += [each for each in named if each.endswith(f"_{name}") and each not in near]
        told.append(f"{name!r}{f' (did you mean {_either(near)}?)' if near else ''}")
    every = "" if all("did you mean" in each for each in told) else f"; it takes {', '.join(named) or 'none'}"
    return f"{called}(...) has no argument {' and no '.join(told)}{every}"


def _either(names: list[str]) -> str:
    return " or ".join(names)
