"""Many small requests at once, in threads: what takes the time is the way there and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

CALLS_A_THREAD = 32
"""How many calls a thread has before the results so far are passed on: few enough to hold them all in memory."""


def in_threads(function: Callable[[In], Out], items: Iterable[In], *, threads: int = 8) -> Iterator[Out]:
    """``function`` of each item, in the order of the items. Neither items nor results are held all at once."""
    remaining = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        while batch := list(itertools.islice(remaining, threads * CALLS_A_THREAD)):
            yield from pool.map(function, batch)
