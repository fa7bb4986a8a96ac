"""The lock file keeps an app's containers when a newer release of the library prefers others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from typer.testing import CliRunner

from constructs_optim import Model, OptimizedEndpoint, Quantization, Server
from constructs_optim.cli.main import app as cli
from constructs_optim.constructs.artifacts.planned_recipe import LOCK_FILE_CONTEXT
from constructs_optim.recipe import planning
from constructs_optim.recipe.catalog import images, models
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.catalog.models import ModelRow, Tuning, VllmRecipe
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.techniques.quantization import CompressorQuantization
from constructs_optim.templates.resource_types import PREFLIGHT

from ..support.construct_stacks import LLAMA_70B, endpoint, resources, stack, template_of

JOB = images.making({"awq"})[0]
SERVER = images.serving({"awq"}, by_name())[0]
_MODEL = "AWS::SageMaker::Model"
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


GEOMETRY: dict[str, Any] = {
    "parameters_billion": 8,
    "layers": 32,
    "key_value_heads": 8,
    "head_dimension": 128,
    "max_position": 262_144,
}


def with_arguments(**arguments: Any) -> VllmRecipe:
    return VllmRecipe(tuning=Tuning(arguments=arguments))


MODELS = {
    row.model_id: row
    for row in (
        ModelRow("acme/plain", "Acme", **GEOMETRY, recipe=VllmRecipe()),
        ModelRow("acme/leaving", "Acme", **GEOMETRY, recipe=with_arguments(reasoning_parser="qwen3")),
        ModelRow("acme/tuned", "Acme", **GEOMETRY, recipe=with_arguments(tool_call_parser="hermes")),
    )
}
"""Of the first release; it does not know acme/entering."""
NEWER_MODELS = {
    row.model_id: row
    for row in (
        replace(MODELS["acme/plain"], layers=64, recipe=with_arguments(tool_call_parser="hermes")),
        replace(
            MODELS["acme/tuned"],
            parameters_billion=20,
            recipe=VllmRecipe("9.0.0", generations={"hopper": Tuning(environment={"VLLM_USE_DEEP_GEMM": "0"})}),
        ),
        ModelRow("acme/entering", "Acme", **GEOMETRY, recipe=with_arguments(reasoning_parser="qwen3")),
    )
}


def app_of_many_recipes() -> Stack:
    many = stack("Many")

    def add(name: str, instance_type: str = "ml.g6e.xlarge", **options: Any) -> None:
        model = Model.huggingface(f"acme/{name.lower()}", revision="c" * 40)
        name = "".join([name, *(option.title() for option in options)])
        OptimizedEndpoint(many, name, model=model, instance_type=instance_type, **options)

    add("Plain")
    add("Entering")
    add("Leaving", techniques=[Quantization.fp8_block()])
    add("Tuned", "ml.p5.48xlarge")
    add("Tuned", "ml.p5.48xlarge", server=Server.vllm(container_version="0.30"))
    add("Tuned", "ml.g6e.12xlarge", environment={"SM_VLLM_MAX_NUM_SEQS": "64"})
    endpoint(many)
    return many


def everything_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog and the library of a later release, which has none of the images of before."""
    rows = [
        row.model_copy(
            update={
                "tag": f"0.30.1-gpu-py312-cu130-{number}" if row.server == "vllm" else f"99.0.0-{number}-cu130",
                "engine": "0.30.1",
            }
        )
        for number, row in enumerate(images.rows())
    ]
    monkeypatch.setattr(images, "rows", lambda: tuple(rows))
    monkeypatch.setattr(models, "of_hugging_face", lambda: NEWER_MODELS)
    monkeypatch.setattr(planning, "COPY_VERSION", 2)
    monkeypatch.setattr(CompressorQuantization, "code_version", 2)


def written(scope: Stack) -> str:
    return json.dumps(template_of(scope), indent=1)


def moved(*entries: str) -> dict[str, str]:
    """Update entries, by default all: what the command prints of each."""
    updated = CliRunner().invoke(cli, ["lock", "--update", *entries], env={"COLUMNS": "400"})
    assert updated.exit_code == 0, updated.output
    *lines, _ = updated.stdout.splitlines()
    return dict(line.split(": ", 1) for line in lines)


def differing(before: str, after: str) -> set[str]:
    """The types of resources that differ."""
    old, new = (json.loads(text)["Resources"] for text in (before, after))
    return {declared["Type"] for name, declared in {**old, **new}.items() if old.get(name) != new.get(name)}


def environment_of(template: str, model: str) -> set[tuple[str, str]]:
    """The variables of the model's containers."""
    containers = (each["PrimaryContainer"]["Environment"] for each in resources(json.loads(template), _MODEL))
    return {pair for found in containers if found.get("SM_VLLM_SERVED_MODEL_NAME") == model for pair in found.items()}


def under_the_cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path / "cdk.out"))


