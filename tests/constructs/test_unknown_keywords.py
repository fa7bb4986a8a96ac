"""Every public class, factory and method says which keyword is meant in place of one that it does not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_cdk import Stack
from pydantic import BaseModel

import constructs_optim
from constructs_optim import ArtifactStore, OptimizedEndpoint
from constructs_optim.constructs.stack.arguments import methods_of
from constructs_optim.recipe.forms import VALUE
from constructs_optim.recipe.settings import CONSTRUCTORS, Settings, arguments_of

_OWN = {name for name in dir(Settings) if not name.startswith("_")}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The constructors, factories and methods of the public classes."""
    for name in constructs_optim.__all__:
        cls = getattr(constructs_optim, name)
        if issubclass(cls, Exception) or (issubclass(cls, BaseModel) and not issubclass(cls, Settings)):
            continue
        if name in CONSTRUCTORS:
            yield name, cls
        for method, function in inspect.getmembers(cls, inspect.isroutine):
            is_own = str(getattr(function, "__module__", "")).startswith("constructs_optim")
            # It passes its other keywords to the constructor.
            is_own = is_own and method != "from_file"
            if is_own and not method.startswith("_") and not (issubclass(cls, Settings) and method in _OWN):
                yield f"{name}.{method}", function


CALLABLES = dict(public_callables())


def test_the_callables_are_known() -> None:
    assert len(CALLABLES) > 200
    assert {"Model.huggingface", "OptimizedEndpoint.shadow", "EndpointEvaluation.require", "Pool"} <= CALLABLES.keys()


def test_an_unknown_keyword_of_from_file_is_refused_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match=r"from_file\(\.\.\.\) has no argument 'vpc' \(did you mean network="):
        constructs_optim.OptimizedEndpoint.from_file(Stack(), "Chat", "endpoint.yaml", vpc="vpc-1")


@pytest.mark.parametrize("name", CALLABLES)
def test_an_unknown_keyword_of_a_public_callable_is_refused_with_a_suggestion(name: str) -> None:
    function = CALLABLES[name]
    with pytest.raises(TypeError, match=r"\(\.\.\.\) has no argument 'xylophone' \(it has") as refused:
        function(xylophone=1)
    called = CONSTRUCTORS[name][0] if name in CONSTRUCTORS else function
    names = [each for each in arguments_of(called) if each != "id"]
    assert str(refused.value).endswith(f"(it has {', '.join(names)})")


def test_a_word_of_a_file_means_a_call_with_all_that_it_needs() -> None:
    meant = methods_of(OptimizedEndpoint)
    assert {word: meant.get(word) for word in ("components", "memory", "scaling", "max_capacity", "shadow")} == {
        "components": 'add_component("...", model=...)',
        "memory": f'add_component("...", model=..., memory={VALUE})',
        "scaling": "auto_scale()",
        "max_capacity": f"auto_scale(max_capacity={VALUE})",
        "shadow": "shadow(candidate=..., checks=...)",
    }
    assert methods_of(ArtifactStore)["share_with_account"] == "share_with_account(account_id=...)"
    assert "model" not in meant, "the class itself takes it"
