"""Stacks, and those that share an artifact."""

from __future__ import annotations

from constructs_optim.runtime.store.artifact_store import Owner

from ..trial import Trials
from .registry import files_of, jobs_of, prune, running_job, scenario, survives, until


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
def user_cancels_a_change_of_a_scaled_endpoint(t: Trials) -> None:
    stack = t.stack("scaled")
    stack.deploy()
    before = stack.artifact_key
    stack.group_size = 64
    stack.start()
    sagemaker = t.cloud.client("sagemaker")
    until(lambda: sagemaker.list_endpoints(StatusEquals="Updating")["Endpoints"], "update of the endpoint")
    stack.cloudformation.cancel_update_stack(StackName=stack.name)
    t.expect(stack.ended(), "UPDATE_ROLLBACK_COMPLETE", "the stack's status")
    t.expect(stack.artifact_key, before, "the stack's artifact")
    t.check()
    t.again(stack)


@scenario
def a_scaled_endpoint_is_rolled_back_silently(t: Trials) -> None:
    stack = t.stack("scaled")
    stack.deploy()
    stack.group_size = 64
    for fault in ("update_fails", "silent_rollback"):
        t.cloud.inject(fault, count=1)
    t.expect(stack.deploy(), "UPDATE_ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(
        stack,
        [
            "rolled back the update of the endpoint",
            "it gives no reason, and no alarm of the update went into ALARM",
            "Next: ",
        ],
    )
    t.check()
    t.again(stack)


@scenario
def model_files_change_and_the_update_fails(t: Trials) -> None:
    stack = t.stack("endpoint")
    stack.deploy()
    before, served, jobs = stack.artifact_key, stack.served, len(t.cloud.jobs())
    stack.upload(b"other weights")
    stack.group_size = 64
    t.cloud.inject("limit_exceeded", operation="CreateOptimizationJob", count=1)
    t.expect(stack.deploy(), "UPDATE_ROLLBACK_COMPLETE", "the stack's status")
    t.end_faults()
    t.says(stack, ["ResourceLimitExceeded", "Service Quotas"])
    stack.group_size, stack.max_runtime = 128, 7200
    t.expect(stack.deploy(), "UPDATE_COMPLETE", "the stack's status after an update of something else")
    t.expect(stack.artifact_key, before, "the stack's artifact")
    t.expect(stack.served, served, "what its endpoint serves")
    t.expect(len(t.cloud.jobs()), jobs, "jobs: nobody has asked for another one")
    pruned = prune(t)
    t.expect(
        [each.artifact.key for each in pruned.removals if each.removed and each.artifact.key == before], [], "gone"
    )
    t.expect(bool(files_of(t, stack)), True, "the files of what is served are there")
    t.check()
    t.again(stack)


@scenario
def endpoint_is_busy_when_its_shadow_ends(t: Trials) -> None:
    t.cloud.inject("endpoint_busy", operation="UpdateEndpoint", count=4)
    survives(t, t.stack("shadow"))


@scenario
def rollback_fails(t: Trials) -> None:
    t.cloud.inject("job_never_finishes")
    stack = t.stack("impatient")
    stack.start()
    running_job(t)
    t.cloud.inject("access_denied", operation="PutObject", path="owners/")
    t.expect(stack.ended(), "ROLLBACK_FAILED", "the stack's status")
    t.says(stack, ["PutObject failed with AccessDenied", "grant the role the missing permission"])
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
    t.says(stack, ["StopOptimizationJob failed with AccessDenied"])
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
def stack_renamed(t: Trials) -> None:
    before, after = t.stack(model="renamed"), t.stack(model="renamed")
    before.deploy()
    survives(t, after)
    t.expect(before.destroy(), "DELETE_COMPLETE", "the old stack's status")
    t.expect(len(jobs_of(t, after)), 1, "jobs")
    t.expect(t.guarantees.store.manifest(after.artifact_key) is not None, True, "the artifact is there")