def test_the_lock_file_keeps_containers_the_same_under_a_newer_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_the_cli(monkeypatch, tmp_path)
    before = synthesized()
    written = Lock.read(Path(LOCK_FILE))
    assert (written.jobs, written.servers) == (LOCK.jobs, LOCK.servers)
    upgrade(monkeypatch)
    assert synthesized() == before
    # The owner asks for the newer server: the model changes, and no job.
    written.model_copy(update={"servers": {"awq": "vllm:99.0.0-vllm"}}).write(Path(LOCK_FILE))
    after = synthesized()
    changed = {name for name, made in after["Resources"].items() if made != before["Resources"].get(name)}
    assert {after["Resources"][name]["Type"] for name in changed} == {
        "AWS::SageMaker::Model",
        PREFLIGHT,
    }
    Path(LOCK_FILE).unlink()
    assert "djl-inference:99.0.0-lmi" in str(synthesized())


def test_a_release_in_which_everything_is_newer_changes_no_template_until_its_owner_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_the_cli(monkeypatch, tmp_path)
    monkeypatch.setattr(models, "of_hugging_face", lambda: MODELS)
    before = written(app_of_many_recipes())
    lock = Path(LOCK_FILE).read_text()
    assert written(app_of_many_recipes()) == before
    everything_newer(monkeypatch)
    assert written(app_of_many_recipes()) == before
    assert Path(LOCK_FILE).read_text() == lock

    parsers = moved("tuning.acme/plain@l40s")
    assert parsers == {
        "tuning.acme/plain@l40s": '{} -> {"tool_call_parser": "hermes"}',
        # The length that fits follows from the arguments.
        "contexts.acme/plain@ml.g6e.xlarge": "180224 tokens -> decided at the next synthesis",
    }
    after = written(app_of_many_recipes())
    assert differing(before, after) == {"AWS::SageMaker::Model", PREFLIGHT}
    assert environment_of(after, "acme/plain") - environment_of(before, "acme/plain") == {
        ("SM_VLLM_TOOL_CALL_PARSER", "hermes"),
        ("SM_VLLM_MAX_MODEL_LEN", "93184"),
    }

    everything = moved()
    assert everything["servers.vllm:0.30:serving"].endswith("vllm:0.30.1-gpu-py312-cu130-27")
    assert everything["artifacts.acme/leaving:fp8_block"] == "version 1, 32 GB -> version 2, 32 GB"
    assert everything["artifacts.acme/entering"] == "version 1, 1000 GB -> version 2, 32 GB"
    # Of a model that the catalog no longer knows, all stays but what this release makes of it.
    assert {entry for entry in everything if "acme/leaving" in entry} == {
        "artifacts.acme/leaving",
        "artifacts.acme/leaving:fp8_block",
    }
    after = written(app_of_many_recipes())
    assert "vllm:0.30.0" not in after
    assert "djl-inference:0.32.0" not in after
    assert ("SM_VLLM_REASONING_PARSER", "qwen3") in environment_of(after, "acme/entering")
    for old, new in zip(*(resources(json.loads(text), "Custom::TrainingJob") for text in (before, after)), strict=True):
        assert new["RecipeKey"] != old["RecipeKey"]
        assert new["Request"]["HyperParameters"] == {**old["Request"]["HyperParameters"], "artifact_version": "2"}


def test_a_lock_file_of_an_earlier_release_loads_and_gets_more_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_the_cli(monkeypatch, tmp_path)
    monkeypatch.setattr(models, "of_hugging_face", lambda: MODELS)
    before = written(app_of_many_recipes())
    content = json.loads(Path(LOCK_FILE).read_text())
    earlier = {part: content[part] for part in ("version", "jobs", "servers")}
    names = {name.partition("@")[0]: tuned for name, tuned in content["tuning"].items() if tuned["arguments"]}
    earlier["tuning"] = names
    Path(LOCK_FILE).write_text(json.dumps(earlier))
    # Only what earlier releases recorded: images, and arguments for a generation of GPUs or for all.
    newer = {name: replace(row, recipe=NEWER_MODELS["acme/tuned"].recipe) for name, row in MODELS.items()}
    monkeypatch.setattr(models, "of_hugging_face", lambda: {**newer, "acme/plain": MODELS["acme/plain"]})
    assert written(app_of_many_recipes()) == before
    now = json.loads(Path(LOCK_FILE).read_text())
    assert now["tuning"].items() >= names.items()
    assert {**now, "tuning": {}} == {**content, "tuning": {}}


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
        f"{LOCK_FILE} records jobs.awq: {JOB.name}, servers.awq: {SERVER.name}, tuning.{LLAMA_70B}@a10g, "
        f"contexts.{LLAMA_70B}@ml.g5.12xlarge+awq: commit it with the app\n",
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
    assert f"jobs.awq: {JOB.name}, servers.awq: {SERVER.name}" in warning


def test_the_lock_file_records_the_containers_of_several_techniques(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_the_cli(monkeypatch, tmp_path)
    chat = stack()
    endpoint(chat)
    endpoint(chat, "Other", techniques=[Quantization.fp8()], instance_type="ml.p5.48xlarge")
    recorded = Lock.read(Path(LOCK_FILE))
    assert [*recorded.jobs, *recorded.servers] == ["awq", "fp8", "awq", "fp8"]


def test_an_endpoint_checks_the_rules_and_reads_the_lock_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    checks, reads = planning.check, Lock.read
    monkeypatch.setattr(planning, "check", lambda recipe: calls.append("check") or checks(recipe))
    monkeypatch.setattr(Lock, "read", lambda path: calls.append("read") or reads(path))
    endpoint(stack())
    assert sorted(calls) == ["check", "read"]
