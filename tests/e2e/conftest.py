from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from constructs_optim.local.cloud import LocalCloud

from .stack import DeployedStack

BUCKET = "shared-artifacts"


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A bootstrapped local cloud with one bucket for artifacts."""
    with LocalCloud(job_seconds=(1, 2)) as running:
        running.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cloud-assemblies")


@pytest.fixture(scope="session")
def a_stack(cloud: LocalCloud, output: Path) -> Callable[..., DeployedStack]:
    """Makes stacks that share the artifact store."""

    def make(name: str, *, bucket: str = BUCKET, **settings: object) -> DeployedStack:
        return DeployedStack(cloud, output, name, bucket=bucket, **settings)  # type: ignore[arg-type]

    return make


@pytest.fixture(autouse=True)
def no_faults(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.clear_faults()
