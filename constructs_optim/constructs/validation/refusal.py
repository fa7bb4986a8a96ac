"""What a construct does about broken rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from constructs import Construct

from constructs_optim.recipe import RecipeError, Violation


def refuse(broken: Sequence[Violation]) -> None:
    """Raise a ``RecipeError`` of the violations, each once, where there are any."""
    violations = [violation for index, violation in enumerate(broken) if violation not in broken[:index]]
    if violations:
        raise RecipeError(violations)


@contextmanager
def declaring(scope: Construct, id: str) -> Iterator[None]:
    """Raise a ``ValueError`` for an id that is taken: the CDK's own message comes at the end of Node's frames."""
    try:
        yield
    except RuntimeError as error:
        # constructs/src/construct.ts, addChild.
        if "There is already a Construct with name" not in str(error):
            raise
        raise ValueError(
            f"{scope.node.path or 'the app'} has a construct {id!r} already: a construct's id is its own among those "
            f"beside it, so give this one another, such as {id + '2'!r}"
        ) from None
