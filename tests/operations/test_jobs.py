"""Optimization jobs as an operator sees them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.operations.artifacts import ArtifactInventory
from constructs_optim.operations.jobs import JOB_NAME, Job, JobStatus, describe_job, list_jobs, stop_job, watch_job
from constructs_optim.runtime.jobs.sagemaker_jobs import job_name

from ..support.operator_stores import Store, artifact_key, owner

KEY, OTHER = artifact_key("one"), artifact_key("other")


def listed(store: Store, inventory: ArtifactInventory) -> dict[str, Job]:
    return {job.name: inventory.with_owners(job) for job in list_jobs(store.sagemaker)}


def test_a_job_name_has_the_artifact_key_and_the_attempt() -> None:
    name = JOB_NAME.fullmatch(job_name("store", KEY, 12))
    assert name is not None
    assert KEY.startswith(name["key"])
    assert name["attempt"] == "12"


@pytest.mark.parametrize("name", ["plain", "optim-llama", f"optim-{'a' * 32}-{'b' * 8}", f"my-optim-{'a' * 32}-b-1"])
def test_a_job_name_of_another_tool_is_not_matched(name: str) -> None:
    assert JOB_NAME.fullmatch(name) is None


def test_a_job_of_the_store_is_listed_with_its_artifact_and_owners(store: Store, inventory: ArtifactInventory) -> None:
    name = store.running(KEY, by=owner("Chat"))
    job = listed(store, inventory)[name]
    assert (job.artifact_key, job.owners, job.orphaned) == (KEY, (owner("Chat"),), False)
    assert job.instance_type == "ml.g5.12xlarge"


def test_a_training_job_is_listed_and_stopped_like_an_optimization_job(
    store: Store, inventory: ArtifactInventory
) -> None:
    store.claimed(KEY, owner("Chat"))
    name = store.training(KEY)
    job = listed(store, inventory)[name]
    assert (job.kind, job.status) == ("training job", "INPROGRESS")
    described = describe_job(store.sagemaker, name)
    assert described is not None
    assert described.instance_type == "ml.g5.xlarge", "the service's list has none"
    assert job.owners == (owner("Chat"),)
    only = {found.name for found in list_jobs(store.sagemaker, statuses=[JobStatus.in_progress])}
    assert name in only
    assert name not in {found.name for found in list_jobs(store.sagemaker, statuses=[JobStatus.starting])}
    stop_job(store.sagemaker, name)
    assert [poll.status for poll in watch_job(store.sagemaker, name, poll_seconds=0.1)][-1] == "STOPPED"


def test_a_running_job_without_an_owner_is_orphaned(store: Store, inventory: ArtifactInventory) -> None:
    left = store.running(KEY)
    unclaimed = store.job(OTHER)
    jobs = listed(store, inventory)
    assert [jobs[name].orphaned for name in (left, unclaimed)] == [True, True]


def test_a_job_of_a_superseded_attempt_is_orphaned(store: Store, inventory: ArtifactInventory) -> None:
    first = store.running(KEY, by=owner())
    claim = store.records.claim(KEY)
    assert claim is not None
    store.records.next_attempt(KEY, claim)
    second = store.job(KEY, attempt=2)
    jobs = listed(store, inventory)
    assert (jobs[first].orphaned, jobs[first].owners) == (True, ())
    assert (jobs[second].orphaned, jobs[second].owners) == (False, (owner(),))


def test_a_job_of_an_attempt_claimed_by_another_account_is_orphaned(store: Store, inventory: ArtifactInventory) -> None:
    name = store.running(KEY, by=owner(account="111122223333"))
    assert listed(store, inventory)[name].orphaned is True


def test_an_ended_job_is_not_orphaned(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY)
    (job,) = [job for job in listed(store, inventory).values() if job.artifact_key == KEY]
    assert (job.status, job.owners, job.orphaned) == ("COMPLETED", (), False)


def test_a_job_of_another_store_is_listed_without_artifact_and_owners(
    store: Store, inventory: ArtifactInventory
) -> None:
    elsewhere = Store(store.cloud).running(KEY, by=owner())
    job = listed(store, inventory)[elsewhere]
    assert (job.artifact_key, job.owners, job.orphaned) == (None, None, None)


def test_jobs_can_be_filtered_by_several_statuses(store: Store) -> None:
    running = store.running(KEY, by=owner())
    store.sagemaker.stop_optimization_job(OptimizationJobName=running)
    stopping = list_jobs(store.sagemaker, statuses=[JobStatus.stopping, JobStatus.stopped])
    assert running in {job.name for job in stopping}
    assert running not in {job.name for job in list_jobs(store.sagemaker, statuses=[JobStatus.completed])}


def test_a_watched_job_is_polled_until_it_has_ended(store: Store) -> None:
    name = store.job(KEY)
    *running, ended = watch_job(store.sagemaker, name, poll_seconds=0.05)
    assert not any(job.ended for job in running)
    assert (ended.status, ended.max_runtime_seconds) == ("COMPLETED", 36_000)


def test_watching_a_job_ends_when_the_job_is_deleted(store: Store) -> None:
    name = store.running(KEY, by=owner())
    polls = watch_job(store.sagemaker, name, poll_seconds=0)
    assert next(polls).name == name
    stop_job(store.sagemaker, name)
    assert list(polls)[-1].status == "STOPPED"
    store.sagemaker.delete_optimization_job(OptimizationJobName=name)
    assert list(watch_job(store.sagemaker, name, poll_seconds=0)) == []
    assert describe_job(store.sagemaker, name) is None


def test_stopping_a_job_that_has_ended_is_no_error(store: Store) -> None:
    store.made(KEY)
    stopped = stop_job(store.sagemaker, job_name(store.bucket, KEY, 1))
    assert stopped is not None
    assert stopped.status == "COMPLETED"


@pytest.mark.parametrize(
    ("secondary", "told"),
    [
        ("MaxRuntimeExceeded", "it ran for longer than the 3600 s of its max_runtime"),
        ("MaxWaitTimeExceeded", "there was not enough spot capacity within 7200 s"),
        ("Stopped", "a request stopped it"),
    ],
)
def test_a_stopped_job_has_its_reason(secondary: str, told: str) -> None:
    described = {
        "TrainingJobName": "co-heads",
        "TrainingJobStatus": "Stopped",
        "SecondaryStatus": secondary,
        "CreationTime": dt.datetime(2026, 7, 3, tzinfo=dt.UTC),
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
    }

    class SageMaker:
        def describe_training_job(self, **_: str) -> dict[str, Any]:
            return described

        def describe_optimization_job(self, **_: str) -> dict[str, Any]:
            error = {"Error": {"Code": "ResourceNotFound", "Message": "no"}}
            raise ClientError(error, "DescribeOptimizationJob")  # type: ignore[arg-type]

    job = describe_job(SageMaker(), "co-heads")
    assert job is not None
    assert (job.failure_reason or "").startswith(told)
