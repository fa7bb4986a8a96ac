"""Instances of training jobs that are kept for the next job that matches.

Source: developer guide, "SageMaker AI Managed Warm Pools" (what has to match; a pool is kept after a completed job, a
stopped one whose instances had started, and one that failed by its code or its inputs) and API reference,
WarmPoolStatus. Assumed, for no source says so: that of several pools the oldest is taken, and that a matching job takes
a pool whether or not it keeps one itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from constructs_optim_local.clock import Clock
from constructs_optim_local.sagemaker.records import Record

from .job import ENDS, TrainingJob
from .requests import keep_alive_seconds


class WarmPools:
    """The pools of one account and region. ``scale`` is what a second of one lasts here."""

    def __init__(self, scale: float, clock: Clock) -> None:
        self._scale, self._clock = scale, clock

    def begin(self, request: Record) -> Record:
        """The initial status of a new job's pool, as members of the job."""
        return {"WarmPoolStatus": {"Status": "InUse"}} if keep_alive_seconds(request) else {}

    def end(self, request: Record, *, is_good: bool) -> Record:
        """The status of an ended job's pool, as members of the job: its instances are kept, if any can be."""
        if not keep_alive_seconds(request):
            return {}
        status = "Available" if is_good and "TrainingStartTime" in request else "Terminated"
        return {
            "WarmPoolStatus": {"Status": status, "ResourceRetainedBillableTimeInSeconds": 0},
            "_kept_since": self._clock.now(),
        }

    def take(self, jobs: Iterable[TrainingJob], request: Record) -> bool:
        """Give a new job the instances of an earlier one; whether there were any that match."""
        if request["EnableManagedSpotTraining"]:
            return False
        for job in jobs:
            self.settle(job)
            pool = job.request.get("WarmPoolStatus", {})
            if pool.get("Status") == "Available" and _resources(job.request) == _resources(request):
                kept = round((self._clock.now() - job.request["_kept_since"]).total_seconds() / self._scale)
                ended = {"ResourceRetainedBillableTimeInSeconds": kept, "ReusedByJob": request["TrainingJobName"]}
                job.set(WarmPoolStatus={"Status": "Reused", **ended})
                return True
        return False

    def settle(self, job: TrainingJob) -> None:
        """Give instances back whose time is over."""
        pool = job.request.get("WarmPoolStatus", {})
        if job.status not in ENDS or pool.get("Status") != "Available":
            return
        longest = keep_alive_seconds(job.request)
        since: dt.datetime = job.request["_kept_since"]
        kept = (self._clock.now() - since).total_seconds() / self._scale
        status = {"Status": "Terminated"} if kept >= longest else {"Status": "Available"}
        job.set(WarmPoolStatus={**status, "ResourceRetainedBillableTimeInSeconds": min(round(kept), longest)})


def _resources(job: Record) -> tuple[object, ...]:
    """What two jobs must have in common to run on the same instances."""
    resources, network = job["ResourceConfig"], job.get("VpcConfig", {})
    return (
        job["RoleArn"],
        *(resources.get(name) for name in ("InstanceType", "InstanceCount", "VolumeSizeInGB", "VolumeKmsKeyId")),
        *(sorted(network.get(name, [])) for name in ("SecurityGroupIds", "Subnets")),
        job["EnableNetworkIsolation"],
        job["EnableInterContainerTrafficEncryption"],
    )
