from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError, Superseded
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

from ..support.s3_clients import BUCKET, Reticent

OWNER = Owner("arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1", "Job")
A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"x": 1}', b'{"keys": 5}', b"x" * 1_000_001])
def test_a_malformed_owner_record_is_an_error_that_names_its_key(records: OwnerRecords, s3: Any, body: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=OWNER.record_name, Body=body)
    for use in (records.get, lambda owner: records.begin(owner, "create")):
        with pytest.raises(DeploymentError, match=f"{OWNER.record_name} is damaged"):
            use(OWNER)


def test_a_record_under_another_account_s_prefix_is_unreadable(records: OwnerRecords, s3: Any) -> None:
    records.begin(OWNER, "create")
    theirs = s3.get_object(Bucket=BUCKET, Key=OWNER.record_name)["Body"].read()
    s3.put_object(Bucket=BUCKET, Key="owners/444455556666/x.json", Body=theirs)
    record, stray = records.all()
    assert isinstance(record, OwnerRecord)
    assert isinstance(stray, UnreadableRecord)
    assert record.owner == OWNER
    assert (stray.account, stray.name) == ("444455556666", "owners/444455556666/x.json")
    assert "names an owner of another account, 111122223333" in stray.problem


@pytest.fixture
def records(s3: Any) -> OwnerRecords:
    return OwnerRecords(s3, BUCKET)


def test_beginning_a_request_makes_it_the_latest_one(records: OwnerRecords) -> None:
    assert records.begin(OWNER, "create").request == "create"
    assert records.begin(OWNER, "create").request == "create", "a repeated invocation is the same request"


