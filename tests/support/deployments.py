"""Shared by tests of ``lifecycle`` and others."""

from __future__ import annotations

import time

from constructs_optim_local.cloud import LocalCloud


def job_names(cloud: LocalCloud) -> list[str]:
    return [job["name"] for job in cloud.jobs()]


def wait_for_job(cloud: LocalCloud, known: list[str], status: str) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for job in cloud.jobs():
            if job["name"] not in known and job["history"][-1]["status"] == status:
                return job["name"]
        time.sleep(0.3)
    raise AssertionError(f"no new job became {status}: {cloud.jobs()}")
