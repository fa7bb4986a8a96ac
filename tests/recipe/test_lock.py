"""The lock file, and the images that plans take from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe import Model, Plan, Quantization, Recipe, RecipeError, plan
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock

CHECKOUT = Path(__file__).parent.parent.parent
NEWEST, OLDER = (image.name for image in images.rows()[:2])


def planned(region: str = "us-west-2", **containers: str) -> Plan:
    return plan(
        Recipe(
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            region=region,
            containers=containers,
        )
    )


@pytest.fixture
def newer_catalog(monkeypatch: pytest.MonkeyPatch) -> str:
    """A catalog that prefers an image of a later release."""
    rows = images.rows()
    newer = rows[0].model_copy(update={"tag": "9.0.0-lmi99.0.0-cu999"})
    monkeypatch.setattr(images, "rows", lambda: (newer, *rows))
    return newer.name


def test_without_a_lock_entry_the_plan_records_the_catalogs_preferred_image() -> None:
    assert planned().containers == {"awq": NEWEST}


def test_a_locked_image_builds_and_serves_the_artifact() -> None:
    recorded = planned(awq=OLDER)
    assert recorded.containers == {"awq": OLDER}
    assert recorded.container.image is not None
    assert recorded.container.image.endswith(OLDER)
    assert recorded.jobs[0].image == OLDER
    assert recorded.jobs[0].artifact_key != planned().jobs[0].artifact_key


def test_a_newer_catalog_does_not_change_a_plan_with_locked_containers(request: pytest.FixtureRequest) -> None:
    before = planned(awq=NEWEST)
    newer = request.getfixturevalue("newer_catalog")
    assert planned(awq=NEWEST) == before
    assert planned().containers == {"awq": newer}


def test_a_region_that_lacks_the_locked_image_gets_its_own_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = images.rows()
    monkeypatch.setattr(
        images, "rows", lambda: (rows[0].model_copy(update={"missing_in": frozenset({"eu-west-3"})}), *rows[1:])
    )
    assert planned("eu-west-3", awq=NEWEST).containers == {"awq@eu-west-3": OLDER}
    assert planned("eu-west-3", **{"awq": NEWEST, "awq@eu-west-3": OLDER}).containers == {"awq@eu-west-3": OLDER}
    assert planned("us-west-2", **{"awq": NEWEST, "awq@eu-west-3": OLDER}).containers == {"awq": NEWEST}


def test_a_locked_image_without_the_required_capabilities_is_refused() -> None:
    with pytest.raises(RecipeError) as refused:
        planned(awq="djl-inference:0.0.1")
    (violation,) = refused.value.violations
    assert (violation.rule, violation.location) == ("OPT035", "containers['awq']")
    assert LOCK_FILE in violation.suggestion
    assert NEWEST in violation.suggestion


def test_a_lock_file_round_trips_through_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    Lock().adding({"b": "2", "a": "1"}).adding({"a": "other"}).write(path)
    assert Lock.read(path).containers == {"a": "1", "b": "2"}
    assert list(json.loads(path.read_text())["containers"]) == ["a", "b"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "[]", '{"version": 2}', '{"containers": {"awq": 1}}', '{"images": {}}'])
def test_an_invalid_lock_file_raises_an_error_with_instructions(tmp_path: Path, content: str) -> None:
    path = tmp_path / LOCK_FILE
    path.write_text(content)
    with pytest.raises(ValueError, match=r"is not a lock file of this release.*Restore it from version control"):
        Lock.read(path)


def test_the_lock_command_shows_and_updates_locked_containers(
    tmp_path: Path, newer_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Lock(containers={"awq": OLDER, "fp8": NEWEST}).write(Path(LOCK_FILE))
    shown = CliRunner().invoke(app, ["lock"], env={"COLUMNS": "200"})
    assert OLDER in shown.stdout
    assert newer_catalog in shown.stdout
    updated = CliRunner().invoke(app, ["lock", "--update", "awq"])
    assert updated.stdout == f"awq: {OLDER} -> {newer_catalog}\n1 of 1 containers updated in {LOCK_FILE}.\n"
    assert Lock.read(Path(LOCK_FILE)).containers == {"awq": newer_catalog, "fp8": NEWEST}
    unknown = CliRunner().invoke(app, ["lock", "int4"])
    assert unknown.exit_code == 2
    assert "has no entry int4; it has awq, fp8" in " ".join(unknown.stderr.replace("│", "").split())


def test_the_plan_command_uses_the_lock_file_of_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Lock(containers={"awq": OLDER}).write(Path(LOCK_FILE))
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


def test_the_lock_file_of_this_repository_matches_the_catalog() -> None:
    recorded = Lock.read(CHECKOUT / LOCK_FILE).containers
    assert recorded
    for name, image in recorded.items():
        capabilities = set() if name == images.SERVING else set(name.split("+"))
        preferred = images.select(capabilities)
        assert preferred is not None
        assert image == preferred.name, f"constructs-optim lock --update {name}"
