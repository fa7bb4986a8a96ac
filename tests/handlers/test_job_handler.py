"""``Custom::OptimizationJob`` against the local cloud: requests that overtake, retry and interrupt one another.

The tests send the requests of CloudFormation themselves, in orders that CloudFormation rarely produces.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.documents import not_created
from constructs_optim.runtime.handlers import job_handler, job_watcher
from constructs_optim.runtime.jobs.sagemaker_jobs import SageMakerJobs
from constructs_optim.runtime.store.owner_records import Owner, OwnerRecords
from constructs_optim_local.cloud import LocalCloud

from ..support.handler_clients import ACCOUNT, OTHER_ACCOUNT, Clients, Died, Requests
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses, empty_bucket, idle_state_machine
from ..support.sampling import one_in
from ..support.waiting import until


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    return idle_state_machine(cloud, "watcher")


@pytest.fixture
def a_resource(
    cloud: LocalCloud, responses: Responses, machine: str, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Requests]:
    # The pauses are for permissions on their way, of which there are none here.
    monkeypatch.setattr(custom_resource, "_may_be_too_early", lambda error: False)
    for module in (job_handler, custom_resource):
        monkeypatch.setattr(module, "client", clients.get)
    # Whether a deletion waits is told by one test; the others make hundreds.
    monkeypatch.setattr(job_handler, "_STOPPING_SECONDS", 0.0)
    clients.arm({})
    empty_bucket(cloud, "artifacts/", "owners/")
    cloud.inject("job_never_finishes")
    return lambda account=ACCOUNT: Requests(cloud, responses, machine, account)


@pytest.fixture(scope="module")
def clients(cloud: LocalCloud) -> Clients:
    return Clients(cloud)


@pytest.fixture
def at_call(clients: Clients) -> Iterator[Callable[[dict[int, Callable[[], None]]], None]]:
    """Runs actions right before the n-th calls to AWS from now on."""
    yield clients.arm
    clients.arm({})


CALLS_OF_A_CREATE = 16


@pytest.mark.parametrize("step", one_in(3, range(CALLS_OF_A_CREATE)))
def test_a_delete_that_overtakes_a_create_leaves_no_job_and_no_claim(
    a_resource: Callable[..., Requests], at_call: Any, step: int
) -> None:
    resource = a_resource()
    at_call({step: lambda: resource.send("Delete", "delete", "Chat-Job-MADEUP")})
    resource.send("Create", "create")
    resource.assert_nothing_is_left()


def test_a_create_request_makes_the_number_of_calls_the_tests_interrupt(
    a_resource: Callable[..., Requests], at_call: Any
) -> None:
    resource = a_resource()
    reached: list[int] = []
    at_call({number: lambda number=number: reached.append(number) for number in range(50)})
    created = resource.send("Create", "create")
    assert len(reached) == CALLS_OF_A_CREATE
    resource.send("Delete", "delete", created["PhysicalResourceId"])


@pytest.mark.parametrize("step", one_in(5, range(CALLS_OF_A_CREATE)))
def test_an_update_that_overtakes_a_create_takes_precedence(
    a_resource: Callable[..., Requests], at_call: Any, step: int
) -> None:
    resource = a_resource()
    changed = {"RecipeKey": f"{resource.number:063x}d"}
    at_call({step: lambda: resource.send("Update", "update", "Chat-Job-MADEUP", **changed)})
    resource.send("Create", "create")
    (key,) = resource.keys
    assert resource.responses.received[-1]["PhysicalResourceId"] == key
    assert len(resource.running) == 1
    resource.send("Delete", "delete", key)
    resource.assert_nothing_is_left()


@settings(max_examples=12)
@given(overtaken=st.integers(0, CALLS_OF_A_CREATE - 1), further=st.integers(0, 12))
def test_an_overtaken_create_that_dies_and_is_retried_leaves_no_job_and_no_claim(
    a_resource: Callable[..., Requests], at_call: Any, overtaken: int, further: int
) -> None:
    resource = a_resource()

    def die() -> None:
        raise Died

    def overtake() -> None:
        resource.send("Delete", "delete", "Chat-Job-MADEUP")
        at_call({further: die})

    at_call({overtaken: overtake})
    for _ in range(2):
        try:
            resource.send("Create", "create")
        except Died:
            at_call({})
    resource.assert_nothing_is_left()


@settings(max_examples=6)
@given(died=st.integers(0, 20))
def test_an_update_that_dies_is_undone_by_the_rollback(
    a_resource: Callable[..., Requests], at_call: Any, died: int
) -> None:
    resource = a_resource()
    before = resource.send("Create", "create")["PhysicalResourceId"]

    def die() -> None:
        raise Died

    at_call({died: die})
    try:
        resource.send("Update", "update", before, RecipeKey=f"{resource.number:063x}f")
    except Died:
        rolled_back = resource.send("Update", "rollback", before)
        assert rolled_back["PhysicalResourceId"] == before
        assert resource.keys == {before}
        assert len(resource.running) == 1
    at_call({})
    for key in sorted(resource.keys):
        resource.send("Delete", f"delete-{key}", key)
    resource.assert_nothing_is_left()


def test_a_late_retry_of_a_create_after_the_deletion_does_nothing(a_resource: Callable[..., Requests]) -> None:
    resource = a_resource()
    created = resource.send("Create", "create")
    resource.send("Delete", "delete", created["PhysicalResourceId"])
    answered = len(resource.responses.received)
    resource.send("Create", "create")
    assert len(resource.responses.received) == answered, "no response is expected"
    resource.assert_nothing_is_left()


def test_a_deletion_waits_until_the_job_it_stops_has_ended(
    a_resource: Callable[..., Requests], cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_handler, "_STOPPING_SECONDS", 30.0)
    resource = a_resource()
    created = resource.send("Create", "create")
    (name,) = resource.running
    resource.send("Delete", "delete", created["PhysicalResourceId"])
    # Described when the answer is there; its role is deleted next.
    job = cloud.client("sagemaker").describe_optimization_job(OptimizationJobName=name)
    assert job["OptimizationJobStatus"] == "STOPPED"


def test_a_deletion_succeeds_if_the_job_it_stops_does_not_end_in_time(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    resource = a_resource()
    created = resource.send("Create", "create")
    (name,) = resource.running
    deleted = resource.send("Delete", "delete", created["PhysicalResourceId"])
    assert deleted["Status"] == "SUCCESS"
    job = cloud.client("sagemaker").describe_optimization_job(OptimizationJobName=name)
    # On a busy machine, it has ended by now.
    assert job["OptimizationJobStatus"] in ("STOPPING", "STOPPED")


def test_deleting_a_failed_create_keeps_the_job_of_a_later_create(
    a_resource: Callable[..., Requests],
) -> None:
    resource = a_resource()
    failed = resource.send("Create", "first", RoleArn="nobody")
    assert failed["Status"] == "FAILED"
    created = resource.send("Create", "second")
    resource.send("Delete", "cleanup", failed["PhysicalResourceId"])
    assert resource.keys == {created["PhysicalResourceId"]}
    assert len(resource.running) == 1
    resource.send("Delete", "delete", created["PhysicalResourceId"])
    resource.assert_nothing_is_left()


def test_a_failed_update_keeps_the_previous_artifact(a_resource: Callable[..., Requests], cloud: LocalCloud) -> None:
    resource = a_resource()
    before = resource.send("Create", "create")["PhysicalResourceId"]
    cloud.inject("limit_exceeded", operation="CreateOptimizationJob")
    failed = resource.send("Update", "update", before, RecipeKey=f"{resource.number:063x}e")
    assert (failed["Status"], failed["PhysicalResourceId"]) == ("FAILED", before)
    assert resource.keys == {before}
    assert len(resource.running) == 1
    resource.send("Delete", "delete", before)
    resource.assert_nothing_is_left()


def forge_manifest(resource: Requests, key: str, place: str = "") -> None:
    """Forge a manifest of existing files, as a principal with write access to the store could."""
    uri = f"s3://{BUCKET}/{place}" if place else resource.store.model_uri(key, 1)
    name = uri.removeprefix(f"s3://{BUCKET}/")
    resource.cloud.client("s3").put_object(Bucket=BUCKET, Key=f"{name}pytorch_model.bin", Body=b"pickle")
    manifest = {"attempt": 1, "image": "lmi:2", "model_data_uri": uri, "job_name": "job"}
    resource.store.write_manifest(key, {**manifest, "files": resource.store.files(uri)})


def test_an_artifact_with_a_forged_manifest_is_neither_reused_nor_signaled(
    a_resource: Callable[..., Requests],
) -> None:
    problem = "model_data_uri is s3://"
    resource, other = a_resource(), a_resource(OTHER_ACCOUNT)
    other.recipe, other.number = resource.recipe, resource.number
    key = resource.send("Create", "create")["PhysicalResourceId"]
    assert other.send("Create", "create")["Status"] == "SUCCESS"
    forge_manifest(resource, key, f"artifacts/{'e' * 64}/model/1/")

    # The other account's watcher follows the job by what the store says.
    watched = {
        "Bucket": BUCKET,
        "ArtifactKey": key,
        "Attempt": 1,
        "Account": OTHER_ACCOUNT,
        "WaitHandle": other.responses.url,
    }
    assert job_watcher.handler(watched, LambdaContext()) == {"Done": True}
    signaled = other.responses.received[-1]
    assert signaled["Status"] == "FAILURE"
    assert problem in signaled["Reason"]

    answer = resource.send("Update", "update", key, Tags=[{"Key": "a", "Value": "b"}])
    assert answer["Status"] == "FAILED"
    assert f"the artifact {key} in the store {BUCKET} differs from its manifest" in answer["Reason"]
    assert problem in answer["Reason"]

    forge_manifest(resource, key)
    answer = resource.send("Update", "again", key)
    assert answer["Status"] == "SUCCESS", answer


def test_a_job_runs_again_if_its_artifact_lost_a_file(
    a_resource: Callable[..., Requests], monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = a_resource()
    key = resource.send("Create", "create")["PhysicalResourceId"]
    (first,) = resource.running
    resource.cloud.client("s3").put_object(
        Bucket=BUCKET, Key=f"artifacts/{key}/model/1/shard-1.safetensors", Body=b"lost"
    )
    forge_manifest(resource, key)
    resource.cloud.client("s3").delete_object(Bucket=BUCKET, Key=f"artifacts/{key}/model/1/shard-1.safetensors")
    describe = SageMakerJobs.describe

    def described(jobs: SageMakerJobs, name: str) -> dict[str, Any] | None:
        job = describe(jobs, name)
        return {**job, "OptimizationJobStatus": "COMPLETED"} if job is not None and name == first else job

    monkeypatch.setattr(SageMakerJobs, "describe", described)
    assert resource.send("Update", "update", key)["Status"] == "SUCCESS"
    claim = resource.store.claim(key)
    assert claim is not None
    assert (claim.attempt, len(resource.running)) == (2, 2)
    resource.send("Delete", "delete", key)


def test_two_accounts_that_need_the_same_artifact_run_one_job(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    ours, theirs = a_resource(), a_resource(OTHER_ACCOUNT)
    theirs.number, theirs.recipe = ours.number, ours.recipe
    key = ours.send("Create", "create")["PhysicalResourceId"]
    assert theirs.send("Create", "theirs")["PhysicalResourceId"] == key
    assert len(ours.running) == 1
    poll = {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1}
    following = {**poll, "Account": OTHER_ACCOUNT, "WaitHandle": theirs.responses.url}
    assert not job_watcher.handler(following, LambdaContext())["Done"]
    cloud.clear_faults()
    until(lambda: job_watcher.handler({**poll, "Account": ACCOUNT}, LambdaContext()), lambda answer: answer["Done"])
    assert job_watcher.handler(following, LambdaContext())["Done"]
    assert theirs.responses.received[-1]["Status"] == "SUCCESS"


def test_a_job_passes_through_the_files_that_contributing_lists(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    resource, files = a_resource(), set[str]()
    root = Path(custom_resource.__file__).parent

    def enter(frame: FrameType, event: str, argument: object) -> None:
        # Of every call: what is in which folder is asked later, once a file.
        files.add(frame.f_code.co_filename)

    poll = {"Bucket": BUCKET, "Attempt": 1, "Account": ACCOUNT, "WaitHandle": resource.responses.url}
    sys.setprofile(enter)
    try:
        poll["ArtifactKey"] = resource.send("Create", "create")["PhysicalResourceId"]
        cloud.clear_faults()
        until(lambda: job_watcher.handler(poll, LambdaContext()), lambda output: output["Done"])
    finally:
        sys.setprofile(None)
    assert resource.store.manifest(poll["ArtifactKey"]) is not None
    entered = {path.relative_to(root).as_posix() for path in map(Path, files) if path.is_relative_to(root)}
    contributing = (root.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = contributing.partition("## How a job runs\n")[2].partition("\n## ")[0]
    steps, _, below = section.partition("All of these use ")
    listed = re.findall(r"^\d\. `(.+?)`", steps, re.MULTILINE)
    assert len(listed) <= 8
    assert entered == {*listed, *re.findall(r"`([a-z_/]+\.py)`", below.partition(":")[0])}


@pytest.mark.parametrize(("limits", "seconds"), [({"MaxRuntimeInSeconds": "3600"}, 3600), ({}, 28 * 86_400)])
def test_a_claim_is_due_an_hour_after_its_job_s_time_limit(
    a_resource: Callable[..., Requests], limits: dict[str, str], seconds: int
) -> None:
    resource = a_resource()
    request = {**resource.properties()["Request"], "StoppingCondition": limits}
    before = int(time.time())
    resource.send("Create", "create", Request=request)
    (claim,) = resource.claims()
    assert before <= claim.due - seconds - 3600 <= time.time()


def test_a_job_of_another_account_without_a_waiting_stack_is_not_polled(
    a_resource: Callable[..., Requests],
) -> None:
    ours = a_resource()
    key = ours.send("Create", "create")["PhysicalResourceId"]
    poll = {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1, "Account": OTHER_ACCOUNT}
    assert job_watcher.handler(poll, LambdaContext()) == {"Done": True}


def test_a_sharding_job_reads_quantized_weights_without_option_quantize(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    quantized = a_resource()
    key = quantized.send("Create", "create")["PhysicalResourceId"]
    cloud.clear_faults()
    poll = {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1, "Account": ACCOUNT}
    until(lambda: job_watcher.handler(poll, LambdaContext()), lambda answer: answer["Done"])
    manifest = quantized.store.manifest(key)
    assert manifest is not None
    uri = manifest["model_data_uri"]
    # A second resource, whose recipe goes on from the artifact.
    sharding = {
        "ModelShardingConfig": {
            "Image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1",
            "OverrideEnvironment": {
                "OPTION_LOAD_FORMAT": "sagemaker_fast_model_loader",
                "OPTION_TENSOR_PARALLEL_DEGREE": "4",
            },
        }
    }
    sharded = a_resource()
    request = {**sharded.properties()["Request"], "OptimizationConfigs": [sharding]}
    of_artifact = {"Kind": "artifact", "ArtifactKey": key, "S3Uri": uri}
    made = sharded.send("Create", "shard", Source=of_artifact, Request=request)
    assert made["Status"] == "SUCCESS", made
    job = cloud.client("sagemaker").describe_optimization_job(OptimizationJobName=made["Data"]["JobName"])
    source = job["ModelSource"]["S3"]["S3Uri"].removeprefix(f"s3://{BUCKET}/")
    read = cloud.client("s3").get_object(Bucket=BUCKET, Key=f"{source}serving.properties")["Body"].read().decode()
    assert "option.quantize" not in read
    # A repeated poll leaves the file alone, and the artifact stays what its manifest says.
    assert job_watcher.handler(poll, LambdaContext())["Done"]
    assert quantized.store.manifest(key) is not None


def test_an_account_whose_shared_job_was_abandoned_is_signaled_and_can_run_it(
    a_resource: Callable[..., Requests],
) -> None:
    ours, theirs = a_resource(), a_resource(OTHER_ACCOUNT)
    theirs.number, theirs.recipe = ours.number, ours.recipe
    key = ours.send("Create", "create")["PhysicalResourceId"]
    theirs.send("Create", "theirs")
    ours.send("Delete", "delete", key)
    assert ours.running == []
    handle = theirs.responses.url
    poll = {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1, "Account": OTHER_ACCOUNT, "WaitHandle": handle}
    assert job_watcher.handler(poll, LambdaContext())["Done"]
    told = theirs.responses.received[-1]
    assert told["Status"] == "FAILURE"
    assert f"account {ACCOUNT}" in told["Reason"]
    assert "Deploy again to run it here" in told["Reason"]
    theirs.send("Update", "again", key, Tags=[])
    assert len(theirs.running) == 1


def test_a_store_in_another_region_is_refused_before_a_claim_is_made(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    resource = a_resource()
    elsewhere = f"elsewhere-{resource.number}"
    boto3.client("s3", region_name="eu-central-1").create_bucket(
        Bucket=elsewhere, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    answer = resource.send("Create", "create", Bucket=elsewhere)
    assert answer["Status"] == "FAILED"
    assert "is in eu-central-1, but this stack is in us-west-2" in answer["Reason"]
    assert resource.running == []


class ChangedModel:
    """A stack whose model's files change, and whose recipe changes with them."""

    def __init__(self, resource: Requests) -> None:
        self.resource = resource
        self.old = resource.properties()
        self.new = {"RecipeKey": f"{resource.number:063x}c"}
        self.before: str = resource.send("Create", "create")["PhysicalResourceId"]

    def change_the_files(self) -> None:
        self.resource.cloud.client("s3").put_object(
            Bucket=BUCKET, Key=f"models/{self.resource.number}/model.safetensors", Body=b"other weights"
        )

    def update(self, request: str = "update") -> dict[str, Any]:
        return self._updated(request, self.before, self.old, **self.new)

    def roll_back(self, physical_id: str, request: str = "rollback") -> dict[str, Any]:
        return self._updated(request, physical_id, self.resource.properties(**self.new))

    def _updated(self, request: str, physical_id: str, old: dict[str, Any], **changed: Any) -> dict[str, Any]:
        event = self.resource.event("Update", request, physical_id, **changed)
        self.resource.deliver({**event, "OldResourceProperties": old})
        return self.resource.responses.received[-1]

    def is_what_it_was(self) -> bool:
        claims = [claim.artifact_key for claim in self.resource.claims()]
        return self.resource.keys == {self.before} and claims == [self.before] and len(self.resource.running) == 1


