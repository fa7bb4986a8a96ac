from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker import hub as hub_module

from ..support.recorded_requests import RECORDER, problems, recorded
from .stack import DeployedStack

BUCKET = "shared-artifacts"


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


def write_document(folder: Path, versions: Sequence[str]) -> None:
    """The bundled Llama's document with what newer ones have: a draft, and a configuration of its own."""
    (bundled,) = (Path(hub_module.__file__).parent.parent / "data" / "hub").glob(
        "meta-textgeneration-llama-2-70b/*.json"
    )
    document = json.loads(bundled.read_text())
    draft = {
        "ChannelName": "draft_model",
        "Provider": {"Name": "SageMaker", "Classification": "non-gated"},
        "S3DataSource": {"S3Uri": "s3://sagemaker-sd-models-prod-us-west-2/llama/", "S3DataType": "S3Prefix"},
    }
    document |= {
        "InferenceConfigs": {"lmi-optimized": {"ComponentNames": ["lmi-optimized"]}},
        "InferenceConfigComponents": {
            "lmi-optimized": {
                "HostingEcrUri": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.32.0-lmi14.0.0-cu126",
                "HostingInstanceTypeVariants": {"Variants": {}},
                "HostingAdditionalDataSources": {"speculative_decoding": [draft]},
                "InferenceEnvironmentVariables": [
                    {"name": "OPTION_ROLLING_BATCH", "default": "auto", "required_for_model_class": True}
                ],
            }
        },
    }
    folder.mkdir()
    for version in versions:
        (folder / f"{version}.json").write_text(json.dumps(document))


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
