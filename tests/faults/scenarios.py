"""What happens to deployments beside calls that fail: jobs, stacks, buckets and people.

Each is named as in docs/reliability.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from constructs_optim.runtime.artifact_store import Claim, Owner
from constructs_optim.runtime.json_records import JsonRecords
from constructs_optim.runtime.optimization_jobs import RUNNING, job_name

from .stacks import STORE, FaultStack
from .trial import Trials

SCENARIOS: dict[str, Callable[[Trials], None]] = {}
_PATIENCE = 30


def scenario(function: Callable[[Trials], None]) -> Callable[[Trials], None]:
    """Enter a function under its name."""
    SCENARIOS[function.__name__] = function
    return function


def until(look: Callable[[], Any], what: str) -> Any:
    """What ``look`` gives once it gives something."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.05)
    return found


def running_job(t: Trials) -> str:
    """The name of the job that was told never to finish, once it would have finished otherwise."""

    def told() -> bool:
        t.cloud.jobs()
        return any(fault["struck"] for fault in t.cloud.faults() if fault["name"] == "job_never_finishes")

    until(told, "job")
    return jobs_that_are(t, "INPROGRESS")[-1]


def jobs_that_are(t: Trials, status: str) -> list[str]:
    return [job["name"] for job in t.cloud.jobs() if job["status"] == status]


def jobs_of(t: Trials, stack: FaultStack) -> list[str]:
    """The jobs for the stack's artifact, whatever became of them."""
    prefix = job_name(STORE, stack.artifact_key, 0)[:-1]
    return [job["name"] for job in t.cloud.jobs() if job["name"].startswith(prefix)]