def test_a_rollback_keeps_the_artifact_even_if_the_model_files_changed(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    changed = ChangedModel(a_resource())
    changed.change_the_files()
    cloud.inject("limit_exceeded", operation="CreateOptimizationJob", count=1)
    assert changed.update()["Status"] == "FAILED"
    assert changed.roll_back(changed.before)["PhysicalResourceId"] == changed.before
    assert changed.is_what_it_was(), "no other job was started, and no other artifact is referred to"


def test_a_rollback_keeps_the_artifact_even_if_the_model_files_were_deleted(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    changed = ChangedModel(a_resource())
    cloud.client("s3").delete_object(Bucket=BUCKET, Key=f"models/{changed.resource.number}/model.safetensors")
    failed = changed.update()
    assert failed["Status"] == "FAILED"
    assert "there are no model files" in failed["Reason"]
    assert changed.roll_back(changed.before)["PhysicalResourceId"] == changed.before
    assert changed.is_what_it_was()


def test_a_rollback_after_a_completed_update_keeps_the_artifact_even_if_the_model_files_changed(
    a_resource: Callable[..., Requests],
) -> None:
    changed = ChangedModel(a_resource())
    changed.change_the_files()
    replaced = changed.update()["PhysicalResourceId"]
    assert replaced != changed.before
    assert changed.roll_back(replaced)["PhysicalResourceId"] == changed.before
    changed.resource.send("Delete", "cleanup", replaced)
    assert changed.is_what_it_was()


def test_a_rollback_keeps_an_artifact_recorded_by_the_first_release(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    changed = ChangedModel(a_resource())
    name, s3 = changed.resource.owner.record_name, cloud.client("s3")
    record = json.loads(s3.get_object(Bucket=BUCKET, Key=name)["Body"].read())
    of_the_first_release = {"schema", "stack_id", "logical_id", "request", "issued", "superseded", "keys"}
    older = {member: value for member, value in record.items() if member in of_the_first_release}
    s3.put_object(Bucket=BUCKET, Key=name, Body=json.dumps(older).encode())
    changed.change_the_files()
    cloud.inject("limit_exceeded", operation="CreateOptimizationJob", count=1)
    assert changed.update()["Status"] == "FAILED"
    assert changed.roll_back(changed.before)["PhysicalResourceId"] == changed.before
    assert changed.is_what_it_was()


def test_returning_to_a_recipe_after_its_artifact_was_released_uses_the_current_model_files(
    a_resource: Callable[..., Requests],
) -> None:
    changed = ChangedModel(a_resource())
    replaced = changed.update()["PhysicalResourceId"]
    changed.resource.send("Delete", "cleanup", changed.before)
    changed.change_the_files()
    assert changed.roll_back(replaced, "back-on-purpose")["PhysicalResourceId"] not in (changed.before, replaced)


def test_a_retried_request_keeps_its_artifact_even_if_the_model_files_changed(
    a_resource: Callable[..., Requests],
) -> None:
    changed = ChangedModel(a_resource())
    changed.change_the_files()
    changed.resource.send("Create", "create")
    assert changed.resource.responses.received[-1]["PhysicalResourceId"] == changed.before
    assert changed.is_what_it_was()


@pytest.mark.parametrize("step", one_in(6, range(CALLS_OF_A_CREATE)))
def test_an_overtaken_create_beside_another_stack_leaves_no_job_behind(
    a_resource: Callable[..., Requests], at_call: Any, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # CloudFormation has never heard of either stack.
    monkeypatch.setattr(job_handler, "_is_gone", lambda stack_id, cloudformation: False)
    resource, other = a_resource(), a_resource()
    other.number, other.recipe = resource.number, resource.recipe
    events = resource.event("Create", "create"), resource.event("Delete", "delete", "Chat-Job-MADEUP")
    their_key: list[str] = []

    def overtake() -> None:
        resource.deliver(events[1])
        their_key.append(other.send("Create", "theirs")["PhysicalResourceId"])

    at_call({step: overtake})
    resource.deliver(events[0])
    assert len(resource.running) == 1, "the other stack's"
    resource.assert_nothing_is_claimed()
    other.send("Delete", "theirs-deleted", their_key[0])
    assert resource.running == []


CALLS_OF_A_CREATE_UNTIL_IT_REFERS = 5


@pytest.mark.parametrize("step", one_in(3, range(1, CALLS_OF_A_CREATE_UNTIL_IT_REFERS)))
def test_an_overtaken_retry_of_a_failed_create_releases_the_claim_its_first_attempt_joined(
    a_resource: Callable[..., Requests], at_call: Any, cloud: LocalCloud, step: int
) -> None:
    resource = a_resource()
    cloud.inject("limit_exceeded", operation="CreateOptimizationJob", count=1)
    assert resource.send("Create", "create")["Status"] == "FAILED"
    key = resource.records.get(resource.owner).chosen[f"{resource.number}-create"]
    # The first try was joining the claim meanwhile, and died right after that.
    resource.store.join(key, resource.owner)
    at_call({step: lambda: resource.send("Delete", "delete", "Chat-Job-MADEUP")})
    resource.send("Create", "create")
    resource.assert_nothing_is_left()


CALLS_OF_A_CLEANUP = {"first": 16, "second": 11}


@pytest.mark.parametrize(
    ("delivery", "step"),
    one_in(6, [(which, step) for which, calls in CALLS_OF_A_CLEANUP.items() for step in range(calls)]),
)
def test_a_slow_cleanup_keeps_the_artifact_a_later_update_returned_to(
    a_resource: Callable[..., Requests], at_call: Any, step: int, delivery: str
) -> None:
    resource = a_resource()
    one = resource.send("Create", "create")["PhysicalResourceId"]
    other = resource.send("Update", "update", one, RecipeKey=f"{resource.number:063x}b")["PhysicalResourceId"]
    cleanup = resource.event("Delete", "cleanup", one)
    if delivery == "second":
        resource.deliver(cleanup)
    back: list[dict[str, Any]] = []
    at_call({step: lambda: back.append(resource.send("Update", "back", other))})
    resource.deliver(cleanup)
    assert [answer["PhysicalResourceId"] for answer in back] == [one], "while the deletion was at work"
    assert one in resource.keys
    assert one in {claim.artifact_key for claim in resource.claims()}
    assert len(resource.running) == 2, "nobody has stopped what the stack waits for"


@pytest.mark.parametrize("changed", [{"schema": 2, "region": "us-west-2"}, {"schema": 2, "owners": "in another form"}])
def test_deleting_a_resource_succeeds_with_records_of_a_newer_schema(
    a_resource: Callable[..., Requests], cloud: LocalCloud, changed: dict[str, Any]
) -> None:
    resource, s3 = a_resource(), cloud.client("s3")
    key = resource.send("Create", "create")["PhysicalResourceId"]
    name = f"artifacts/{key}/claim.json"
    claim = json.loads(s3.get_object(Bucket=BUCKET, Key=name)["Body"].read())
    s3.put_object(Bucket=BUCKET, Key=name, Body=json.dumps({**claim, **changed}).encode())
    refused = resource.send("Update", "update", key, Tags=[])
    assert refused["Status"] == "FAILED"
    assert "Upgrade constructs-optim" in refused["Reason"]
    assert resource.send("Delete", "delete", key)["Status"] == "SUCCESS"
    if "region" in changed:
        assert resource.running == []
        kept = json.loads(s3.get_object(Bucket=BUCKET, Key=name)["Body"].read())
        assert (kept["schema"], kept["region"], kept["owners"]) == (2, "us-west-2", [])
    s3.delete_object(Bucket=BUCKET, Key=name)


def test_a_model_that_changes_between_two_tries_of_a_request_fails_it_if_no_job_began(
    a_resource: Callable[..., Requests], monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = a_resource()

    def die(jobs: SageMakerJobs, request: object) -> bool:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(SageMakerJobs, "create", die)
        with pytest.raises(Died):
            resource.send("Create", "create")
    resource.cloud.client("s3").put_object(
        Bucket=BUCKET, Key=f"models/{resource.number}/model.safetensors", Body=b"other weights"
    )
    failed = resource.send("Create", "create")
    assert failed["Status"] == "FAILED"
    assert "the model's files changed during the deployment; deploy again" in failed["Reason"]
    resource.assert_nothing_is_left()
    assert resource.send("Create", "again")["Status"] == "SUCCESS"


@pytest.mark.parametrize("ending", ["", "elsewhere/"])
def test_a_job_that_writes_elsewhere_is_no_job_of_the_artifact(
    a_resource: Callable[..., Requests], monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    resource = a_resource()
    key = resource.send("Create", "create")["PhysicalResourceId"]
    (first,) = resource.running
    describe = SageMakerJobs.describe

    def described(jobs: SageMakerJobs, name: str) -> dict[str, Any] | None:
        job = describe(jobs, name)
        if job is None or name != first:
            return job
        # Without the slash at its end, it is the same place.
        output = f"{job['OutputConfig']['S3OutputLocation'].rstrip('/')}{ending and f'/{ending}'}"
        return {**job, "OutputConfig": {"S3OutputLocation": output}}

    monkeypatch.setattr(SageMakerJobs, "describe", described)
    assert resource.send("Update", "update", key)["Status"] == "SUCCESS"
    claim = resource.store.claim(key)
    assert claim is not None
    assert claim.attempt == (2 if ending else 1)


def test_deleting_a_resource_without_its_store_stops_the_jobs_of_all_attempts(
    a_resource: Callable[..., Requests], cloud: LocalCloud
) -> None:
    resource, s3 = a_resource(), cloud.client("s3")
    bucket = f"short-lived-{resource.number}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    first = resource.send("Create", "first", Bucket=bucket)["PhysicalResourceId"]
    resource.send("Delete", "deleted", first, Bucket=bucket)
    assert resource.send("Create", "second", Bucket=bucket)["PhysicalResourceId"] == first
    assert len(resource.running) == 1, "the second attempt's"
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for item in page.get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=item["Key"])
    s3.delete_bucket(Bucket=bucket)
    assert resource.send("Delete", "again", first, Bucket=bucket)["Status"] == "SUCCESS"
    assert resource.running == []


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


@pytest.mark.parametrize(
    ("code", "created", "refers", "status"),
    [
        ("NoSuchBucket", True, True, "SUCCESS"),
        ("AccessDenied", True, False, "FAILED"),
        ("AccessDenied", True, True, "FAILED"),
        ("AccessDenied", False, True, "FAILED"),
        # The creation failed for the same reason, and nothing can be deleted.
        ("AccessDenied", False, False, "SUCCESS"),
    ],
)
def test_a_deletion_that_cannot_be_recorded_fails_unless_nothing_was_created(
    a_resource: Callable[..., Requests],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    *,
    created: bool,
    refers: bool,
    status: str,
) -> None:
    resource, asked = a_resource(), list[Owner]()

    def begin(records: OwnerRecords, *_: object, **__: object) -> NoReturn:
        raise refusal(code)

    def may_refer(records: OwnerRecords, owner: Owner) -> bool:
        asked.append(owner)
        return refers

    monkeypatch.setattr(OwnerRecords, "begin", begin)
    monkeypatch.setattr(OwnerRecords, "may_refer", may_refer)
    answer = resource.send("Delete", "delete", "a" * 64 if created else not_created("create"))
    assert answer["Status"] == status
    assert asked == ([] if created else [resource.owner])


@pytest.mark.parametrize(
    ("found", "is_gone"),
    [
        (refusal("AccessDenied"), False),
        (
            ClientError(
                {"Error": {"Code": "ValidationError", "Message": "Stack with id Chat does not exist"}}, "DescribeStacks"
            ),
            True,
        ),
        (BotoCoreError(), False),
        (["DELETE_COMPLETE"], True),
        (["DELETE_IN_PROGRESS"], False),
        (["UPDATE_COMPLETE"], False),
        (["DELETE_COMPLETE", "CREATE_COMPLETE"], False),
    ],
)
def test_a_stack_is_gone_if_cloudformation_says_so(found: Exception | list[str], *, is_gone: bool) -> None:
    cloudformation = Mock()
    if isinstance(found, Exception):
        cloudformation.describe_stacks.side_effect = found
    else:
        stacks = [{"StackStatus": status} for status in found]
        cloudformation.describe_stacks.return_value = {"Stacks": stacks}
    assert job_handler._is_gone("stack", cloudformation) is is_gone


def test_a_job_that_no_longer_exists_fails_its_stack_and_the_artifact(
    a_resource: Callable[..., Requests], monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = a_resource()
    key = resource.send("Create", "create")["PhysicalResourceId"]
    monkeypatch.setattr(SageMakerJobs, "describe", lambda jobs, name: None)
    watch = {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1, "Account": ACCOUNT}
    output = job_watcher.handler({**watch, "WaitHandle": resource.responses.url}, LambdaContext())
    assert output == {"Done": True}
    told = resource.responses.received[-1]
    assert told["Status"] == "FAILURE"
    assert "no longer exists; deploy again to start a new job" in told["Reason"]
    claim = resource.store.claim(key)
    assert claim is not None
    assert "no longer exists" in claim.failure
