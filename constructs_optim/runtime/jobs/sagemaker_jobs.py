"""SageMaker jobs of every kind, by calls that can be repeated."""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from ..documents import is_list, is_object
from ..errors import InvalidEvent, code_of, message_of

if TYPE_CHECKING:
    from botocore.model import StructureShape
    from mypy_boto3_sagemaker.client import SageMakerClient

_INTEGER = re.compile(r"-?[0-9]{1,15}")
RUNNING = ("STARTING", "INPROGRESS")
"""The statuses, in capitals, of jobs that can be stopped."""


@dataclass(frozen=True)
class JobKind:
    """A kind of job: its name in operations and members. Optimization jobs have their statuses in capitals."""

    name: str
    title: str

    @property
    def name_member(self) -> str:
        """The member of requests and responses that has the job's name."""
        return f"{self.name}Name"

    def status(self, job: Mapping[str, Any]) -> str:
        """The status in a description."""
        return job[f"{self.name}Status"]

    def has_status(self, job: Mapping[str, Any], *statuses: str) -> bool:
        """Whether the description of a job has one of these statuses, in capitals."""
        return self.status(job).upper() in statuses


OPTIMIZATION = JobKind("OptimizationJob", "optimization job")
BENCHMARK = JobKind("AIBenchmarkJob", "benchmark job")
RECOMMENDATION = JobKind("AIRecommendationJob", "recommendation job")
TRAINING = JobKind("TrainingJob", "training job")


def job_name(bucket: str, artifact_key: str, attempt: int) -> str:
    """The name of one attempt's job, which SageMaker creates only once."""
    # Two stores of one account may have the same artifact.
    store = hashlib.sha256(bucket.encode()).hexdigest()[:8]
    return f"optim-{artifact_key[:32]}-{store}-{attempt}"


class SageMakerJobs:
    """A SageMaker client for jobs of one kind."""

    def __init__(self, sagemaker: SageMakerClient, kind: JobKind = OPTIMIZATION) -> None:
        self._sagemaker = sagemaker
        self.kind = kind

    def describe(self, name: str) -> dict[str, Any] | None:
        """The job's description; None if there is no job of that name."""
        try:
            return self._call("Describe", {self.kind.name_member: name})
        except ClientError as error:
            if is_not_found(error):
                return None
            raise

    def create(self, request: Mapping[str, object]) -> bool:
        """Create the job; False if a concurrent or earlier call has created it."""
        try:
            self._call("Create", typed(request, self._input_shape))
        except ClientError as error:
            if code_of(error) in ("ResourceInUse", "ConflictException"):
                return False
            raise
        return True

    def check(self, request: Mapping[str, object]) -> None:
        """Validate a request against the API's own model; the error lists every invalid member."""
        report = ParamValidator().validate(typed(request, self._input_shape), self._input_shape)
        if report.has_errors():
            problems = report.generate_report().replace("\n", "; ")
            raise InvalidEvent(f"Request is not one of Create{self.kind.name}: {problems}")

    @property
    def _input_shape(self) -> StructureShape:
        shape = self._sagemaker.meta.service_model.operation_model(f"Create{self.kind.name}").input_shape
        assert shape is not None  # noqa: S101 - each of these operations has members
        return shape

    def stop(self, name: str) -> None:
        """Stop the job if it runs."""
        job = self.describe(name)
        if job is None or not self.kind.has_status(job, *RUNNING):
            return
        try:
            self._call("Stop", {self.kind.name_member: name})
        except ClientError as error:
            # It may have ended since it was described.
            if not (is_not_found(error) or code_of(error) == "ValidationException"):
                raise

    def wait_while_stopping(self, name: str, until: float) -> None:
        """Wait for a job that is being stopped to end, at most until this time of the monotonic clock."""
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
        # boto3's own rule for method names, which knows of AIBenchmarkJob.
        return getattr(self._sagemaker, xform_name(f"{verb}{self.kind.name}"))(**request)


def typed(value: object, shape: Any) -> Any:
    """A value in which the strings that CloudFormation delivers have the types of the API's model, where they can."""
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
        case "boolean" if value.lower() in ("true", "false"):
            return value.lower() == "true"
        case _:
            return value


def is_not_found(error: ClientError) -> bool:
    """Whether SageMaker does not know the name."""
    code, message = code_of(error), message_of(error).lower()
    texts = ("could not find", "does not exist", "requested resource not found")
    return code in ("ResourceNotFound", "ResourceNotFoundException") or (
        # Several SageMaker operations return this code for an unknown name.
        code == "ValidationException" and any(text in message for text in texts)
    )
