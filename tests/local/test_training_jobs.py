"""Training jobs: real processes, with inputs and outputs in S3, through the real states."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
import textwrap
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.local.cloud import LocalCloud

from .conftest import ROLE, until

BUCKET = "training"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-cpu-py312"


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    """A local cloud in which an hour of a warm pool is 3.6 seconds, and code has two seconds to end."""
    with LocalCloud(job_seconds=(0.05, 0.05), time_scale=0.001, training_stop_seconds=2) as running:
        made = {"LocationConstraint": running.region}
        running.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=made)
        yield running


@pytest.fixture(scope="module")
def sagemaker(cloud: LocalCloud) -> Any:
    return cloud.client("sagemaker")


@pytest.fixture(scope="module")
def s3(cloud: LocalCloud) -> Any:
    return cloud.client("s3")


def request(name: str, **changed: Any) -> dict[str, Any]:
    """A job that runs ``code/main.py`` of a channel of its own; further channels are given by name and URI."""
    merged = {
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python"],
            "ContainerArguments": ["/opt/ml/input/data/code/main.py"],
        },
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out", "CompressionType": "NONE"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }
    for member in merged:
        merged[member] |= changed.pop(member, {})
    channels = {"code": f"s3://{BUCKET}/code/{name}/", **changed.pop("channels", {})}
    inputs = [channel(given, uri) for given, uri in channels.items()]
    return {"TrainingJobName": name, "RoleArn": ROLE, "InputDataConfig": inputs, **merged, **changed}


def channel(name: str, uri: str, **source: str) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri, **source}}}


class Training:
    """A job of the local cloud with code of its own."""

    def __init__(self, cloud: LocalCloud, code: str, **changed: Any) -> None:
        self.name, self._cloud = f"job-{uuid.uuid4().hex[:8]}", cloud
        self.sagemaker, self.s3 = cloud.client("sagemaker"), cloud.client("s3")
        self.put(f"code/{self.name}/main.py", textwrap.dedent(code))
        self.request = request(self.name, **changed)
        self.sagemaker.create_training_job(**self.request)

    def put(self, key: str, content: str) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content.encode())

    def described(self) -> dict[str, Any]:
        return self.sagemaker.describe_training_job(TrainingJobName=self.name)

    def ended(self) -> dict[str, Any]:
        return until(self.described, lambda job: job["TrainingJobStatus"] in ("Completed", "Failed", "Stopped"))

    def completed(self) -> dict[str, Any]:
        job = self.ended()
        assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), self.log())
        return job

    def training(self) -> None:
        """Wait until its code says that it has begun."""
        until(lambda: self.exists(f"out/{self.name}/begun"), bool)

    def exists(self, key: str) -> bool:
        return key in self.keys("")

    def keys(self, prefix: str) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [item["Key"].removeprefix(prefix) for item in found]

    def read(self, key: str) -> str:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()

    def model(self, name: str) -> str:
        return self.read(f"out/{self.name}/output/model/{name}")

    def statuses(self) -> list[str]:
        return [entry["Status"] for entry in self.described()["SecondaryStatusTransitions"]]

    def log(self, host: int = 1) -> list[str]:
        logs = self._cloud.client("logs")
        group, prefix = "/aws/sagemaker/TrainingJobs", f"{self.name}/algo-{host}-"
        try:
            streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=prefix)["logStreams"]
        except ClientError:
            return []
        names = [stream["logStreamName"] for stream in streams]
        return [
            event["message"]
            for name in names
            for event in logs.get_log_events(logGroupName=group, logStreamName=name, startFromHead=True)["events"]
        ]


REPORT = """
    import json, os, pathlib, sys
    root = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
    found = {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}
    told = {"files": found, "environment": dict(os.environ), "arguments": sys.argv[1:], "cwd": os.getcwd()}
    (root / "model" / "report.json").write_text(json.dumps(told))
"""


def test_a_job_goes_through_its_states_and_its_code_really_runs(cloud: LocalCloud) -> None:
    training = Training(cloud, "open('model/answer', 'w').write(str(6 * 7))")
    job = training.completed()
    assert training.model("answer") == "42"
    assert training.statuses() == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert job["ModelArtifacts"] == {"S3ModelArtifacts": f"s3://{BUCKET}/out/{training.name}/output/model"}
    assert job["CreationTime"] < job["TrainingStartTime"] < job["TrainingEndTime"]
    assert job["TrainingTimeInSeconds"] == job["BillableTimeInSeconds"] > 0
    transitions = job["SecondaryStatusTransitions"]
    assert all(one["EndTime"] == next_["StartTime"] for one, next_ in itertools.pairwise(transitions))


def test_code_finds_its_inputs_where_sagemaker_puts_them(cloud: LocalCloud, s3: Any) -> None:
    for key in ("data/many/a.txt", "data/many/deep/b.txt", "data/one.txt", "data/many/"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    training = Training(
        cloud,
        REPORT,
        HyperParameters={"epochs": "3"},
        Environment={"COLOUR": "blue", "WHERE": "/opt/ml/model"},
        AlgorithmSpecification={
            "ContainerArguments": ["/opt/ml/input/data/code/main.py", "--out=/opt/ml/model", "/opt/mlx"]
        },
        channels={"many": f"s3://{BUCKET}/data/many", "one": f"s3://{BUCKET}/data/one.txt"},
    )
    training.completed()
    report = json.loads(training.model("report.json"))
    files, environment = report["files"], report["environment"]
    root = environment["SAGEMAKER_BASE_DIR"]
    data = {name: text for name, text in files.items() if name.startswith("input/data") and "code" not in name}
    assert data == {
        "input/data/many/a.txt": "data/many/a.txt",
        "input/data/many/deep/b.txt": "data/many/deep/b.txt",
        "input/data/one/one.txt": "data/one.txt",
    }
    assert json.loads(files["input/config/hyperparameters.json"]) == {"epochs": "3"}
    resources = json.loads(files["input/config/resourceconfig.json"])
    assert (resources["hosts"], resources["current_host"]) == (["algo-1"], "algo-1")
    assert resources["current_instance_type"] == "ml.m5.large"
    assert set(json.loads(files["input/config/inputdataconfig.json"])) == {"code", "many", "one"}
    assert report["arguments"] == [f"--out={root}/model", "/opt/mlx"]
    assert (environment["COLOUR"], environment["WHERE"]) == ("blue", f"{root}/model")
    assert environment["TRAINING_JOB_NAME"] == training.name
    assert report["cwd"] == root


def test_a_model_is_an_archive_unless_asked_otherwise(cloud: LocalCloud, s3: Any) -> None:
    code = "import os; os.makedirs('model/deep'); open('model/deep/w', 'w').write('weights')"
    training = Training(cloud, code, OutputDataConfig={"CompressionType": "GZIP"})
    job = training.completed()
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{BUCKET}/out/{training.name}/output/model.tar.gz"
    archive = s3.get_object(Bucket=BUCKET, Key=f"out/{training.name}/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        assert packed.getnames() == ["deep/w"]
