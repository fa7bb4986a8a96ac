"""Arguments that are named wrongly: Python says which, and not what was meant."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .catalog.matching import close_matches

_Called = TypeVar("_Called", bound=Callable[..., Any])
_MOST = 2
_UNNAMED = frozenset({"self", "cls", "scope", "id"})
_NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_UNPACKED = re.compile(r"Unpack\[(?P<options>\w+)\]")


def knows_its_arguments(called: _Called) -> _Called:
    """Have a function, or a class, name what may have been meant by each argument that it has not.

    Of ``**options: Unpack[Options]`` the names are those of ``Options``: Python itself takes any.
    """
    if isinstance(called, type):
        made: Any = called
        made.__init__ = knows_its_arguments(made.__init__)
        return made
    known = _known(called)
    allowed = frozenset(known)

    @wraps(called)
    def with_known(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= allowed:
            name = called.__qualname__.removesuffix(".__init__")
            raise TypeError(_what_is_unknown(name, [each for each in kwargs if each not in allowed], known))
        return called(*args, **kwargs)

    return cast(_Called, with_known)


def _known(function: Callable[..., Any]) -> list[str]:
    known: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _NAMED:
            known.append(name)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            unpacked = _UNPACKED.fullmatch(str(parameter.annotation))
            assert unpacked is not None, f"{function.__qualname__}: **{name} has no names"  # noqa: S101 - of this library
            known += function.__globals__[unpacked["options"]].__annotations__
    return known


def _what_is_unknown(called: str, unknown: list[str], known: list[str]) -> str:
    named = [name for name in known if name not in _UNNAMED]
    told: list[str] = []
    for name in unknown:
        # Without underscores, instancetype is closer to instance_type than to instance_pools.
        bare = {each.replace("_", ""): each for each in named}
        near = [bare[each] for each in close_matches(name.replace("_", ""), bare)][:_MOST]
        near += [each for each in named if each.endswith(f"_{name}") and each not in near][:_MOST]
        told.append(f"{name!r}{f' (did you mean {_either(near)}?)' if near else ''}")
    every = "" if all("did you mean" in each for each in told) else f"; it takes {', '.join(named) or 'none'}"
    return f"{called}(...) has no argument {' and no '.join(told)}{every}"


def _either(names: list[str]) -> str:
    return " or ".join(names)
