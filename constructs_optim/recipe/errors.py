"""Violations of rules, and the error that reports all of them at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from .documentation import page
from .tokens import without_tokens

# The default repr of an object.
_ADDRESS = re.compile(r"<(?P<name>[\w.<>]+) object at 0x[0-9a-f]+>")
IN_PYTHON = " In Python: "
"""Precedes the call in a remedy that begins with an option's text."""
_LONGEST = 200
_MOST_MISTAKES = 5


class Violation(BaseModel, frozen=True):
    """One broken rule.

    Attributes:
        rule: the rule's ID, for example ``OPT004``.
        location: the path in the recipe, for example ``techniques[0].group_size``.
        value: the value at that location.
        reason: why the value does not work.
        suggestion: how to fix it.
        link: the source of the rule.
    """

    rule: str
    location: str
    value: Any
    reason: str
    suggestion: str
    link: str

    @property
    def shown_value(self) -> str:
        """The value as the user writes it, in code."""
        return shown(self.value)

    def __str__(self) -> str:
        return (
            f"{self.rule} {self.location} = {self.shown_value}\n"
            f"    why:        {self.reason}\n"
            f"    what works: {self.suggestion}\n"
            f"    see:        {self.link}"
            + (f"\n                {page('rules', self.rule.lower())}" if self.rule.startswith("OPT") else "")
        )


def shown(value: object) -> str:
    """Return a value as text, without memory addresses, and truncated if it is long."""
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return value.__qualname__
    text = without_tokens(repr(value))
    unnamed = _ADDRESS.fullmatch(text)
    if unnamed is not None:
        return f"an object of {unnamed['name']}"
    return shortened(text)


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text, truncated after ``most`` characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def listed_mistakes(error: ValidationError) -> str:
    """Return the first mistakes of a document in one line, and the number of the others."""
    texts: list[str] = []
    for mistake in error.errors(include_input=False)[:_MOST_MISTAKES]:
        location, message = ".".join(map(str, mistake["loc"])), mistake["msg"].removeprefix("Value error, ")
        texts.append(f"{shortened(location)}: {shortened(message)}" if location else shortened(message))
    if more := error.error_count() - len(texts):
        texts.append(f"and {more:,} more")
    return "; ".join(texts)


class RecipeError(ValueError):
    """A recipe breaks rules. The message lists all violations; ``violations`` has them as data.

    An error with more than ``most`` violations has the first ones; ``more`` is the number of the others, or None if it
    is not known because the checks ended.
    """

    subject: ClassVar[str] = "the recipe breaks"
    noun: ClassVar[str] = "rule"
    most: ClassVar[int | None] = None

    def __init__(self, violations: Iterable[Violation], more: int | None = 0) -> None:
        found = tuple(_without_repeated(violations))
        self.violations: tuple[Violation, ...] = found[: self.most]
        self.more = len(found) - len(self.violations) + more if more is not None else None
        count = f"more than {len(self.violations)}" if self.more is None else f"{len(self.violations) + self.more:,}"
        heading = f"{self.subject} {count} {self.noun}{'s' if count != '1' else ''}:"
        rest = ["  and more"] if self.more is None else [f"  and {self.more:,} more"] if self.more else []
        super().__init__("\n".join([heading, *(f"  {violation}" for violation in self.violations), *rest]))


def _without_repeated(violations: Iterable[Violation]) -> Iterator[Violation]:
    # A file can have thousands of mistakes, so each is compared only with those that differ in nothing but the value.
    known: dict[tuple[str, ...], list[object]] = {}
    for each in violations:
        values = known.setdefault((each.rule, each.location, each.reason, each.suggestion, each.link), [])
        if each.value not in values:
            values.append(each.value)
            yield each


@dataclass(frozen=True)
class Advice:
    """A warning about a valid but questionable setting. You can acknowledge it by its ID."""

    id: str
    message: str


def close_matches(name: object, names: Iterable[str]) -> list[str]:
    """Return up to four of ``names`` similar to ``name``, closest first.

    If some differ only in leading zeros of numbers or in case, only these: ``OPT023`` for ``opt23``.
    """
    given, known = str(name).strip().lower()[:128], list(names)
    plain = _without_leading_zeros(given)
    same = [each for each in known if _without_leading_zeros(each.lower()) == plain]
    lowered = {each.lower(): each for each in known}
    return same[:4] or [lowered[each] for each in difflib.get_close_matches(given, lowered, n=4, cutoff=0.6)]


def _without_leading_zeros(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", name)


def did_you_mean(name: object, names: Iterable[str], otherwise: str) -> str:
    """Return a question that lists names similar to ``name``, or ``otherwise`` if no name is similar."""
    near = close_matches(name, names)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
