"""What a construct does about broken rules."""

from __future__ import annotations

from collections.abc import Sequence

from constructs_optim.recipe import RecipeError, Violation


def refuse(broken: Sequence[Violation]) -> None:
    """Raise what is wrong, each thing once.

    Raises:
        RecipeError: where there is something.
    """
    found = [violation for place, violation in enumerate(broken) if violation not in broken[:place]]
    if found:
        raise RecipeError(found)
