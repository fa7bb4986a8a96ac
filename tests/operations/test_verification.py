"""Whether files are still what their manifest says."""

from __future__ import annotations

import base64
import io
import sys
import types
import zlib
from typing import Any

import pytest
from botocore.response import StreamingBody
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.operations.artifacts import ArtifactInventory
from constructs_optim.operations.verification import DeepCheck, Verification, deep_check, verify
from constructs_optim.runtime.store.artifact_integrity import Damage, Finding, differences
from constructs_optim.runtime.store.artifact_store import ArtifactStore

from .stores import Store, artifact_key, owner

KEY = artifact_key("verified")
WEIGHTS = f"artifacts/{KEY}/model/1/model.safetensors"


@pytest.fixture
def made(store: Store) -> Store:
    store.made(KEY, by=owner())
    return store


def verified(store: Store, inventory: ArtifactInventory, *, deep: bool = False, s3: Any = None) -> Verification:
    artifact = inventory.one(KEY)
    assert artifact is not None
    return verify(s3 or store.s3, inventory.store, artifact, deep=deep)


def damage(result: Verification) -> dict[str, str]:
    return {finding.file: finding.damage.value for finding in result.findings}


def test_an_artifact_nobody_touched_is_sound(made: Store, inventory: ArtifactInventory) -> None:
    result = verified(made, inventory)
    assert result.is_sound
    assert result.file_count == 5


def test_a_deleted_file_is_missing(made: Store, inventory: ArtifactInventory) -> None:
    made.delete(WEIGHTS)
    assert damage(verified(made, inventory)) == {"model.safetensors": "missing"}


def test_a_truncated_file_is_changed_and_its_sizes_are_named(made: Store, inventory: ArtifactInventory) -> None:
    body = made.s3.get_object(Bucket=made.bucket, Key=WEIGHTS)["Body"].read()
    made.put(WEIGHTS, body[:-1])
    (finding,) = verified(made, inventory).findings
    assert (finding.file, finding.damage) == ("model.safetensors", Damage.changed)
    assert f"size {len(body) - 1}, was {len(body)}" in finding.detail
    assert "CRC32" in finding.detail


def test_an_overwritten_file_of_the_same_size_is_changed(made: Store, inventory: ArtifactInventory) -> None:
    size = made.s3.head_object(Bucket=made.bucket, Key=WEIGHTS)["ContentLength"]
    made.put(WEIGHTS, bytes(size))
    (finding,) = verified(made, inventory).findings
    assert finding.damage is Damage.changed
    assert "size" not in finding.detail


def test_a_file_the_manifest_does_not_name_is_extra(made: Store, inventory: ArtifactInventory) -> None:
    made.put(f"artifacts/{KEY}/model/1/payload.pkl", b"surprise")
    assert damage(verified(made, inventory)) == {"payload.pkl": "extra"}


def test_files_of_another_attempt_are_no_damage(made: Store, inventory: ArtifactInventory) -> None:
    made.put(f"artifacts/{KEY}/model/10/model.safetensors", b"left over")
    assert verified(made, inventory).is_sound


@pytest.mark.parametrize("record", ["claim.json", "manifest.json"])
def test_a_record_that_cannot_be_read_is_damage(made: Store, inventory: ArtifactInventory, record: str) -> None:
    made.put(f"artifacts/{KEY}/{record}", b"[]")
    assert damage(verified(made, inventory)) == {record: "unreadable"}


def test_a_manifest_that_points_elsewhere_is_damage(made: Store, inventory: ArtifactInventory) -> None:
    manifest = made.records.manifest(KEY)
    assert manifest is not None
    made.records.write_manifest(KEY, {**manifest, "model_data_uri": "s3://another-bucket/model/"})
    assert damage(verified(made, inventory)) == {"manifest.json": "changed"}


def test_an_artifact_in_the_making_is_not_checked(store: Store, inventory: ArtifactInventory) -> None:
    store.running(KEY, by=owner())
    result = verified(store, inventory)
    assert (result.findings, result.is_sound) == ((), False)
    assert "being made" in str(result.not_checked)


def test_a_deep_check_reads_every_file(made: Store, inventory: ArtifactInventory) -> None:
    result = verified(made, inventory, deep=True)
    assert result.is_sound
    assert len(result.deep) == 5
    assert {check.by for check in result.deep} == {("CRC32", "ETag")}


class Tampered:
    """An S3 client whose objects are not the bytes that S3 says they are."""

    def __init__(self, s3: Any, tampered: bytes, **answers: Any) -> None:
        self._s3, self._bytes, self._answers = s3, tampered, answers

    def get_object(self, **request: Any) -> dict[str, Any]:
        answer = self._s3.get_object(**request)
        body = StreamingBody(io.BytesIO(self._bytes), len(self._bytes))  # type: ignore[arg-type]
        return {**answer, **self._answers, "Body": body}


def test_a_deep_check_finds_bytes_that_are_not_what_their_etag_says(made: Store, inventory: ArtifactInventory) -> None:
    size = made.s3.head_object(Bucket=made.bucket, Key=WEIGHTS)["ContentLength"]
    result = verified(made, inventory, deep=True, s3=Tampered(made.s3, bytes(size)))
    assert damage(result)["model.safetensors"] == "changed"
    assert "ETag" in next(f.detail for f in result.findings if f.file == "model.safetensors")


