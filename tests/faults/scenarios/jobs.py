"""Jobs, and who watches them."""

from __future__ import annotations

from ..stacks import STORE, running_executions
from ..trial import Trials
from .registry import fails, jobs_of, jobs_that_are, running_job, scenario, survives, until


@scenario
def job_fails(t: Trials) -> None:
    t.cloud.inject("job_fails", reason="ClientError: CUDA out of memory")
    fails(t, t.stack(), "ended as FAILED: ClientError: CUDA out of memory", "Remove the cause, then deploy again")


@scenario
def job_of_an_update_fails(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    before = stack.artifact_key
    stack.group_size = 64
    t.cloud.inject("job_fails", reason="ClientError: CUDA out of memory")
    t.expect(stack.deploy(), "UPDATE_ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["CUDA out of memory"])
    t.expect(t.guarantees.store.manifest(before) is not None, True, "the artifact from before the update is there")
    t.again(stack)


@scenario
def copy_fails(t: Trials) -> None:
    t.cloud.inject("training_fails", reason="AlgorithmError: no space left on device")
    says = "ended as Failed: AlgorithmError: no space left on device", "the log group /aws/sagemaker/TrainingJobs"
    fails(t, t.stack("copy"), *says)


@scenario
def copy_completes_without_output(t: Trials) -> None:
    t.cloud.inject("training_writes_nothing")
    fails(t, t.stack("copy"), "completed but wrote nothing to s3://", "deploy again")


@scenario
def job_completes_without_output(t: Trials) -> None:
    t.cloud.inject("job_writes_nothing")
    fails(t, t.stack(), "completed but wrote nothing to s3://", "deploy again")


@scenario
def job_stopped_from_outside(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack()
    stack.start()
    name = running_job(t)
    t.cloud.client("sagemaker").stop_optimization_job(OptimizationJobName=name)
    t.expect(stack.ended(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["ended as STOPPED: it was stopped from outside", "Deploy again"])
    t.again(stack)


@scenario
def job_deleted_from_outside(t: Trials) -> None:
    sagemaker = t.cloud.client("sagemaker")
    t.cloud.inject("job_never_finishes")
    stack = t.stack("brisk")
    # The watcher's second poll hangs while the job is stopped and deleted.
    t.cloud.inject("function_hangs", operation="DescribeOptimizationJob", skip=2, count=1)
    stack.start()
    name = running_job(t)
    until(lambda: not any(fault["name"] == "function_hangs" for fault in t.cloud.faults()), "poll that hangs")
    sagemaker.stop_optimization_job(OptimizationJobName=name)
    until(lambda: name in jobs_that_are(t, "STOPPED"), "stopped job")
    sagemaker.delete_optimization_job(OptimizationJobName=name)
    t.expect(stack.ended(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["no longer exists", "deploy again to start a new job"])
    t.again(stack)


@scenario
def job_stuck_in_starting(t: Trials) -> None:
    t.cloud.inject("job_never_starts")
    fails(t, t.stack("impatient"), "is still STARTING after", "Set a longer timeout")


@scenario
def job_still_running_when_the_condition_times_out(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    fails(t, t.stack("impatient"), "is still INPROGRESS after", "wait=False")


@scenario
def job_past_its_longest_runtime(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    fails(t, t.stack("limited"), "ended as STOPPED: .*MaxRuntimeInSeconds", "Deploy again")


@scenario
def signal_lost(t: Trials) -> None:
    t.cloud.inject("message_lost", operation="Signal", count=1)
    stack = t.stack("impatient")
    fails(t, stack, "timed out")
    t.expect(len(jobs_of(t, stack)), 1, "jobs: the artifact was there when it was deployed again")


@scenario
def signal_sent_twice(t: Trials) -> None:
    t.cloud.inject("message_twice", operation="Signal", count=1)
    survives(t, t.stack())


@scenario
def watcher_execution_lost(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack("impatient")
    stack.start()
    running_job(t)
    for execution in running_executions(t.cloud):
        t.cloud.client("stepfunctions").stop_execution(executionArn=execution)
    t.expect(stack.ended(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["timed out"])
    t.check()
    t.again(stack)


@scenario
def looking_keeps_failing(t: Trials) -> None:
    t.cloud.inject("function_dies_before", operation="ListObjectsV2", path=f"/{STORE}", skip=1, count=9)
    fails(t, t.stack(), "watching the optimization job .* failed", "Deploy again to attach to it")
