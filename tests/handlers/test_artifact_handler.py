"""``Custom::OptimizedArtifact`` against the local cloud: the artifacts it resolves, the errors it reports,
and its references for every order of requests."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.aws import CLIENT
from constructs_optim.runtime.custom_resource import issued_at
from constructs_optim.runtime.handlers import artifact_handler
from constructs_optim.runtime.jobs.sagemaker_jobs import job_name
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Owner, artifact_key
from constructs_optim.runtime.store.owner_records import (
    APPLIED,
    BEGUN,
    OwnerRecords,
    Reference,
)
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, Responses
from ..support.optimization_jobs import ended, request
from ..support.sampling import one_in
from ..support.waiting import until

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1234"
OWNER = Owner(STACK, "Llama70BArtifact")
MAKER = Owner("arn:aws:cloudformation:us-west-2:000000000000:stack/Heads/5678", "Job")
ABROAD = Owner("arn:aws:cloudformation:us-west-2:444455556666:stack/Heads/5678", "Job")
RECIPE = "e" * 64
DESCRIPTION = {"Model": "llama 1.0.0", "Techniques": ["AWQ INT4"], "InstanceType": "ml.g5.12xlarge"}
_numbers = itertools.count()


class Artifact:
    """An artifact of a model version of its own, in a store that other tests use as well."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.s3 = cloud.client("s3")
        self.store, self.records = ArtifactStore(self.s3, BUCKET), OwnerRecords(self.s3, BUCKET)
        self.version = f"1.0.{next(_numbers)}"
        self.identity = f"hub:SageMakerPublicHub/llama@{self.version}"
        self.key = artifact_key(RECIPE, self.identity)

    def make(self, attempt: int = 1, **changed: Any) -> dict[str, Any]:
        uri = self.store.model_uri(self.key, attempt)
        self.s3.put_object(Bucket=BUCKET, Key=f"{uri.removeprefix(f's3://{BUCKET}/')}model", Body=b"weights")
        manifest = {
            "artifact_key": self.key,
            "attempt": attempt,
            "image": "lmi:1",
            "model_data_uri": uri,
            "job_name": "optim-made",
            "source": {"identity": self.identity},
            "description": DESCRIPTION,
            "files": self.store.files(uri),
            **changed,
        }
        self.store.write_manifest(self.key, manifest)
        return manifest

    @property
    def references(self) -> dict[str, Reference]:
        return dict(self.records.get(OWNER).keys)

    @property
    def is_referred_to(self) -> bool:
        reference = self.references.get(self.key)
        return reference is not None and reference.state != BEGUN


@pytest.fixture
def artifact(cloud: LocalCloud) -> Iterator[Artifact]:
    made = Artifact(cloud)
    yield made
    made.s3.delete_object(Bucket=BUCKET, Key=OWNER.record_name)


def properties(key: str, **changed: Any) -> dict[str, Any]:
    return {
        "ArtifactKey": key,
        "RecipeKey": RECIPE,
        "Source": {"Kind": "hub", "HubName": "SageMakerPublicHub", "ModelId": "llama", "AcceptEula": "true"},
        "Description": DESCRIPTION,
        "Bucket": BUCKET,
        **changed,
    }


def event(responses: Responses, kind: str, key: str, physical_id: str | None = None, **changed: Any) -> dict[str, Any]:
    number = next(_numbers)
    sent = dt.datetime(2026, 11, 21, tzinfo=dt.UTC) + dt.timedelta(seconds=number)
    return custom_resource_event(
        kind,
        f"{responses.url}?X-Amz-Date={sent:%Y%m%dT%H%M%SZ}",
        stack_id=STACK,
        request_id=f"request-{number}",
        logical_id=OWNER.logical_id,
        properties=properties(key, **changed),
        physical_id=physical_id,
    )


def send(responses: Responses, *of_event: Any, **changed: Any) -> dict[str, Any]:
    artifact_handler.handler(event(responses, *of_event, **changed), LambdaContext())
    return responses.received[-1]