def test_a_superseded_request_cannot_begin_again(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.begin(OWNER, "delete")
    with pytest.raises(Superseded):
        records.begin(OWNER, "create")


def test_a_request_issued_before_the_latest_one_is_superseded(records: OwnerRecords) -> None:
    records.begin(OWNER, "delete", issued=200)
    with pytest.raises(Superseded):
        records.begin(OWNER, "create", issued=100)
    assert records.begin(OWNER, "create-again", issued=300).request == "create-again"


@pytest.mark.parametrize("step", ["refer", "settle"])
def test_a_superseded_request_cannot_change_its_references(records: OwnerRecords, step: str) -> None:
    records.begin(OWNER, "create")
    records.refer(OWNER, "create", A)
    records.begin(OWNER, "delete")
    with pytest.raises(Superseded):
        getattr(records, step)(OWNER, "create", A)


def test_a_reference_is_applied_when_its_request_settles(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    assert records.refer(OWNER, "create", A).keys == {A: Reference(request="create", state=BEGUN)}
    assert records.settle(OWNER, "create", A).keys == {A: Reference(request="create", state=APPLIED)}


def test_a_reference_is_confirmed_when_cloudformation_sends_its_physical_id(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.settle(OWNER, "create", A)
    assert records.begin(OWNER, "update", physical_id=A).keys == {A: Reference(request="create", state=CONFIRMED)}
    assert records.settle(OWNER, "update", A).keys == {A: Reference(request="update", state=CONFIRMED)}


def test_renewing_an_applied_reference_keeps_its_state(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.settle(OWNER, "create", A)
    records.begin(OWNER, "update")
    assert records.refer(OWNER, "update", A).keys == {A: Reference(request="create", state=APPLIED)}


def test_forgetting_one_reference_keeps_the_others(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.settle(OWNER, "create", A)
    records.settle(OWNER, "create", B)
    assert set(records.forget(OWNER, A).keys) == {B}
    assert set(records.get(OWNER).keys) == {B}


def test_a_deletion_removes_only_references_that_it_released_itself(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.settle(OWNER, "create", A)
    given_up = records.begin(OWNER, "delete", gives_up=lambda record: record.keys.keys())
    assert given_up.keys == {A: Reference(request="delete", state=LEAVING)}
    assert not given_up.wants(A)
    records.begin(OWNER, "update")
    assert records.refer(OWNER, "update", A).wants(A), "the update has come back to it"
    assert set(records.left(OWNER, "delete", A).keys) == {A}
    records.begin(OWNER, "delete-again", gives_up=lambda record: record.keys.keys())
    assert set(records.left(OWNER, "delete", A).keys) == {A}
    assert set(records.left(OWNER, "delete-again", A).keys) == set()


def test_a_settled_update_releases_all_references_but_the_previous_artifact(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.settle(OWNER, "create", A)
    records.begin(OWNER, "died", physical_id=A)
    records.refer(OWNER, "died", B)
    records.begin(OWNER, "update", physical_id=A)
    assert records.settle(OWNER, "update", C, before=A).keys_in(LEAVING) == {B}


def test_a_failed_request_releases_only_references_no_later_request_took_over(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.refer(OWNER, "create", A)
    records.begin(OWNER, "update")
    records.refer(OWNER, "update", A)
    assert records.withdraw(OWNER, "create", A).wants(A)
    assert not records.withdraw(OWNER, "update", A).wants(A)


def test_a_repeated_request_keeps_the_artifact_it_chose(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    records.refer(OWNER, "create", A)
    again = records.refer(OWNER, "create", B)
    assert (again.chosen, set(again.keys)) == ({"create": A}, {A})


def test_an_artifact_is_matched_by_its_two_latest_properties(records: OwnerRecords) -> None:
    records.begin(OWNER, "create")
    for properties in ("first", "second", "third"):
        record = records.settle(OWNER, "create", A, properties=properties)
    assert [record.made_with(each) for each in ("first", "second", "third")] == [set(), {A}, {A}]


def test_owner_records_are_listed_under_their_account_prefixes(records: OwnerRecords, s3: Any) -> None:
    other = Owner("arn:aws:cloudformation:us-west-2:444455556666:stack/Other/2", "Job")
    for owner in (OWNER, other):
        records.begin(owner, "create")
    assert {record.owner for record in records.all() if isinstance(record, OwnerRecord)} == {OWNER, other}
    names = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert [name.split("/")[:2] for name in names] == [["owners", "111122223333"], ["owners", "444455556666"]]


def test_an_owner_may_refer_to_artifacts_unless_its_store_cannot_be_accessed(records: OwnerRecords, s3: Any) -> None:
    assert not records.may_refer(OWNER)
    records.begin(OWNER, "create")
    assert not records.may_refer(OWNER)
    records.refer(OWNER, "create", A)
    assert records.may_refer(OWNER)
    assert not OwnerRecords(Reticent(s3, readable=False, listable=False), BUCKET).may_refer(OWNER)
    with pytest.raises(ClientError, match="NoSuchBucket"):
        OwnerRecords(s3, "no-such-bucket-anywhere").may_refer(OWNER)


def stored(s3: Any) -> Any:
    """The owner's record as it is in the store."""
    return json.loads(s3.get_object(Bucket=BUCKET, Key=OWNER.record_name)["Body"].read())


def test_every_step_of_a_request_is_in_the_store_as_all_releases_read_it(records: OwnerRecords, s3: Any) -> None:
    found = {"schema": 1, "stack_id": OWNER.stack_id, "logical_id": "Job"}
    records.begin(OWNER, "create", issued=100)
    assert stored(s3) == {
        **found, "request": "create", "issued": 100, "superseded": [], "keys": {}, "properties": {}, "chosen": {},
    }  # fmt: skip
    records.refer(OWNER, "create", A)
    begun = {**found, "request": "create", "issued": 100, "superseded": [], "properties": {}, "chosen": {"create": A}}
    assert stored(s3) == {**begun, "keys": {A: {"request": "create", "state": "begun"}}}
    records.settle(OWNER, "create", A, properties="first")
    applied = {**begun, "properties": {A: ["first"]}}
    assert stored(s3) == {**applied, "keys": {A: {"request": "create", "state": "carried out"}}}
    records.begin(OWNER, "update", issued=200, physical_id=A, properties="unused")
    records.refer(OWNER, "update", B)
    records.settle(OWNER, "update", B, properties="second")
    assert stored(s3) == {
        **found,
        "request": "update",
        "issued": 200,
        "superseded": ["create"],
        "keys": {A: {"request": "update", "state": "leaving"}, B: {"request": "update", "state": "carried out"}},
        "properties": {A: ["first"], B: ["second"]},
        "chosen": {"create": A, "update": B},
    }
    records.left(OWNER, "update", A)
    records.begin(OWNER, "delete", issued=300, physical_id=B, gives_up=lambda record: record.deleted_with(B))
    gone = {
        **found,
        "request": "delete",
        "issued": 300,
        "superseded": ["create", "update"],
        "chosen": {"create": A, "update": B},
    }
    assert stored(s3) == {
        **gone, "keys": {B: {"request": "delete", "state": "leaving"}}, "properties": {B: ["second"]},
    }  # fmt: skip
    records.left(OWNER, "delete", B)
    assert stored(s3) == {**gone, "keys": {}, "properties": {}}


def test_a_confirmed_reference_is_stored_as_all_releases_read_it(records: OwnerRecords, s3: Any) -> None:
    records.begin(OWNER, "create")
    records.settle(OWNER, "create", A)
    # A record of the first release has no digest of the properties.
    records.begin(OWNER, "update", physical_id=A, properties="earlier")
    assert stored(s3)["keys"] == {A: {"request": "create", "state": "answered"}}
    assert stored(s3)["properties"] == {A: ["earlier"]}


def test_a_failed_request_s_reference_is_stored_as_left(records: OwnerRecords, s3: Any) -> None:
    records.begin(OWNER, "create")
    records.refer(OWNER, "create", A)
    records.withdraw(OWNER, "create", A)
    assert stored(s3)["keys"] == {A: {"request": "create", "state": "leaving"}}


def test_a_reference_of_which_nothing_else_is_known_may_have_been_interrupted() -> None:
    assert Reference(request="create").state == "begun"


def test_the_latest_20_requests_are_remembered_with_what_they_chose(records: OwnerRecords) -> None:
    for number in range(23):
        records.begin(OWNER, f"request-{number}")
        record = records.refer(OWNER, f"request-{number}", A)
    assert record.superseded == tuple(f"request-{number}" for number in range(2, 22))
    assert set(record.chosen) == {f"request-{number}" for number in range(2, 23)}


@pytest.mark.parametrize(
    ("physical_id", "given_up"),
    [(A, {A, B, "left"}), ("not-created-first", {B, "left"}), ("not-created-other", {"left"}), (None, {B, C, "left"})],
)
def test_a_deletion_gives_up_what_its_physical_id_stands_for(physical_id: str | None, given_up: set[str]) -> None:
    keys = {
        A: Reference(request="create", state=CONFIRMED),
        B: Reference(request="first", state=BEGUN),
        C: Reference(request="second", state=APPLIED),
        "left": Reference(request="first", state=LEAVING),
    }
    assert OwnerRecord.of(OWNER).updated(keys=keys).deleted_with(physical_id) == given_up


def test_an_owner_whose_stack_has_no_arn_has_its_record_below_unknown(records: OwnerRecords, s3: Any) -> None:
    owner = Owner("my-stack", "Job")
    records.begin(owner, "create")
    [name] = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert name.startswith("owners/unknown/")
    [found] = records.all()
    assert isinstance(found, OwnerRecord)
    assert found.owner == owner
