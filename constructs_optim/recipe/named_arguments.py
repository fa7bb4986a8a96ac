"""Arguments that are named wrongly: Python says which, and not what was meant."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .errors import close_matches

_Called = TypeVar("_Called", bound=Callable[..., Any])
_MOST = 2
# What the CDK itself does for any construct.
_ELSEWHERE = {"tags": 'Tags.of(construct).add("team", "nlp") adds tags'}
# What techniques are called elsewhere.
_SYNONYMS = {"int4": "awq", "int8": "smoothquant", "gptq": "awq", "float8": "fp8"}
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

    most = _most_by_place(called)
    name = called.__qualname__.removesuffix(".__init__")

    @wraps(called)
    def with_known(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= allowed:
            raise TypeError(_what_is_unknown(name, [each for each in kwargs if each not in allowed], known))
        if len(args) > most:
            raise TypeError(_what_has_a_name(name, known, args[most:]))
        try:
            return called(*args, **kwargs)
        except ValueError as error:
            if not hasattr(error, "violations"):
                raise
            # A RecipeError: what led to it within the library says nothing to those who wrote the recipe.
            raise error.with_traceback(None) from None

    return cast(_Called, with_known)


class NamesItsFactories(type):
    """Has a class of factories name those it has, where one is asked for that it has not."""

    def __getattr__(cls, name: str) -> Any:
        there = [each for each in vars(cls) if not each.startswith("_")]
        near = _SYNONYMS.get(name.lower()) or _either(close_matches(name, there)[:_MOST])
        hint = f" (did you mean {near}?)" if near else ""
        raise AttributeError(f"{cls.__name__} has no {name!r}{hint}; it has {', '.join(there)}")


def _most_by_place(function: Callable[..., Any]) -> int:
    """How many arguments may be given without their names."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sys.maxsize if inspect.Parameter.VAR_POSITIONAL in kinds else sum(kind in by_place for kind in kinds)


def _what_has_a_name(called: str, known: list[str], given: tuple[Any, ...]) -> str:
    named = [name for name in known if name not in _UNNAMED]
    several = f"{len(given)} arguments" if len(given) > 1 else "1 argument"
    which = f"write {named[0]}=..., as of {', '.join(named)}" if named else "it takes none"
    return f"{called}(...) takes its arguments by name, and {several} had none: {which}"


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
        hint = _ELSEWHERE.get(name) or (f"did you mean {_either(near)}?" if near else "")
        told.append(f"{name!r}{f' ({hint})' if hint else ''}")
    every = "" if all(each.endswith(")") for each in told) else f"; it takes {', '.join(named) or 'none'}"
    return f"{called}(...) has no argument {' and no '.join(told)}{every}"


def _either(names: list[str]) -> str:
    return " or ".join(names)
