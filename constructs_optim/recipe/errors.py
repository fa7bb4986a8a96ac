"""What is wrong with a recipe: every violation at once, each with a rule, a place, a value and a way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class Violation(BaseModel):
    """One broken rule.

    Attributes:
        rule: the rule's id, for instance ``OPT004``.
        location: where in the recipe, for instance ``techniques[0].group_size``.
        value: what was given.
        reason: why that does not work.
        suggestion: what would.
        link: where the rule comes from.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    rule: str
    location: str
    value: Any
    reason: str
    suggestion: str
    link: str

    def __str__(self) -> str:
        return (
            f"{self.rule} {self.location} = {self.value!r}\n"
            f"    why:        {self.reason}\n"
            f"    what works: {self.suggestion}\n"
            f"    see:        {self.link}"
        )


class RecipeError(ValueError):
    """A recipe that breaks rules. Its text lists them all; ``violations`` has them as data."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations: tuple[Violation, ...] = tuple(violations)
        count = len(self.violations)
        heading = f"the recipe breaks {count} rule{'s' if count > 1 else ''}:"
        super().__init__("\n".join([heading, *(f"  {violation}" for violation in self.violations)]))

    def errors(self) -> list[dict[str, Any]]:
        """The violations as plain dictionaries, in the order they were found."""
        return [violation.model_dump() for violation in self.violations]
