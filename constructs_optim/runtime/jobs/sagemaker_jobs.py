"""SageMaker jobs: their kinds, the requests and outputs of jobs that make artifacts, and idempotent calls.

Source: Amazon SageMaker API reference, CreateOptimizationJob, CreateTrainingJob, and their Describe operations;
RetryStrategy (SageMaker retries a job that failed with InternalServerError, and no other); developer guide, "How Amazon
SageMaker AI Signals Algorithm Success and Failure" (AlgorithmError is the failure of the job's code).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from ..documents import is_list, is_object, list_in
from ..errors import DeploymentError, InvalidEvent, code_of, message_of
from ..store.json_records import CHANGED_MEANWHILE, WriteOptions, encryption, get_object

if TYPE_CHECKING:
    from botocore.model import StructureShape
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient

    from ..requests.properties import JobProperties
    from ..store.artifact_store import ArtifactStore
    from .source import ResolvedSource

Job = Mapping[str, Any]

_INTEGER = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
REPEATS = "another job with the same input fails in the same way"
"""Part of the failure of a job whose cause is in its input or its code."""
# TEMPORARY in training/errors.py; and what S3 and its connections answer to SageMaker's own step, in its words.
_TEMPORARY = re.compile(
    r"AlgorithmError: temporary failure: |ClientError.*(?:\bSlow ?Down\b|[Rr]educe your request rate|Throttl|"
    r"TooManyRequests|RequestLimitExceeded|RequestTimeout|Service ?Unavailable|Internal ?(?:Server ?)?Error|"
    r"(?i:connection (?:was )?(?:reset|closed|aborted)))",
    re.DOTALL,
)
_AGAIN = "Deploy again to run another job"
RUNNING = ("STARTING", "INPROGRESS")
"""The statuses, in capitals, in which a job can be stopped."""


@dataclass(frozen=True)
class JobKind:
    """A kind of job: its name in operations and members. Optimization jobs have statuses in capitals."""

    name: str
    title: str

    @property
    def name_member(self) -> str:
        """The member that holds the job's name in requests and responses."""
        return f"{self.name}Name"

    def status(self, job: Job) -> str:
        """Return the status in a job's description."""
        return job[f"{self.name}Status"]

    def has_status(self, job: Job, *statuses: str) -> bool:
        """Return whether a job's description has one of these statuses, given in capitals."""
        return self.status(job).upper() in statuses

    def failure_reason(self, job: Job) -> str:
        """Return why a job failed or was stopped."""
        return job.get("FailureReason") or "it was stopped from outside this deployment"

    def log_of(self, job: Job) -> str:
        """Return where the job's log is, as part of a sentence; empty if AWS does not document it."""
        return ""

    def next_step(self, job: Job) -> str:
        """Return what to do after a failed or stopped job, as a sentence."""
        reason, log = str(job.get("FailureReason", "")), self.log_of(job)
        if _TEMPORARY.match(reason):
            return _AGAIN
        if reason.startswith("ClientError"):
            # Also of what no template has: a bucket's policy, a key, or a file that is not there yet.
            return f"Remove the cause{f', see {log}' if log else ''}, then deploy again"
        if not reason.startswith("AlgorithmError"):
            return _AGAIN
        cause = f"find the cause in {log}" if log else "remove the cause"
        return f"Deploying again does not help, because {REPEATS}: {cause}, then deploy the change"


