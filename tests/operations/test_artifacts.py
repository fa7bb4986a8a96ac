"""The state of an artifact, derived from its records, its files and its job."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from pydantic_core import to_jsonable_python

from constructs_optim.operations.artifacts import Artifact, ArtifactInventory, State, verify
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.sagemaker_jobs import job_name

from ..support.operator_stores import ACCOUNT, Store, artifact_key, owner

ABROAD = "444455556666"
KEY, OTHER = artifact_key("one"), artifact_key("other")


def found(inventory: ArtifactInventory, key: str = KEY) -> Artifact:
    artifact = inventory.get(key)
    assert artifact is not None
    return artifact


def model(store: Store, name: str = "model.safetensors", attempt: int = 1) -> str:
    return f"artifacts/{KEY}/model/{attempt}/{name}"


def test_a_built_artifact_is_ready(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    artifact = found(inventory)
    assert artifact.state is State.ready
    assert artifact.owners == (owner(),)
    assert artifact.manifest is not None
    assert artifact.size_bytes == artifact.manifest["size_bytes"] > 0
    assert artifact.made_at == artifact.manifest["ended_at"]
    assert artifact.job is None, "the job of a ready artifact is not described"


def test_a_shared_store_shows_its_artifacts_and_only_the_visible_owners(
    store: Store, inventory: ArtifactInventory
) -> None:
    maker, own, hidden = owner(), owner("Reader", "Artifact", ABROAD), owner("Another", "Artifact")
    store.made(KEY, by=maker)
    for reader in (own, hidden):
        store.refer(KEY, reader)
    store.share(ABROAD)
    clients = [store.cloud.client(service, ABROAD) for service in ("s3", "sagemaker")]
    from_abroad = ArtifactInventory(*clients, store.bucket, account=ABROAD)
    (artifact,) = from_abroad.all()
    assert artifact.state is State.ready
    assert set(artifact.owners) == {maker, own}
    assert from_abroad.owner_records.is_partial
    assert set(found(inventory).owners) == {maker, own, hidden}
    assert not inventory.owner_records.is_partial


def test_a_store_that_is_not_shared_cannot_be_listed_from_another_account(store: Store) -> None:
    store.made(KEY)
    clients = [store.cloud.client(service, ABROAD) for service in ("s3", "sagemaker")]
    with pytest.raises(ClientError, match="AccessDenied"):
        list(ArtifactInventory(*clients, store.bucket, account=ABROAD).all())


def test_an_artifact_whose_job_runs_is_in_progress(store: Store, inventory: ArtifactInventory) -> None:
    name = store.running(KEY, by=owner())
    artifact = found(inventory)
    assert artifact.state is State.in_progress
    assert name in artifact.detail


def test_an_artifact_whose_job_failed_is_reported_with_the_reason(store: Store, inventory: ArtifactInventory) -> None:
    store.cloud.inject("job_fails", reason="CUDA out of memory")
    store.claimed(KEY, owner())
    store.job(KEY)
    store.ended(KEY)
    artifact = found(inventory)
    assert artifact.state is State.failed
    assert "CUDA out of memory" in artifact.detail


def test_an_artifact_without_job_or_manifest_is_incomplete(store: Store, inventory: ArtifactInventory) -> None:
    store.claimed(KEY, owner())
    assert found(inventory).state is State.incomplete
    store.put(f"artifacts/{OTHER}/model/1/model.safetensors", b"weights")
    assert found(inventory, OTHER).state is State.incomplete


def test_an_artifact_whose_completed_job_has_no_manifest_is_incomplete(
    store: Store, inventory: ArtifactInventory
) -> None:
    store.made(KEY, by=owner())
    store.delete(f"artifacts/{KEY}/manifest.json")
    artifact = found(inventory)
    assert artifact.state is State.incomplete
    assert job_name(store.bucket, KEY, 1) in artifact.detail


def test_an_artifact_abandoned_by_its_last_owner_is_released(store: Store, inventory: ArtifactInventory) -> None:
    store.running(KEY)
    assert found(inventory).state is State.released


@pytest.mark.parametrize("record", ["claim.json", "manifest.json"])
def test_an_artifact_with_a_record_of_invalid_json_is_damaged(
    store: Store, inventory: ArtifactInventory, record: str
) -> None:
    store.made(KEY, by=owner())
    store.put(f"artifacts/{KEY}/{record}", b"{")
    artifact = found(inventory)
    assert artifact.state is State.damaged
    assert record in artifact.detail


@pytest.mark.parametrize("record", ["claim.json", "manifest.json"])
def test_a_record_of_a_newer_release_is_not_reported_as_damage(
    store: Store, inventory: ArtifactInventory, record: str
) -> None:
    store.made(KEY, by=owner())
    store.put(f"artifacts/{KEY}/{record}", b'{"schema": 2, "owners": {"by": "account"}}')
    artifact = found(inventory)
    assert (artifact.state, artifact.unreadable, artifact.is_newer) == (State.newer, (), True)
    assert artifact.detail == f"a newer release wrote {record}: upgrade constructs-optim to see more"
    verified = verify(inventory.store, artifact)
    assert (verified.is_sound, verified.findings) == (False, ())
    assert verified.not_checked == f"of a newer release: {artifact.detail}"


def test_an_artifact_with_a_missing_file_is_damaged(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    store.delete(model(store))
    artifact = found(inventory)
    assert artifact.state is State.damaged
    assert artifact.detail == "model.safetensors is missing"


def test_an_artifact_without_any_file_is_damaged(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    for name in store.names():
        if "/model/" in name:
            store.delete(name)
    assert found(inventory).detail == "all its files are missing"


def test_the_manifest_of_an_earlier_attempt_is_ignored(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    claim = store.records.claim(KEY)
    assert claim is not None
    store.records.next_attempt(KEY, claim)
    store.cloud.inject("job_never_finishes")
    store.job(KEY, attempt=2)
    assert found(inventory).state is State.in_progress


def test_a_listing_has_all_artifacts_and_skips_other_objects(store: Store, inventory: ArtifactInventory) -> None:
    for key in (KEY, OTHER):
        store.claimed(key, owner())
    store.put("artifacts/readme.txt", b"notes")
    store.put("artifacts/short/claim.json", b"{}")
    store.put("elsewhere", b"")
    assert [artifact.key for artifact in inventory.all()] == sorted([KEY, OTHER])
    assert inventory.keys() == sorted([KEY, OTHER])


@pytest.mark.parametrize("prefix", ["artifacts", "../", "A" * 10, "0" * 65, "*"])
def test_an_invalid_key_prefix_matches_no_artifact(store: Store, inventory: ArtifactInventory, prefix: str) -> None:
    store.claimed(KEY, owner())
    assert inventory.keys(prefix) == []
    assert inventory.keys(KEY[:6]) == [KEY]


def test_an_unreadable_owner_record_of_another_account_is_a_warning(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    reader = owner("Reader", "Artifact", ABROAD)
    store.refer(KEY, reader)
    store.put(f"owners/{ABROAD}/junk.json", b"[" * 200_000)
    (artifact,) = inventory.all()
    assert artifact.owners == tuple(sorted((owner(), reader)))
    (warning,) = inventory.warnings
    assert f"s3://{store.bucket}/owners/{ABROAD}/junk.json is damaged: it is not a JSON object" in warning


def test_an_unreadable_owner_record_of_the_same_account_is_an_error(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    store.put(f"owners/{ACCOUNT}/junk.json", b'{"x": 1}')
    with pytest.raises(DeploymentError, match=rf"owners/{ACCOUNT}/junk\.json is damaged.*see stack_id"):
        list(inventory.all())


def test_an_artifact_report_is_plain_json(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY, by=owner())
    report = to_jsonable_python(found(inventory).to_json())
    assert report["artifact_key"] == KEY
    assert report["owners"] == [{"stack_id": owner().stack_id, "logical_id": "Llama70BJob"}]
    assert {file["name"] for file in report["files"]} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert report["manifest"]["files"][0]["checksums"].keys() == {"CRC32"}
