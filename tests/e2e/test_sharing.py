"""The example of two stacks, deployed: a job that no stack waits for, and an endpoint that refers to its artifact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim_local.cloud import ACCOUNT, LocalCloud

from ..support.shared_stores import manifest_of
from .stack import DeployedStack

pytestmark = pytest.mark.e2e

Stacks = tuple[DeployedStack, DeployedStack]
BUCKET = f"optimized-artifacts-{ACCOUNT}-us-west-2"


@pytest.fixture(scope="module")
def stacks(cloud: LocalCloud, output: Path) -> Stacks:
    """Training, deployed while its job runs and runs; and Serving, not deployed yet."""
    training, serving = (
        DeployedStack(
            cloud,
            output,
            name,
            bucket=BUCKET,
            example="eagle_in_two_stacks.py",
            context={"maker": ACCOUNT, "consumer": ACCOUNT},
        )
        for name in ("Training", "Serving")
    )
    cloud.inject("job_never_finishes")
    training.deploy()
    return training, serving


def references(stack: DeployedStack) -> set[str]:
    """The artifacts that the store's records say are referred to."""
    s3 = stack.client("s3")
    found: set[str] = set()
    for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"owners/{ACCOUNT}/").get("Contents", []):
        record = json.loads(s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read())
        if "/Serving/" in record["stack_id"]:
            found |= set(record["keys"])
    return found


def test_an_endpoint_for_heads_that_are_not_there_yet_fails_with_the_job_to_watch(
    stacks: Stacks, cloud: LocalCloud
) -> None:
    training, serving = stacks
    name, key = training.outputs["JobName"], training.outputs["ArtifactKey"]
    assert (training.status, key) == ("CREATE_COMPLETE", training.artifact_key), "no stack waits for the job"
    output = serving.deploy(fails=True)
    assert serving.status == "ROLLBACK_COMPLETE"
    assert f"the artifact {key} is not in the store {BUCKET}" in serving.reasons
    assert f"the optimization job {name} makes it for the stack Training and is " in serving.reasons
    assert f"constructs-optim jobs watch {name}" in output, "the CLI shows it as well"
    assert references(serving) == set(), "nothing holds on to what is not there"


def test_when_the_job_has_ended_the_endpoint_serves_its_heads(stacks: Stacks, cloud: LocalCloud) -> None:
    training, serving = stacks
    jobs = [job["name"] for job in cloud.jobs()]
    manifest = manifest_of(training, training.artifact_key)
    serving.deploy()
    assert serving.endpoint["EndpointStatus"] == "InService"
    container = serving.served_container
    (channel,) = container["AdditionalModelDataSources"]
    assert channel["ChannelName"] == "eagle"
    assert channel["S3DataSource"]["S3Uri"] == f"{manifest['model_data_uri']}draft/"
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"].startswith("s3://jumpstart-cache-prod-us-west-2/")
    assert references(serving) == {training.artifact_key}
    assert [job["name"] for job in cloud.jobs()] == jobs, "no job of its own"


def test_deploying_it_again_changes_nothing(stacks: Stacks) -> None:
    _, serving = stacks
    assert "no changes" in serving.deploy()


def test_destroying_the_endpoint_takes_its_reference_back_and_leaves_the_artifact(stacks: Stacks) -> None:
    training, serving = stacks
    key = training.artifact_key
    serving.destroy()
    assert references(serving) == set()
    assert training.manifest(key)["artifact_key"] == key
    training.destroy()
    assert training.manifest(key)["artifact_key"] == key, "the store outlives its stack"
