"""Warm pools: training instances kept for the next matching job.

Source: developer guide, "SageMaker AI Managed Warm Pools" (what has to match; a pool is kept after a job that
completed, that was stopped after its instances had started, or that failed because of its code or inputs) and API
reference, WarmPoolStatus. Assumed, without a source: a job takes the oldest of several matching pools, whether or not
it keeps a pool itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from constructs_optim_local.clock import Clock
from constructs_optim_local.sagemaker.records import Record

from .job import ENDS, TrainingJob
from .requests import keep_alive_seconds


class WarmPools:
    """The pools of one account and Region. ``scale`` is the real seconds for each second of a pool."""

    def __init__(self, scale: float, clock: Clock) -> None:
        self._scale, self._clock = scale, clock

    def begin(self, request: Record) -> Record:
        """Return the initial status of a new job's pool, as members of the job."""
        return {"WarmPoolStatus": {"Status": "InUse"}} if keep_alive_seconds(request) else {}

    def end(self, request: Record, *, is_good: bool) -> Record:
        """Return the status of an ended job's pool, as members of the job. Its instances are kept if possible."""
        if not keep_alive_seconds(request):
            return {}
        status = "Available" if is_good and "TrainingStartTime" in request else "Terminated"
        return {
            "WarmPoolStatus": {"Status": status, "ResourceRetainedBillableTimeInSeconds": 0},
            "_kept_since": self._clock.now(),
        }

    def take(self, jobs: Iterable[TrainingJob], request: Record) -> bool:
        """Give a new job the instances of a matching pool, and return whether there was one."""
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
        """Release the instances of expired pools."""
        pool = job.request.get("WarmPoolStatus", {})
        if job.status not in ENDS or pool.get("Status") != "Available":
            return
        longest = keep_alive_seconds(job.request)
        since: dt.datetime = job.request["_kept_since"]
        kept = (self._clock.now() - since).total_seconds() / self._scale
        status = {"Status": "Terminated"} if kept >= longest else {"Status": "Available"}
        job.set(WarmPoolStatus={**status, "ResourceRetainedBillableTimeInSeconds": min(round(kept), longest)})


def _resources(job: Record) -> tuple[object, ...]:
    """Return the settings that must match for two jobs to run on the same instances."""
    resources, network = job["ResourceConfig"], job.get("VpcConfig", {})
    return (
        job["RoleArn"],
        *(resources.get(name) for name in ("InstanceType", "InstanceCount", "VolumeSizeInGB", "VolumeKmsKeyId")),
        *(sorted(network.get(name, [])) for name in ("SecurityGroupIds", "Subnets")),
        job["EnableNetworkIsolation"],
        job["EnableInterContainerTrafficEncryption"],
    )
