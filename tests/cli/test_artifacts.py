"""``constructs-optim artifacts`` against the local cloud."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

from ..support.operator_stores import Store, artifact_key, owner

pytestmark = pytest.mark.local

# Two keys that begin alike.
KEYS = sorted([artifact_key(seed) for seed in range(40)])
TWIN, OTHER_TWIN = next(pair for pair in itertools.pairwise(KEYS) if pair[0][0] == pair[1][0])
WEIGHTS = f"artifacts/{TWIN}/model/1/model.safetensors"


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["artifacts", *arguments], input=answer)


def data(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_artifacts_are_listed_as_json(store: Store) -> None:
    store.made(TWIN, by=owner())
    (artifact,) = data("list", "--store", store.bucket)["artifacts"]
    assert artifact["artifact_key"] == TWIN
    assert artifact["state"] == "ready"
    assert artifact["size_bytes"] > 0
    assert artifact["owner_count"] == 1
    assert artifact["description"]["Techniques"] == ["AWQ INT4 (group size 128)"]
    assert artifact.keys() == {
        "artifact_key",
        "state",
        "detail",
        "description",
        "size_bytes",
        "made_at",
        "changed_at",
        "owner_count",
    }


def test_artifacts_are_listed_as_a_table(store: Store) -> None:
    store.made(TWIN, by=owner())
    store.running(OTHER_TWIN, by=owner())
    result = run("list", "--store", store.bucket)
    assert result.exit_code == 0, result.output
    first, second = (line for line in result.stdout.splitlines() if "AWQ" in line)
    assert (TWIN[:12] in first, "ready" in first) == (True, True)
    assert "in progress: job optim-" in second


@pytest.mark.parametrize("is_released", [True, False])
def test_an_artifact_whose_job_failed_is_listed_and_shown_with_the_reason(store: Store, is_released: bool) -> None:
    """A failed deployment rolls back, and releases the artifact."""
    store.cloud.inject("job_fails", reason="CUDA out of memory")
    claim = store.claimed(TWIN, owner())
    store.job(TWIN, claim.attempt)
    store.ended(TWIN, claim.attempt)
    if is_released:
        store.records.leave(TWIN, owner(), finished=False)
    (row,) = (line for line in run("list", "--store", store.bucket).stdout.splitlines() if TWIN[:12] in line)
    assert ("released: " if is_released else "failed: ") in row
    assert "CUDA out of memory" in row
    shown = run("show", TWIN, "--store", store.bucket).stdout
    state, job = (next(line for line in shown.splitlines() if line.startswith(each)) for each in ("State", "Job"))
    assert "CUDA out of memory" in state
    assert job.endswith(" FAILED: CUDA out of memory")
    assert data("show", TWIN, "--store", store.bucket)["job"]["failure_reason"] == "CUDA out of memory"


def test_an_empty_store_is_no_error(store: Store) -> None:
    assert data("list", "--store", store.bucket) == {"artifacts": [], "warnings": []}
    assert "No artifacts in" in run("list", "--store", store.bucket).stdout


def test_one_artifact_is_shown_by_a_prefix_of_its_key(store: Store) -> None:
    store.made(TWIN, by=owner("Chat"))
    shown = data("show", TWIN[:8].upper(), "--store", store.bucket)
    assert shown["artifact_key"] == TWIN
    assert shown["manifest"]["attempt"] == 1
    assert shown["claim"]["owners"] == shown["owners"] == [{"stack_id": owner().stack_id, "logical_id": "Llama70BJob"}]
    assert {file["name"] for file in shown["files"]} == {file["name"] for file in shown["manifest"]["files"]}
    result = run("show", TWIN, "--store", store.bucket)
    for part in (TWIN, "Chat / Llama70BJob", "model.safetensors", "hub:SageMakerPublicHub/llama@1"):
        assert part in result.stdout


def test_an_ambiguous_key_prefix_lists_the_candidates(store: Store) -> None:
    for key in (TWIN, OTHER_TWIN):
        store.claimed(key, owner())
    result = run("show", TWIN[0], "--store", store.bucket)
    assert result.exit_code == 2
    assert TWIN in result.stderr
    assert OTHER_TWIN in result.stderr


@pytest.mark.parametrize("key", ["ffffffff", "no-key"])
def test_an_unknown_key_is_an_error_that_suggests_the_list_command(store: Store, key: str) -> None:
    for command in ("show", "verify"):
        result = run(command, "--store", store.bucket, key)
        assert result.exit_code == 2
        assert f"constructs-optim artifacts list --store {store.bucket}" in result.stderr


def test_an_intact_store_passes_verification(store: Store) -> None:
    store.made(TWIN, by=owner())
    result = run("verify", "--store", store.bucket)
    assert result.exit_code == 0, result.output
    assert f"{TWIN[:12]} sound: 5 files" in result.stdout
    (verified,) = data("verify", "--store", store.bucket)["artifacts"]
    assert (verified["sound"], verified["file_count"]) == (True, 5)


def test_damaged_files_are_reported_with_exit_status_1(store: Store) -> None:
    store.made(TWIN, by=owner())
    store.delete(WEIGHTS)
    store.put(f"artifacts/{TWIN}/model/1/payload.pkl", b"surprise")
    store.put(f"artifacts/{TWIN}/model/1/config.json", b"{}")
    result = run("verify", "--store", store.bucket, TWIN[:10])
    assert result.exit_code == 1
    for line in ("missing: model.safetensors", "extra: payload.pkl", "changed: config.json"):
        assert f"{TWIN[:12]} {line}" in result.stdout
    found = run("verify", "--store", store.bucket, "--json")
    assert found.exit_code == 1
    (report,) = json.loads(found.stdout)["artifacts"]
    assert [finding["damage"] for finding in report["findings"]] == ["changed", "missing", "extra"]


def test_verify_fails_for_an_artifact_in_progress_only_if_it_is_named(store: Store) -> None:
    store.running(TWIN, by=owner())
    everything = run("verify", "--store", store.bucket)
    assert (everything.exit_code, "not checked: in progress" in everything.stdout) == (0, True)
    assert run("verify", "--store", store.bucket, TWIN).exit_code == 1


def test_prune_without_delete_is_a_dry_run(store: Store) -> None:
    store.made(TWIN)
    before = store.names()
    result = run("prune", "--store", store.bucket, "--older-than", "0d")
    assert result.exit_code == 0, result.output
    assert "1 unreferenced artifact" in result.stdout
    assert "--delete" in result.stdout
    report = data("prune", "--store", store.bucket, "--older-than", "0d")
    assert (report["deleted"], report["versioned"], report["freed_bytes"] > 0) == (False, False, True)
    assert [(each["artifact_key"], each["removed"]) for each in report["artifacts"]] == [(TWIN, False)]
    assert store.names() == before


def test_prune_keeps_recently_used_artifacts_by_default(store: Store) -> None:
    store.made(TWIN)
    report = data("prune", "--store", store.bucket)
    assert report["artifacts"] == []
    assert report["kept"] == [{"artifact_key": TWIN, "reason": "unused for only 0 days"}]


def test_prune_asks_for_confirmation_before_it_deletes(store: Store) -> None:
    store.made(TWIN)
    command = ("prune", "--store", store.bucket, "--older-than", "0s", "--delete")
    assert run(*command, answer="n\n").exit_code == 1
    assert store.records.manifest(TWIN) is not None
    result = run(*command, answer="y\n")
    assert result.exit_code == 0, result.output
    assert "Removed 1 artifact" in result.stdout
    assert store.names() == [f"artifacts/{TWIN}/claim.json"]
    assert "No artifacts in" in run("list", "--store", store.bucket).stdout


def test_prune_with_json_output_requires_the_yes_option(store: Store) -> None:
    store.made(TWIN, by=owner("Gone"))
    command = ("prune", "--store", store.bucket, "--older-than", "0s", "--delete", "--json")
    assert run(*command).exit_code == 2
    report = data(*command[:-1], "--yes")
    assert [each["removed"] for each in report["artifacts"]] == [True]
    assert [each["stack_id"] for each in report["gone_owners"]] == [owner("Gone").stack_id]


def test_prune_warns_that_a_versioned_bucket_keeps_old_versions(store: Store) -> None:
    store.s3.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    store.made(TWIN)
    assert "versioned" in run("prune", "--store", store.bucket, "--older-than", "0s").stdout


@pytest.mark.parametrize("span", ["30", "d", "thirty days", "-1d", "1y"])
def test_an_invalid_time_span_is_a_usage_error(store: Store, span: str) -> None:
    result = run("prune", "--store", store.bucket, "--older-than", span)
    assert result.exit_code == 2
    assert "30d" in result.stderr


def test_a_missing_bucket_is_an_error_message_without_a_traceback(store: Store) -> None:
    result = run("list", "--store", "no-such-bucket")
    assert result.exit_code == 2
    assert "No such bucket" in result.stderr
    assert "Traceback" not in result.output


def test_an_s3_uri_is_refused_as_a_bucket_name(store: Store) -> None:
    result = run("list", "--store", "s3://artifacts/")
    assert result.exit_code == 2
    assert "not a bucket name" in result.stderr


def test_in_another_account_s_store_hidden_references_are_noted_and_prune_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.made(TWIN)
    store.share("444455556666")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "444455556666")
    listed = run("list", "--store", store.bucket)
    assert (listed.exit_code, TWIN[:12] in listed.stdout) == (0, True), listed.output
    assert f"Note: account 444455556666 can read only its own references in {store.bucket}" in listed.stdout
    assert run("verify", "--store", store.bucket).exit_code == 0
    pruned = run("prune", "--store", store.bucket, "--older-than", "0d", "--delete", "--yes")
    assert pruned.exit_code == 2
    assert f"account 444455556666 cannot list all references to the artifacts of {store.bucket}" in pruned.stderr
    assert WEIGHTS in store.names()
