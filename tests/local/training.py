"""A training job of a local cloud that runs custom code."""

from __future__ import annotations

import textwrap
import uuid
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim_local.cloud import ACCOUNT, LocalCloud

from ..support.local_cloud import ROLE
from ..support.waiting import until

BUCKET = "training"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-cpu-py312"


def started(**settings: Any) -> LocalCloud:
    """A local cloud with a bucket, in which an hour of a warm pool is 3.6 seconds, and code has two seconds to end."""
    cloud = LocalCloud(job_seconds=(0.05, 0.05), time_scale=0.001, training_stop_seconds=2, **settings).start()
    made = {"LocationConstraint": cloud.region}
    cloud.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=made)
    return cloud


def request(name: str, **changed: Any) -> dict[str, Any]:
    """A job that runs ``code/main.py`` of a separate channel; ``channels`` maps further names to URIs."""
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
    inputs = [channel(given, uri) for given, uri in channels.items()] + changed.pop("more_inputs", [])
    return {"TrainingJobName": name, "RoleArn": ROLE, "InputDataConfig": inputs, **merged, **changed}


def channel(name: str, uri: str, **source: str) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri, **source}}}


class Training:
    """A job of the local cloud that runs custom code."""

    def __init__(self, cloud: LocalCloud, code: str, *, account: str = ACCOUNT, **changed: Any) -> None:
        self.name, self._cloud, self._account = f"job-{uuid.uuid4().hex[:8]}", cloud, account
        self.sagemaker, self.s3 = cloud.client("sagemaker", account), cloud.client("s3")
        self.put(f"code/{self.name}/main.py", textwrap.dedent(code))
        self.request = request(self.name, **changed)
        self.sagemaker.create_training_job(**self.request)
        self.checkpoints = ""

    def stop(self) -> None:
        self.sagemaker.stop_training_job(TrainingJobName=self.name)

    def put(self, key: str, content: str) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content.encode())

    def delete(self) -> None:
        self.sagemaker.delete_training_job(TrainingJobName=self.name)

    def described(self) -> dict[str, Any]:
        return self.sagemaker.describe_training_job(TrainingJobName=self.name)

    def ended(self) -> dict[str, Any]:
        return until(self.described, lambda job: job["TrainingJobStatus"] in ("Completed", "Failed", "Stopped"))

    def completed(self) -> dict[str, Any]:
        job = self.ended()
        assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), self.log())
        return job

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
        logs = self._cloud.client("logs", self._account)
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