class ArtifactJobKind(JobKind, ABC):
    """A kind of job that makes an artifact: its request, and the parts of its description for the manifest."""

    recorded_members: ClassVar[tuple[str, ...]]

    @abstractmethod
    def request(
        self, name: str, key: str, output: str, props: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """Return the body of the operation that creates the job ``name``, which writes below ``output``."""

    @abstractmethod
    def output(self, job: Job) -> str:
        """Return the S3 prefix below which a job writes."""

    @abstractmethod
    def image(self, job: Job) -> str:
        """Return the container image for serving the artifact; empty if the description has none."""

    def artifact_uri(self, output: str, name: str) -> str:
        """Return the S3 prefix, with a final slash, of the artifact that the job ``name`` writes below ``output``."""
        return output

    def span(self, job: Job) -> tuple[dt.datetime, dt.datetime]:
        """Return when the job's work started and ended."""
        work = self.name.removesuffix("Job")
        return job.get(f"{work}StartTime") or job["CreationTime"], job.get(f"{work}EndTime") or job["LastModifiedTime"]

    def recorded(self, job: Job) -> dict[str, Any]:
        """Return the manifest's members that are specific to this kind."""
        return {"request": {member: job[member] for member in self.recorded_members if member in job}}

    def superfluous_settings(self, job: Job) -> tuple[str, ...]:
        """Return settings to remove from the artifact's serving.properties."""
        return ()


class OptimizationJobKind(ArtifactJobKind):
    """SageMaker's inference optimization jobs."""

    recorded_members = ("ModelSource", "DeploymentInstanceType", "OptimizationConfigs", "OptimizationEnvironment")

    def request(
        self, name: str, key: str, output: str, props: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """Return the body of CreateOptimizationJob."""
        members: dict[str, object] = {
            "OptimizationJobName": name,
            "ModelSource": source.model_source,
            "OutputConfig": {"S3OutputLocation": output, **_encryption(props)},
        }
        return _completed(props.request, members, props)

    def output(self, job: Job) -> str:
        """Return the prefix in ``OutputConfig``."""
        return job["OutputConfig"]["S3OutputLocation"]

    def image(self, job: Job) -> str:
        """Return the image that the service recommends, or else one in which the job ran."""
        recommended = job.get("OptimizationOutput", {}).get("RecommendedInferenceImage")
        used = (member["Image"] for part in job["OptimizationConfigs"] for member in part.values() if "Image" in member)
        return recommended or next(used, "")

    def superfluous_settings(self, job: Job) -> tuple[str, ...]:
        """Return ``option.quantize`` for quantized weights, except those of a TensorRT-LLM engine.

        With this setting, the container refuses to shard the artifact ("Sharding & Quantization are mutually
        exclusive", djl-serving, serving/docker/partition/sm_neo_dispatcher.py), and a server does not use the faster
        Marlin kernels ("If you bring a pre-quantized model to LMI, you should not set the option.quantize
        configuration", LMI user guides for vLLM and lmi-dist).
        """
        members = {member for part in job["OptimizationConfigs"] for member in part}
        return ("option.quantize",) if members == {"ModelQuantizationConfig"} else ()


class TrainingJobKind(ArtifactJobKind):
    """Jobs that run this library's training code. The attempts at an artifact share checkpoints."""

    recorded_members = (
        "AlgorithmSpecification", "Environment", "HyperParameters", "InputDataConfig", "ResourceConfig",
        "StoppingCondition", "EnableManagedSpotTraining",
    )  # fmt: skip

    def artifact_uri(self, output: str, name: str) -> str:
        """Return SageMaker's prefix for an uncompressed model."""
        return f"{output}{name}/output/model/"

    def request(
        self, name: str, key: str, output: str, props: JobProperties, source: ResolvedSource, store: ArtifactStore
    ) -> dict[str, object]:
        """Return the body of CreateTrainingJob; the model's channel, if any, precedes the plan's channels."""
        model = {**source.data_source, "S3DataDistributionType": "FullyReplicated"}
        model.pop("CompressionType")
        channel = {"ChannelName": props.model_channel, "DataSource": {"S3DataSource": model}}
        channels = [channel] if props.model_channel is not None else []
        events = {
            "LocalPath": "/opt/ml/output/tensorboard",
            "S3OutputPath": f"s3://{store.bucket}/artifacts/{key}/tensorboard/",
        }
        request = dict(props.request)
        members: dict[str, object] = {
            "TrainingJobName": name,
            "InputDataConfig": [*channels, *list_in(request.pop("InputDataConfig", None))],
            "OutputDataConfig": {"CompressionType": "NONE", "S3OutputPath": output, **_encryption(props)},
            "CheckpointConfig": {"S3Uri": f"s3://{store.bucket}/checkpoints/{key}/"},
            "TensorBoardOutputConfig": events,
        }
        return _completed(request, members, props)

    def output(self, job: Job) -> str:
        """Return the prefix in ``OutputDataConfig``."""
        return job["OutputDataConfig"]["S3OutputPath"]

    def image(self, job: Job) -> str:
        """Return the image in which the job ran."""
        return job["AlgorithmSpecification"].get("TrainingImage", "")

    def failure_reason(self, job: Job) -> str:
        """Return ``FailureReason``, or the limit that the job reached."""
        limits = job.get("StoppingCondition", {})
        match job.get("FailureReason") or job.get("SecondaryStatus"):
            case "MaxRuntimeExceeded":
                return (
                    f"it ran for longer than the {limits.get('MaxRuntimeInSeconds')} s of its max_runtime; the next "
                    "job continues from its last checkpoint"
                )
            case "MaxWaitTimeExceeded":
                return (
                    f"there was not enough spot capacity within {limits.get('MaxWaitTimeInSeconds')} s "
                    "(TrainingCompute(spot_wait_seconds=...)); the next job continues from its last checkpoint"
                )
            case _:
                return super().failure_reason(job)

    def log_of(self, job: Job) -> str:
        """Return the log group, and the beginning of the streams' names."""
        return f"the log group /aws/sagemaker/TrainingJobs, streams {job['TrainingJobName']}/..."

    def recorded(self, job: Job) -> dict[str, Any]:
        """Return the request, the billed seconds, and the last metrics."""
        recorded = super().recorded(job)
        recorded["metrics"] = {metric["MetricName"]: metric["Value"] for metric in job.get("FinalMetricDataList", ())}
        if "BillableTimeInSeconds" in job:
            recorded["billable_seconds"] = job["BillableTimeInSeconds"]
        return recorded


def _completed(request: Mapping[str, object], members: Mapping[str, object], props: JobProperties) -> dict[str, object]:
    completed = {**members, "RoleArn": props.role_arn, "Tags": props.tags}
    if common := sorted(request.keys() & completed.keys()):
        raise InvalidEvent(f"only the handler may set these members of Request: {', '.join(common)}")
    return {**request, **completed}


def _encryption(props: JobProperties) -> dict[str, str]:
    return {"KmsKeyId": props.kms_key_arn} if props.kms_key_arn else {}


OPTIMIZATION = OptimizationJobKind("OptimizationJob", "optimization job")
TRAINING = TrainingJobKind("TrainingJob", "training job")
BENCHMARK = JobKind("AIBenchmarkJob", "benchmark job")
RECOMMENDATION = JobKind("AIRecommendationJob", "recommendation job")
ARTIFACT_JOBS: Mapping[str, ArtifactJobKind] = {kind.name: kind for kind in (OPTIMIZATION, TRAINING)}


def job_name(bucket: str, artifact_key: str, attempt: int) -> str:
    """Return the name of an attempt's job, which SageMaker creates only once."""
    # Two stores in an account may have the same artifact.
    store = hashlib.sha256(bucket.encode()).hexdigest()[:8]
    return f"optim-{artifact_key[:32]}-{store}-{attempt}"


class SageMakerJobs:
    """A SageMaker client for jobs of one kind."""

    def __init__(self, sagemaker: SageMakerClient, kind: JobKind = OPTIMIZATION) -> None:
        self._sagemaker = sagemaker
        self.kind = kind

    def describe(self, name: str) -> dict[str, Any] | None:
        """Return the job's description; None if no job has this name."""
        try:
            return self._call("Describe", {self.kind.name_member: name})
        except ClientError as error:
            if is_not_found(error):
                return None
            raise

    def create(self, request: Mapping[str, object]) -> bool:
        """Create the job; return False if a concurrent or earlier call created it."""
        try:
            self._call("Create", typed(request, self._input_shape))
        except ClientError as error:
            if code_of(error) in ("ResourceInUse", "ConflictException"):
                return False
            raise
        return True

    def check(self, request: Mapping[str, object]) -> None:
        """Validate a request against the API's model; the error lists every invalid member."""
        report = ParamValidator().validate(typed(request, self._input_shape), self._input_shape)
        if report.has_errors():
            problems = report.generate_report().replace("\n", "; ")
            raise InvalidEvent(f"Request is not valid for Create{self.kind.name}: {problems}")

    @property
    def _input_shape(self) -> StructureShape:
        shape = self._sagemaker.meta.service_model.operation_model(f"Create{self.kind.name}").input_shape
        assert shape is not None  # noqa: S101 - each of these operations has members
        return shape

    def stop(self, name: str) -> None:
        """Stop the job if it is running."""
        job = self.describe(name)
        if job is None or not self.kind.has_status(job, *RUNNING):
            return
        try:
            self._call("Stop", {self.kind.name_member: name})
        except ClientError as error:
            # The job may have ended since it was described.
            if not (is_not_found(error) or code_of(error) == "ValidationException"):
                raise

    def wait_while_stopping(self, name: str, until: float) -> None:
        """Wait for a job that is being stopped, at most until this time of the monotonic clock."""
        while (job := self.describe(name)) is not None and self.kind.has_status(job, "STOPPING"):
            if time.monotonic() + 1 > until:
                return
            time.sleep(1)

    def stop_all(self, bucket: str, artifact_key: str) -> None:
        """Stop the jobs of every attempt at an artifact."""
        for attempt in itertools.count(1):
            name = job_name(bucket, artifact_key, attempt)
            if self.describe(name) is None:
                return
            self.stop(name)

    def _call(self, verb: str, request: Any) -> dict[str, Any]:
        # boto3's own rule for method names, which handles AIBenchmarkJob.
        return getattr(self._sagemaker, xform_name(f"{verb}{self.kind.name}"))(**request)


def typed(value: object, shape: Any) -> Any:
    """Return the value with CloudFormation's strings converted to the types of the API's model, where possible."""
    if shape.type_name == "structure" and is_object(value):
        members = shape.members
        return {name: typed(item, members[name]) if name in members else item for name, item in value.items()}
    if shape.type_name == "list" and is_list(value):
        return [typed(item, shape.member) for item in value]
    if not isinstance(value, str):
        return value
    match shape.type_name:
        case "integer" | "long" if _INTEGER.fullmatch(value):
            return int(value)
        case "float" | "double" if _NUMBER.fullmatch(value):
            return float(value)
        case "boolean" if value.lower() in ("true", "false"):
            return value.lower() == "true"
        case _:
            return value


def is_not_found(error: ClientError) -> bool:
    """Return whether the error means that SageMaker does not know the name."""
    code, message = code_of(error), message_of(error).lower()
    texts = ("could not find", "does not exist", "requested resource not found")
    return code in ("ResourceNotFound", "ResourceNotFoundException") or (
        # Several SageMaker operations return this code for an unknown name.
        code == "ValidationException" and any(text in message for text in texts)
    )


def remove_setting(s3: S3Client, bucket: str, prefix: str, name: str, kms_key_arn: str | None = None) -> None:
    """Remove a setting from serving.properties below ``prefix``; repeated and concurrent calls are safe."""
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
    raise DeploymentError(f"other deployments are changing s3://{bucket}/{key}; deploy again")
