"""Fixtures of the tests that look at artifact stores as an operator does, for the conftest of a folder to import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from constructs_optim_local.cloud import LocalCloud

from .operator_stores import Store
from .waiting import by_the_clock


@pytest.fixture(scope="session")
def cloud() -> Iterator[LocalCloud]:
    """A local cloud in which jobs and deployments take a fraction of a second."""
    with LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.2) as running, by_the_clock(running):
        yield running


@pytest.fixture
def store(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An empty store; AWS clients made from the environment reach its cloud."""
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    yield Store(cloud)
    cloud.clear_faults()
