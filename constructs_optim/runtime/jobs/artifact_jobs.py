"""The two kinds of jobs that produce artifacts, from the request to the manifest.

Source: Amazon SageMaker API reference, CreateOptimizationJob, CreateTrainingJob and their Describe operations.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..documents import list_in
from ..errors import DeploymentError, InvalidEvent
from ..store.json_records import CHANGED_MEANWHILE, WriteOptions, encryption, get_object
from .sagemaker_jobs import OPTIMIZATION, TRAINING, JobKind

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from ..requests.properties import JobProperties
    from ..store.artifact_store import ArtifactStore
    from .source import ResolvedSource

Job = Mapping[str, Any]


class _Jobs:
    """How to read the descriptions of jobs of both kinds."""

    kind: JobKind
    recorded_members: tuple[str, ...]

    def artifact_uri(self, output: str, name: str) -> str:
        """The S3 prefix, with a slash at its end, of the artifact of the job ``name`` that writes below ``output``."""
        return output

    def span(self, job: Job) -> tuple[dt.datetime, dt.datetime]:
        """When its work started and ended."""
        work = self.kind.name.removesuffix("Job")
        return job.get(f"{work}StartTime") or job["CreationTime"], job.get(f"{work}EndTime") or job["LastModifiedTime"]

    def recorded(self, job: Job) -> dict[str, Any]:
        """The members of the manifest that are specific to the kind."""
        return {"request": {member: job[member] for member in self.recorded_members if member in job}}

    def superfluous_settings(self, job: Job) -> tuple[str, ...]:
        """Settings of serving.properties to remove from the artifact."""
        return ()


class OptimizationJobs(_Jobs):
    """Jobs of SageMaker's inference optimization."""

    kind = OPTIMIZATION
    recorded_members = ("ModelSource", "DeploymentInstanceType", "OptimizationConfigs", "OptimizationEnvironment")

    def request(
        self, name: str, key: str, output: str, props: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """The body of CreateOptimizationJob."""
        members: dict[str, object] = {
            "OptimizationJobName": name,
            "ModelSource": source.model_source,
            "OutputConfig": {"S3OutputLocation": output, **_encryption(props)},
        }
        return _completed(props.request, members, props)

    def output(self, job: Job) -> str:
        """``OutputConfig``."""
        return job["OutputConfig"]["S3OutputLocation"]

    def image(self, job: Job) -> str:
        """The image that the service recommends, or otherwise one that the job ran in."""
        recommended = job.get("OptimizationOutput", {}).get("RecommendedInferenceImage")
        used = (member["Image"] for part in job["OptimizationConfigs"] for member in part.values() if "Image" in member)
        return recommended or next(used, "")

    def superfluous_settings(self, job: Job) -> tuple[str, ...]:
        """``option.quantize`` of quantized weights.

        The container refuses to shard such an artifact ("Sharding & Quantization are mutually exclusive", djl-serving,
        serving/docker/partition/sm_neo_dispatcher.py), and a server with the setting does without the faster Marlin
        kernels ("If you bring a pre-quantized model to LMI, you should not set the option.quantize configuration",
        LMI user guides for vLLM and lmi-dist). A TensorRT-LLM engine keeps it.
        """
        members = {member for part in job["OptimizationConfigs"] for member in part}
        return ("option.quantize",) if members == {"ModelQuantizationConfig"} else ()


class TrainingJobs(_Jobs):
    """Jobs of this library's training code. The attempts at an artifact share their checkpoints."""

    kind = TRAINING
    recorded_members = (
        "AlgorithmSpecification", "Environment", "HyperParameters", "InputDataConfig", "ResourceConfig",
        "StoppingCondition", "EnableManagedSpotTraining",
    )  # fmt: skip

    def artifact_uri(self, output: str, name: str) -> str:
        """SageMaker's prefix of an uncompressed model."""
        return f"{output}{name}/output/model/"

    def request(
        self, name: str, key: str, output: str, props: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """The body of CreateTrainingJob; the model's channel comes before the plan's."""
        model = {**source.data_source, "S3DataDistributionType": "FullyReplicated"}
        model.pop("CompressionType")
        channel = {"ChannelName": props.model_channel, "DataSource": {"S3DataSource": model}}
        events = {
            "LocalPath": "/opt/ml/output/tensorboard",
            "S3OutputPath": f"s3://{store.bucket}/artifacts/{key}/tensorboard/",
        }
        request = dict(props.request)
        members: dict[str, object] = {
            "TrainingJobName": name,
            "InputDataConfig": [channel, *list_in(request.pop("InputDataConfig", None))],
            "OutputDataConfig": {"CompressionType": "NONE", "S3OutputPath": output, **_encryption(props)},
            "CheckpointConfig": {"S3Uri": f"s3://{store.bucket}/checkpoints/{key}/"},
            "TensorBoardOutputConfig": events,
        }
        return _completed(request, members, props)

    def output(self, job: Job) -> str:
        """``OutputDataConfig``."""
        return job["OutputDataConfig"]["S3OutputPath"]

    def image(self, job: Job) -> str:
        """The image that the job ran in."""
        return job["AlgorithmSpecification"].get("TrainingImage", "")

    def recorded(self, job: Job) -> dict[str, Any]:
        """The request, the billed seconds, and the last metrics."""
        recorded = super().recorded(job)
        recorded["metrics"] = {metric["MetricName"]: metric["Value"] for metric in job.get("FinalMetricDataList", ())}
        if "BillableTimeInSeconds" in job:
            recorded["billable_seconds"] = job["BillableTimeInSeconds"]
        return recorded


ArtifactJobs = OptimizationJobs | TrainingJobs
KINDS: Mapping[str, ArtifactJobs] = {jobs.kind.name: jobs for jobs in (OptimizationJobs(), TrainingJobs())}


def _completed(request: Mapping[str, object], members: Mapping[str, object], props: JobProperties) -> dict[str, object]:
    completed = {**members, "RoleArn": props.role_arn, "Tags": props.tags}
    if common := sorted(request.keys() & completed.keys()):
        raise InvalidEvent(f"these members of Request are the handler's to set: {', '.join(common)}")
    return {**request, **completed}


def _encryption(props: JobProperties) -> dict[str, str]:
    return {"KmsKeyId": props.kms_key_arn} if props.kms_key_arn else {}


def remove_setting(s3: S3Client, bucket: str, prefix: str, name: str, kms_key_arn: str | None = None) -> None:
    """Remove a setting from the serving.properties below ``prefix``."""
    key = f"{prefix}serving.properties"
    for _ in range(5):
        stored = get_object(s3, bucket, key)
        if stored is None:
            return
        lines = stored["Body"].read().splitlines(keepends=True)
        remaining = [line for line in lines if line.partition(b"=")[0].strip() != name.encode()]
        if remaining == lines:
            return
        options: WriteOptions = {**encryption(kms_key_arn), "IfMatch": stored["ETag"]}
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=b"".join(remaining), **options)
            return
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") not in CHANGED_MEANWHILE:
                raise
    raise DeploymentError(f"s3://{bucket}/{key} is being changed by others; deploy again")
