"""A stack that release 126e5eb deployed, updated and deleted by this one.

``recorded/release-126e5eb.zip`` is the cloud assembly that the release at 126e5eb synthesized of ``upgraded_app.py``,
with the code of its functions.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack

BUCKET = "released-artifacts"
RELEASE = Path(__file__).parent / "recorded" / "release-126e5eb.zip"
# Not the evaluation: the endpoint names a machine image now, so it is another one that is measured.
_BY_RELEASE = ("Custom::OptimizationJob", "AWS::SageMaker::Endpoint")


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(job_seconds=(1, 2), endpoint_seconds=0.5, time_scale=0.02) as running:
        running.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def test_a_stack_of_the_release_is_updated_listed_and_deleted(
    cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembly = tmp_path / "release"
    with zipfile.ZipFile(RELEASE) as archive:
        archive.extractall(assembly)
    released = DeployedStack(cloud, tmp_path, "Released", BUCKET, assembly=assembly)
    released.deploy()
    jobs, image = cloud.jobs(), released.served_container["Image"]
    ids = {name: released.resources[name] for name in _BY_RELEASE}
    manifest = released.manifest(released.artifact_key)

    # The release served the artifact with the image of its job. Its owner keeps that engine, and asks for no newer one.
    name = image.rpartition("/")[2]
    stack = released.changed(assembly=None, app="upgraded_app.py")
    Lock(jobs={"awq": name}, servers={"awq": name}).write(stack.output / LOCK_FILE)
    stack.deploy()
    assert stack.status == "UPDATE_COMPLETE"
    assert {name: stack.resources[name] for name in _BY_RELEASE} == ids
    assert [job["name"] for job in cloud.jobs()] == [job["name"] for job in jobs]
    assert stack.manifest(stack.artifact_key) == manifest
    assert stack.served_container["Image"] == image

    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    listed = CliRunner().invoke(app, ["artifacts", "list", "--store", BUCKET, "--json"])
    assert listed.exit_code == 0, listed.output
    (artifact,) = json.loads(listed.stdout)["artifacts"]
    assert (artifact["artifact_key"], artifact["state"]) == (stack.artifact_key, "ready")
    assert (artifact["made_at"], artifact["owner_count"]) == (manifest["ended_at"], 1)

    key = stack.artifact_key
    stack.destroy()
    client = stack.client("s3")
    kept = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert f"artifacts/{key}/manifest.json" in kept
    claim = json.loads(client.get_object(Bucket=BUCKET, Key=f"artifacts/{key}/claim.json")["Body"].read())
    assert claim["owners"] == []
