"""Artifact stores in every state an operator encounters, written by the runtime's code on the local cloud."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from typing import Any

from constructs_optim.runtime.handlers import job_watcher
from constructs_optim.runtime.jobs.sagemaker_jobs import TRAINING, SageMakerJobs, job_name
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim, Owner
from constructs_optim.runtime.store.owner_records import OwnerRecords
from constructs_optim_local.cloud import LocalCloud

from .local_cloud import ROLE
from .waiting import until

ACCOUNT = "000000000000"
_DESCRIPTION = {"Model": "meta-textgeneration-llama-2-70b 4.0.0", "Techniques": ["AWQ INT4 (group size 128)"]}
_numbers = itertools.count()


@functools.cache
def client(cloud: LocalCloud, service: str) -> Any:
    """A cached client of the cloud: creating one parses the whole service model."""
    return cloud.client(service)


def owner(stack: str = "Chat", logical_id: str = "Llama70BJob", account: str = ACCOUNT) -> Owner:
    """An owner in a stack that does not exist in CloudFormation."""
    return Owner(f"arn:aws:cloudformation:us-west-2:{account}:stack/{stack}/1234", logical_id)


def artifact_key(seed: object) -> str:
    return hashlib.sha256(str(seed).encode()).hexdigest()


class Store:
    """A separate store: a new bucket, and the jobs that write to it."""

    def __init__(self, cloud: LocalCloud, bucket: str | None = None) -> None:
        self.cloud = cloud
        self.bucket = bucket or f"store-{next(_numbers)}"
        self.s3, self.sagemaker = client(cloud, "s3"), client(cloud, "sagemaker")
        self.s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": cloud.region})
        self.records = ArtifactStore(self.s3, self.bucket)

    def share(self, account: str) -> None:
        """Let another account read artifacts and write its references, as ``share_with_account`` does."""
        own = "owners/${aws:PrincipalAccount}/*"
        bucket = f"arn:aws:s3:::{self.bucket}"
        listing = {"Condition": {"StringLike": {"s3:prefix": ["artifacts/*", "checkpoints/*", own]}}}
        statements = [
            {"Action": "s3:ListBucket", "Resource": bucket, **listing},
            {"Action": ["s3:GetBucketLocation", "s3:GetObject"], "Resource": [bucket, f"{bucket}/artifacts/*"]},
            {"Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"{bucket}/{own}"},
        ]
        named = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}}
        policy = {"Version": "2012-10-17", "Statement": [{**named, **statement} for statement in statements]}
        self.s3.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps(policy))

    def refer(self, key: str, by: Owner) -> None:
        """Record an owner's reference to an artifact by its key."""
        records = OwnerRecords(self.s3, self.bucket)
        records.begin(by, "1")
        records.refer(by, "1", key)

    def claimed(self, key: str, by: Owner) -> Claim:
        return self.records.join(
            key, by, source={"identity": "hub:SageMakerPublicHub/llama@1"}, description=_DESCRIPTION
        )

    def job(self, key: str, attempt: int = 1, **changed: Any) -> str:
        """Start the job of an attempt; returns its name."""
        name = job_name(self.bucket, key, attempt)
        config = {"Image": "1.dkr.ecr.us-west-2.amazonaws.com/lmi:1", "OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}}
        request = {
            "OptimizationJobName": name,
            "RoleArn": ROLE,
            "ModelSource": {"S3": {"S3Uri": "s3://models/llama/"}},
            "DeploymentInstanceType": "ml.g5.12xlarge",
            "OptimizationConfigs": [{"ModelQuantizationConfig": config}],
            "OutputConfig": {"S3OutputLocation": self.records.model_uri(key, attempt)},
            "StoppingCondition": {"MaxRuntimeInSeconds": 36_000},
            **changed,
        }
        assert SageMakerJobs(self.sagemaker).create(request)
        return name

    def training(self, key: str, attempt: int = 1) -> str:
        """Start a training job of the attempt that does not end by itself; returns its name."""
        name = job_name(self.bucket, key, attempt)
        self.put("models/llama/model.safetensors", b"weights")
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{self.bucket}/models/llama/"}
        request = {
            "TrainingJobName": name,
            "RoleArn": ROLE,
            "AlgorithmSpecification": {
                "ContainerEntrypoint": ["sleep", "600"],
                "TrainingImage": "1.dkr.ecr.us-west-2.amazonaws.com/pytorch:1",
                "TrainingInputMode": "File",
            },
            "InputDataConfig": [{"ChannelName": "model", "DataSource": {"S3DataSource": source}}],
            "OutputDataConfig": {"S3OutputPath": self.records.model_uri(key, attempt), "CompressionType": "NONE"},
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        }
        assert SageMakerJobs(self.sagemaker, TRAINING).create(request)
        return name

    def ended(self, key: str, attempt: int = 1) -> dict[str, Any]:
        """Wait for an attempt's job to end, and let the watcher of its account poll it."""
        name = job_name(self.bucket, key, attempt)
        job = until(
            lambda: self.sagemaker.describe_optimization_job(OptimizationJobName=name),
            lambda job: job["OptimizationJobStatus"] in ("COMPLETED", "FAILED", "STOPPED"),
        )
        claim = self.records.claim(key)
        account = claim.maker if claim else ACCOUNT
        event = {"Bucket": self.bucket, "ArtifactKey": key, "Attempt": attempt, "Account": account}
        assert job_watcher.handler.__wrapped__(event, None) == {"Done": True}
        return job

    def made(self, key: str, by: Owner | None = None) -> str:
        """An artifact that is ready; without ``by``, its last owner has released it."""
        claim = self.claimed(key, by or owner())
        self.job(key, claim.attempt)
        self.ended(key, claim.attempt)
        if by is None:
            self.records.leave(key, owner(), finished=True)
        return key

    def running(self, key: str, by: Owner | None = None) -> str:
        """An artifact whose job is in progress and does not end; without ``by``, no stack owns it."""
        self.cloud.inject("job_never_finishes")
        claim = self.claimed(key, by or owner())
        name = self.job(key, claim.attempt)
        until(
            lambda: self.sagemaker.describe_optimization_job(OptimizationJobName=name)["OptimizationJobStatus"],
            lambda status: status == "INPROGRESS",
        )
        if by is None:
            self.records.leave(key, owner(), finished=False)
        return name

    def put(self, name: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=name, Body=body)

    def delete(self, name: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=name)

    def names(self) -> list[str]:
        return [item["Key"] for item in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]
