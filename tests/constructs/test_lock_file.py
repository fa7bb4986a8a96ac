"""The lock file keeps an app's containers when a newer release of the library prefers others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from constructs_optim.constructs.artifacts.planned_recipe import LOCK_FILE_CONTEXT
from constructs_optim.recipe import planning
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.servers import by_name

from ..support.construct_stacks import endpoint, stack, template_of

JOB = images.making({"awq"})[0]
SERVER = images.serving({"awq"}, by_name())[0]
LOCK = Lock(jobs={"awq": JOB.name}, servers={"awq": SERVER.name})


@pytest.fixture(autouse=True)
def in_the_app_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDK_OUTDIR", raising=False)


def synthesized() -> dict[str, Any]:
    chat = stack()
    endpoint(chat)
    return template_of(chat)


def messages(of: Stack, kind: str) -> list[str]:
    """The messages that synthesis writes to the cloud assembly of a stack's app."""
    app = of.node.root
    assert isinstance(app, App)
    metadata = json.loads((Path(app.synth().directory) / f"{of.stack_name}.metadata.json").read_text())
    entries = [entry for found in metadata.values() for entry in found]
    return [entry["data"] for entry in entries if entry["type"] == kind]


def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate the catalog of a later release, which prefers newer images, for jobs and for models."""
    rows = images.rows()
    newer = tuple(row.model_copy(update={"tag": f"99.0.0-{row.server}"}) for row in (JOB, SERVER))
    monkeypatch.setattr(images, "rows", lambda: (*newer, *rows))


def under_the_cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path / "cdk.out"))


def test_the_lock_file_keeps_containers_the_same_under_a_newer_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_the_cli(monkeypatch, tmp_path)
    before = synthesized()
    assert Lock.read(Path(LOCK_FILE)) == LOCK
    upgrade(monkeypatch)
    assert synthesized() == before
    # The owner asks for the newer server: the model changes, and no job.
    LOCK.model_copy(update={"servers": {"awq": "vllm:99.0.0-vllm"}}).write(Path(LOCK_FILE))
    after = synthesized()
    changed = {name for name, made in after["Resources"].items() if made != before["Resources"].get(name)}
    assert {after["Resources"][name]["Type"] for name in changed} == {"AWS::SageMaker::Model"}
    Path(LOCK_FILE).unlink()
    assert "djl-inference:99.0.0-lmi" in str(synthesized())


def test_synthesis_outside_the_cdk_cli_reads_the_lock_file_without_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = synthesized()
    assert not Path(LOCK_FILE).exists()
    LOCK.write(Path(LOCK_FILE))
    upgrade(monkeypatch)
    assert synthesized() == before


def test_recorded_containers_are_printed_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    under_the_cli(monkeypatch, tmp_path)
    for message in (
        f"{LOCK_FILE} records jobs.awq: {JOB.name}, servers.awq: {SERVER.name}: commit it with the app\n",
        "",
    ):
        endpoint(stack())
        assert capsys.readouterr().err == message


def test_a_lock_file_that_cannot_be_written_gives_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under_the_cli(monkeypatch, tmp_path)
    chat = stack()
    chat.node.set_context(LOCK_FILE_CONTEXT, "no/such/folder/optim.lock.json")
    endpoint(chat)
    (warning,) = [message for message in messages(chat, "aws:cdk:warning") if "cannot be written" in message]
    assert f"it lacks jobs.awq: {JOB.name}, servers.awq: {SERVER.name}" in warning


def test_the_lock_file_records_the_containers_of_several_techniques(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from constructs_optim import Quantization

    under_the_cli(monkeypatch, tmp_path)
    chat = stack()
    endpoint(chat)
    endpoint(chat, "Other", techniques=[Quantization.fp8()], instance_type="ml.p5.48xlarge")
    assert list(Lock.read(Path(LOCK_FILE)).entries()) == ["jobs.awq", "jobs.fp8", "servers.awq", "servers.fp8"]


def test_an_endpoint_checks_the_rules_and_reads_the_lock_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    checks, reads = planning.check, Lock.read
    monkeypatch.setattr(planning, "check", lambda recipe: calls.append("check") or checks(recipe))
    monkeypatch.setattr(Lock, "read", lambda path: calls.append("read") or reads(path))
    endpoint(stack())
    assert sorted(calls) == ["check", "read"]
