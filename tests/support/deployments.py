"""The jobs of a local cloud, by the names that SageMaker lists."""

from __future__ import annotations

from constructs_optim_local.cloud import LocalCloud

from .waiting import until


def job_names(cloud: LocalCloud) -> list[str]:
    return [job["name"] for job in cloud.jobs()]


def wait_for_job(cloud: LocalCloud, known: list[str], status: str) -> str:
    """The name of a job that is not ``known``, once it has a status."""

    def new_jobs() -> list[str]:
        jobs = (job for job in cloud.jobs() if job["history"][-1]["status"] == status)
        return [job["name"] for job in jobs if job["name"] not in known]

    return until(new_jobs, bool, 120)[0]
