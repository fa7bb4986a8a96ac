"""Training jobs: their instances and warm pools, refused requests, and their processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.recipe import Model, Quantization, Recipe, plan
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.training.host import can_have_several

from ..support.iam import refused
from ..support.local_cloud import plain_client
from ..support.processes import marked, none_left
from ..support.waiting import until
from .training import BUCKET, REPORT, Training, channel, request, started

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud whose training jobs have a Python of their own, which says that it is the one."""
    python = tmp_path_factory.mktemp("bin") / "python"
    python.write_text(f'#!/bin/sh\nCHOSEN=yes exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SECRET_OF_MINE", "it is none of a job's")
        running = started(training_path=python.parent)
    yield running
    running.stop()


WARM = {"ResourceConfig": {"KeepAlivePeriodInSeconds": 3600}}


def pool(training: Training) -> dict[str, Any]:
    return training.described()["WarmPoolStatus"]


def test_a_matching_job_reuses_a_warm_pool(cloud: LocalCloud) -> None:
    first = Training(cloud, "", **WARM)
    assert pool(first)["Status"] == "InUse"
    first.completed()
    assert pool(first)["Status"] == "Available"
    with pytest.raises(ClientError, match="warm pool is Available"):
        first.delete()
    cloud.inject("training_never_starts")
    other = Training(cloud, "", ResourceConfig={"InstanceType": "ml.m5.xlarge"})
    assert pool(first)["Status"] == "Available"
    second = Training(cloud, "", **WARM)
    assert pool(first)["Status"] == "Reused"
    assert pool(first)["ReusedByJob"] == second.name
    second.completed()
    assert other.statuses() == ["Starting"], "it waits for instances of its own"
    listed = second.sagemaker.list_training_jobs(WarmPoolStatusEquals="Available")["TrainingJobSummaries"]
    assert [job["TrainingJobName"] for job in listed] == [second.name]
    assert "WarmPoolStatus" not in other.described()


def test_a_warm_pool_terminates_after_its_keep_alive_period(cloud: LocalCloud) -> None:
    training = Training(cloud, "raise SystemExit(1)", ResourceConfig={"KeepAlivePeriodInSeconds": 300})
    training.ended()
    found = until(lambda: pool(training), lambda status: status["Status"] == "Terminated")
    assert found["ResourceRetainedBillableTimeInSeconds"] == 300
    training.delete()
    with pytest.raises(ClientError, match=r"Requested resource not found\."):
        training.described()


TWO = {"InstanceCount": 2}
MEETING = """
    import json, os, pathlib, socket
    root = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
    resources = json.loads((root / "input/config/resourceconfig.json").read_text())
    me, first = resources["current_host"], resources["hosts"][0]
    print("this is", me, flush=True)
    (root / "model" / me).write_text(" ".join(sorted(os.listdir(root / "input/data/parts"))))
    if (root / "input/data/parts/bad").exists():
        (root / "output" / "failure").write_text(f"{me} has a bad part")
        raise SystemExit(2)
    if (root / "input/data/all/fail").exists():
        socket.create_server((me, 0)).accept()
"""


@pytest.mark.skipif(not can_have_several(), reason="only Linux answers on all of 127.0.0.0/8")
@pytest.mark.parametrize("fails", [False, True])
def test_each_instance_runs_the_code_with_its_shard_of_the_data(cloud: LocalCloud, fails: bool) -> None:
    place = f"shares/{uuid.uuid4().hex[:8]}"
    s3 = cloud.client("s3")
    for key in ("parts/a", "parts/b", "parts/bad" if fails else "parts/c", "all/fail" if fails else "all/x"):
        s3.put_object(Bucket=BUCKET, Key=f"{place}/{key}", Body=b"")
    parts = channel("parts", f"s3://{BUCKET}/{place}/parts/", S3DataDistributionType="ShardedByS3Key")
    every = channel("all", f"s3://{BUCKET}/{place}/all/")
    training = Training(cloud, MEETING, ResourceConfig=TWO, more_inputs=[parts, every])
    job = training.ended()
    assert training.log(1) == ["this is 127.0.0.1"]
    if fails:
        # The other would wait for ever.
        assert job["FailureReason"] == "AlgorithmError: 127.0.0.1 has a bad part, exit code: 2"
        assert none_left(f"TRAINING_JOB_NAME={training.name}")
    else:
        assert job["TrainingJobStatus"] == "Completed"
        assert training.log(2) == ["this is 127.0.0.2"]
        assert training.model("127.0.0.1") == "a c"
        assert training.model("127.0.0.2") == "b"


def test_training_code_gets_the_configured_python_and_no_environment_of_the_caller(cloud: LocalCloud) -> None:
    training = Training(cloud, REPORT)
    training.completed()
    environment = json.loads(training.model("report.json"))["environment"]
    assert environment["CHOSEN"] == "yes"
    assert environment["AWS_ENDPOINT_URL"] == cloud.endpoint_url
    assert environment["PIP_NO_INDEX"] == "1"
    assert "SECRET_OF_MINE" not in environment


def test_an_isolated_training_container_has_no_endpoint_and_no_credentials(cloud: LocalCloud) -> None:
    training = Training(cloud, REPORT, EnableNetworkIsolation=True)
    training.completed()
    environment = json.loads(training.model("report.json"))["environment"]
    assert not [name for name in environment if name.startswith("AWS_")]


@pytest.mark.skipif(not can_have_several(), reason="only Linux answers on all of 127.0.0.0/8")
def test_jobs_with_several_instances_run_one_after_another(cloud: LocalCloud) -> None:
    first = Training(cloud, "import time; print('begun', flush=True); time.sleep(60)", ResourceConfig=TWO)
    until(first.log, bool)
    second, alone = Training(cloud, "", ResourceConfig=TWO), Training(cloud, "")
    alone.completed()
    assert second.statuses() == ["Starting"]
    first.stop()
    second.completed()
    assert first.ended()["TrainingJobStatus"] == "Stopped"


STRAYING = """
    import os, subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
    print("it has begun", flush=True)
    time.sleep({seconds})
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize("is_stopped", [False, True])
def test_child_processes_of_training_code_end_with_its_job(cloud: LocalCloud, is_stopped: bool) -> None:
    training = Training(cloud, STRAYING.format(seconds=300 if is_stopped else 0))
    until(training.log, bool)
    if is_stopped:
        training.stop()
    assert none_left(f"TRAINING_JOB_NAME={training.name}")


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize("is_killed", [False, True])
def test_training_processes_end_with_the_local_cloud(is_killed: bool) -> None:
    cloud = started()
    try:
        training = Training(cloud, STRAYING.format(seconds=300))
        until(training.log, bool)
        mark = f"TRAINING_JOB_NAME={training.name}"
        assert len(marked(mark)) >= 3, "its supervisor, it, and what it started"
        if is_killed:
            assert cloud.pid is not None
            os.kill(cloud.pid, signal.SIGKILL)
        else:
            cloud.stop()
        assert none_left(mark)
    finally:
        cloud.stop()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"EnableManagedSpotTraining": True}, "Invalid MaxWaitTimeInSeconds. It must be present"),
        (
            {
                "EnableManagedSpotTraining": True,
                "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 59},
            },
            "greater than or equal to MaxRuntimeInSeconds",
        ),
        ({"StoppingCondition": {"MaxWaitTimeInSeconds": 60}}, "only supported when EnableManagedSpotTraining is set"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 28 * 86_400 + 1}}, "28 days"),
        (
            {
                "EnableManagedSpotTraining": True,
                "StoppingCondition": {"MaxWaitTimeInSeconds": 60},
                "ResourceConfig": {"KeepAlivePeriodInSeconds": 60},
            },
            "KeepAlivePeriodInSeconds is not supported",
        ),
        ({"ResourceConfig": {"InstanceCount": 9}}, "up to"),
        ({"ResourceConfig": {"InstanceCount": 0}}, "at least 1"),
        ({"ResourceConfig": {"InstanceType": "ml.toaster"}}, "enum value set"),
        ({"ResourceConfig": {"KeepAlivePeriodInSeconds": 21_601}}, "less than or equal to 21600"),
        ({"AlgorithmSpecification": {"ContainerEntrypoint": []}}, "valid min length: 1"),
        ({"AlgorithmSpecification": {"AlgorithmName": "other"}}, "exactly one of TrainingImage, AlgorithmName"),
        ({"AlgorithmSpecification": {"TrainingInputMode": "Pipe"}}, "input modes File and FastFile"),
        ({"AlgorithmSpecification": {"ContainerArguments": ["a" * 257]}}, "less than or equal to 256"),
        (
            {"AlgorithmSpecification": {"MetricDefinitions": [{"Name": "m", "Regex": "m=(.*"}]}},
            "The Regex of metric m is not a regular expression",
        ),
        (
            {"AlgorithmSpecification": {"MetricDefinitions": [{"Name": f"m{i}", "Regex": "m"} for i in range(41)]}},
            "less than or equal to 40",
        ),
        ({"HyperParameters": {"key": "v" * 2501}}, "less than or equal to 2500"),
        ({"HyperParameters": {f"key{i}": "" for i in range(101)}}, "less than or equal to 100"),
        ({"Environment": {"KEY": "v" * 513}}, "less than or equal to 512"),
        ({"Environment": {"no-name": ""}}, "regular expression pattern"),
        ({"Environment": {f"KEY{i}": "" for i in range(101)}}, "less than or equal to 100"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": "/mnt/checkpoints"}}, "must be below it"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/../../etc"}}, "must be below it"),
        ({"OutputDataConfig": {"S3OutputPath": "https://example.com/out"}}, "is not an S3 URI"),
        ({"more_inputs": [channel("code", "s3://b/c")]}, "more than one channel named code"),
        ({"TrainingJobName": "under_score"}, "regular expression pattern"),
    ],
)
def test_an_invalid_training_job_request_is_refused_with_the_reason(
    cloud: LocalCloud, changed: dict[str, Any], said: str
) -> None:
    code, message = refused(
        plain_client(cloud, parameter_validation=False).create_training_job, **request("refused", **changed)
    )
    assert code == "ValidationException"
    assert said in message


def test_all_validation_errors_of_a_training_job_are_reported_together(cloud: LocalCloud) -> None:
    algorithm = {"TrainingInputMode": "Pipe", "MetricDefinitions": [{"Name": "m", "Regex": "("}]}
    wrong = request("wrong", AlgorithmSpecification=algorithm, StoppingCondition={"MaxWaitTimeInSeconds": 60})
    message = refused(cloud.client("sagemaker").create_training_job, **wrong)[1]
    for said in ("MaxWaitTimeInSeconds", "Regex of metric m", "channel code has Pipe"):
        assert said in message


def test_training_jobs_are_identified_by_unique_names(cloud: LocalCloud) -> None:
    sagemaker = cloud.client("sagemaker")
    for operation in ("describe_training_job", "stop_training_job", "delete_training_job"):
        found = refused(getattr(sagemaker, operation), TrainingJobName="nobody")
        assert found == ("ValidationException", "Requested resource not found.")
    cloud.inject("training_never_finishes")
    training = Training(cloud, "", Tags=[{"Key": "team", "Value": "chat"}])
    code, message = refused(sagemaker.create_training_job, **training.request)
    assert code == "ResourceInUse"
    assert message.startswith("Training job names must be unique within an AWS account and region")
    with pytest.raises(ClientError, match="stop it first"):
        training.delete()
    arn = training.described()["TrainingJobArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "test"}])
    assert {tag["Key"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]} == {"team", "stage"}
    running = sagemaker.list_training_jobs(NameContains=training.name, StatusEquals="InProgress")
    assert [job["TrainingJobArn"] for job in running["TrainingJobSummaries"]] == [arn]
    assert not sagemaker.list_training_jobs(LastModifiedTimeBefore=0)["TrainingJobSummaries"]
    training.stop()
    training.ended()
    training.delete()
    assert not sagemaker.list_training_jobs(NameContains=training.name)["TrainingJobSummaries"]


def test_simulated_jobs_that_copy_or_quantize_run_no_code_and_write_a_stand_in_model() -> None:
    model = Model.huggingface("google/gemma-4-12B-it", revision="0" * 40)
    planned = plan(Recipe(model, (Quantization.fp8_dynamic(),), "ml.g6.2xlarge", "us-west-2"))
    running = started(simulate_training=True)
    try:
        for each, more in zip(planned.jobs, ("source.json", "quantization_report.json"), strict=True):
            arguments = each.request["AlgorithmSpecification"]["ContainerArguments"]
            specification = {"ContainerEntrypoint": ["/bin/bash", "-c", "exit 1"], "ContainerArguments": arguments}
            job = Training(running, "", AlgorithmSpecification=specification)
            job.completed()
            assert json.loads(job.model("config.json"))["made_by"] == "a local cloud"
            assert job.model(more)
        assert Training(running, "open('model/answer', 'w').write('42')").completed(), "other code runs"
    finally:
        running.stop()
