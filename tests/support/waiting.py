"""Waiting for what a local cloud comes to: by its clock where that can be advanced, by the machine's where not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_STEP_SECONDS, _ADVANCE_SECONDS = 0.05, 0.25


class Clock(Protocol):
    """A clock of the local cloud, or the cloud in another process."""

    def advance(self, seconds: float) -> None: ...


_clocks: list[Clock] = []


@contextmanager
def by_the_clock(clock: Clock) -> Iterator[None]:
    """Within it, :func:`until` advances a clock instead of sleeping."""
    _clocks.append(clock)
    try:
        yield
    finally:
        _clocks.remove(clock)


def until(look: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float = 20) -> Any:
    """What ``look`` gives once it is ``wanted``; fails when it is not in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if wanted(found):
            return found
        assert time.monotonic() < deadline, f"still {found}"
        for clock in _clocks:
            clock.advance(_ADVANCE_SECONDS)
        if not _clocks:
            time.sleep(_STEP_SECONDS)