def test_a_file_overwritten_during_a_deep_check_is_changed(made: Store) -> None:
    entry = {"name": "model.safetensors", "size": 1, "etag": "0" * 32}
    found = deep_check(made.s3, made.bucket, WEIGHTS.removesuffix("model.safetensors"), entry)
    assert isinstance(found, Finding)
    assert "during the check" in found.detail


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_a_multipart_upload_is_checked_part_by_part(store: Store, algorithm: str) -> None:
    parts = multipart(store, "big/model.bin", [b"x" * 5_242_880, b"y" * 10], algorithm)
    (entry,) = ArtifactStore(store.s3, store.bucket).files(f"s3://{store.bucket}/big/", checksums=True)
    assert entry["etag"].endswith(f"-{parts}")
    assert entry["checksums"][algorithm].endswith(f"-{parts}")
    check = deep_check(store.s3, store.bucket, "big/", entry)
    assert isinstance(check, DeepCheck)
    assert check.by == (algorithm, "ETag") if algorithm < "ETag" else ("ETag", algorithm)


def test_what_kms_encrypts_has_an_etag_that_proves_nothing(store: Store) -> None:
    store.put("one/model.bin", b"weights")
    (entry,) = store.records.files(f"s3://{store.bucket}/one/")
    encrypted = Tampered(store.s3, b"weights", ServerSideEncryption="aws:kms")
    check = deep_check(encrypted, store.bucket, "one/", entry)
    assert isinstance(check, DeepCheck)
    assert check.by == ()
    assert "KMS" in str(check.impossible)


def test_a_checksum_that_cannot_be_computed_is_said_to_be_so(store: Store) -> None:
    store.put("one/model.bin", b"weights")
    (entry,) = store.records.files(f"s3://{store.bucket}/one/")
    entry["checksums"] = {"XXHASH3": "whatever"}
    encrypted = Tampered(store.s3, b"weights", ServerSideEncryption="aws:kms")
    check = deep_check(encrypted, store.bucket, "one/", entry)
    assert isinstance(check, DeepCheck)
    assert "XXHASH3 cannot be computed here" in str(check.impossible)


def test_crc64nvme_is_computed_where_the_common_runtime_is_installed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.s3.put_object(Bucket=store.bucket, Key="one/model.bin", Body=b"weights", ChecksumAlgorithm="CRC32")
    (entry,) = store.records.files(f"s3://{store.bucket}/one/")
    # A stand-in of the interface of awscrt.checksums; the sum itself is another one.
    stand_in = types.ModuleType("awscrt.checksums")
    stand_in.crc64nvme = lambda data, previous=0: zlib.crc32(data, previous)  # type: ignore[attr-defined]
    package = types.ModuleType("awscrt")
    package.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "awscrt", package)
    monkeypatch.setitem(sys.modules, "awscrt.checksums", stand_in)
    entry["checksums"] = {"CRC64NVME": base64.b64encode(zlib.crc32(b"weights").to_bytes(8, "big")).decode()}
    check = deep_check(store.s3, store.bucket, "one/", entry)
    assert check == DeepCheck("model.bin", by=("CRC64NVME", "ETag"))


def multipart(store: Store, key: str, bodies: list[bytes], algorithm: str) -> int:
    upload = store.s3.create_multipart_upload(Bucket=store.bucket, Key=key, ChecksumAlgorithm=algorithm)
    named = {"Bucket": store.bucket, "Key": key, "UploadId": upload["UploadId"]}
    parts: list[dict[str, Any]] = []
    for number, body in enumerate(bodies, 1):
        part = store.s3.upload_part(**named, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
        checksum = {f"Checksum{algorithm}": part[f"Checksum{algorithm}"]}
        parts.append({"PartNumber": number, "ETag": part["ETag"], **checksum})
    store.s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    return len(parts)


ENTRIES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.fixed_dictionaries(
        {"size": st.integers(0, 2), "etag": st.sampled_from(["e", "f"])},
        optional={"checksums": st.dictionaries(st.sampled_from(["CRC32", "SHA256"]), st.sampled_from(["x", "y"]))},
    ),
)


@given(ENTRIES, ENTRIES)
def test_files_differ_exactly_where_one_lacks_what_the_other_has(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> None:
    then, now = ([{"name": name, **entry} for name, entry in files.items()] for files in (before, after))
    found = {finding.file: finding.damage for finding in differences(then, now)}
    assert {name for name, kind in found.items() if kind is Damage.missing} == before.keys() - after.keys()
    assert {name for name, kind in found.items() if kind is Damage.extra} == after.keys() - before.keys()
    for name in before.keys() & after.keys():
        same = all(before[name][member] == after[name][member] for member in ("size", "etag"))
        sums = [each.get("checksums", {}) for each in (before[name], after[name])]
        same = same and all(sums[0][each] == sums[1][each] for each in sums[0].keys() & sums[1].keys())
        assert (name in found) is not same
