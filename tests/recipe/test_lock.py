"""The lock file, and the images that plans take from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe import Model, Plan, Quantization, Recipe, RecipeError, plan
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.servers import Server, ServerSettings, by_name

CHECKOUT = Path(__file__).parent.parent.parent
JOB, OLDER_JOB = (image.name for image in images.making({"awq"})[:2])
NEWEST, OLDER = (image.name for image in images.serving({"awq"}, by_name())[:2])


def planned(
    region: str = "us-west-2",
    jobs: dict[str, str] | None = None,
    servers: dict[str, str] | None = None,
    server: ServerSettings | None = None,
) -> Plan:
    return plan(
        Recipe(
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            region=region,
            containers=Lock(jobs=jobs or {}, servers=servers or {}),
            server=server,
        )
    )


def newer_than(name: str) -> images.ImageRow:
    """The image of a later release."""
    row = next(row for row in images.rows() if row.name == name)
    return row.model_copy(update={"tag": "99.0.0-gpu-lmi99.0.0-cu999"})


@pytest.fixture
def newer_catalog(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A catalog that prefers images of a later release, for jobs and for models."""
    job, model, rows = newer_than(JOB), newer_than(NEWEST), images.rows()
    monkeypatch.setattr(images, "rows", lambda: (job, model, *rows))
    return job.name, model.name


def test_without_a_lock_entry_the_plan_records_the_catalogs_preferred_images() -> None:
    assert planned().containers == Lock(jobs={"awq": JOB}, servers={"awq": NEWEST})


def test_a_locked_job_image_makes_the_artifact_and_changes_its_key() -> None:
    recorded = planned(jobs={"awq": OLDER_JOB})
    assert recorded.containers == Lock(jobs={"awq": OLDER_JOB}, servers={"awq": NEWEST})
    assert recorded.jobs[0].image == OLDER_JOB
    assert recorded.jobs[0].artifact_key != planned().jobs[0].artifact_key


def test_a_locked_server_image_serves_the_artifact_and_leaves_its_key() -> None:
    recorded = planned(servers={"awq": OLDER})
    assert recorded.containers == Lock(jobs={"awq": JOB}, servers={"awq": OLDER})
    assert recorded.container.image is not None
    assert recorded.container.image.endswith(OLDER)
    assert recorded.jobs == planned().jobs


def test_a_newer_catalog_does_not_change_a_plan_with_locked_containers(request: pytest.FixtureRequest) -> None:
    before = planned(jobs={"awq": JOB}, servers={"awq": NEWEST})
    job, model = request.getfixturevalue("newer_catalog")
    assert planned(jobs={"awq": JOB}, servers={"awq": NEWEST}) == before
    assert planned().containers == Lock(jobs={"awq": job}, servers={"awq": model})
    # The owner of the app asks for the newer server: the artifact stays.
    updated = planned(jobs={"awq": JOB}, servers={"awq": model})
    assert updated.container.image != before.container.image
    assert updated.jobs == before.jobs


def test_a_pinned_container_version_needs_no_lock_entry() -> None:
    recorded = {"awq": NEWEST, "vllm:awq": NEWEST}
    pinned = planned(servers=recorded, server=Server.vllm(container_version="0.27.1"))
    assert pinned.container.image is not None
    assert "/vllm:0.27.1-" in pinned.container.image
    assert pinned.containers.servers == {}


def test_each_requested_server_has_an_entry_of_its_own() -> None:
    requested = planned(servers={"awq": NEWEST}, server=Server.lmi())
    ((name, image),) = requested.containers.servers.items()
    assert name == "lmi:awq"
    assert image.startswith("djl-inference:0.36.0-lmi28")


def test_a_region_that_lacks_the_locked_image_gets_its_own_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"missing_in": frozenset({"eu-west-3"})}
    changed = tuple(row.model_copy(update=missing) if row.name in (JOB, NEWEST) else row for row in images.rows())
    monkeypatch.setattr(images, "rows", lambda: changed)
    recorded: Any = {"jobs": {"awq": JOB}, "servers": {"awq": NEWEST}}
    regional = Lock(jobs={"awq@eu-west-3": OLDER_JOB}, servers={"awq@eu-west-3": OLDER})
    assert planned("eu-west-3", **recorded).containers == regional
    both: Any = {part: {**recorded[part], **getattr(regional, part)} for part in recorded}
    assert planned("eu-west-3", **both).containers == regional
    assert planned("us-west-2", **both).containers == Lock(**recorded)


