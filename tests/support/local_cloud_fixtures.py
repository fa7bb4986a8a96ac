"""Fixtures of the tests that run against the local cloud, for the conftest of a folder to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from .local_cloud import BUCKET, Responses, shared_client
from .waiting import by_the_clock


@pytest.fixture(scope="session")
def cloud() -> Iterator[LocalCloud]:
    """A local cloud in which jobs and deployments take a fraction of a second."""
    with LocalCloud(job_seconds=(0.3, 0.3), endpoint_seconds=0.2) as running:
        running.client("s3").create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        with by_the_clock(running):
            yield running


@pytest.fixture(scope="session")
def sagemaker(cloud: LocalCloud) -> Any:
    return cloud.client("sagemaker")


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"brisk", "cloud", "in_process"} & set(request.fixturenames):
        request.getfixturevalue(name).clear_faults()
        request.getfixturevalue(name).clear_performances()


@pytest.fixture
def responses(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Responses]:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    shared_client(cloud, "s3").put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"weights")
    shared_client(cloud, "s3").put_object(Bucket=BUCKET, Key="drafts/one/model.safetensors", Body=b"draft")
    made = Responses()
    yield made
    made.stop()
