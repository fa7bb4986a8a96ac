from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.installation import installing
from constructs_optim.cli.main import app


def test_without_the_medusa_extra_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    result = CliRunner().invoke(
        app, ["medusa", "verify", "--heads", str(tmp_path), "--data", str(tmp_path / "data.jsonl")]
    )
    assert result.exit_code == 2
    assert result.stderr == f"Verifying heads is an extra: {installing('medusa')}\n"
