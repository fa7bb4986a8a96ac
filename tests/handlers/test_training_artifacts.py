"""``Custom::TrainingJob`` against the local cloud: artifacts of training jobs, from the request to the manifest.

The code of the jobs is a line of shell here; ``tests/e2e/test_medusa.py`` runs the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.handlers import job_handler, job_watcher
from constructs_optim.runtime.jobs.sagemaker_jobs import TRAINING, SageMakerJobs, job_name
from constructs_optim_local.cloud import LocalCloud

from ..support.handler_clients import Requests
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses, idle_state_machine
from ..support.waiting import until

# Fails the first time, and leaves a checkpoint; goes on from it the second time.
TWICE = (
    "cd $SAGEMAKER_BASE_DIR; if [ -f checkpoints/step-1 ]; then cp checkpoints/step-1 model/weights; "
    "else echo half-way >checkpoints/step-1; echo CUDA out of memory >output/failure; exit 1; fi"
)
ONCE = "cd $SAGEMAKER_BASE_DIR; cat input/data/model/model.safetensors input/data/training/* >model/weights"
FOREVER = "sleep 600"


class Trainings(Requests):
    """Requests for one training job, whose code is ``script``."""

    script = ONCE

    def properties(self, **changed: Any) -> dict[str, Any]:
        data = f"s3://{BUCKET}/data/{self.number}/"
        source = {"S3DataType": "S3Prefix", "S3DataDistributionType": "FullyReplicated", "S3Uri": data}
        return {
            **super().properties(),
            "JobKind": "TrainingJob",
            "ModelChannel": "model",
            "Reads": [{"Kind": "s3", "S3Uri": data}],
            "Request": {
                "AlgorithmSpecification": {
                    "ContainerArguments": [self.script],
                    "ContainerEntrypoint": ["/bin/bash", "-c"],
                    "TrainingImage": "111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:1",
                    "TrainingInputMode": "File",
                },
                "InputDataConfig": [{"ChannelName": "training", "DataSource": {"S3DataSource": source}}],
                "ResourceConfig": {"InstanceCount": "1", "InstanceType": "ml.g5.xlarge", "VolumeSizeInGB": "10"},
                "StoppingCondition": {"MaxRuntimeInSeconds": "3600"},
            },
            **changed,
        }

    def put_data(self, content: str) -> None:
        self.cloud.client("s3").put_object(Bucket=BUCKET, Key=f"data/{self.number}/train.jsonl", Body=content.encode())

    def job(self, key: str, attempt: int = 1) -> dict[str, Any]:
        found = SageMakerJobs(self.cloud.client("sagemaker"), TRAINING).describe(job_name(BUCKET, key, attempt))
        assert found is not None
        return found

    def ended(self, key: str, attempt: int = 1) -> str:
        job = until(
            lambda: self.job(key, attempt), lambda job: job["TrainingJobStatus"] not in ("InProgress", "Stopping")
        )
        return job["TrainingJobStatus"]

    def poll(self, key: str, attempt: int = 1) -> dict[str, Any]:
        """Poll the job; returns the watcher's output."""
        event = {
            "Kind": "TrainingJob",
            "Bucket": BUCKET,
            "ArtifactKey": key,
            "Attempt": attempt,
            "Account": "000000000000",
        }
        return job_watcher.handler(event, LambdaContext(0.5))


@pytest.fixture
def a_training(
    cloud: LocalCloud, responses: Responses, machine: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Trainings]:
    monkeypatch.setattr(custom_resource, "_may_be_too_early", lambda error: False)
    monkeypatch.setattr(job_handler, "client", cloud.client)

    def made(script: str) -> Trainings:
        training = Trainings(cloud, responses, machine)
        training.script = script
        training.put_data("{}")
        return training

    return made


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    return idle_state_machine(cloud, "watcher-of-trainings")


def created(training: Trainings, request: str = "create", **changed: Any) -> str:
    """The artifact's key."""
    answer = training.send("Create", request, **changed)
    assert answer["Status"] == "SUCCESS", answer
    return answer["PhysicalResourceId"]


def test_the_output_of_a_training_job_becomes_the_artifact(a_training: Callable[[str], Trainings]) -> None:
    training = a_training(ONCE)
    key = created(training)
    assert training.ended(key) == "Completed"
    assert training.poll(key) == {"Done": True}
    manifest = training.store.manifest(key)
    assert manifest is not None
    assert [file["name"] for file in manifest["files"]] == ["weights"]
    assert manifest["model_data_uri"] == training.responses.received[-1]["Data"]["ModelDataUri"]
    assert manifest["request"]["ResourceConfig"]["InstanceType"] == "ml.g5.xlarge"
    prefix = manifest["model_data_uri"].removeprefix(f"s3://{BUCKET}/")
    body = training.cloud.client("s3").get_object(Bucket=BUCKET, Key=f"{prefix}weights")["Body"].read()
    assert body == b"weights{}"


def test_an_existing_artifact_is_not_trained_again(a_training: Callable[[str], Trainings]) -> None:
    training = a_training(ONCE)
    key = created(training)
    training.ended(key)
    training.poll(key)
    assert created(training, "again") == key
    assert SageMakerJobs(training.cloud.client("sagemaker"), TRAINING).describe(job_name(BUCKET, key, 2)) is None


def test_changed_training_data_produce_another_artifact(a_training: Callable[[str], Trainings]) -> None:
    training = a_training(ONCE)
    first = created(training)
    training.put_data('{"other": true}')
    assert created(training, "again") != first


def test_an_unrelated_update_keeps_the_artifact_even_if_the_data_changed(
    a_training: Callable[[str], Trainings],
) -> None:
    training = a_training(ONCE)
    key = created(training)
    training.put_data('{"other": true}')
    event = training.event("Update", "update", key, Description={"Model": "renamed"})
    training.deliver({**event, "OldResourceProperties": training.properties()})
    assert training.responses.received[-1]["PhysicalResourceId"] == key


def test_the_next_attempt_resumes_from_the_checkpoints_of_the_failed_one(
    a_training: Callable[[str], Trainings],
) -> None:
    training = a_training(TWICE)
    key = created(training)
    assert training.ended(key) == "Failed"
    training.poll(key)
    claim = training.store.claim(key)
    assert claim is not None
    assert "CUDA out of memory" in claim.failure
    assert created(training, "again") == key
    assert training.ended(key, attempt=2) == "Completed"
    assert training.poll(key, attempt=2) == {"Done": True}
    assert training.store.manifest(key) is not None


def test_deleting_the_only_owner_stops_its_training_job(a_training: Callable[[str], Trainings]) -> None:
    training = a_training(FOREVER)
    key = created(training)
    training.send("Delete", "delete", key)
    assert training.ended(key) == "Stopped"
    assert training.claims() == []


def test_missing_training_data_fail_the_resource_before_a_job_runs(a_training: Callable[[str], Trainings]) -> None:
    training = a_training(ONCE)
    answer = training.send("Create", "create", Reads=[{"Kind": "s3", "S3Uri": f"s3://{BUCKET}/none/"}])
    assert answer["Status"] == "FAILED"
    assert f"no data files under s3://{BUCKET}/none/" in answer["Reason"]
    assert training.claims() == []
