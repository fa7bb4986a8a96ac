from __future__ import annotations

import string
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import artifact_key as planned_key
from constructs_optim.runtime.artifact_store import ArtifactStore, Claim, Owner, artifact_key

from .conftest import BUCKET

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


def test_joining_twice_is_joining_once(store: ArtifactStore) -> None:
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


def test_who_comes_after_a_release_starts_another_attempt(store: ArtifactStore) -> None:
    store.join(KEY, FIRST)
    store.leave(KEY, FIRST, finished=False)
    claim = store.join(KEY, SECOND)
    assert (claim.attempt, claim.owners, claim.released) == (2, (SECOND,), False)


def test_leaving_a_claim_that_is_not_there_is_no_error(store: ArtifactStore) -> None:
    assert store.leave(KEY, FIRST, finished=False) is None


def test_two_owners_that_see_an_attempt_fail_move_on_once(store: ArtifactStore) -> None:
    failed = store.join(KEY, FIRST)
    assert store.next_attempt(KEY, failed).attempt == 2
    assert store.next_attempt(KEY, failed).attempt == 2


def test_a_claim_survives_being_written_and_read(store: ArtifactStore) -> None:
    claim = Claim(KEY, attempt=3, owners=(FIRST, SECOND), released=True, source={"identity": "s3:x"})
    assert Claim.from_json(claim.to_json()) == claim


def test_a_manifest_counts_only_while_its_output_is_there(store: ArtifactStore, s3: Any) -> None:
    uri = store.model_uri(KEY, 1)
    store.write_manifest(KEY, {"image": "image:1", "model_data_uri": uri, "job_name": "job"})
    assert store.manifest(KEY) is None, "there is no output yet"
    name = uri.removeprefix(f"s3://{BUCKET}/") + "model.safetensors"
    s3.put_object(Bucket=BUCKET, Key=name, Body=b"weights")
    manifest = store.manifest(KEY)
    assert manifest is not None
    assert manifest["image"] == "image:1"
    assert [(file["name"], file["size"]) for file in store.files(uri)] == [("model.safetensors", 7)]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"image": "x"}'])
def test_a_damaged_manifest_is_none(store: ArtifactStore, s3: Any, body: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"artifacts/{KEY}/manifest.json", Body=body)
    assert store.manifest(KEY) is None


def test_each_attempt_writes_below_a_prefix_of_its_own(store: ArtifactStore) -> None:
    assert store.model_uri(KEY, 1) != store.model_uri(KEY, 2)
    assert store.model_uri(KEY, 1).startswith(f"s3://{BUCKET}/artifacts/{KEY}/model/")


def test_a_bucket_that_is_gone_is_reported_not_mistaken_for_an_empty_one(s3: Any) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        ArtifactStore(s3, "no-such-bucket-anywhere").join(KEY, FIRST)
