"""Many small requests at once, in threads: what takes the time is the way there and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

CALLS_A_THREAD = 8
"""How many items are taken ahead for each thread: enough that none waits for the slowest call, few enough to hold."""


def in_threads(function: Callable[[In], Out], items: Iterable[In], *, threads: int = 8) -> Generator[Out]:
    """``function`` of each item, in the order of the items. At most ``threads * CALLS_A_THREAD`` of them are held."""
    under_way: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                under_way.append(pool.submit(function, item))
                if len(under_way) >= threads * CALLS_A_THREAD:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for call in under_way:
                call.cancel()
