"""The figures of the page of techniques are the forecast's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from tests.support.documents import CHECKOUT, snippets

PAGE = CHECKOUT / "docs" / "techniques" / "index.md"


def figure(value: dict[str, float], scale: float, digits: int, unit: str = "") -> str:
    text = [f"{value[name] * scale:.{digits}f}" for name in ("value", "low", "high")]
    return f"{text[0]}{unit} ({text[1]} to {text[2]})"


def test_the_figures_are_those_of_the_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"\$ constructs-optim (recommend .*)", "".join(each.code for each in snippets(PAGE)))
    result = CliRunner().invoke(app, [*command.split(), "--limit", "30"])
    assert result.exit_code == 0, result.output
    candidates: list[dict[str, Any]] = json.loads(result.stdout)["candidates"]
    expected = {
        (
            f"{each['memory']['weights_gb']:.1f} GB",
            figure(each["with_users"]["1"]["inter_token_latency"], 1000, 0, " ms"),
            figure(each["forecast"]["requests_per_second"], 1, 1),
        )
        for each in candidates
    }
    rows = re.findall(
        r"^\| [^|]+ \| ([\d.]+ GB) \| (\d+ ms [^|]+) \| ([^|]+) \|$", PAGE.read_text(), flags=re.MULTILINE
    )
    assert len(rows) == len(candidates) == 6
    assert set(rows) == expected
