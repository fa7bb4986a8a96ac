from __future__ import annotations

from collections.abc import Iterator

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.in_process import InProcessCloud
from ..support.local_cloud import BUCKET
from ..support.local_cloud_fixtures import cloud, no_faults, responses, sagemaker
from ..support.waiting import by_the_clock

__all__ = ["cloud", "no_faults", "responses", "sagemaker"]


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
