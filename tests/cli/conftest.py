from __future__ import annotations

import pytest

# Stores on a local cloud of the commands' own.
from ..operations.conftest import cloud, store

__all__ = ["cloud", "store"]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "220")
