"""What a failed job's message advises."""

from __future__ import annotations

import pytest

from constructs_optim.runtime.jobs.sagemaker_jobs import ARTIFACT_JOBS, REPEATS

TRAINING, OPTIMIZATION = ARTIFACT_JOBS["TrainingJob"], ARTIFACT_JOBS["OptimizationJob"]


@pytest.mark.parametrize(
    "reason",
    [
        "AlgorithmError: cannot install code or quantizing.txt, see the log, exit code: 1",
        "ClientError: Data download failed:No S3 objects found",
    ],
)
def test_a_failure_that_repeats_is_not_answered_with_another_deployment(reason: str) -> None:
    step = TRAINING.next_step({"TrainingJobName": "optim-1", "FailureReason": reason})
    assert REPEATS in step
    assert "the log group /aws/sagemaker/TrainingJobs, streams optim-1/" in step
    assert not step.startswith("Deploy again")
    assert REPEATS in OPTIMIZATION.next_step({"OptimizationJobName": "optim-1", "FailureReason": reason})


@pytest.mark.parametrize(
    "job",
    [
        {"FailureReason": "InternalServerError: We encountered an internal error. Please try again."},
        {"FailureReason": "CapacityError: Unable to provision requested ML compute capacity."},
        {"SecondaryStatus": "MaxRuntimeExceeded"},
        {"TrainingJobStatus": "Stopped"},
    ],
)
def test_a_failure_that_may_pass_is_answered_with_another_deployment(job: dict[str, str]) -> None:
    assert TRAINING.next_step({"TrainingJobName": "optim-1", **job}) == "Deploy again to run another job"
