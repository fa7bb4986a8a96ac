"""``constructs-optim local``: what it says about environments for training jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.cdk_cli import cdk_name
from constructs_optim.cli.job_packages import Jobs, shortfalls
from constructs_optim.cli.main import app


def with_pip(folder: Path, *lines: str) -> Path:
    """A folder whose Python has a pip that says these lines and fails."""
    python = folder / "python"
    said = "; ".join(f"echo '{line}' >&2" for line in lines)
    python.write_text(f"#!/bin/sh\n{said}\nexit 1\n")
    python.chmod(0o755)
    return folder


def test_the_path_of_the_packages_is_printed() -> None:
    for kind in Jobs:
        printed = CliRunner().invoke(app, ["local", "requirements", kind])
        assert printed.exit_code == 0
        assert "--require-hashes" in Path(printed.stdout.strip()).read_text()


@pytest.mark.parametrize("command", [["start"], ["run"]])
def test_an_environment_with_other_versions_is_refused_with_the_line_that_installs_them(
    tmp_path: Path, command: list[str]
) -> None:
    other = with_pip(tmp_path, "ERROR: No matching distribution found for certifi==2026.10.18")
    refused = CliRunner().invoke(
        app, ["local", *command, "--training-path", str(other), *(["true"] * (command == ["run"]))]
    )
    told = " ".join(refused.output.replace("│", " ").split())
    assert refused.exit_code == 2
    assert "lacks certifi==2026.10.18, which quantizing jobs need" in told
    lines = f"{other}/python -m pip install --no-deps -r {Jobs.quantizing.requirements}"
    assert lines.replace(" ", "") in told.replace(" ", "")


def test_an_environment_lacks_what_it_does_not_have() -> None:
    found = shortfalls(Path(sys.executable).parent)
    assert {Jobs.quantizing, Jobs.training} == found.keys(), "the checkout has the packages that copy models"
    assert f"pip install --no-deps -r {Jobs.training.requirements}" in found[Jobs.training]


def test_programs_without_a_python_are_not_checked(tmp_path: Path) -> None:
    assert shortfalls(tmp_path) == {}


def test_the_cdk_cli_is_named_as_it_can_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert cdk_name() == "npx cdk"
    (tmp_path / "bin").mkdir()
    cdk = tmp_path / "bin" / "cdk"
    cdk.write_text("#!/bin/sh\n")
    cdk.chmod(0o755)
    assert cdk_name() == "bin/cdk"
    monkeypatch.setenv("PATH", str(cdk.parent))
    assert cdk_name() == "cdk"


@pytest.mark.parametrize("command", [("start",), ("run", "--", "true")], ids="".join)
@pytest.mark.parametrize("port", ["-1", "65536", "80000"])
def test_a_local_cloud_listens_on_a_port_that_exists(command: tuple[str, ...], port: str) -> None:
    name, *rest = command
    result = CliRunner().invoke(app, ["local", name, "--port", port, *rest])
    assert result.exit_code == 2, result.output
    assert "'--port'" in result.stderr
