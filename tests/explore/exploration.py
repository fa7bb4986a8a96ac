"""Many lives and their violations."""

from __future__ import annotations

import collections
import sys
import time
from dataclasses import dataclass, field

from .actors import Chances
from .binding import bound
from .life import live


@dataclass
class Found:
    """What some lives came to."""

    lives: int = 0
    calls: int = 0
    processor_seconds: float = 0.0
    violations: list[tuple[int, tuple[str, ...]]] = field(default_factory=list[tuple[int, tuple[str, ...]]])
    exempted: list[tuple[int, tuple[str, ...]]] = field(default_factory=list[tuple[int, tuple[str, ...]]])
    happened: collections.Counter[str] = field(default_factory=collections.Counter[str])

    def add(self, other: Found) -> None:
        """Count those of another process as well."""
        self.lives += other.lives
        self.calls += other.calls
        self.processor_seconds += other.processor_seconds
        self.violations += other.violations
        self.exempted += other.exempted
        self.happened += other.happened


def explore(
    first: int,
    step: int,
    calls: int,
    lives: int | None = None,
    *,
    chances: Chances | None = None,
    until: str | None = None,
    trace: bool = False,
) -> Found:
    """Run a life from every ``step``-th seed, until the number of calls or of lives is reached.

    With ``until``, no further than to a violation that has these words.
    """
    found = Found()
    began = time.process_time()
    with bound() as binding:
        seed = first
        while found.calls < calls and (lives is None or found.lives < lives):
            life = live(seed, binding, chances=chances, trace=trace)
            found.lives += 1
            found.calls += life.calls
            found.happened.update(life.happened)
            if life.exempted:
                found.exempted.append((seed, life.exempted))
            if life.violations:
                found.violations.append((seed, life.violations))
                if until and any(until in sentence for sentence in life.violations):
                    break
            if trace:
                sys.stdout.writelines(f"{line}\n" for line in life.lines)
            seed += step
    found.processor_seconds = time.process_time() - began
    return found


@dataclass(frozen=True)
class Work:
    """What one process does: every ``step``-th seed from ``first``."""

    first: int
    step: int
    calls: int
    lives: int | None = None
    trace: bool = False


def explored(work: Work) -> Found:
    """Do it."""
    return explore(work.first, work.step, work.calls, work.lives, trace=work.trace)
