"""SageMaker optimization jobs: the few calls this library makes, made repeatable."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

RUNNING = frozenset({"STARTING", "INPROGRESS"})
COMPLETED = "COMPLETED"


def job_name(bucket: str, artifact_key: str, attempt: int) -> str:
    """The name of one attempt's job, derived from what it makes and where: creating it twice is noticed.

    The bucket is part of it: two stores of one account may each want the same artifact.
    """
    store = hashlib.sha256(bucket.encode()).hexdigest()[:8]
    return f"optim-{artifact_key[:32]}-{store}-{attempt}"


class OptimizationJobs:
    """A SageMaker client, narrowed to optimization jobs."""

    def __init__(self, sagemaker: Any) -> None:
        self._sagemaker = sagemaker

    def describe(self, name: str) -> dict[str, Any] | None:
        """The job, or None where there is none of that name."""
        try:
            return self._sagemaker.describe_optimization_job(OptimizationJobName=name)
        except ClientError as error:
            if _is_not_found(error):
                return None
            raise

    def create(self, request: Mapping[str, Any]) -> bool:
        """Create the job; False where the name is taken, by a concurrent or repeated call."""
        shape = self._sagemaker.meta.service_model.operation_model("CreateOptimizationJob").input_shape
        try:
            self._sagemaker.create_optimization_job(**typed(request, shape))
        except ClientError as error:
            if error.response["Error"]["Code"] in ("ResourceInUse", "ConflictException"):
                return False
            raise
        return True

    def stop(self, name: str) -> None:
        """Stop the job if it runs."""
        job = self.describe(name)
        if job is None or job["OptimizationJobStatus"] not in RUNNING:
            return
        try:
            self._sagemaker.stop_optimization_job(OptimizationJobName=name)
        except ClientError as error:
            # It may have ended since it was described; then there is nothing left to stop.
            if not (_is_not_found(error) or error.response["Error"]["Code"] == "ValidationException"):
                raise

    def stop_all(self, bucket: str, artifact_key: str) -> None:
        """Stop the jobs of every attempt at an artifact."""
        for attempt in itertools.count(1):
            name = job_name(bucket, artifact_key, attempt)
            if self.describe(name) is None:
                return
            self.stop(name)


def typed(value: Any, shape: Any) -> Any:
    """Turn the strings CloudFormation delivers back into the types the API's model asks for."""
    match shape.type_name:
        case "structure":
            members = shape.members
            return {k: typed(v, members[k]) if k in members else v for k, v in value.items()}
        case "list":
            return [typed(item, shape.member) for item in value]
        case "integer" | "long" if isinstance(value, str):
            return int(value)
        case "boolean" if isinstance(value, str):
            return value.lower() == "true"
        case _:
            return value


def _is_not_found(error: ClientError) -> bool:
    code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    return code in ("ResourceNotFound", "ResourceNotFoundException") or (
        # Several SageMaker operations answer so for a name they do not know.
        code == "ValidationException" and ("could not find" in message.lower() or "does not exist" in message.lower())
    )
