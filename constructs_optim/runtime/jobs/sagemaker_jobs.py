"""SageMaker jobs of every kind: the few calls this library makes, made repeatable."""

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
RUNNING = frozenset({"STARTING", "INPROGRESS"})
"""Statuses, in capitals, of jobs that may still be stopped."""


@dataclass(frozen=True)
class JobKind:
    """A kind of job: its name in operations and members. Optimization jobs have their statuses in capitals."""

    name: str
    title: str

    def is_running(self, job: Mapping[str, Any]) -> bool:
        """Whether the job may still be stopped."""
        return self.status(job).upper() in RUNNING

    def is_stopping(self, job: Mapping[str, Any]) -> bool:
        """Whether the job is being stopped and has not ended yet."""
        return self.status(job).upper() == "STOPPING"

    def has_completed(self, job: Mapping[str, Any]) -> bool:
        """Whether the job has completed."""
        return self.status(job).upper() == "COMPLETED"

    def has_failed(self, job: Mapping[str, Any]) -> bool:
        """Whether the job failed or was stopped."""
        return self.status(job).upper() in ("FAILED", "STOPPED")

    @property
    def name_member(self) -> str:
        """The member of requests and responses that has the job's name."""
        return f"{self.name}Name"

    def status(self, job: Mapping[str, Any]) -> str:
        """The status in a description."""
        return job[f"{self.name}Status"]


OPTIMIZATION = JobKind("OptimizationJob", "optimization job")
BENCHMARK = JobKind("AIBenchmarkJob", "benchmark job")
RECOMMENDATION = JobKind("AIRecommendationJob", "recommendation job")
TRAINING = JobKind("TrainingJob", "training job")


def job_name(bucket: str, artifact_key: str, attempt: int) -> str:
    """The name of one attempt's job: creating it twice is noticed."""
    # Two stores of one account may each want the same artifact.
    store = hashlib.sha256(bucket.encode()).hexdigest()[:8]
    return f"optim-{artifact_key[:32]}-{store}-{attempt}"


_NOT_FOUND = ("could not find", "does not exist", "requested resource not found")


class SageMakerJobs:
    """A SageMaker client, narrowed to jobs of one kind."""

    def __init__(self, sagemaker: SageMakerClient, kind: JobKind = OPTIMIZATION) -> None:
        self._sagemaker = sagemaker
        self.kind = kind

    def describe(self, name: str) -> dict[str, Any] | None:
        """The job, or None where there is none of that name."""
        try:
            return self._call("Describe", {self.kind.name_member: name})
        except ClientError as error:
            if is_not_found(error):
                return None
            raise

    def create(self, request: Mapping[str, object]) -> bool:
        """Create the job; False where the name is taken, by a concurrent or repeated call."""
        try:
            self._call("Create", typed(request, self._input_shape))
        except ClientError as error:
            if code_of(error) in ("ResourceInUse", "ConflictException"):
                return False
            raise
        return True

    def check(self, request: Mapping[str, object]) -> None:
        """Refuse a request of Create that the API's own model does not allow, with every member at fault."""
        report = ParamValidator().validate(typed(request, self._input_shape), self._input_shape)
        if report.has_errors():
            problems = report.generate_report().replace("\n", "; ")
            raise InvalidEvent(f"Request is not one of Create{self.kind.name}: {problems}")

    @property
    def _input_shape(self) -> StructureShape:
        shape = self._sagemaker.meta.service_model.operation_model(f"Create{self.kind.name}").input_shape
        # Each of these operations has members.
        assert shape is not None  # noqa: S101
        return shape

    def stop(self, name: str) -> None:
        """Stop the job if it runs."""
        job = self.describe(name)
        if job is None or not self.kind.is_running(job):
            return
        try:
            self._call("Stop", {self.kind.name_member: name})
        except ClientError as error:
            # It may have ended since it was described; then there is nothing left to stop.
            if not (is_not_found(error) or code_of(error) == "ValidationException"):
                raise

    def wait_while_stopping(self, name: str, until: float) -> None:
        """Wait for the end of a job that is being stopped, ``until`` then by the monotonic clock."""
        while (job := self.describe(name)) is not None and self.kind.is_stopping(job):
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
    code, message = code_of(error), message_of(error)
    return code in ("ResourceNotFound", "ResourceNotFoundException") or (
        # Several SageMaker operations refuse an unknown name so.
        code == "ValidationException" and any(words in message.lower() for words in _NOT_FOUND)
    )