def test_an_existing_artifact_is_resolved_and_a_reference_is_recorded(responses: Responses, artifact: Artifact) -> None:
    artifact.store.join(artifact.key, MAKER)
    manifest = artifact.make()
    response = send(responses, "Create", artifact.key)
    assert response["Status"] == "SUCCESS", response
    assert response["PhysicalResourceId"] == artifact.key
    assert response["Data"] == {
        "ArtifactKey": artifact.key,
        "ModelDataUri": manifest["model_data_uri"],
        "Image": "lmi:1",
        "JobName": "optim-made",
    }
    assert artifact.is_referred_to


def test_the_record_of_a_reference_names_its_requests_and_is_empty_after_its_deletion(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.make()

    def stored() -> Any:
        return json.loads(artifact.s3.get_object(Bucket=BUCKET, Key=OWNER.record_name)["Body"].read())

    created = event(responses, "Create", artifact.key)
    artifact_handler.handler(created, LambdaContext())
    request, issued = created["RequestId"], issued_at(created["ResponseURL"])
    record = {"schema": 1, "stack_id": STACK, "logical_id": OWNER.logical_id, "properties": {}}
    assert stored() == {
        **record,
        "request": request,
        "issued": issued,
        "superseded": [],
        "keys": {artifact.key: {"request": request, "state": "carried out"}},
        "chosen": {request: artifact.key},
    }
    deleted = event(responses, "Delete", artifact.key, artifact.key)
    artifact_handler.handler(deleted, LambdaContext())
    assert stored() == {
        **record,
        "request": deleted["RequestId"],
        "issued": issued_at(deleted["ResponseURL"]),
        "superseded": [request],
        "keys": {},
        "chosen": {request: artifact.key},
    }


def test_creating_and_deleting_a_reference_writes_nothing_to_the_artifact(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.store.join(artifact.key, MAKER)
    artifact.make()

    def written() -> list[tuple[str, str]]:
        pages = artifact.s3.get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix="artifacts/")
        return [(version["Key"], version["ETag"]) for page in pages for version in page.get("Versions", [])]

    before = written()
    send(responses, "Create", artifact.key)
    send(responses, "Delete", artifact.key, artifact.key)
    assert written() == before


def test_a_reference_is_deleted_from_a_record_of_a_newer_schema(responses: Responses, artifact: Artifact) -> None:
    artifact.make()
    send(responses, "Create", artifact.key)
    record = json.loads(artifact.s3.get_object(Bucket=BUCKET, Key=OWNER.record_name)["Body"].read())
    newer = json.dumps({**record, "schema": 2, "region": "us-west-2"})
    artifact.s3.put_object(Bucket=BUCKET, Key=OWNER.record_name, Body=newer.encode())
    assert "Upgrade constructs-optim" in send(responses, "Update", artifact.key, artifact.key)["Reason"]
    assert send(responses, "Delete", artifact.key, artifact.key)["Status"] == "SUCCESS"
    kept = json.loads(artifact.s3.get_object(Bucket=BUCKET, Key=OWNER.record_name)["Body"].read())
    assert (kept["schema"], kept["region"], kept["keys"]) == (2, "us-west-2", {})
    artifact.s3.delete_object(Bucket=BUCKET, Key=OWNER.record_name)


def test_an_artifact_without_a_claim_is_resolved_from_its_manifest(responses: Responses, artifact: Artifact) -> None:
    artifact.make()
    assert send(responses, "Create", artifact.key)["Status"] == "SUCCESS"


def test_an_artifact_owned_by_another_account_is_resolved(responses: Responses, artifact: Artifact) -> None:
    artifact.store.join(artifact.key, ABROAD)
    artifact.make()
    assert send(responses, "Create", artifact.key)["Status"] == "SUCCESS"


def failed(responses: Responses, artifact: Artifact, *of_event: Any, **changed: Any) -> str:
    """The reason of a failure, which leaves no reference behind."""
    response = send(responses, *(of_event or ("Create", artifact.key)), **changed)
    assert response["Status"] == "FAILED"
    assert response["PhysicalResourceId"].startswith("not-created-request-")
    assert not artifact.references
    return response["Reason"]


def test_an_unknown_key_is_reported_with_its_store_its_recipe_and_the_next_step(
    responses: Responses, artifact: Artifact
) -> None:
    reason = failed(responses, artifact)
    assert f"the artifact {artifact.key} is not in the store {BUCKET}: no job has made it" in reason
    assert "llama 1.0.0 + AWQ INT4 for ml.g5.12xlarge" in reason
    assert "Next: deploy a stack with an OptimizationJob of this recipe and store" in reason


def test_a_running_job_of_the_same_account_is_reported_with_its_status_and_the_watch_command(
    responses: Responses, artifact: Artifact, cloud: LocalCloud, sagemaker: Any
) -> None:
    artifact.store.join(artifact.key, MAKER)
    # The job is not that of a stack that would use its result from another account.
    artifact.store.join(artifact.key, Owner(ABROAD.stack_id.replace("Heads", "Tails"), "Job"))
    name = job_name(BUCKET, artifact.key, 1)
    cloud.inject("job_never_finishes")
    sagemaker.create_optimization_job(**request(name))
    until(
        lambda: sagemaker.describe_optimization_job(OptimizationJobName=name)["OptimizationJobStatus"],
        lambda status: status == "INPROGRESS",
    )
    reason = failed(responses, artifact)
    assert f"the optimization job {name} is making it for the stack Heads and is INPROGRESS (created 20" in reason
    assert f"Next: run `constructs-optim jobs watch {name}`, and deploy again" in reason
    sagemaker.stop_optimization_job(OptimizationJobName=name)


def test_a_failed_job_that_its_watcher_has_not_polled_is_reported_with_sagemakers_reason(
    responses: Responses, artifact: Artifact, cloud: LocalCloud, sagemaker: Any
) -> None:
    artifact.store.join(artifact.key, MAKER)
    name = job_name(BUCKET, artifact.key, 1)
    cloud.inject("job_fails", reason="ClientError: out of memory")
    sagemaker.create_optimization_job(**request(name))
    ended(sagemaker, name)
    reason = failed(responses, artifact)
    assert f"the optimization job {name} is FAILED: ClientError: out of memory" in reason
    assert "redeploy the stack that makes it" in reason


def test_a_completed_job_is_no_artifact_until_its_manifest_is_written(
    responses: Responses, artifact: Artifact, sagemaker: Any
) -> None:
    artifact.store.join(artifact.key, MAKER)
    name = job_name(BUCKET, artifact.key, 1)
    sagemaker.create_optimization_job(**request(name))
    ended(sagemaker, name)
    reason = failed(responses, artifact)
    assert f"{name} has completed, but its manifest is not written yet. Next: deploy again in a few minutes" in reason


def test_a_claim_whose_job_was_never_created_is_reported(responses: Responses, artifact: Artifact) -> None:
    artifact.store.join(artifact.key, MAKER)
    assert f"its optimization job {job_name(BUCKET, artifact.key, 1)} does not exist" in failed(responses, artifact)


def test_a_job_of_another_account_is_reported_with_its_account_stack_and_deadline(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.store.join(artifact.key, ABROAD, due=1_900_000_000)
    reason = failed(responses, artifact)
    assert "account 444455556666 is making it for the stack Heads, by 2030-03-17 17:46 UTC at the latest" in reason
    assert "Next: deploy again when its job has ended" in reason


@pytest.mark.parametrize("maker", [MAKER, ABROAD])
def test_a_failed_attempt_is_reported_with_the_recorded_reason_and_the_next_step(
    responses: Responses, artifact: Artifact, maker: Owner
) -> None:
    artifact.store.join(artifact.key, maker)
    artifact.store.fail(artifact.key, 1, "the optimization job ended as FAILED: " + 2000 * "x")
    reason = failed(responses, artifact)
    assert "the last attempt failed: the optimization job ended as FAILED: xxx" in reason
    assert "Next: redeploy the stack that makes it" in reason, "a long reason leaves room for the next step"


def test_an_artifact_that_was_abandoned_before_it_was_complete_is_reported(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.store.join(artifact.key, MAKER)
    artifact.store.leave(artifact.key, MAKER, finished=False)
    assert "the stacks that requested it released it before it was complete" in failed(responses, artifact)


def test_an_artifact_that_is_being_pruned_is_refused(responses: Responses, artifact: Artifact) -> None:
    artifact.store.join(artifact.key, MAKER)
    artifact.make()
    artifact.store.leave(artifact.key, MAKER, finished=True)
    assert artifact.store.release(artifact.key)
    assert "its files may be deleted at any time" in failed(responses, artifact)


@pytest.mark.parametrize("claimed", [True, False])
def test_an_artifact_with_a_missing_file_is_refused(responses: Responses, artifact: Artifact, claimed: bool) -> None:
    if claimed:
        artifact.store.join(artifact.key, MAKER)
    uri = artifact.make()["model_data_uri"]
    artifact.s3.delete_object(Bucket=BUCKET, Key=f"{uri.removeprefix(f's3://{BUCKET}/')}model")
    assert "its manifest exists, but files were removed or changed since" in failed(responses, artifact)


def test_the_manifest_of_an_earlier_attempt_is_ignored(
    responses: Responses, artifact: Artifact, cloud: LocalCloud
) -> None:
    claim = artifact.store.join(artifact.key, ABROAD)
    artifact.make(attempt=1)
    artifact.store.next_attempt(artifact.key, claim, maker=ABROAD.account)
    assert "account 444455556666 is making it" in failed(responses, artifact)


def test_an_artifact_of_another_recipe_is_refused_and_its_recipe_is_reported(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.make()
    reason = failed(responses, artifact, RecipeKey="f" * 64)
    assert "was made by another recipe: it is llama 1.0.0 + AWQ INT4 for ml.g5.12xlarge" in reason
    assert f"made from {artifact.identity}" in reason
    assert "Next: declare the recipe of the stack that made the artifact" in reason


@pytest.mark.parametrize(
    "source",
    [
        {"Kind": "hub", "HubName": "SageMakerPublicHub", "ModelId": "llama-chat"},
        {"Kind": "hub", "HubName": "SageMakerPublicHub", "ModelId": "llama", "Version": "9.9.9"},
        {"Kind": "s3", "S3Uri": "s3://models/llama/"},
    ],
)
def test_an_artifact_of_another_model_is_refused(
    responses: Responses, artifact: Artifact, source: dict[str, str]
) -> None:
    artifact.make()
    assert f"made from {artifact.identity}" in failed(responses, artifact, Source=source)


def test_an_s3_model_matches_its_artifact_whatever_its_files_contain_now(
    responses: Responses, artifact: Artifact
) -> None:
    identity = f"s3:s3://models/{artifact.version}/#fingerprint"
    artifact.key = artifact_key(RECIPE, identity)
    artifact.make(source={"identity": identity})
    source = {"Kind": "s3", "S3Uri": f"s3://models/{artifact.version}"}
    assert send(responses, "Create", artifact.key, Source=source)["Status"] == "SUCCESS"


def test_an_artifact_of_unknown_source_is_refused_unless_no_recipe_is_required(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.make(source={})
    assert "made from an unknown source" in failed(responses, artifact)
    assert send(responses, "Create", artifact.key, RecipeKey="", Source="")["Status"] == "SUCCESS"


def test_an_invalid_artifact_key_is_refused_with_its_value(responses: Responses, artifact: Artifact) -> None:
    assert "ArtifactKey ('latest', but a key has 64 hexadecimal digits" in failed(
        responses, artifact, "Create", "latest"
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"Bucket": "Not_A_Bucket"}, "Bucket"),
        ({"KmsKeyArn": "key"}, "KmsKeyArn"),
        ({"RecipeKey": "x"}, "RecipeKey"),
        ({"Source": {"Kind": "hub", "HubName": "h", "ModelId": "../x"}}, "Source.ModelId"),
        ({"Description": "text"}, "Description"),
    ],
)
def test_malformed_resource_properties_are_reported_by_name(
    responses: Responses, artifact: Artifact, changed: dict[str, Any], named: str
) -> None:
    assert f"missing or malformed: {named}" in failed(responses, artifact, **changed)


def test_an_artifact_store_in_another_region_is_refused(
    responses: Responses, artifact: Artifact, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact.make()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert "is in us-west-2, but this stack is in eu-west-1" in failed(responses, artifact)


def test_a_repeated_create_request_records_one_reference(responses: Responses, artifact: Artifact) -> None:
    artifact.make()
    once = event(responses, "Create", artifact.key)
    for _ in range(2):
        artifact_handler.handler(once, LambdaContext())
    first, second = responses.received
    assert first == second
    assert artifact.references == {artifact.key: Reference(request=once["RequestId"], state=APPLIED)}


def test_a_failed_create_succeeds_when_repeated_once_the_artifact_exists(
    responses: Responses, artifact: Artifact
) -> None:
    failed(responses, artifact)
    artifact.make()
    assert send(responses, "Create", artifact.key)["Status"] == "SUCCESS"
    assert artifact.is_referred_to


def test_a_superseded_request_sends_no_response_and_changes_nothing(responses: Responses, artifact: Artifact) -> None:
    artifact.make()
    create = event(responses, "Create", artifact.key)
    artifact_handler.handler(create, LambdaContext())
    send(responses, "Delete", artifact.key, artifact.key)
    artifact_handler.handler(create, LambdaContext())
    assert len(responses.received) == 2
    assert not artifact.references


def test_a_request_superseded_while_it_reads_the_manifest_keeps_the_later_reference(
    responses: Responses, artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact.make()
    manifest = ArtifactStore.manifest

    def while_another_begins(store: ArtifactStore, key: str, attempt: int | None = None) -> Any:
        artifact.records.begin(OWNER, "later")
        artifact.records.settle(OWNER, "later", artifact.key)
        return manifest(store, key, attempt)

    monkeypatch.setattr(ArtifactStore, "manifest", while_another_begins)
    artifact_handler.handler(event(responses, "Create", artifact.key), LambdaContext())
    assert not responses.received
    assert artifact.references == {artifact.key: Reference(request="later", state=APPLIED)}


def test_a_changed_key_replaces_the_resource_and_the_old_reference_is_deleted_with_it(
    responses: Responses, artifact: Artifact, cloud: LocalCloud
) -> None:
    other = Artifact(cloud)
    for each in (artifact, other):
        each.make()
    before = send(responses, "Create", artifact.key)["PhysicalResourceId"]
    after = send(responses, "Update", other.key, before)["PhysicalResourceId"]
    assert (before, after) == (artifact.key, other.key)
    assert set(artifact.references) == {artifact.key, other.key}, "an update may still be rolled back"
    send(responses, "Delete", artifact.key, before)
    assert set(artifact.references) == {other.key}


def test_a_failed_update_keeps_the_reference_to_the_served_artifact(
    responses: Responses, artifact: Artifact, cloud: LocalCloud
) -> None:
    artifact.make()
    before = send(responses, "Create", artifact.key)["PhysicalResourceId"]
    response = send(responses, "Update", Artifact(cloud).key, before)
    assert response["Status"] == "FAILED"
    assert response["PhysicalResourceId"] == before
    assert set(artifact.references) == {artifact.key}
    assert send(responses, "Update", artifact.key, before)["Status"] == "SUCCESS", "the rollback"
    assert artifact.is_referred_to


def test_a_failed_update_with_the_same_key_keeps_its_reference(responses: Responses, artifact: Artifact) -> None:
    artifact.make()
    before = send(responses, "Create", artifact.key)["PhysicalResourceId"]
    assert send(responses, "Update", artifact.key, before, RecipeKey="f" * 64)["Status"] == "FAILED"
    assert artifact.is_referred_to


CALLS_OF_A_CREATE = 10


class Died(BaseException):
    """A function's process that ends at once: nothing it would still do happens."""


@pytest.fixture
def before_call(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], list[int]]:
    """Runs an action right before the n-th call to AWS from now on, once; records the calls."""

    def arm(number: int, act: Callable[[], None]) -> list[int]:
        calls: list[int] = []

        def called(**_: Any) -> None:
            calls.append(len(calls))
            if len(calls) == number + 1:
                act()

        def client(name: str) -> Any:
            found = boto3.client(name, config=CLIENT)
            found.meta.events.register_first("before-call", called)
            return found

        monkeypatch.setattr(artifact_handler, "client", client)
        return calls

    return arm


def die() -> None:
    raise Died


def test_a_create_request_makes_the_number_of_calls_the_tests_interrupt(
    responses: Responses, artifact: Artifact, before_call: Any
) -> None:
    artifact.store.join(artifact.key, MAKER)
    artifact.make()
    calls = before_call(99, die)
    send(responses, "Create", artifact.key)
    assert len(calls) == CALLS_OF_A_CREATE


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("step", one_in(5, range(CALLS_OF_A_CREATE)))
def test_an_interrupted_create_is_recovered_by_a_retry_or_a_deletion(
    responses: Responses, artifact: Artifact, before_call: Any, step: int, repeated: bool
) -> None:
    artifact.store.join(artifact.key, MAKER)
    artifact.make()
    create = event(responses, "Create", artifact.key)
    before_call(step, die)
    with pytest.raises(Died):
        artifact_handler.handler(create, LambdaContext())
    if repeated:
        artifact_handler.handler(create, LambdaContext())
        assert artifact.references == {artifact.key: Reference(request=create["RequestId"], state=APPLIED)}
    assert send(responses, "Delete", artifact.key, "Chat-Artifact-MADEUP")["Status"] == "SUCCESS"
    assert not artifact.references


@pytest.mark.parametrize("step", one_in(3, range(CALLS_OF_A_CREATE)))
def test_a_delete_that_overtakes_a_create_leaves_no_reference(
    responses: Responses, artifact: Artifact, before_call: Any, step: int
) -> None:
    artifact.store.join(artifact.key, MAKER)
    artifact.make()
    create = event(responses, "Create", artifact.key)
    before_call(step, lambda: send(responses, "Delete", artifact.key, "Chat-Artifact-MADEUP"))
    artifact_handler.handler(create, LambdaContext())
    artifact_handler.handler(create, LambdaContext())
    assert not artifact.references


def test_a_reference_of_a_request_without_response_is_dropped_by_the_next_request(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.make()
    artifact.records.begin(OWNER, "died")
    artifact.records.refer(OWNER, "died", "a" * 64)
    send(responses, "Create", artifact.key)
    assert set(artifact.references) == {artifact.key}


def test_deleting_a_resource_whose_create_sent_no_response_removes_its_reference(
    responses: Responses, artifact: Artifact
) -> None:
    artifact.records.begin(OWNER, "died")
    artifact.records.refer(OWNER, "died", artifact.key)
    assert send(responses, "Delete", artifact.key, "not-created")["Status"] == "SUCCESS"
    assert not artifact.references


def test_deleting_the_reference_changes_neither_claim_nor_job_nor_artifact(
    responses: Responses, artifact: Artifact, cloud: LocalCloud
) -> None:
    artifact.store.join(artifact.key, MAKER)
    manifest = artifact.make()
    send(responses, "Create", artifact.key)
    calls = len(cloud.calls("StopOptimizationJob"))
    assert send(responses, "Delete", artifact.key, artifact.key)["Status"] == "SUCCESS"
    claim = artifact.store.claim(artifact.key)
    assert claim is not None
    assert (claim.owners, claim.released) == ((MAKER,), False)
    assert artifact.store.manifest(artifact.key) == manifest
    assert len(cloud.calls("StopOptimizationJob")) == calls


def deny(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """Make S3 deny an operation on the owner records, as in a store that is not shared."""

    def before_call(params: dict[str, Any], **_: Any) -> None:
        if "/owners/" in params["url_path"]:
            error = {"Error": {"Code": "AccessDenied", "Message": "no resource-based policy allows it"}}
            raise ClientError({**error, "ResponseMetadata": {"HTTPStatusCode": 403}}, operation)  # type: ignore[arg-type]

    def client(name: str) -> Any:
        found = boto3.client(name, config=CLIENT)
        found.meta.events.register_first(f"before-call.s3.{operation}", before_call)
        return found

    monkeypatch.setattr(artifact_handler, "client", client)


@pytest.mark.parametrize("operation", ["GetObject", "PutObject"])
def test_a_store_that_is_not_shared_is_reported_and_the_stack_can_roll_back(
    responses: Responses, artifact: Artifact, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    artifact.make()
    deny(monkeypatch, operation)
    response = send(responses, "Create", artifact.key)
    assert response["Status"] == "FAILED"
    assert f"{operation} failed with AccessDenied" in response["Reason"]
    shared = f"If another account owns the store {BUCKET}, that account must share it with this one, {OWNER.account} ("
    assert shared in response["Reason"]
    assert send(responses, "Delete", artifact.key, response["PhysicalResourceId"])["Status"] == "SUCCESS"


@pytest.mark.parametrize("operation", ["GetObject", "PutObject"])
def test_a_reference_that_cannot_be_removed_fails_the_deletion(
    responses: Responses, artifact: Artifact, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    artifact.make()
    send(responses, "Create", artifact.key)
    deny(monkeypatch, operation)
    response = send(responses, "Delete", artifact.key, artifact.key)
    assert response["Status"] == "FAILED"
    assert "that account must share it with this one" in response["Reason"]
    assert artifact.is_referred_to


def test_deletion_succeeds_when_the_bucket_no_longer_exists(responses: Responses, artifact: Artifact) -> None:
    response = send(responses, "Delete", artifact.key, artifact.key, Bucket="no-such-bucket-anywhere")
    assert response["Status"] == "SUCCESS"


def test_a_missing_store_bucket_fails_the_creation(responses: Responses, artifact: Artifact) -> None:
    response = send(responses, "Create", artifact.key, Bucket="no-such-bucket-anywhere")
    assert response["Status"] == "FAILED"
    assert "the artifact store's bucket does not exist" in response["Reason"]


def test_an_artifact_with_a_valid_manifest_is_deployed(responses: Responses, artifact: Artifact) -> None:
    uri = artifact.make()["model_data_uri"]
    files = artifact.store.with_checksums(uri, artifact.store.files(uri))
    artifact.make(files=files, image="lmi:2")
    response = send(responses, "Create", artifact.key)
    assert response["Status"] == "SUCCESS", response
    assert response["Data"]["Image"] == "lmi:2"


@pytest.mark.parametrize("place", ["artifacts/{other}/model/1/", "artifacts/{key}/model/2/"])
def test_a_manifest_with_a_model_data_uri_outside_its_attempt_is_refused(
    responses: Responses, artifact: Artifact, place: str
) -> None:
    artifact.make()
    place = place.format(other="e" * 64, key=artifact.key)
    artifact.s3.put_object(Bucket=BUCKET, Key=f"{place}pytorch_model.bin", Body=b"pickle")
    uri = f"s3://{BUCKET}/{place}"
    artifact.make(model_data_uri=uri, files=artifact.store.files(uri))
    response = send(responses, "Create", artifact.key)
    assert response["Status"] == "FAILED"
    assert "differs from its manifest: manifest.json changed (model_data_uri is" in response["Reason"]
    assert not artifact.references, "and nothing refers to it"


def test_a_manifest_whose_checksums_differ_from_s3_is_refused(responses: Responses, artifact: Artifact) -> None:
    manifest = artifact.make()
    uri = manifest["model_data_uri"]
    (file,) = artifact.store.with_checksums(uri, artifact.store.files(uri))
    forged = dict.fromkeys(file["checksums"], "AAAAAA==")
    assert forged, "S3 keeps a checksum of each object"
    artifact.make(files=[{**file, "checksums": forged}])
    response = send(responses, "Create", artifact.key)
    assert response["Status"] == "FAILED"
    assert "model changed (" in response["Reason"]
    assert "was AAAAAA==" in response["Reason"]
