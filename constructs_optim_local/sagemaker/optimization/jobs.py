"""Optimization jobs: STARTING, INPROGRESS, COMPLETED; or FAILED, or STOPPING and STOPPED.

A job has no thread: each read first advances it to the state that the elapsed time implies.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

from constructs_optim_local.api.error import ApiError, not_found, validation_error
from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.execution import ExecutionRoles, cannot_assume, refusal
from constructs_optim_local.sagemaker.images import UNPULLED, missing_image
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.records import (
    Record,
    Records,
    Scope,
)

from . import artifacts

_RUNNING = ("STARTING", "INPROGRESS")
_STOPPING_SECONDS = 1.0
# API reference, StoppingCondition: "The maximum value is 28 days". The refusal's wording is assumed.
_LONGEST_RUNTIME_SECONDS = 28 * 86_400
_SUMMARY = (
    "OptimizationJobName",
    "OptimizationJobArn",
    "CreationTime",
    "OptimizationJobStatus",
    "OptimizationStartTime",
    "OptimizationEndTime",
    "LastModifiedTime",
    "DeploymentInstanceType",
)


@dataclass(frozen=True)
class JobDurations:
    """The seconds that a job spends in STARTING and in INPROGRESS."""

    starting: float = 3.0
    in_progress: float = 5.0


class OptimizationJobs:
    """The jobs of one account and region."""

    def __init__(
        self,
        scope: Scope,
        faults: Faults,
        objects: Objects,
        durations: JobDurations,
        roles: ExecutionRoles,
    ) -> None:
        self._scope, self._faults, self._objects, self._durations = scope, faults, objects, durations
        self._roles = roles
        self._jobs = Records(
            missing=lambda name: not_found(f"Optimization job {name} does not exist"),
            taken=lambda name: ApiError("ResourceInUse", f"Optimization job {name} already exists"),
        )
        self._history: dict[str, list[dict[str, Any]]] = {}

    def create(self, request: Record) -> Record:
        """CreateOptimizationJob."""
        name = request["OptimizationJobName"]
        if not request["OptimizationConfigs"]:
            raise validation_error("OptimizationConfigs must contain at least one configuration")
        longest = request["StoppingCondition"].get("MaxRuntimeInSeconds", 0)
        if longest > _LONGEST_RUNTIME_SECONDS:
            raise validation_error(
                f"1 validation error detected: Value '{longest}' at 'stoppingCondition.maxRuntimeInSeconds' failed to "
                f"satisfy constraint: Member must have value less than or equal to {_LONGEST_RUNTIME_SECONDS}"
            )
        self._scope.check_training_plans(request.get("TrainingPlanArns", ()))
        if not ({"S3", "SageMakerModel"} & set(request["ModelSource"])):
            raise validation_error("ModelSource must have exactly one of S3, SageMakerModel")
        arn, created = self._scope.arn("optimization-job", name), self._scope.now()
        if not self._roles.assume(request["RoleArn"], arn):
            raise cannot_assume(request["RoleArn"])
        self._jobs.add(
            name,
            {
                **{key: value for key, value in request.items() if key != "Tags"},
                "OptimizationJobArn": arn,
                "CreationTime": created,
                "LastModifiedTime": created,
            },
        )
        self._scope.tag(arn, request.get("Tags"))
        self._history[name] = []
        self._enter(name, "STARTING", created)
        return {"OptimizationJobArn": arn}

    def describe(self, request: Record) -> Record:
        """DescribeOptimizationJob."""
        name = request["OptimizationJobName"]
        self._jobs.get(name)
        return dict(self._settled(name))

    def stop(self, request: Record) -> Record:
        """StopOptimizationJob."""
        name = request["OptimizationJobName"]
        self._jobs.get(name)
        status = self._settled(name)["OptimizationJobStatus"]
        if status not in _RUNNING:
            raise validation_error(f"The request was rejected because the optimization job is in status {status}")
        self._enter(name, "STOPPING", self._scope.now())
        return {}

    def delete(self, request: Record) -> Record:
        """DeleteOptimizationJob."""
        name = request["OptimizationJobName"]
        self._jobs.get(name)
        status = self._settled(name)["OptimizationJobStatus"]
        if status in (*_RUNNING, "STOPPING"):
            raise validation_error(f"Cannot delete an optimization job in status {status}; stop it first")
        self._jobs.remove(name)
        return {}

    def list(self, request: Record) -> Record:
        """ListOptimizationJobs."""
        for name in list(self._jobs.by_name):
            self._settled(name)
        return self._jobs.page("OptimizationJobSummaries", request, self._summary)

    def to_json(self) -> list[dict[str, Any]]:
        """Return each job with its history of statuses, in the order of creation."""
        return [
            {
                "name": job["OptimizationJobName"],
                "status": self._settled(name)["OptimizationJobStatus"],
                "history": list(self._history[job["OptimizationJobName"]]),
            }
            for name, job in list(self._jobs.by_name.items())
        ]

    def _summary(self, job: Record) -> Record:
        kinds = [member for config in job["OptimizationConfigs"] for member in config]
        techniques = {"ModelQuantizationConfig": "Quantization", "ModelCompilationConfig": "Compilation"}
        return {
            **{key: job[key] for key in _SUMMARY if key in job},
            "OptimizationTypes": [techniques.get(kind, kind) for kind in kinds],
        }

    def _settled(self, name: str) -> Record:
        """Return the job in its current state."""
        while self._advance(name):
            pass
        return self._jobs.get(name)

    def _advance(self, name: str) -> bool:
        job = self._jobs.get(name)
        since: dt.datetime = job["LastModifiedTime"]
        age = (self._scope.now() - since).total_seconds()
        longest = job["StoppingCondition"].get("MaxRuntimeInSeconds", 86_400)
        match job["OptimizationJobStatus"]:
            case "STARTING" if age >= self._durations.starting and not self._faults.strikes("job_never_starts"):
                at = since + dt.timedelta(seconds=self._durations.starting)
                job["OptimizationStartTime"] = at
                self._enter(name, "INPROGRESS", at)
            case "STARTING" if age >= job["StoppingCondition"].get("MaxPendingTimeInSeconds", math.inf):
                # Assumed: a job that is pending for too long ends like one that runs for too long.
                job["FailureReason"] = "Optimization job exceeded MaxPendingTimeInSeconds"
                self._end(name, "STOPPED", self._scope.now())
            case "INPROGRESS" if min(age, longest) >= self._durations.in_progress and not self._faults.strikes(
                "job_never_finishes"
            ):
                self._finish(name, self._scope.now())
            case "INPROGRESS" if age >= longest:
                # The service ends a job at its time limit as if it were stopped.
                job["FailureReason"] = "Optimization job exceeded MaxRuntimeInSeconds"
                self._end(name, "STOPPED", self._scope.now())
            case "STOPPING" if age >= _STOPPING_SECONDS:
                self._end(name, "STOPPED", self._scope.now())
            case _:
                return False
        return True

    def _finish(self, name: str, at: dt.datetime) -> None:
        job = self._jobs.get(name)
        if fault := self._faults.strikes("job_fails"):
            job["FailureReason"] = fault.reason or "InternalServerError: we encountered an internal error"
            self._end(name, "FAILED", at)
            return
        if refused := self._refused(job):
            job["FailureReason"] = f"ClientError: {refused}"
            self._end(name, "FAILED", at)
            return
        if problem := self._sharding_problem(job):
            job["FailureReason"] = f"AlgorithmError: ValueError: {problem}"
            self._end(name, "FAILED", at)
            return
        if not self._faults.strikes("job_writes_nothing"):
            location = job["OutputConfig"]["S3OutputLocation"].rstrip("/")
            output = {f"{location}/{file}": content for file, content in artifacts.files(job).items()}
            try:
                self._objects.put(name, output)
            except Exception as error:
                job["FailureReason"] = f"ClientError: the output could not be written to {location}: {error}"
                self._end(name, "FAILED", at)
                return
        image = next(filter(None, _images(job)), None)
        if image:
            job["OptimizationOutput"] = {"RecommendedInferenceImage": image}
        self._end(name, "COMPLETED", at)

    def _refused(self, job: Record) -> str | None:
        """Return the first permission that the job needs and its role lacks."""
        role, output = job["RoleArn"], job["OutputConfig"]
        model = job["ModelSource"].get("S3", {}).get("S3Uri")
        data = [
            config.get("TrainingDataSource", {}).get("S3Uri")
            for entry in job["OptimizationConfigs"]
            for config in entry.values()
        ]
        if any(missing_image(image) for image in _images(job)):
            return UNPULLED
        steps = (
            *(self._roles.pull(role, image) for image in _images(job)),
            *(self._roles.read(role, uri) for uri in (model, *data) if uri),
            self._roles.write(role, output["S3OutputLocation"], output.get("KmsKeyId")),
        )
        refused = next(filter(None, steps), None)
        return refusal(role, refused) if refused else None

    def _sharding_problem(self, job: Record) -> str | None:
        """Return why the container would refuse to shard the model, if it would.

        The model's own settings override the environment's. Source: is_valid_sharding_config of
        https://github.com/deepjavalibrary/djl-serving/blob/0.32.0-dlc/serving/docker/partition/sm_neo_dispatcher.py
        """
        sharding = next((entry for entry in job["OptimizationConfigs"] if "ModelShardingConfig" in entry), None)
        if sharding is None:
            return None
        override = sharding["ModelShardingConfig"].get("OverrideEnvironment", {})
        environment = {**job.get("OptimizationEnvironment", {}), **override}
        source = job["ModelSource"].get("S3", {}).get("S3Uri")
        stored = self._objects.read(f"{source.rstrip('/')}/serving.properties") if source else None
        quantize = artifacts.setting(stored or b"", "option.quantize") or environment.get("OPTION_QUANTIZE")
        if not quantize:
            return None
        return (
            "Sharding & Quantization are mutually exclusive. Please Quantize first & then Shard. Received "
            f"load_format={artifacts.FAST_LOADING} & quantize={quantize}."
        )

    def _end(self, name: str, status: str, at: dt.datetime) -> None:
        self._jobs.get(name)["OptimizationEndTime"] = at
        self._enter(name, status, at)

    def _enter(self, name: str, status: str, at: dt.datetime) -> None:
        job = self._jobs.get(name)
        job["OptimizationJobStatus"], job["LastModifiedTime"] = status, at
        self._history[job["OptimizationJobName"]].append({"status": status, "time": at.timestamp()})


def _images(job: Record) -> list[str | None]:
    return [config.get("Image") for entry in job["OptimizationConfigs"] for config in entry.values()]
