"""The example of two stacks, deployed: a job that no stack waits for, and an endpoint that refers to its artifact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim_local.cloud import ACCOUNT, LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.shared_stores import manifest_of

BUCKET = f"optimized-artifacts-{ACCOUNT}-us-west-2"


def references(stack: DeployedStack) -> set[str]:
    """The artifacts that the store's records say are referred to."""
    s3 = stack.client("s3")
    found: set[str] = set()
    for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"owners/{ACCOUNT}/").get("Contents", []):
        record = json.loads(s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read())
        if "/Serving/" in record["stack_id"]:
            found |= set(record["keys"])
    return found


def the_endpoint_fails_while_the_job_runs(training: DeployedStack, serving: DeployedStack) -> None:
    name, key = training.outputs["JobName"], training.outputs["ArtifactKey"]
    assert key == training.artifact_key
    output = serving.deploy(fails=True)
    assert serving.status == "ROLLBACK_COMPLETE"
    assert f"the artifact {key} is not in the store {BUCKET}" in serving.reasons
    assert f"the optimization job {name} is making it for the stack Training and is " in serving.reasons
    assert f"constructs-optim jobs watch {name}" in output, "the CLI shows it as well"
    assert references(serving) == set(), "nothing holds on to what is not there"


def the_endpoint_serves_the_artifact(training: DeployedStack, serving: DeployedStack) -> None:
    manifest = manifest_of(training, training.artifact_key)
    serving.deploy()
    assert serving.endpoint["EndpointStatus"] == "InService"
    container = serving.served_container
    (channel,) = container["AdditionalModelDataSources"]
    assert channel["ChannelName"] == "eagle"
    assert channel["S3DataSource"]["S3Uri"] == f"{manifest['model_data_uri']}draft/"
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"].startswith("s3://jumpstart-cache-prod-us-west-2/")
    assert references(serving) == {training.artifact_key}


@pytest.mark.exhaustive
def test_an_endpoint_serves_the_artifact_of_another_stacks_job(cloud: LocalCloud, output: Path) -> None:
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
    assert training.status == "CREATE_COMPLETE", "no stack waits for the job"
    the_endpoint_fails_while_the_job_runs(training, serving)
    cloud.clear_faults()
    jobs = [job["name"] for job in cloud.jobs()]
    the_endpoint_serves_the_artifact(training, serving)
    assert [job["name"] for job in cloud.jobs()] == jobs, "no job of its own"
    assert "no changes" in serving.deploy()
    serving.destroy()
    assert references(serving) == set()
    key = training.artifact_key
    assert training.manifest(key)["artifact_key"] == key
    training.destroy()
    assert training.manifest(key)["artifact_key"] == key, "the store outlives its stack"
