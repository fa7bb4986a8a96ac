"""Waiting for a state of the local cloud: by its clock where that can be advanced, by the machine's where not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

_STEP_SECONDS, _ADVANCE_SECONDS = 0.05, 0.25
State = TypeVar("State")


class Clock(Protocol):
    """A clock of the local cloud, or the cloud in another process."""

    def advance(self, seconds: float) -> None: ...


_clocks: list[Clock] = []


@contextmanager
def by_the_clock(clock: Clock) -> Iterator[None]:
    """Within it, waiting advances a clock instead of sleeping."""
    _clocks.append(clock)
    try:
        yield
    finally:
        _clocks.remove(clock)


def a_moment() -> None:
    """Let a little time pass."""
    for clock in _clocks:
        clock.advance(_ADVANCE_SECONDS)
    if not _clocks:
        time.sleep(_STEP_SECONDS)


def settled(read: Callable[[], State], expected: Callable[[State], bool], seconds: float = 20) -> State:
    """The first state that is expected, or the last one read when the time is up."""
    deadline = time.monotonic() + seconds
    while not expected(state := read()) and time.monotonic() < deadline:
        a_moment()
    return state


def until(read: Callable[[], State], expected: Callable[[State], bool], seconds: float = 20) -> State:
    """The first state that is expected; fails when there is none in time."""
    state = settled(read, expected, seconds)
    assert expected(state), f"still {state} after {seconds:g} s"
    return state
