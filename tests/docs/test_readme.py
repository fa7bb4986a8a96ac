"""The README: short, and what it shows is what is printed. tests/e2e/test_demo.py runs its demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from tests.support.documents import CHECKOUT, readme_example, snippets

README = CHECKOUT / "README.md"


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.read_text().splitlines()) <= 150


def test_the_explanation_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    names: dict[str, Any] = {}
    exec(compile(readme_example(), "app.py", "exec"), names)
    (shown,) = [each.code for each in snippets(README) if "constructs-optim explain" in each.code]
    printed = CliRunner().invoke(app, ["explain", names["app"].synth().directory])
    assert printed.exit_code == 0, printed.output
    assert shown == f"$ npx cdk synth --quiet\n$ constructs-optim explain\n{printed.stdout}"
