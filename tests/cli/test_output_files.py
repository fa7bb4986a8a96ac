"""Options that name what a command writes, and what they name cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.templates.resource_types import DASHBOARD

from ..support.handwritten_templates import resource, stack, written


@pytest.mark.parametrize("output", ["taken", "taken/below"])
def test_a_dashboard_is_not_drawn_into_a_file(output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")
    body = json.dumps({"widgets": [{"type": "text", "properties": {"markdown": "Chat"}}]})
    written(Path("cdk.out"), stack({"Dashboard": resource(DASHBOARD, DashboardBody=body, DashboardName="chat")}))
    result = CliRunner().invoke(app, ["dashboard", "preview", "--output", output])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"Cannot write to {output}: ")
    assert result.stderr.endswith("Name another path with --output.\n")
