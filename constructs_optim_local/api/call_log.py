"""A log of every call of this package's operations, for tests of what a deployment did."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from .error import ApiError

MOST_RECORDS = 200_000
"""The records that a log keeps, the newest: more than the longest test makes, which counts them from the start. A local
cloud that runs for weeks, or takes a load test, has a limited memory.
"""


@dataclass(frozen=True)
class Call:
    """One call; ``outcome`` is OK or the error's code."""

    service: str
    operation: str
    request: Any
    outcome: str
    time: float


class CallLog:
    """The newest calls in the order of arrival; ``most`` is how many."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._lock = threading.Lock()
        self._calls = deque[Call](maxlen=most)

    def add(self, service: str, operation: str, request: Any, outcome: str) -> None:
        """Record a call."""
        with self._lock:
            self._calls.append(Call(service, operation, request, outcome, time.time()))

    @contextmanager
    def recorded(self, service: str, operation: str, request: Any) -> Iterator[None]:
        """Record the call that the ``with`` block makes, and its outcome."""
        try:
            yield
        except ApiError as error:
            self.add(service, operation, request, error.code)
            raise
        self.add(service, operation, request, "OK")

    def to_json(self, operation: str | None = None) -> list[dict[str, Any]]:
        """Return the calls, or those of one operation."""
        with self._lock:
            return [asdict(call) for call in self._calls if operation in (None, call.operation)]
