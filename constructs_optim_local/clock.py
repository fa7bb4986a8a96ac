"""The clock of a local cloud, which a test can advance instead of waiting."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable

_LONGEST_ADVANCE_SECONDS = 10 * 365 * 86_400


class Clock:
    """The machine's time plus the sum of all advances. Safe to use from several threads.

    Args:
        runs: whether time passes by itself. If False, only ``advance`` and ``sleep`` move it. Default: True.
    """

    def __init__(self, *, runs: bool = True) -> None:
        self._lock, self._ahead = threading.Lock(), 0.0
        self._frozen = None if runs else (dt.datetime.now(dt.UTC), time.monotonic())
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> dt.datetime:
        """Return the time in UTC."""
        at = dt.datetime.now(dt.UTC) if self._frozen is None else self._frozen[0]
        return at + dt.timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        """Return seconds since a fixed moment, to measure durations."""
        return (time.monotonic() if self._frozen is None else self._frozen[1]) + self._ahead

    def advance(self, seconds: float) -> None:
        """Advance the clock by a number of seconds.

        Raises:
            ValueError: if the number is negative or exceeds ten years.
        """
        if not 0 <= seconds <= _LONGEST_ADVANCE_SECONDS:
            raise ValueError(f"time passes by 0 to {_LONGEST_ADVANCE_SECONDS:,} seconds, not by {seconds!r}")
        with self._lock:
            self._ahead += seconds
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def sleep(self, seconds: float) -> None:
        """Wait. If time does not pass by itself, advance the clock instead."""
        if self._frozen is None:
            time.sleep(seconds)
        else:
            self.advance(seconds)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each advance, so that threads waiting for a time wake up and check it."""
        with self._lock:
            self._listeners.append(listener)
