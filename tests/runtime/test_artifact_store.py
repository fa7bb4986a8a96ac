from __future__ import annotations

import base64
import hashlib
import io
import json
import string
from typing import Any, NoReturn

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe.keys import artifact_key as planned_key
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.sagemaker_jobs import remove_setting
from constructs_optim.runtime.store.artifact_integrity import Finding, attempt_of, differences
from constructs_optim.runtime.store.artifact_store import (
    ArtifactStore,
    Claim,
    Owner,
    artifact_key,
)

from ..support.s3_clients import BUCKET, Reticent, denied

KEY = "a" * 64
FIRST, SECOND = Owner("stack/first", "Job"), Owner("stack/second", "Job")


@pytest.fixture
def store(s3: Any) -> ArtifactStore:
    return ArtifactStore(s3, BUCKET)


@given(recipe=st.text(string.printable, min_size=1), source=st.text(string.printable, min_size=1))
def test_the_handler_computes_the_key_the_planner_computes(recipe: str, source: str) -> None:
    assert artifact_key(recipe, source) == planned_key(recipe, source)


def test_the_first_owner_starts_the_first_attempt(store: ArtifactStore) -> None:
    claim = store.join(KEY, FIRST, source={"identity": "hub:x"})
    assert (claim.attempt, claim.owners, claim.source) == (1, (FIRST,), {"identity": "hub:x"})
    assert store.claim(KEY) == claim


