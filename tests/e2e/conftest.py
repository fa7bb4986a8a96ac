from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.hub_documents import write_document
from ..support.recorded_requests import RECORDER, problems, recorded
from ..support.shared_stores import BUCKET


@pytest.fixture(scope="session", autouse=True)
def requests_of_functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Has the functions of every local cloud write their requests down, and holds them against botocore's models."""
    folder = tmp_path_factory.mktemp("requests")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(RECORDER), prepend=os.pathsep)
        patched.setenv("REQUESTS_OF_FUNCTIONS", str(folder))
        yield folder
    assert problems(recorded(folder)) == set()


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A bootstrapped local cloud with one bucket for artifacts."""
    hub = tmp_path_factory.mktemp("hub")
    # The versions that the examples name, and one that no real hub has.
    write_document(hub / "meta-textgeneration-llama-3-8b", ("2.24.0", "9.0.0"))
    write_document(hub / "meta-textgeneration-llama-3-1-8b", ("2.6.0", "9.0.0"))
    with LocalCloud(job_seconds=(1, 2), hub_folders=[hub]) as running:
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
