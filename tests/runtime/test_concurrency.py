from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from constructs_optim.runtime.store.json_records import CALLS_A_THREAD, in_threads

THREADS = 4


def test_results_are_returned_in_the_order_of_the_items() -> None:
    second_is_done = threading.Event()

    def function(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(10)
        if item == 1:
            second_is_done.set()
        return item * item

    assert list(in_threads(function, range(100), threads=THREADS)) == [item * item for item in range(100)]


def test_items_are_read_ahead_only_up_to_the_buffer_limit() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(1000):
            taken += 1
            yield item

    for passed_on, _ in enumerate(in_threads(lambda item: item, items(), threads=THREADS)):
        assert taken - passed_on <= THREADS * CALLS_A_THREAD
    assert taken == 1000


def test_a_failed_call_is_raised_and_pending_calls_never_start() -> None:
    called: list[int] = []

    def function(item: int) -> int:
        called.append(item)
        if item == 3:
            raise PermissionError("of item 3")
        return item

    results = in_threads(function, range(10_000), threads=THREADS)
    with pytest.raises(PermissionError, match="of item 3"):
        list(results)
    assert max(called) < 3 + THREADS * CALLS_A_THREAD


def test_closing_the_results_stops_further_calls() -> None:
    called: list[int] = []
    results = in_threads(lambda item: called.append(item) or item, range(10_000), threads=THREADS)
    assert next(results) == 0
    results.close()
    so_far = len(called)
    assert so_far <= THREADS * CALLS_A_THREAD
    assert list(results) == []
    assert len(called) == so_far
