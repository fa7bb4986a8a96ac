"""Requests to functions, and their answers."""

from __future__ import annotations

from ..stacks import MODELS
from ..trial import Trials
from .registry import fails, jobs_of, running_job, scenario, survives


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
def key_disabled(t: Trials) -> None:
    t.cloud.inject("key_disabled", operation="PutObject")
    fails(t, t.stack(), "KMS.DisabledException", "enable the artifact store's KMS key")


@scenario
def quota_exceeded(t: Trials) -> None:
    t.cloud.inject("limit_exceeded", operation="CreateOptimizationJob")
    fails(t, t.stack(), "ResourceLimitExceeded", "Service Quotas")


@scenario
def preflight_finds_no_model(t: Trials) -> None:
    stack = t.stack("preflight")
    t.cloud.client("s3").delete_object(Bucket=MODELS, Key=f"{stack.model}/model.safetensors")
    t.expect(stack.deploy(), "ROLLBACK_COMPLETE", "the stack's status")
    t.says(
        stack,
        ("preflight found 1 problem; nothing was started", "there are no weights", "upload the safetensors files"),
    )
    stack.upload(b"weights")
    t.again(stack)


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
        "grant the role the missing permission",
    )


@scenario
def throttled_for_good(t: Trials) -> None:
    t.cloud.inject("throttled", operation="CreateOptimizationJob")
    fails(t, t.stack("unhurried"), "ThrottlingException", "kept throttling the call; deploy again")


@scenario
def service_down_for_good(t: Trials) -> None:
    t.cloud.inject("server_error", operation="PutObject", path="claim.json")
    fails(t, t.stack("unhurried"), "InternalError", "the service failed; deploy again")
