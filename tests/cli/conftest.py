from __future__ import annotations

import pytest

from ..support.operator_fixtures import cloud, store

__all__ = ["cloud", "store"]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
