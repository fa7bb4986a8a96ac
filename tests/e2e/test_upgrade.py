"""A stack that release 126e5eb deployed, updated and deleted by this one.

``recorded/release-126e5eb.zip`` is the cloud assembly that the release at 126e5eb synthesized of ``upgraded_app.py``,
with the code of its functions.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim_local.cloud import LocalCloud

from .stack import DeployedStack

pytestmark = pytest.mark.e2e

BUCKET = "released-artifacts"
RELEASE = Path(__file__).parent / "recorded" / "release-126e5eb.zip"
_BY_RELEASE = ("Custom::OptimizationJob", "AWS::SageMaker::Endpoint", "Custom::EndpointEvaluation")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(job_seconds=(1, 2), endpoint_seconds=0.5, time_scale=0.02) as running:
        running.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


@pytest.fixture(scope="module")
def released(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> DeployedStack:
    """The stack as the release deployed it."""
    assembly = tmp_path_factory.mktemp("release")
    with zipfile.ZipFile(RELEASE) as archive:
        archive.extractall(assembly)
    stack = DeployedStack(cloud, tmp_path_factory.mktemp("assemblies"), "Released", BUCKET, assembly=assembly)
    stack.deploy()
    return stack


@pytest.fixture(scope="module")
def upgraded(released: DeployedStack) -> tuple[dict[str, Any], DeployedStack]:
    """The same stack, updated by this release, with what was there before."""
    before = {
        "jobs": released.cloud.jobs(),
        "ids": {name: released.resources[name] for name in _BY_RELEASE},
        "manifest": released.manifest(released.artifact_key),
        "image": released.served_container["Image"],
    }
    stack = released.changed(assembly=None, app="upgraded_app.py")
    stack.deploy()
    return before, stack


def test_the_release_s_records_keep_the_artifact_and_the_endpoint(
    upgraded: tuple[dict[str, Any], DeployedStack],
) -> None:
    before, stack = upgraded
    assert stack.status == "UPDATE_COMPLETE"
    assert {name: stack.resources[name] for name in _BY_RELEASE} == before["ids"]
    assert [job["name"] for job in stack.cloud.jobs()] == [job["name"] for job in before["jobs"]]
    assert stack.manifest(stack.artifact_key) == before["manifest"]
    assert stack.served_container["Image"] == before["image"]


def test_the_operator_s_commands_read_the_release_s_manifest(
    upgraded: tuple[dict[str, Any], DeployedStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, stack = upgraded
    for name, value in stack.cloud.environment().items():
        monkeypatch.setenv(name, value)
    listed = CliRunner().invoke(app, ["artifacts", "list", "--store", BUCKET, "--format", "json"])
    assert listed.exit_code == 0, listed.output
    (artifact,) = json.loads(listed.stdout)["artifacts"]
    assert (artifact["artifact_key"], artifact["state"]) == (stack.artifact_key, "ready")
    assert (artifact["made_at"], artifact["owner_count"]) == (before["manifest"]["ended_at"], 1)


def test_the_stack_s_end_leaves_nothing_but_the_store(upgraded: tuple[dict[str, Any], DeployedStack]) -> None:
    _, stack = upgraded
    key = stack.artifact_key
    stack.destroy()
    client = stack.client("s3")
    kept = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert f"artifacts/{key}/manifest.json" in kept
    claim = json.loads(client.get_object(Bucket=BUCKET, Key=f"artifacts/{key}/claim.json")["Body"].read())
    assert claim["owners"] == []
