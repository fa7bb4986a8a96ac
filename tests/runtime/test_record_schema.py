"""Records of a newer release: what is read, what is kept, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim
from constructs_optim.runtime.store.json_records import SCHEMA, NewerRecord
from constructs_optim.runtime.store.owner_records import (
    APPLIED,
    BEGUN,
    CONFIRMED,
    LEAVING,
    Owner,
    OwnerRecord,
    OwnerRecords,
    Reference,
    UnreadableRecord,
)
from constructs_optim.runtime.store.run_records import StoredSamples

from ..support.s3_clients import BUCKET

KEY = "a" * 64
OWNER, OTHER = (
    Owner(f"arn:aws:cloudformation:us-west-2:111122223333:stack/{name}/1", "Job") for name in ("Chat", "Other")
)
CLAIM, MANIFEST = f"artifacts/{KEY}/claim.json", f"artifacts/{KEY}/manifest.json"

_WORDS = st.text("abcdefgh-/", min_size=1, max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _WORDS, lambda of: st.lists(of) | st.dictionaries(_WORDS, of)
)
# Members that no release has: ours have no capital letters.
_UNKNOWN = st.dictionaries(_WORDS.map(str.upper), _JSON, max_size=3)
_OWNERS = st.builds(Owner, _WORDS, _WORDS)


def with_unknown(model: Any) -> Any:
    return lambda unknown, **members: model(**members, **unknown)


_CLAIMS = st.builds(
    with_unknown(Claim),
    artifact_key=_WORDS,
    attempt=st.integers(1, 50),
    owners=st.lists(_OWNERS, unique=True, max_size=4).map(tuple),
    released=st.booleans(),
    maker=_WORDS,
    due=st.integers(0),
    failure=_WORDS,
    source=st.dictionaries(_WORDS, _JSON),
    description=st.dictionaries(_WORDS, _JSON),
    schema=st.integers(1, 3),
    unknown=_UNKNOWN,
)
_REFERENCES = st.builds(
    with_unknown(Reference),
    request=_WORDS,
    state=st.sampled_from((BEGUN, APPLIED, CONFIRMED, LEAVING)),
    unknown=_UNKNOWN,
)
_RECORDS = st.builds(
    with_unknown(OwnerRecord),
    stack_id=_WORDS,
    logical_id=_WORDS,
    request=_WORDS,
    issued=st.integers(0),
    superseded=st.lists(_WORDS).map(tuple),
    keys=st.dictionaries(_WORDS, _REFERENCES, max_size=4),
    properties=st.dictionaries(_WORDS, st.lists(_WORDS, max_size=2).map(tuple), max_size=4),
    chosen=st.dictionaries(_WORDS, _WORDS, max_size=4),
    schema=st.integers(1, 3),
    unknown=_UNKNOWN,
)


def through_json(record: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(record))


@settings(max_examples=30)
@given(claim=_CLAIMS, of_owners=_UNKNOWN)
def test_a_claim_record_round_trips_with_unknown_members(claim: Claim, of_owners: dict[str, Any]) -> None:
    record = through_json(claim.to_record())
    for owner in record["owners"]:
        owner |= of_owners
    assert through_json(Claim.model_validate(record).to_record()) == record


@given(record=_RECORDS)
def test_an_owner_record_round_trips_through_json(record: OwnerRecord) -> None:
    assert OwnerRecord.model_validate(through_json(record.to_record())) == record


def read(s3: Any, name: str) -> dict[str, Any]:
    return json.loads(s3.get_object(Bucket=BUCKET, Key=name)["Body"].read())


def rewrite(s3: Any, name: str, **added: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=name, Body=json.dumps({**read(s3, name), **added}).encode())


@settings(max_examples=8)
@given(unknown=_UNKNOWN)
def test_members_added_by_a_newer_release_survive_every_change(s3: Any, unknown: dict[str, Any]) -> None:
    store, records = ArtifactStore(s3, BUCKET), OwnerRecords(s3, BUCKET)
    for owner in (OWNER, OTHER):
        store.join(KEY, owner)
        records.begin(owner, "create")
        records.refer(owner, "create", KEY)
    owners = [{**owner, **unknown} for owner in read(s3, CLAIM)["owners"]]
    rewrite(s3, CLAIM, owners=owners, **unknown)
    reference = {**read(s3, OWNER.record_name)["keys"][KEY], **unknown}
    rewrite(s3, OWNER.record_name, keys={KEY: reference}, **unknown)

    claim = store.claim(KEY)
    assert claim is not None
    store.next_attempt(KEY, claim, maker=OWNER.account)
    store.fail(KEY, 2, "a reason")
    store.leave(KEY, OTHER, finished=True)
    records.settle(OWNER, "create", KEY, properties="digest")
    records.begin(OWNER, "update", physical_id=KEY)

    claimed, recorded = read(s3, CLAIM), read(s3, OWNER.record_name)
    assert unknown.items() <= claimed.items()
    assert unknown.items() <= claimed["owners"][0].items()
    assert unknown.items() <= recorded.items()
    assert unknown.items() <= recorded["keys"][KEY].items()
    for name in (CLAIM, OWNER.record_name, OTHER.record_name):
        s3.delete_object(Bucket=BUCKET, Key=name)


def test_records_of_a_newer_schema_are_refused_with_a_remedy(s3: Any) -> None:
    store, records = ArtifactStore(s3, BUCKET), OwnerRecords(s3, BUCKET)
    store.join(KEY, OWNER)
    records.begin(OWNER, "create")
    store.write_manifest(KEY, {"attempt": 1})
    for name in (CLAIM, MANIFEST, OWNER.record_name):
        rewrite(s3, name, schema=SCHEMA + 1)
    for act in (
        lambda: store.claim(KEY),
        lambda: store.join(KEY, OTHER),
        lambda: store.manifest(KEY),
        lambda: records.get(OWNER),
        lambda: records.begin(OWNER, "update"),
    ):
        with pytest.raises(NewerRecord, match=rf"s3://{BUCKET}/.* has schema {SCHEMA + 1}.*Upgrade constructs-optim"):
            act()
    (unreadable,) = records.all()
    assert isinstance(unreadable, UnreadableRecord)
    assert "Upgrade constructs-optim" in unreadable.problem


def test_a_deletion_changes_records_of_a_newer_schema_and_keeps_it(s3: Any) -> None:
    ArtifactStore(s3, BUCKET).join(KEY, OWNER)
    OwnerRecords(s3, BUCKET).begin(OWNER, "create")
    for name in (CLAIM, OWNER.record_name):
        rewrite(s3, name, schema=SCHEMA + 1)
    left = ArtifactStore(s3, BUCKET, any_schema=True).leave(KEY, OWNER, finished=True)
    assert left is not None
    assert left.owners == ()
    OwnerRecords(s3, BUCKET, any_schema=True).begin(OWNER, "delete")
    assert read(s3, CLAIM)["schema"] == read(s3, OWNER.record_name)["schema"] == SCHEMA + 1


def test_a_manifest_keeps_newer_members_and_a_newer_schema(s3: Any) -> None:
    store = ArtifactStore(s3, BUCKET)
    store.write_manifest(KEY, {"schema": SCHEMA, "attempt": 1, "image": "old"})
    rewrite(s3, MANIFEST, added=1)
    store.write_manifest(KEY, {"schema": SCHEMA, "attempt": 1, "image": "new"})
    assert read(s3, MANIFEST) == {"schema": SCHEMA, "attempt": 1, "image": "new", "added": 1}
    rewrite(s3, MANIFEST, schema=SCHEMA + 1)
    store.write_manifest(KEY, {"schema": SCHEMA, "attempt": 1, "image": "newest"})
    assert read(s3, MANIFEST)["image"] == "new"


@pytest.mark.parametrize("damaged", [{"request": "x"}, {"keys": {KEY: "x"}}, {"keys": []}])
def test_a_malformed_record_is_reported_with_its_s3_uri(s3: Any, damaged: dict[str, Any]) -> None:
    s3.put_object(
        Bucket=BUCKET, Key=OWNER.record_name, Body=json.dumps({"stack_id": "x", "logical_id": "y", **damaged})
    )
    with pytest.raises(DeploymentError, match=f"s3://{BUCKET}/{OWNER.record_name} is damaged"):
        OwnerRecords(s3, BUCKET).get(OWNER)


def test_a_record_of_the_first_release_is_read(s3: Any) -> None:
    first = {
        "schema": 1,
        "stack_id": OWNER.stack_id,
        "logical_id": OWNER.logical_id,
        "request": "create",
        "issued": 1,
        "superseded": [],
        "keys": {KEY: {"request": "create", "state": "answered"}},
    }
    s3.put_object(Bucket=BUCKET, Key=OWNER.record_name, Body=json.dumps(first))
    records = OwnerRecords(s3, BUCKET)
    assert records.get(OWNER).keys == {KEY: Reference(request="create", state=CONFIRMED)}
    records.begin(OWNER, "update", physical_id=KEY, properties="digest")
    written = read(s3, OWNER.record_name)
    # The first release reads a reference's members into a class that has no others.
    assert written["keys"][KEY].keys() == {"request", "state"}
    assert records.get(OWNER).made_with("digest") == {KEY}


@pytest.mark.parametrize(
    ("columns", "row", "told"),
    [
        (["start", "prompt"], [0.5, "a"], None),
        (["prompt", "start"], [None, 3], None),
        (["prompt", "client_latency"], ["a", 1.0], "there is no column start"),
        ([], [], "there is no column start"),
        (["start", "prompt"], [0.5], "a row and the columns have different lengths"),
        (["start"], [0.5, "a"], "a row and the columns have different lengths"),
        (["start", "prompt"], ["0.5", "a"], "a number is text"),
        (["prompt", "start"], ["a", "0.5"], "a number is text"),
    ],
)
def test_stored_requests_have_the_columns_that_are_read(columns: list[str], row: list[Any], told: str | None) -> None:
    level = {"concurrency": 1, "seconds": 2.0, "requests": [row]}
    stored = {"schema": 1, "columns": columns, "levels": [level]}
    if told is None:
        assert StoredSamples.model_validate(stored).levels[0].requests == (tuple(row),)
    else:
        with pytest.raises(ValidationError, match=told):
            StoredSamples.model_validate(stored)