def fails(t: Trials, stack: FaultStack, *says: str) -> None:
    """The deployment fails, says why and what to do, and succeeds once the fault is gone."""
    t.expect(stack.deploy(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, says)
    t.check()
    t.again(stack)


def survives(t: Trials, stack: FaultStack) -> None:
    """The deployment succeeds all the same."""
    t.expect(stack.deploy(), "CREATE_COMPLETE", "the stack's status")
    t.end_faults()
    t.check()


def files_of(t: Trials, stack: FaultStack) -> list[str]:
    """The keys of the objects of the stack's artifact."""
    found = t.cloud.client("s3").list_objects_v2(Bucket=STORE, Prefix=f"artifacts/{stack.artifact_key}/model/")
    return [item["Key"] for item in found.get("Contents", [])]


@scenario
def create_delivered_twice(t: Trials) -> None:
    t.cloud.inject("event_twice", operation="Create", count=1)
    stack = t.stack()
    survives(t, stack)
    t.expect(len(jobs_of(t, stack)), 1, "jobs")


@scenario
def update_delivered_twice(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    stack.group_size = 64
    t.cloud.inject("event_twice", operation="Update", count=1)
    t.expect(stack.deploy(), "UPDATE_COMPLETE", "the stack's status")
    t.end_faults()
    t.expect(len(jobs_of(t, stack)), 1, "jobs")


@scenario
def delete_delivered_twice(t: Trials) -> None:
    stack = t.stack("unwaited")
    t.cloud.inject("job_never_finishes")
    stack.deploy()
    running_job(t)
    t.cloud.inject("event_twice", operation="Delete", count=1)
    t.expect(stack.destroy(), "DELETE_COMPLETE", "the stack's status")
    t.end_faults()
    t.check()


@scenario
def job_fails(t: Trials) -> None:
    t.cloud.inject("job_fails", reason="ClientError: CUDA out of memory")
    fails(t, t.stack(), "ended as FAILED: ClientError: CUDA out of memory", "Deploy again to run another one")


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
    # The watcher's second look hangs while the job goes.
    t.cloud.inject("function_hangs", operation="DescribeOptimizationJob", skip=2, count=1)
    stack.start()
    name = running_job(t)
    until(lambda: not any(fault["name"] == "function_hangs" for fault in t.cloud.faults()), "look that hangs")
    sagemaker.stop_optimization_job(OptimizationJobName=name)
    until(lambda: name in jobs_that_are(t, "STOPPED"), "stopped job")
    sagemaker.delete_optimization_job(OptimizationJobName=name)
    t.expect(stack.ended(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["does not exist any more", "deploy again to start it anew"])
    t.again(stack)


@scenario
def job_stuck_in_starting(t: Trials) -> None:
    t.cloud.inject("job_never_starts")
    fails(t, t.stack("impatient"), "is still STARTING after", "Give it a longer timeout")


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
def answer_lost(t: Trials) -> None:
    t.cloud.inject("message_lost", operation="Respond", count=1)
    fails(t, t.stack("brisk"), "timed out")


@scenario
def answer_sent_twice(t: Trials) -> None:
    t.cloud.inject("message_twice", operation="Respond", count=1)
    survives(t, t.stack())


@scenario
def function_never_comes_back(t: Trials) -> None:
    t.cloud.inject("function_hangs", operation="CreateOptimizationJob", count=1)
    survives(t, t.stack("brisk"))


@scenario
def function_dies_every_time(t: Trials) -> None:
    t.cloud.inject("function_dies_after", operation="GetObject", path="manifest.json", count=3)
    fails(t, t.stack("brisk"), "timed out")


@scenario
def watcher_execution_lost(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack("impatient")
    stack.start()
    running_job(t)
    states = t.cloud.client("stepfunctions")
    for machine in states.list_state_machines()["stateMachines"]:
        for execution in states.list_executions(stateMachineArn=machine["stateMachineArn"], statusFilter="RUNNING")[
            "executions"
        ]:
            states.stop_execution(executionArn=execution["executionArn"])
    t.expect(stack.ended(), "ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["timed out"])
    t.check()
    t.again(stack)


@scenario
def looking_keeps_failing(t: Trials) -> None:
    t.cloud.inject("function_dies_before", operation="ListObjectsV2", path=f"/{STORE}", skip=1, count=9)
    fails(t, t.stack(), "watching the optimization job .* failed", "Deploy again to attach to it")


@scenario
def user_cancels_the_update(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    before = stack.artifact_key
    stack.group_size = 64
    t.cloud.inject("job_never_finishes")
    stack.start()
    running_job(t)
    stack.cloudformation.cancel_update_stack(StackName=stack.name)
    t.end_faults()
    t.expect(stack.ended(), "UPDATE_ROLLBACK_COMPLETE", "the stack's status")
    t.expect(stack.artifact_key, before, "the stack's artifact")
    t.check()
    t.again(stack)


@scenario
def rollback_fails(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack("impatient")
    stack.start()
    running_job(t)
    t.cloud.inject("access_denied", operation="PutObject", path="owners/")
    t.expect(stack.ended(), "ROLLBACK_FAILED", "the stack's status")
    t.says(stack, ["PutObject answered AccessDenied", "give the role what is missing"])
    t.end_faults()
    t.expect(stack.destroy(), "DELETE_COMPLETE", "the stack's status when it is deleted")
    t.check()
    t.again(stack)


@scenario
def deletion_fails(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack("unwaited")
    stack.deploy()
    running_job(t)
    t.cloud.inject("access_denied", operation="StopOptimizationJob")
    t.expect(stack.destroy(), "DELETE_FAILED", "the stack's status")
    t.says(stack, ["StopOptimizationJob answered AccessDenied"])
    t.end_faults()
    t.expect(stack.destroy(), "DELETE_COMPLETE", "the stack's status when deleted again")
    t.check()


@scenario
def two_stacks_at_once(t: Trials) -> None:
    first, second = t.stack(model="shared-at-once"), t.stack(model="shared-at-once")
    first.start()
    second.start()
    for stack in (first, second):
        t.expect(stack.ended(), "CREATE_COMPLETE", "the stack's status")
    t.expect(len(jobs_of(t, first)), 1, "jobs")


@scenario
def the_first_of_two_stacks_is_deleted(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    first, second = t.stack(model="shared-first-goes"), t.stack(model="shared-first-goes")
    first.start()
    name = running_job(t)
    second.start()
    until(lambda: any(len(claim.owners) == 2 for claim in t.guarantees.claims()), "second owner")
    first.destroy()
    t.end_faults()
    t.expect(second.ended(), "CREATE_COMPLETE", "the second stack's status")
    t.expect(jobs_of(t, second), [name], "jobs")


@scenario
def claim_left_by_a_dead_owner(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack("unwaited")
    stack.deploy()
    running_job(t)
    region_and_account = ":".join(stack.stack_id.split(":")[:5])
    dead = Owner(f"{region_and_account}:stack/gone/00000000-0000-0000-0000-000000000000", "Llama")
    t.guarantees.store.join(stack.artifact_key, dead)
    stack.destroy()
    t.end_faults()
    t.check()


@scenario
def half_written_output(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    key = stack.artifact_key
    first = files_of(t, stack)
    stack.destroy()
    s3 = t.cloud.client("s3")
    # As a job would leave it that was deleted before it was through.
    s3.delete_object(Bucket=STORE, Key=f"artifacts/{key}/manifest.json")
    s3.delete_object(Bucket=STORE, Key=next(file for file in first if file.endswith(".safetensors")))
    t.cloud.client("sagemaker").delete_optimization_job(OptimizationJobName=job_name(STORE, key, 1))
    survives(t, stack)
    manifest = t.guarantees.store.manifest(key)
    t.expect(manifest and manifest["attempt"], 2, "the attempt of the new output")
    t.expect(manifest and len(manifest["files"]), len(first), "its files")


@scenario
def manifest_missing(t: Trials) -> None:
    _manifest_damaged(t, None)


@scenario
def manifest_corrupt(t: Trials) -> None:
    _manifest_damaged(t, b"{")


def _manifest_damaged(t: Trials, body: bytes | None) -> None:
    stack = t.stack(model=f"manifest-{body!r:.8}".replace("'", "").replace("{", "x"))
    stack.deploy()
    s3, name = t.cloud.client("s3"), f"artifacts/{stack.artifact_key}/manifest.json"
    if body is None:
        s3.delete_object(Bucket=STORE, Key=name)
    else:
        s3.put_object(Bucket=STORE, Key=name, Body=body)
    second = t.stack(model=stack.model)
    survives(t, second)
    t.expect(t.guarantees.store.manifest(stack.artifact_key) is not None, True, "the manifest is there again")
    t.expect(len(jobs_of(t, stack)), 1, "jobs")


@scenario
def output_deleted_behind_our_back(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    t.cloud.client("s3").delete_object(Bucket=STORE, Key=files_of(t, stack)[0])
    second = t.stack(model=stack.model)
    t.expect(second.deploy(), "CREATE_COMPLETE", "the stack's status")
    manifest = t.guarantees.store.manifest(stack.artifact_key)
    t.expect(manifest and manifest["attempt"], 2, "the attempt of the new output")
    t.check()


@scenario
def claim_corrupt(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    records = JsonRecords(t.cloud.client("s3"), STORE)
    name = f"artifacts/{stack.artifact_key}/claim.json"
    claim = records.read(name)
    t.cloud.client("s3").put_object(Bucket=STORE, Key=name, Body=b"{")
    second = t.stack(model=stack.model)
    t.expect(second.deploy(), "ROLLBACK_FAILED", "the stack's status")
    t.says(second, ["claim.json is damaged", "restore the version before it"])
    records.write(name, claim or Claim(stack.artifact_key).to_record())
    second.destroy()
    t.again(second)


@scenario
def bucket_gone(t: Trials) -> None:
    stack = t.stack(store=f"{STORE}-gone")
    t.expect(stack.deploy(), "ROLLBACK_COMPLETE", "the stack's status")
    t.says(stack, ["NoSuchBucket", "create it again, or name another store"])


@scenario
def bucket_gone_while_the_job_runs(t: Trials) -> None:
    s3, store = t.cloud.client("s3"), f"{STORE}-goes"
    s3.create_bucket(Bucket=store, CreateBucketConfiguration={"LocationConstraint": t.cloud.region})
    t.cloud.inject("job_never_finishes")
    stack = t.stack("unwaited", store=store)
    stack.deploy()
    name = running_job(t)
    for item in s3.list_objects_v2(Bucket=store)["Contents"]:
        s3.delete_object(Bucket=store, Key=item["Key"])
    s3.delete_bucket(Bucket=store)
    t.expect(stack.destroy(), "DELETE_COMPLETE", "the stack's status")
    t.end_faults()
    until(lambda: all(job["status"] not in RUNNING for job in t.cloud.jobs() if job["name"] == name), "end of the job")


@scenario
def key_disabled(t: Trials) -> None:
    t.cloud.inject("key_disabled", operation="PutObject")
    fails(t, t.stack(), "KMS.DisabledException", "enable the artifact store's KMS key")


@scenario
def quota_exceeded(t: Trials) -> None:
    t.cloud.inject("limit_exceeded", operation="CreateOptimizationJob")
    fails(t, t.stack(), "ResourceLimitExceeded", "Service Quotas")


@scenario
def permission_missing_at_first(t: Trials) -> None:
    t.cloud.inject("access_denied", operation="CreateOptimizationJob", count=2)
    survives(t, t.stack("unhurried"))


@scenario
def permission_missing(t: Trials) -> None:
    t.cloud.inject("access_denied", operation="CreateOptimizationJob")
    fails(
        t,
        t.stack("brisk"),
        "not authorized to perform: sagemaker:CreateOptimizationJob",
        "give the role what is missing",
    )


@scenario
def throttled_for_good(t: Trials) -> None:
    t.cloud.inject("throttled", operation="CreateOptimizationJob")
    fails(t, t.stack("unhurried"), "ThrottlingException", "kept throttling the call; deploy again")


@scenario
def service_down_for_good(t: Trials) -> None:
    t.cloud.inject("server_error", operation="PutObject", path="claim.json")
    fails(t, t.stack("unhurried"), "InternalError", "the service failed; deploy again")


@scenario
def stack_renamed(t: Trials) -> None:
    before, after = t.stack(model="renamed"), t.stack(model="renamed")
    before.deploy()
    survives(t, after)
    t.expect(before.destroy(), "DELETE_COMPLETE", "the old stack's status")
    t.expect(len(jobs_of(t, after)), 1, "jobs")
    t.expect(t.guarantees.store.manifest(after.artifact_key) is not None, True, "the artifact is there")
