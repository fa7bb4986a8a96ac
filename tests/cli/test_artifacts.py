"""``constructs-optim artifacts`` against the local cloud."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

from ..operations.stores import Store, artifact_key, owner

pytestmark = pytest.mark.local

# Two keys that begin alike.
KEYS = sorted([artifact_key(seed) for seed in range(40)])
TWIN, OTHER_TWIN = next(pair for pair in itertools.pairwise(KEYS) if pair[0][0] == pair[1][0])
WEIGHTS = f"artifacts/{TWIN}/model/1/model.safetensors"


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["artifacts", *arguments], input=answer)


def data(*arguments: str) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_artifacts_are_listed_as_data(store: Store) -> None:
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


def test_an_empty_store_is_no_error(store: Store) -> None:
    assert data("list", "--store", store.bucket) == {"artifacts": [], "warnings": []}
    assert "holds no artifacts" in run("list", "--store", store.bucket).stdout


def test_one_artifact_is_shown_by_the_beginning_of_its_key(store: Store) -> None:
    store.made(TWIN, by=owner("Chat"))
    shown = data("show", TWIN[:8].upper(), "--store", store.bucket)
    assert shown["artifact_key"] == TWIN
    assert shown["manifest"]["attempt"] == 1
    assert shown["claim"]["owners"] == shown["owners"] == [{"stack_id": owner().stack_id, "logical_id": "Llama70BJob"}]
    assert {file["name"] for file in shown["files"]} == {file["name"] for file in shown["manifest"]["files"]}
    result = run("show", TWIN, "--store", store.bucket)
    for part in (TWIN, "Chat / Llama70BJob", "model.safetensors", "hub:SageMakerPublicHub/llama@1"):
        assert part in result.stdout


def test_an_ambiguous_beginning_lists_the_candidates(store: Store) -> None:
    for key in (TWIN, OTHER_TWIN):
        store.claimed(key, owner())
    result = run("show", TWIN[0], "--store", store.bucket)
    assert result.exit_code == 2
    assert TWIN in result.stderr
    assert OTHER_TWIN in result.stderr


@pytest.mark.parametrize("key", ["ffffffff", "no-key"])
def test_an_unknown_key_is_an_error_that_says_where_the_keys_are(store: Store, key: str) -> None:
    for command in ("show", "verify"):
        result = run(command, "--store", store.bucket, key)
        assert result.exit_code == 2
        assert f"constructs-optim artifacts list --store {store.bucket}" in result.stderr


def test_a_sound_store_verifies(store: Store) -> None:
    store.made(TWIN, by=owner())
    result = run("verify", "--store", store.bucket)
    assert result.exit_code == 0, result.output
    assert f"{TWIN[:12]} sound, 5 files" in result.stdout
    (verified,) = data("verify", "--store", store.bucket)["artifacts"]
    assert (verified["sound"], verified["file_count"]) == (True, 5)


def test_damage_is_named_and_the_status_is_1(store: Store) -> None:
    store.made(TWIN, by=owner())
    store.delete(WEIGHTS)
    store.put(f"artifacts/{TWIN}/model/1/payload.pkl", b"surprise")
    store.put(f"artifacts/{TWIN}/model/1/config.json", b"{}")
    result = run("verify", "--store", store.bucket, TWIN[:10])
    assert result.exit_code == 1
    for line in ("missing: model.safetensors", "extra: payload.pkl", "changed: config.json"):
        assert f"{TWIN[:12]} {line}" in result.stdout
    found = run("verify", "--store", store.bucket, "--format", "json")
    assert found.exit_code == 1
    (report,) = json.loads(found.stdout)["artifacts"]
    assert [finding["damage"] for finding in report["findings"]] == ["changed", "missing", "extra"]


def test_what_is_in_the_making_fails_only_where_it_was_asked_for(store: Store) -> None:
    store.running(TWIN, by=owner())
    everything = run("verify", "--store", store.bucket)
    assert (everything.exit_code, "not checked, in progress" in everything.stdout) == (0, True)
    assert run("verify", "--store", store.bucket, TWIN).exit_code == 1


def test_pruning_says_what_would_go_and_removes_nothing(store: Store) -> None:
    store.made(TWIN)
    before = store.names()
    result = run("prune", "--store", store.bucket, "--older-than", "0d")
    assert result.exit_code == 0, result.output
    assert "1 artifact that nothing refers to" in result.stdout
    assert "--delete" in result.stdout
    report = data("prune", "--store", store.bucket, "--older-than", "0d")
    assert (report["deleted"], report["versioned"], report["freed_bytes"] > 0) == (False, False, True)
    assert [(each["artifact_key"], each["removed"]) for each in report["artifacts"]] == [(TWIN, False)]
    assert store.names() == before


def test_what_is_young_is_kept_by_default(store: Store) -> None:
    store.made(TWIN)
    report = data("prune", "--store", store.bucket)
    assert report["artifacts"] == []
    assert report["kept"] == [{"artifact_key": TWIN, "reason": "unused for only 0 days"}]


def test_pruning_asks_before_it_deletes(store: Store) -> None:
    store.made(TWIN)
    command = ("prune", "--store", store.bucket, "--older-than", "0s", "--delete")
    assert run(*command, answer="n\n").exit_code == 1
    assert store.records.manifest(TWIN) is not None
    result = run(*command, answer="y\n")
    assert result.exit_code == 0, result.output
    assert "Removed 1 artifact" in result.stdout
    assert store.names() == [f"artifacts/{TWIN}/claim.json"]
    assert "holds no artifacts" in run("list", "--store", store.bucket).stdout


def test_pruning_for_machines_needs_a_yes(store: Store) -> None:
    store.made(TWIN, by=owner("Gone"))
    command = ("prune", "--store", store.bucket, "--older-than", "0s", "--delete", "--format", "json")
    assert run(*command).exit_code == 2
    report = data(*command[:-2], "--yes")
    assert [each["removed"] for each in report["artifacts"]] == [True]
    assert [each["stack_id"] for each in report["gone_owners"]] == [owner("Gone").stack_id]


def test_a_versioned_bucket_is_said_to_keep_old_versions(store: Store) -> None:
    store.s3.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    store.made(TWIN)
    assert "versioned" in run("prune", "--store", store.bucket, "--older-than", "0s").stdout


@pytest.mark.parametrize("span", ["30", "d", "thirty days", "-1d", "1y"])
def test_a_time_span_that_is_none_is_a_usage_error(store: Store, span: str) -> None:
    result = run("prune", "--store", store.bucket, "--older-than", span)
    assert result.exit_code == 2
    assert "30d" in result.stderr


def test_a_bucket_that_is_not_there_is_one_sentence(store: Store) -> None:
    result = run("list", "--store", "no-such-bucket")
    assert result.exit_code == 2
    assert "There is no bucket of that name" in result.stderr
    assert "Traceback" not in result.output


def test_a_uri_is_no_bucket(store: Store) -> None:
    result = run("list", "--store", "s3://artifacts/")
    assert result.exit_code == 2
    assert "no bucket name" in result.stderr


def test_in_a_store_of_another_account_what_it_hides_is_said_and_nothing_is_pruned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.made(TWIN)
    store.share("444455556666")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "444455556666")
    listed = run("list", "--store", store.bucket)
    assert (listed.exit_code, TWIN[:12] in listed.stdout) == (0, True), listed.output
    assert f"note: {store.bucket} shows account 444455556666 only its own references" in listed.stdout
    assert run("verify", "--store", store.bucket).exit_code == 0
    pruned = run("prune", "--store", store.bucket, "--older-than", "0d", "--delete", "--yes")
    assert pruned.exit_code == 2
    assert f"account 444455556666 may not list all references to the artifacts of {store.bucket}" in pruned.stderr
    assert WEIGHTS in store.names()
