"""What a failed job's message advises."""

from __future__ import annotations

import pytest

from constructs_optim.runtime.jobs.sagemaker_jobs import ARTIFACT_JOBS, REPEATS
from constructs_optim.training.errors import Unavailable
from constructs_optim_local.sagemaker.training.job import algorithm_error

TRAINING, OPTIMIZATION = ARTIFACT_JOBS["TrainingJob"], ARTIFACT_JOBS["OptimizationJob"]


def test_a_failure_that_repeats_is_not_answered_with_another_deployment() -> None:
    reason = "AlgorithmError: cannot install code or quantizing.txt, see the log, exit code: 1"
    step = TRAINING.next_step({"TrainingJobName": "optim-1", "FailureReason": reason})
    assert REPEATS in step
    assert "the log group /aws/sagemaker/TrainingJobs, streams optim-1/" in step
    assert not step.startswith("Deploy again")
    assert OPTIMIZATION.next_step({"OptimizationJobName": "optim-1", "FailureReason": reason}) == (
        f"Deploying again does not help, because {REPEATS}: remove the cause, then deploy the change"
    )


@pytest.mark.parametrize(
    "reason",
    [
        "ClientError: Data download failed:No S3 objects found",
        "ClientError: Cannot upload to s3://store: AccessDenied, the bucket's policy denies it",
    ],
)
def test_a_failure_at_sagemakers_own_step_asks_to_remove_the_cause_and_to_deploy_again(reason: str) -> None:
    step = TRAINING.next_step({"TrainingJobName": "optim-1", "FailureReason": reason})
    assert step == (
        "Remove the cause, see the log group /aws/sagemaker/TrainingJobs, streams optim-1/..., then deploy again"
    )
    step = OPTIMIZATION.next_step({"OptimizationJobName": "optim-1", "FailureReason": reason})
    assert step == "Remove the cause, then deploy again"


@pytest.mark.parametrize(
    "job",
    [
        {"FailureReason": algorithm_error(str(Unavailable("the hub returned 503 " + "x" * 2000)), 1)},
        {"FailureReason": "ClientError: Data download failed:SlowDown: Please reduce your request rate."},
        {"FailureReason": "ClientError: Artifact upload failed:An error occurred (503) Service Unavailable"},
        {"FailureReason": "ClientError: Data download failed:\nread: connection reset by peer"},
        {"FailureReason": "InternalServerError: We encountered an internal error. Please try again."},
        {"FailureReason": "CapacityError: Unable to provision requested ML compute capacity."},
        {"SecondaryStatus": "MaxRuntimeExceeded"},
        {"TrainingJobStatus": "Stopped"},
    ],
)
def test_a_failure_that_may_pass_is_answered_with_another_deployment(job: dict[str, str]) -> None:
    assert TRAINING.next_step({"TrainingJobName": "optim-1", **job}) == "Deploy again to run another job"
