"""The two kinds of jobs that make artifacts, from the request to the manifest.

Source: Amazon SageMaker API reference, CreateOptimizationJob, CreateTrainingJob and their Describe operations.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..documents import list_in
from ..errors import DeploymentError, InvalidEvent
from ..store.json_records import CHANGED_MEANWHILE, encryption, lacks
from .sagemaker_jobs import OPTIMIZATION, TRAINING

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from ..requests.properties import JobProperties
    from ..store.artifact_store import ArtifactStore
    from .source import ResolvedSource

Job = Mapping[str, Any]
_ATTEMPTS = 5
_TENSORBOARD = "/opt/ml/output/tensorboard"


class OptimizationJobs:
    """Jobs of SageMaker's inference optimization."""

    kind = OPTIMIZATION

    def artifact_uri(self, output: str, name: str) -> str:
        """S3 prefix of the artifact of the job ``name``, which writes below ``output``; it ends in a slash."""
        return output

    def request(
        self, name: str, key: str, output: str, wanted: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """The body of CreateOptimizationJob: the plan's members, model source and output."""
        return _completed(
            wanted.request,
            {
                "OptimizationJobName": name,
                "RoleArn": wanted.role_arn,
                "ModelSource": source.model_source,
                "OutputConfig": {"S3OutputLocation": output, **_encryption(wanted)},
                "Tags": wanted.tags,
            },
        )

    def output(self, job: Job) -> str:
        """S3 prefix that a job writes below."""
        return job["OutputConfig"]["S3OutputLocation"]

    def image(self, job: Job) -> str:
        """The image that the service recommends to serve with; otherwise one that a part of the job ran in."""
        recommended = job.get("OptimizationOutput", {}).get("RecommendedInferenceImage")
        used = (member["Image"] for part in job["OptimizationConfigs"] for member in part.values() if "Image" in member)
        return recommended or next(used, "")

    def failure(self, job: Job) -> str:
        """The reason of its failure."""
        return job.get("FailureReason") or "it was stopped from outside this deployment"

    def span(self, job: Job) -> tuple[dt.datetime, dt.datetime]:
        """The start and the end of its work."""
        began = job.get("OptimizationStartTime") or job["CreationTime"]
        return began, job.get("OptimizationEndTime") or job["LastModifiedTime"]

    def recorded(self, job: Job) -> dict[str, Any]:
        """Its part of the manifest."""
        members = ("ModelSource", "DeploymentInstanceType", "OptimizationConfigs", "OptimizationEnvironment")
        return {"request": {member: job[member] for member in members if member in job}}

    def superfluous_settings(self, job: Job) -> tuple[str, ...]:
        """Settings of serving.properties that hinder the artifact's use: ``option.quantize`` of quantized weights.

        The container refuses to shard such an artifact ("Sharding & Quantization are mutually exclusive", djl-serving,
        serving/docker/partition/sm_neo_dispatcher.py), and a server with the setting does without the faster Marlin
        kernels ("If you bring a pre-quantized model to LMI, you should not set the option.quantize configuration",
        LMI user guides for vLLM and lmi-dist). A TensorRT-LLM engine keeps it.
        """
        members = {member for part in job["OptimizationConfigs"] for member in part}
        return ("option.quantize",) if members == {"ModelQuantizationConfig"} else ()


class TrainingJobs:
    """Jobs of this library's training code.

    Every attempt at an artifact has the same checkpoints: the next one goes on where the last one ended.
    """

    kind = TRAINING

    def artifact_uri(self, output: str, name: str) -> str:
        """SageMaker's prefix of an uncompressed model."""
        return f"{output}{name}/output/model/"

    def request(
        self, name: str, key: str, output: str, wanted: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """The plan's members, the model's channel, output, checkpoints and TensorBoard's files."""
        model = {"S3DataDistributionType": "FullyReplicated", **source.channel_source}
        channel = {"ChannelName": wanted.model_channel, "DataSource": {"S3DataSource": model}}
        request = dict(wanted.request)
        return _completed(
            request,
            {
                "TrainingJobName": name,
                "RoleArn": wanted.role_arn,
                "InputDataConfig": [channel, *list_in(request.pop("InputDataConfig", None))],
                "OutputDataConfig": {"CompressionType": "NONE", "S3OutputPath": output, **_encryption(wanted)},
                "CheckpointConfig": {"S3Uri": store.checkpoints_uri(key)},
                "TensorBoardOutputConfig": {"LocalPath": _TENSORBOARD, "S3OutputPath": store.tensorboard_uri(key)},
                "Tags": wanted.tags,
            },
        )

    def output(self, job: Job) -> str:
        """``OutputDataConfig``."""
        return job["OutputDataConfig"]["S3OutputPath"]

    def image(self, job: Job) -> str:
        """The image it ran in."""
        return job["AlgorithmSpecification"].get("TrainingImage", "")

    def failure(self, job: Job) -> str:
        """``FailureReason``, or the limit that it reached."""
        limits = job.get("StoppingCondition", {})
        match job.get("FailureReason") or job.get("SecondaryStatus"):
            case "MaxRuntimeExceeded":
                return (
                    f"it ran for longer than the {limits.get('MaxRuntimeInSeconds')} s of its max_runtime; another "
                    "one goes on from its last checkpoint"
                )
            case "MaxWaitTimeExceeded":
                return (
                    f"in {limits.get('MaxWaitTimeInSeconds')} s there was not enough spot capacity "
                    "(TrainingCompute(spot_wait_seconds=...)); another one goes on from its last checkpoint"
                )
            case _:
                return job.get("FailureReason") or "it was stopped from outside this deployment"

    def span(self, job: Job) -> tuple[dt.datetime, dt.datetime]:
        """From the first instance to the last."""
        began = job.get("TrainingStartTime") or job["CreationTime"]
        return began, job.get("TrainingEndTime") or job["LastModifiedTime"]

    def recorded(self, job: Job) -> dict[str, Any]:
        """Its request, what it cost, and its last metrics."""
        members = (
            "AlgorithmSpecification", "Environment", "HyperParameters", "InputDataConfig", "ResourceConfig",
            "StoppingCondition", "EnableManagedSpotTraining",
        )  # fmt: skip
        metrics = {metric["MetricName"]: metric["Value"] for metric in job.get("FinalMetricDataList", ())}
        return {
            "request": {member: job[member] for member in members if member in job},
            "metrics": metrics,
            **({"billable_seconds": job["BillableTimeInSeconds"]} if "BillableTimeInSeconds" in job else {}),
        }

    def superfluous_settings(self, job: Job) -> tuple[str, ...]:
        """None."""
        return ()


ArtifactJobs = OptimizationJobs | TrainingJobs
"""Jobs of one kind: their requests, and what becomes of them."""

KINDS: Mapping[str, ArtifactJobs] = {jobs.kind.name: jobs for jobs in (OptimizationJobs(), TrainingJobs())}
"""By the name of their kind."""


def _completed(request: Mapping[str, object], members: Mapping[str, object]) -> dict[str, object]:
    """The request with the handler's own members, none of which a template may set."""
    if common := sorted(request.keys() & members.keys()):
        raise InvalidEvent(f"these members of Request are the handler's to set: {', '.join(common)}")
    return {**request, **members}


def _encryption(wanted: JobProperties) -> dict[str, str]:
    return {"KmsKeyId": wanted.kms_key_arn} if wanted.kms_key_arn else {}


def remove_setting(s3: S3Client, bucket: str, prefix: str, name: str, kms_key_arn: str | None = None) -> None:
    """Take the setting ``name`` out of the file below ``prefix``; nothing happens where there is none.

    May be repeated, and by several at once: of those that see the file with the setting, one writes.

    Raises:
        DeploymentError: when others keep changing the file.
    """
    key = f"{prefix}serving.properties"
    for _ in range(_ATTEMPTS):
        try:
            found = s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if lacks(s3, bucket, key, error):
                return
            raise
        lines = found["Body"].read().splitlines(keepends=True)
        kept = [line for line in lines if line.partition(b"=")[0].strip() != name.encode()]
        if kept == lines:
            return
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=b"".join(kept), IfMatch=found["ETag"], **encryption(kms_key_arn))
            return
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") not in CHANGED_MEANWHILE:
                raise
    raise DeploymentError(f"s3://{bucket}/{key} is being changed by others; deploy again")
