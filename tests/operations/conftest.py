from __future__ import annotations

from collections.abc import Iterator

import pytest

from constructs_optim.operations.artifacts import ArtifactInventory
from constructs_optim_local.cloud import LocalCloud

from ..support.waiting import by_the_clock
from .stores import ACCOUNT, Store


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


@pytest.fixture
def inventory(store: Store) -> ArtifactInventory:
    return ArtifactInventory(store.s3, store.sagemaker, store.bucket, account=ACCOUNT)
