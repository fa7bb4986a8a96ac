from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.in_process import InProcessCloud
from ..support.local_cloud import BUCKET, Answers
from ..support.waiting import by_the_clock


@pytest.fixture(scope="session")
def cloud() -> Iterator[LocalCloud]:
    """A local cloud in which jobs and deployments take a fraction of a second."""
    with LocalCloud(job_seconds=(0.3, 0.3), endpoint_seconds=0.2) as running:
        running.client("s3").create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        with by_the_clock(running):
            yield running


@pytest.fixture(scope="module")
def brisk() -> Iterator[LocalCloud]:
    """A local cloud in which a thousand seconds of a deployment or a policy are one; one per test file."""
    with LocalCloud(job_seconds=(0.3, 0.3), endpoint_seconds=0.1, time_scale=0.001) as running:
        yield running


@pytest.fixture(scope="module")
def in_process() -> Iterator[InProcessCloud]:
    """SageMaker in this process, where waiting advances a clock; one per test file."""
    cloud = InProcessCloud()
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    with by_the_clock(cloud.clock):
        yield cloud


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
def answers(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    cloud.client("s3").put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"weights")
    cloud.client("s3").put_object(Bucket=BUCKET, Key="drafts/one/model.safetensors", Body=b"draft")
    made = Answers()
    yield made
    made.stop()
