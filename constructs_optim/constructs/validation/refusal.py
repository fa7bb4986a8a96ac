"""What a construct does about broken rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from constructs import Construct

from constructs_optim.recipe import RecipeError, Violation

# The CDK's own words (constructs/src/construct.ts, addChild).
_TAKEN = "There is already a Construct with name"


def refuse(broken: Sequence[Violation]) -> None:
    """Raise the violations, each once.

    Raises:
        RecipeError: where there are any.
    """
    violations = [violation for index, violation in enumerate(broken) if violation not in broken[:index]]
    if violations:
        raise RecipeError(violations)


@contextmanager
def declaring(scope: Construct, id: str) -> Iterator[None]:
    """Say that an id is taken without what led to it in Node: the CDK's own words come at the end of its frames.

    Raises:
        ValueError: where ``scope`` has a construct of that id.
    """
    try:
        yield
    except RuntimeError as error:
        if _TAKEN not in str(error):
            raise
        raise ValueError(
            f"{scope.node.path or 'the app'} has a construct {id!r} already: a construct's id is its own among those "
            f"beside it, so give this one another, such as {id + '2'!r}"
        ) from None
