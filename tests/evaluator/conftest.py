from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..support.model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.stop()
