"""Values that pages state in their text, and that are derived from the library or its requirements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from tests.support.documents import CHECKOUT, snippets

_SHARE = 0.1


def test_getting_started_has_the_overrides_of_this_project() -> None:
    lines = (CHECKOUT / "requirements" / "overrides.in").read_text().splitlines()
    overrides = [line for line in lines if not line.startswith("#")]
    text = " ".join((CHECKOUT / "docs" / "getting-started.md").read_text().split())
    stated = re.search(r"`overrides\.txt` has the lines (.+?)\.\s", text)
    assert stated is not None
    assert re.findall(r"`([^`]+)`", stated[1]) == overrides


def test_the_page_of_templates_has_the_size_of_one_with_inline_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = CHECKOUT / "docs" / "cloudformation.md"
    (file,) = [each for each in snippets(page) if each.title == "endpoint.yaml"]
    (tmp_path / file.title).write_text(file.code)
    monkeypatch.chdir(tmp_path)
    command = f"synth {file.title} --format cloudformation --code-bucket inline --output out"
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    (stated,) = re.findall(r"which then has about (\d+) KB", page.read_text())
    size = (tmp_path / "out" / "Chat.template.json").stat().st_size / 1024
    assert float(stated) == pytest.approx(size, rel=_SHARE)
