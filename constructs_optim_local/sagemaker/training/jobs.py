"""Training jobs, which really run: their code is a process of this machine, with inputs and outputs in S3.

The local cloud pulls no image and isolates nothing: ``ContainerEntrypoint`` runs with this machine's programs, as the
local cloud's user. Sources: API reference, CreateTrainingJob and related operations. Users' reports have the code and
messages for unknown jobs (ValidationException, although the API's model has ResourceNotFound), taken names, jobs that
have ended, and missing inputs. Assumed, without a source: the message for a job that cannot be deleted.
"""

from __future__ import annotations

from typing import Any

from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.execution import ExecutionRoles, cannot_assume
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.quotas import INSTANCES, RUNTIME, SPOT, TRAINING, VOLUME, Quotas
from constructs_optim_local.sagemaker.records import (
    Record,
    Records,
    Scope,
)

from .files import no_objects
from .job import ENDS, TrainingJob
from .requests import MAX_RUNTIME_SECONDS, check
from .run import TrainingRun
from .telemetry import TrainingSettings
from .warm_pools import WarmPools

_DEFAULTS: Record = {
    "InputDataConfig": [],
    "StoppingCondition": {"MaxRuntimeInSeconds": MAX_RUNTIME_SECONDS},
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}
_SUMMARY = (
    "TrainingJobName",
    "TrainingJobArn",
    "CreationTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "TrainingJobStatus",
    "SecondaryStatus",
    "WarmPoolStatus",
)


class TrainingJobs:
    """The training jobs of one account and Region."""

    def __init__(
        self,
        scope: Scope,
        faults: Faults,
        objects: Objects,
        roles: ExecutionRoles,
        settings: TrainingSettings,
        quotas: Quotas,
    ) -> None:
        self._quotas = quotas
        self._scope, self._faults, self._objects, self._roles = scope, faults, objects, roles
        self._settings, self._pools = settings, WarmPools(settings.keep_alive_scale, scope.clock)
        self._jobs: dict[str, TrainingJob] = {}
        self._runs: list[TrainingRun] = []

    def create(self, request: Record) -> Record:
        """CreateTrainingJob."""
        check(request)
        self._scope.check_training_plans(filter(None, [request["ResourceConfig"].get("TrainingPlanArn")]))
        name = request["TrainingJobName"]
        arn, created = self._scope.arn("training-job", name), self._scope.now()
        if name.lower() in self._jobs:
            raise ApiError(
                "ResourceInUse",
                "Training job names must be unique within an AWS account and region, and a training job with this name "
                f"already exists ({arn})",
            )
        if not self._roles.assume(request["RoleArn"], arn):
            raise cannot_assume(request["RoleArn"])
        self._look_for_inputs(request)
        self._check_quota(request)
        profiler = request.get("ProfilerConfig", {"DisableProfiler": True})
        record = {
            **_DEFAULTS,
            **{key: value for key, value in request.items() if key != "Tags"},
            "TrainingJobArn": arn,
            "CreationTime": created,
            "ProfilingStatus": "Disabled" if profiler.get("DisableProfiler") else "Enabled",
            **self._pools.begin(request),
        }
        is_warm = self._pools.take(self._jobs.values(), record)
        job = self._jobs[name.lower()] = TrainingJob(record, self._scope.clock)
        self._scope.tag(arn, request.get("Tags"))
        run = TrainingRun(
            job,
            self._settings,
            self._objects,
            self._roles,
            self._faults,
            self._scope.clock,
            is_warm=is_warm,
            ended=lambda is_good: self._pools.end(record, is_good=is_good),
        )
        self._runs = [*(earlier for earlier in self._runs if not earlier.is_over), run]
        run.start()
        return {"TrainingJobArn": arn}

    def describe(self, request: Record) -> Record:
        """DescribeTrainingJob."""
        return self._described(self._job(request))

    def stop(self, request: Record) -> Record:
        """StopTrainingJob."""
        job = self._job(request)
        if not job.ask_to_stop():
            raise validation_error(f"The request was rejected because the training job is in status {job.status}.")
        return {}

    def delete(self, request: Record) -> Record:
        """DeleteTrainingJob."""
        job = self._job(request)
        if job.status not in ENDS:
            raise ApiError(
                "ResourceInUse", f"Cannot delete training job {job.name} in status {job.status}; stop it first"
            )
        if self._described(job).get("WarmPoolStatus", {}).get("Status") == "Available":
            raise ApiError("ResourceInUse", f"Cannot delete training job {job.name}, whose warm pool is Available")
        del self._jobs[job.name.lower()]
        return {}

    def list(self, request: Record) -> Record:
        """ListTrainingJobs."""
        pool, records = request.get("WarmPoolStatusEquals"), Records(_missing, _missing)
        for name, job in self._jobs.items():
            record = self._described(job)
            if pool in (None, record.get("WarmPoolStatus", {}).get("Status")):
                records.add(name, record)
        return records.page(
            "TrainingJobSummaries", request, lambda job: {key: job[key] for key in _SUMMARY if key in job}
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return each job with its history of secondary statuses, in the order of creation."""
        return [{"name": job.name, "status": job.status, "history": job.history()} for job in self._jobs.values()]

    def close(self) -> None:
        """End all running jobs at once."""
        for run in self._runs:
            run.abandon()

    def _check_quota(self, request: Record) -> None:
        resources, spot = request["ResourceConfig"], request.get("EnableManagedSpotTraining", False)
        runtime = request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", MAX_RUNTIME_SECONDS)
        for name, number in (
            (RUNTIME, runtime),
            (INSTANCES, resources.get("InstanceCount", 1)),
            (VOLUME, resources.get("VolumeSizeInGB", 1)),
        ):
            self._quotas.check_number(name, number)
        if "TrainingPlanArn" in resources or "InstanceType" not in resources:
            return
        running = (job.describe() for job in self._jobs.values() if job.status not in ENDS)
        used = sum(
            job["ResourceConfig"]["InstanceCount"]
            for job in running
            if job["ResourceConfig"].get("InstanceType") == resources["InstanceType"]
            and job["EnableManagedSpotTraining"] == spot
        )
        usage = SPOT if spot else TRAINING
        self._quotas.check(resources["InstanceType"], usage, used=used, more=resources["InstanceCount"])

    def _look_for_inputs(self, request: Record) -> None:
        role = request["RoleArn"]
        for channel in request.get("InputDataConfig", []):
            uri = channel["DataSource"]["S3DataSource"]["S3Uri"]
            if not self._roles.may_list(role, uri) or not self._objects.uris(uri):
                raise validation_error(no_objects(uri, role, self._scope.region))

    def _job(self, request: Record) -> TrainingJob:
        job = self._jobs.get(request["TrainingJobName"].lower())
        if job is None:
            raise _missing(request["TrainingJobName"])
        return job

    def _described(self, job: TrainingJob) -> Record:
        self._pools.settle(job)
        return job.describe()


def _missing(name: str) -> ApiError:
    return validation_error("Requested resource not found.")
