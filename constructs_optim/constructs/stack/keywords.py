"""Misspelt keywords of constructs, and the frames of the library that led to a refusal."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.errors import close_matches

_Class = TypeVar("_Class", bound=type)
_NOT_KEYWORDS = {"self", "scope", "id"}


def suggests_keywords(cls: _Class) -> _Class:
    """Have a class suggest the keywords that misspelt ones may have meant, as Python itself does from 3.13 on.

    A refused recipe is raised without the library's own frames: they bury what is wrong with it.
    """
    constructor: Callable[..., None] = vars(cls)["__init__"]
    keywords = [name for name in inspect.signature(constructor).parameters if name not in _NOT_KEYWORDS]

    @wraps(constructor)
    def suggesting(*args: Any, **kwargs: Any) -> None:
        try:
            constructor(*args, **kwargs)
        except RecipeError as refused:
            raise refused.with_traceback(None) from None
        except TypeError:
            if unknown := kwargs.keys() - keywords - _NOT_KEYWORDS:
                raise TypeError(_message(cls.__name__, sorted(unknown), keywords)) from None
            raise

    setattr(cls, "__init__", suggesting)  # noqa: B010 - a type checker takes it for an instance's
    return cls


def check_options(method: str, options: Mapping[str, object], of: type) -> None:
    """Refuse options that a method's TypedDict does not have: Python takes any for ``**options: Unpack[...]``."""
    names = list(of.__annotations__)
    if unknown := options.keys() - set(names):
        raise TypeError(_message(method, sorted(unknown), names))


def _message(name: str, unknown: list[str], keywords: list[str]) -> str:
    # Without underscores, instancetype is closer to instance_type than to instance_pools.
    plain = {keyword.replace("_", ""): keyword for keyword in keywords}
    parts: list[str] = []
    for keyword in unknown:
        close = [plain[match] for match in close_matches(keyword.replace("_", ""), plain)][:2]
        if keyword == "tags":
            hint = ' (Tags.of(construct).add("team", "nlp") adds tags)'
        else:
            hint = f" (did you mean {' or '.join(close)}?)" if close else f" (it has {', '.join(keywords)})"
        parts.append(f"{keyword!r}{hint}")
    return f"{name}(...) has no argument {' and no '.join(parts)}"