def test_a_second_stack_joins_the_same_attempt(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    claim = store.join(KEY, SECOND)
    assert (claim.attempt, claim.owners) == (1, (FIRST, SECOND))


def test_joining_a_claim_is_idempotent(store: ArtifactStore) -> None:
    assert store.join(KEY, FIRST) == store.join(KEY, FIRST)


def test_an_owner_that_leaves_does_not_release_the_job_of_the_others(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.join(KEY, SECOND)
    claim = store.leave(KEY, FIRST, finished=False)
    assert claim is not None
    assert (claim.owners, claim.released) == ((SECOND,), False)


def test_the_last_owner_to_leave_an_unfinished_job_releases_it(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    claim = store.leave(KEY, FIRST, finished=False)
    assert claim is not None
    assert claim.released


def test_the_last_owner_to_leave_a_finished_artifact_releases_nothing(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    claim = store.leave(KEY, FIRST, finished=True)
    assert claim is not None
    assert not claim.released


def test_an_owner_that_joins_after_a_release_starts_another_attempt(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.leave(KEY, FIRST, finished=False)
    claim = store.join(KEY, SECOND)
    assert (claim.attempt, claim.owners, claim.released) == (2, (SECOND,), False)


def test_leaving_a_missing_claim_is_no_error(store: ArtifactStore) -> None:
    assert store.leave(KEY, FIRST, finished=False) is None


def test_two_owners_that_see_an_attempt_fail_start_one_next_attempt(store: ArtifactStore) -> None:
    failed = store.join(KEY, FIRST)
    assert store.next_attempt(KEY, failed).attempt == 2
    assert store.next_attempt(KEY, failed).attempt == 2


def test_a_claim_round_trips_through_json(store: ArtifactStore) -> None:
    claim = Claim(artifact_key=KEY, attempt=3, owners=(FIRST, SECOND), released=True, source={"identity": "s3:x"})
    assert Claim.model_validate(json.loads(json.dumps(claim.to_record()))) == claim


def complete(store: ArtifactStore, s3: Any, attempt: int = 1) -> dict[str, Any]:
    """An artifact of two files and its manifest."""
    uri = store.model_uri(KEY, attempt)
    for name in ("config.json", "model.safetensors"):
        s3.put_object(Bucket=BUCKET, Key=key_of(uri, name), Body=b"weights")
    manifest = {
        "attempt": attempt,
        "image": "image:1",
        "model_data_uri": uri,
        "job_name": "job",
        "files": store.files(uri),
    }
    store.write_manifest(KEY, manifest)
    return manifest


def key_of(uri: str, name: str) -> str:
    return uri.removeprefix(f"s3://{BUCKET}/") + name


def test_a_manifest_is_read_as_it_was_written(store: ArtifactStore, s3: Any) -> None:
    manifest = complete(store, s3)
    assert store.manifest(KEY) == manifest
    sizes = [(file["name"], file["size"]) for file in manifest["files"]]
    assert sizes == [("config.json", 7), ("model.safetensors", 7)]


def test_a_manifest_keeps_the_s3_checksums_of_its_files(store: ArtifactStore, s3: Any) -> None:
    uri = store.model_uri(KEY, 1)
    s3.put_object(Bucket=BUCKET, Key=f"artifacts/{KEY}/model/1/config.json", Body=b"{}", ChecksumAlgorithm="SHA256")
    files = store.with_checksums(uri, store.files(uri))
    assert [file["checksums"] for file in files] == [
        {"SHA256": base64.b64encode(hashlib.sha256(b"{}").digest()).decode()}
    ]
    manifest = {"model_data_uri": uri, "image": "image", "job_name": "job", "files": files}
    store.write_manifest(KEY, manifest)
    assert store.manifest(KEY) == manifest


def test_a_manifest_is_invalid_once_one_of_its_files_is_deleted(store: ArtifactStore, s3: Any) -> None:
    manifest = complete(store, s3)
    s3.delete_object(Bucket=BUCKET, Key=key_of(manifest["model_data_uri"], "model.safetensors"))
    assert store.manifest(KEY) is None
    assert store.written_manifest(KEY) == manifest


def test_a_manifest_is_invalid_once_one_of_its_files_is_overwritten(store: ArtifactStore, s3: Any) -> None:
    manifest = complete(store, s3)
    s3.put_object(Bucket=BUCKET, Key=key_of(manifest["model_data_uri"], "model.safetensors"), Body=b"WEIGHTS")
    assert store.manifest(KEY) is None


def test_a_manifest_of_another_attempt_is_ignored(store: ArtifactStore, s3: Any) -> None:
    complete(store, s3, attempt=1)
    assert store.manifest(KEY, attempt=2) is None
    assert store.manifest(KEY, attempt=1) is not None


def test_a_claim_with_an_owner_is_not_released(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    assert not store.release(KEY)


def test_joining_a_released_claim_starts_the_next_attempt(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.leave(KEY, FIRST, finished=True)
    assert store.release(KEY)
    assert store.join(KEY, SECOND).attempt == 2


def test_a_release_can_be_undone_until_an_owner_joins(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.leave(KEY, FIRST, finished=True)
    store.release(KEY)
    store.restore(KEY)
    assert store.join(KEY, SECOND).attempt == 1


OURS, THEIRS = (
    Owner(f"arn:aws:cloudformation:us-west-2:{account}:stack/Chat/1", "Job")
    for account in ("111122223333", "444455556666")
)


def test_a_release_persists_when_a_deletion_is_repeated(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.leave(KEY, FIRST, finished=True)
    assert store.release(KEY)
    claim = store.leave(KEY, FIRST, finished=True)
    assert claim is not None
    assert claim.released, "CloudFormation repeats a deletion whose answer was lost"
    assert store.join(KEY, SECOND).attempt == 2


def test_the_account_of_the_first_owner_runs_the_job(store: ArtifactStore) -> None:
    store.join(KEY, OURS)
    claim = store.join(KEY, THEIRS)
    assert (claim.made_in(OURS.account), claim.made_in(THEIRS.account)) == (True, False)


def test_the_last_owner_of_the_account_that_runs_the_job_releases_it_for_the_others(store: ArtifactStore) -> None:
    store.join(KEY, OURS)
    store.join(KEY, THEIRS)
    claim = store.leave(KEY, OURS, finished=False)
    assert claim is not None
    assert (claim.released, claim.owners) == (True, (THEIRS,))


def test_owners_of_deleted_stacks_are_removed_with_a_leaving_owner(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.join(KEY, SECOND)
    claim = store.leave(KEY, SECOND, finished=False, gone=[FIRST])
    assert claim is not None
    assert (claim.released, claim.owners) == (True, ())


@pytest.mark.parametrize("released", [True, False])
def test_an_owner_that_was_removed_by_mistake_rejoins_unless_the_claim_is_released(
    store: ArtifactStore, *, released: bool
) -> None:
    assert store.rejoin(KEY, FIRST), "nothing was claimed that could be released"
    assert store.claim(KEY) is None
    before = store.join(KEY, FIRST)
    left = store.leave(KEY, FIRST, finished=not released)
    assert store.rejoin(KEY, FIRST) is not released
    assert store.claim(KEY) == (left if released else before)


def test_a_claim_is_in_the_store_as_all_releases_read_it(store: ArtifactStore, s3: Any) -> None:
    owner = Owner("arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1", "Job")
    first = store.join(KEY, owner, source={"identity": "hub:x"}, due=100)
    assert (first.maker, first.due) == ("111122223333", 100)
    store.next_attempt(KEY, first, maker="444455556666", due=200)
    store.fail(KEY, 2, "the disk is full")
    stored = json.loads(s3.get_object(Bucket=BUCKET, Key=f"artifacts/{KEY}/claim.json")["Body"].read())
    assert stored == {
        "schema": 1,
        "artifact_key": KEY,
        "attempt": 2,
        "owners": [{"stack_id": owner.stack_id, "logical_id": "Job"}],
        "released": False,
        "maker": "444455556666",
        "due": 200,
        "failure": "the disk is full",
        "source": {"identity": "hub:x"},
        "description": {},
    }


def test_a_failure_is_recorded_only_for_the_attempt_that_failed(store: ArtifactStore) -> None:
    failed = store.join(KEY, OURS)
    store.fail(KEY, failed.attempt, "out of memory")
    again = store.next_attempt(KEY, failed, maker=THEIRS.account)
    store.fail(KEY, failed.attempt, "too late to matter")
    claim = store.claim(KEY)
    assert claim == again
    assert (again.failure, again.maker) == ("", THEIRS.account)


def test_a_claim_that_is_invalid_json_is_an_error_that_explains_the_repair(store: ArtifactStore, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"artifacts/{KEY}/claim.json", Body=b"{")
    with pytest.raises(DeploymentError, match="restore the previous version"):
        store.join(KEY, FIRST)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[" * 200_000, "it is not a JSON object"),
        (b'{"owners": [{"x": 1}]}', "it is a record of another kind"),
        (b'{"owners": 5}', "it is a record of another kind"),
        (b"{}", "it is a record of another kind"),
    ],
)
def test_a_malformed_claim_is_an_error_that_names_its_key(
    store: ArtifactStore, s3: Any, body: bytes, problem: str
) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"artifacts/{KEY}/claim.json", Body=body)
    for use in (store.claim, lambda key: store.join(key, FIRST)):
        with pytest.raises(DeploymentError, match=f"artifacts/{KEY}/claim.json is damaged: {problem}"):
            use(KEY)


_FILE = b'{"name": "model", "size": 7, "etag": "x"'
_TEXTS = b'"model_data_uri": "s3://b/", "image": "i", "job_name": "j"'


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"{}", b'{"image": "x"}', b"[" * 200_000),
        b'{"model_data_uri": 5, "image": "i", "job_name": "j", "files": [' + _FILE + b"}]}",
        b"{" + _TEXTS + b', "files": [5]}',
        b"{" + _TEXTS + b', "files": [{"name": "model"}]}',
        b"{" + _TEXTS + b', "files": [' + _FILE + b', "checksums": 5}]}',
    ],
)
def test_a_damaged_manifest_is_treated_as_missing(store: ArtifactStore, s3: Any, body: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"artifacts/{KEY}/manifest.json", Body=body)
    assert store.manifest(KEY) is None


def test_each_attempt_writes_under_a_separate_prefix(store: ArtifactStore) -> None:
    assert store.model_uri(KEY, 1) != store.model_uri(KEY, 2)
    assert store.model_uri(KEY, 1).startswith(f"s3://{BUCKET}/artifacts/{KEY}/model/")


def test_a_missing_bucket_is_reported_and_not_treated_as_empty(s3: Any) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        ArtifactStore(s3, "no-such-bucket-anywhere").join(KEY, FIRST)


@pytest.mark.parametrize(
    ("manifest", "attempt"),
    [
        ({"attempt": 3, "model_data_uri": f"s3://{BUCKET}/artifacts/{KEY}/model/2/"}, 3),
        # The first releases wrote it only here.
        ({"model_data_uri": f"s3://{BUCKET}/artifacts/{KEY}/model/12/"}, 12),
        ({"attempt": "3", "model_data_uri": f"s3://{BUCKET}/artifacts/{KEY}/model/2/optim-1/output/model/"}, 2),
        ({"model_data_uri": f"s3://{BUCKET}/elsewhere/"}, 1),
        ({"model_data_uri": f"s3://{BUCKET}/model/latest/"}, 1),
    ],
)
def test_a_manifest_of_any_release_has_an_attempt(manifest: dict[str, Any], attempt: int) -> None:
    assert attempt_of(manifest) == attempt


def test_a_file_that_is_deleted_after_the_listing_has_no_checksums(store: ArtifactStore, s3: Any) -> None:
    uri = store.model_uri(KEY, 1)
    for name in ("kept", "deleted"):
        s3.put_object(Bucket=BUCKET, Key=key_of(uri, name), Body=b"weights")
    listed = store.files(uri)
    s3.delete_object(Bucket=BUCKET, Key=key_of(uri, "deleted"))
    deleted, kept = store.with_checksums(uri, listed)
    assert (deleted["name"], deleted["checksums"]) == ("deleted", {})
    assert (kept["name"], bool(kept["checksums"])) == ("kept", True)


def test_a_file_whose_checksums_cannot_be_read_is_an_error(store: ArtifactStore, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=key_of(store.model_uri(KEY, 1), "kept"), Body=b"weights")

    class Unreadable(Reticent):
        def head_object(self, **_: object) -> NoReturn:
            raise denied("HeadObject")

    uri = store.model_uri(KEY, 1)
    with pytest.raises(ClientError, match="AccessDenied"):
        ArtifactStore(Unreadable(s3), BUCKET).with_checksums(uri, store.files(uri))


class Contended:
    """S3 whose serving.properties another writer changes before every write; ``status`` is the answer to it."""

    def __init__(self, status: int) -> None:
        self.status, self.writes = status, list[str]()

    def get_object(self, **_: object) -> dict[str, Any]:
        body = b"option.quantize=awq\noption.rolling_batch=lmi-dist\n"
        return {"Body": io.BytesIO(body), "ETag": f"version-{len(self.writes)}"}

    def put_object(self, **given: Any) -> None:
        self.writes.append(given["IfMatch"])
        error: Any = {"Error": {"Code": "no"}, "ResponseMetadata": {"HTTPStatusCode": self.status}}
        raise ClientError(error, "PutObject")


@pytest.mark.parametrize(("status", "writes"), [(412, 5), (409, 5), (403, 1)])
def test_a_setting_that_others_keep_changing_is_given_up_after_some_tries(status: int, writes: int) -> None:
    contended: Any = Contended(status)
    error, told = (ClientError, "PutObject") if status == 403 else (DeploymentError, "s3://store/m/serving.properties")
    with pytest.raises(error, match=told):
        remove_setting(contended, "store", "m/", "option.quantize")
    assert contended.writes == [f"version-{number}" for number in range(writes)]


FILE = {"name": "a", "size": 7, "etag": "E1", "checksums": {"ChecksumCRC64NVME": "C1", "ChecksumSHA256": "S1"}}


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({}, None),
        ({"size": 8}, "size 8, was 7"),
        ({"etag": "E2"}, "etag E2, was E1; ChecksumCRC64NVME is the same: written again with the same content"),
        (
            {"etag": "E2", "checksums": {"ChecksumCRC64NVME": "C2", "ChecksumSHA256": "S2"}},
            "etag E2, was E1; ChecksumCRC64NVME C2, was C1; ChecksumSHA256 S2, was S1",
        ),
        (
            {"etag": "E2", "checksums": {"ChecksumSHA256": "S1"}},
            "etag E2, was E1; ChecksumSHA256 is the same: written again with the same content",
        ),
        ({"etag": "E2", "checksums": {}}, "etag E2, was E1"),
        ({"checksums": {"ChecksumSHA1": "other"}}, None),
    ],
)
def test_a_file_that_was_written_again_is_found_with_what_changed(changed: dict[str, Any], detail: str | None) -> None:
    found = differences([FILE], [{**FILE, **changed}])
    assert found == ([Finding("a", "changed", detail)] if detail else [])


def test_files_that_are_missing_or_extra_are_found_in_the_order_of_their_names() -> None:
    found = differences([FILE, {**FILE, "name": "c"}], [{**FILE, "name": "b", "size": 9}, {**FILE, "name": "c"}])
    extra = Finding("b", "extra", "9 bytes that the manifest does not list")
    assert found == [Finding("a", "missing", "it had 7 bytes"), extra]
