"""Verification of an artifact's files against its manifest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.operations.artifacts import ArtifactInventory, Verification, verify
from constructs_optim.runtime.store.artifact_integrity import differences

from ..support.operator_stores import Store, artifact_key, owner

KEY = artifact_key("verified")
WEIGHTS = f"artifacts/{KEY}/model/1/model.safetensors"


@pytest.fixture
def made(store: Store) -> Store:
    store.made(KEY, by=owner())
    return store


def verified(inventory: ArtifactInventory) -> Verification:
    artifact = inventory.get(KEY)
    assert artifact is not None
    return verify(inventory.store, artifact)


def damage(result: Verification) -> dict[str, str]:
    return {finding.file: finding.damage for finding in result.findings}


def test_an_unchanged_artifact_is_sound(made: Store, inventory: ArtifactInventory) -> None:
    result = verified(inventory)
    assert result.is_sound
    assert result.file_count == 5


def test_a_deleted_file_is_missing(made: Store, inventory: ArtifactInventory) -> None:
    made.delete(WEIGHTS)
    assert damage(verified(inventory)) == {"model.safetensors": "missing"}


def test_a_truncated_file_is_reported_as_changed_with_both_sizes(made: Store, inventory: ArtifactInventory) -> None:
    body = made.s3.get_object(Bucket=made.bucket, Key=WEIGHTS)["Body"].read()
    made.put(WEIGHTS, body[:-1])
    (finding,) = verified(inventory).findings
    assert (finding.file, finding.damage) == ("model.safetensors", "changed")
    assert f"size {len(body) - 1}, was {len(body)}" in finding.detail
    assert "CRC32" in finding.detail


def test_an_overwritten_file_of_the_same_size_is_changed(made: Store, inventory: ArtifactInventory) -> None:
    size = made.s3.head_object(Bucket=made.bucket, Key=WEIGHTS)["ContentLength"]
    made.put(WEIGHTS, bytes(size))
    (finding,) = verified(inventory).findings
    assert finding.damage == "changed"
    assert "size" not in finding.detail


def test_a_file_the_manifest_does_not_name_is_extra(made: Store, inventory: ArtifactInventory) -> None:
    made.put(f"artifacts/{KEY}/model/1/payload.pkl", b"surprise")
    assert damage(verified(inventory)) == {"payload.pkl": "extra"}


def test_files_of_another_attempt_are_not_reported_as_damage(made: Store, inventory: ArtifactInventory) -> None:
    made.put(f"artifacts/{KEY}/model/10/model.safetensors", b"left over")
    assert verified(inventory).is_sound


@pytest.mark.parametrize("record", ["claim.json", "manifest.json"])
def test_an_unreadable_record_is_reported_as_damage(made: Store, inventory: ArtifactInventory, record: str) -> None:
    made.put(f"artifacts/{KEY}/{record}", b"[]")
    assert damage(verified(inventory)) == {record: "unreadable"}


def test_a_manifest_with_another_model_data_uri_is_reported_as_damage(
    made: Store, inventory: ArtifactInventory
) -> None:
    manifest = made.records.manifest(KEY)
    assert manifest is not None
    made.records.write_manifest(KEY, {**manifest, "model_data_uri": "s3://another-bucket/model/"})
    assert damage(verified(inventory)) == {"manifest.json": "changed"}


def test_an_artifact_in_progress_is_not_verified(store: Store, inventory: ArtifactInventory) -> None:
    store.running(KEY, by=owner())
    result = verified(inventory)
    assert (result.findings, result.is_sound) == ((), False)
    assert "in progress" in str(result.not_checked)


ENTRIES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.fixed_dictionaries(
        {"size": st.integers(0, 2), "etag": st.sampled_from(["e", "f"])},
        optional={"checksums": st.dictionaries(st.sampled_from(["CRC32", "SHA256"]), st.sampled_from(["x", "y"]))},
    ),
)


@given(ENTRIES, ENTRIES)
def test_file_differences_are_exactly_the_missing_extra_and_changed_files(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> None:
    then, now = ([{"name": name, **entry} for name, entry in files.items()] for files in (before, after))
    found = {finding.file: finding.damage for finding in differences(then, now)}
    assert {name for name, kind in found.items() if kind == "missing"} == before.keys() - after.keys()
    assert {name for name, kind in found.items() if kind == "extra"} == after.keys() - before.keys()
    for name in before.keys() & after.keys():
        same = all(before[name][member] == after[name][member] for member in ("size", "etag"))
        sums = [each.get("checksums", {}) for each in (before[name], after[name])]
        same = same and all(sums[0][each] == sums[1][each] for each in sums[0].keys() & sums[1].keys())
        assert (name in found) is not same
