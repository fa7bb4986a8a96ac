"""The figures of the Lambda functions on the page about observability."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ..support.checkout_programs import loaded

_BENCH = Path(__file__).parents[2] / "bench"
_SHARE = 0.1


@pytest.fixture(scope="module")
def bench() -> Any:
    return loaded(_BENCH / "handlers.py")


def test_the_page_has_the_size_of_the_archive(bench: Any) -> None:
    (size,) = re.findall(r"archive of all functions has (\d+) KB", bench.written())
    assert float(size) == pytest.approx(bench.archive_kb(), rel=_SHARE), "run: python bench/handlers.py --write"


def test_the_page_names_functions_that_exist(bench: Any) -> None:
    named = set(re.findall(r"`(\w+)`", bench.written()))
    assert named
    assert named <= set(bench._FUNCTIONS)


def test_a_target_is_missed_by_a_slow_function_and_by_one_with_much_code_of_its_own(bench: Any) -> None:
    parts = {"botocore": 100.0, "Powertools": 40.0, "pydantic": 150.0, "properties": 4.0, "clients": 80.0}
    cold_starts = {
        "quick_handler": {**parts, "own modules": 40.0, "all": 420.0},
        "slow_handler": {**parts, "own modules": 40.0, "all": 556.0},
        "large_watcher": {**parts, "own modules": 70.0, "all": 450.0},
    }
    assert [target.holds for target in bench.handler_targets(cold_starts)] == [True, False, False]
