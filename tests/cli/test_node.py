"""What the commands say without Node.js, in which the AWS CDK runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app

from ..support.sampling import one_in

QUICKSTART = str(Path(__file__).parents[2] / "examples" / "quickstart.yaml")


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", QUICKSTART],
        ["synth", QUICKSTART],
        ["deploy", QUICKSTART],
        ["explain", QUICKSTART],
        ["preflight", QUICKSTART],
        ["recommend", QUICKSTART],
        ["dashboard", "preview", QUICKSTART],
        ["schema"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_needs_nodejs_says_so(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/nowhere/node")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "JSII_NODE is '/nowhere/node', which is not a program, and the AWS CDK needs Node.js" in result.stderr
    assert "Unset JSII_NODE" in result.stderr


def test_an_empty_variable_names_no_nodejs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "")
    result = CliRunner().invoke(app, ["schema"])
    assert result.exit_code == 2
    assert "JSII_NODE is ''" in result.stderr


@pytest.mark.parametrize("command", one_in(3, ["plan", "deploy", "recommend"]))
def test_nothing_of_the_cdk_is_imported_before(command: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JSII_NODE"}
    result = subprocess.run(
        [sys.executable, "-m", "constructs_optim", command, QUICKSTART],
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "Node.js is not on the PATH, and the AWS CDK needs Node.js. Install Node.js 22 or 24, or set JSII_NODE to its "
        "path."
    ]