@pytest.mark.parametrize(("part", "preferred"), [("jobs", JOB), ("servers", NEWEST)])
def test_a_locked_image_without_the_required_capabilities_is_refused(part: str, preferred: str) -> None:
    recorded: Any = {part: {"awq": "djl-inference:0.0.1"}}
    with pytest.raises(RecipeError) as refused:
        planned(**recorded)
    (violation,) = refused.value.violations
    assert (violation.rule, violation.location) == ("OPT035", f"{part}['awq']")
    assert LOCK_FILE in violation.suggestion
    assert preferred in violation.suggestion


def test_a_lock_file_round_trips_through_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    lock = Lock().adding(Lock(jobs={"b": "2", "a": "1"})).adding(Lock(jobs={"a": "other"}, servers={"a": "3"}))
    lock.write(path)
    assert Lock.read(path) == Lock(jobs={"a": "1", "b": "2"}, servers={"a": "3"})
    assert list(json.loads(path.read_text())["jobs"]) == ["a", "b"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "[]", '{"version": 2}', '{"jobs": {"awq": 1}}', '{"images": {}}'])
def test_an_invalid_lock_file_raises_an_error_with_instructions(tmp_path: Path, content: str) -> None:
    path = tmp_path / LOCK_FILE
    path.write_text(content)
    with pytest.raises(ValueError, match=r"is not a lock file of this release.*Restore it from version control"):
        Lock.read(path)


def test_the_lock_command_shows_and_updates_locked_containers(
    tmp_path: Path, newer_catalog: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer_job, newer_server = newer_catalog
    monkeypatch.chdir(tmp_path)
    Lock(jobs={"awq": JOB}, servers={"awq": OLDER, "lmi:fp8": "djl-inference:0.35.0-lmi17.0.0-cu128"}).write(
        Path(LOCK_FILE)
    )
    shown = CliRunner().invoke(app, ["lock"], env={"COLUMNS": "200"})
    assert OLDER in shown.stdout
    assert newer_server in shown.stdout
    assert newer_job in shown.stdout
    updated = CliRunner().invoke(app, ["lock", "--update", "servers.awq"])
    assert updated.stdout == f"servers.awq: {OLDER} -> {newer_server}\n1 of 1 entries updated in {LOCK_FILE}.\n"
    lock = Lock.read(Path(LOCK_FILE))
    assert (lock.jobs["awq"], lock.servers["awq"]) == (JOB, newer_server)
    unknown = CliRunner().invoke(app, ["lock", "int4"])
    assert unknown.exit_code == 2
    assert "has no entry int4; it has jobs.awq, servers.awq" in " ".join(unknown.stderr.replace("│", "").split())


def test_the_plan_command_uses_the_lock_file_of_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Lock(servers={"awq": OLDER}).write(Path(LOCK_FILE))
    arguments = [
        "--model",
        "meta-textgeneration-llama-3-70b-instruct",
        "--accept-eula",
        "--technique",
        "quantization=awq",
    ]
    result = CliRunner().invoke(app, ["plan", *arguments, "--instance-type", "ml.g5.12xlarge", "--format", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["container"]["image"].endswith(OLDER)


def test_the_lock_file_of_this_repository_matches_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    recorded = Lock.read(CHECKOUT / LOCK_FILE)
    assert recorded.jobs
    assert recorded.servers
    shown = CliRunner().invoke(app, ["lock"], env={"COLUMNS": "300"})
    assert shown.exit_code == 0, shown.output
    for line in shown.stdout.splitlines()[1:]:
        entry, recorded_choice, preferred = re.split(r"\s{2,}", line.strip())
        assert recorded_choice == preferred, f"constructs-optim lock --update {entry}"
