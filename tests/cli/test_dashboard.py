from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

ROOT = Path(__file__).parent.parent.parent


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dashboard", *arguments])


@pytest.fixture(scope="module")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``cdk synth`` makes of app.py."""
    out = tmp_path_factory.mktemp("cdk.out")
    environment = {**os.environ, "CDK_OUTDIR": str(out), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(ROOT / "app.py")], env=environment, check=True, timeout=120)
    return out


@pytest.fixture(scope="module")
def previewed(synthesized: Path) -> Path:
    result = run("preview", str(synthesized))
    assert result.exit_code == 0, result.output
    assert "with sample data" in result.output
    return synthesized / "preview"


def test_the_apps_dashboard_is_drawn_as_a_page_that_needs_nothing_else(previewed: Path) -> None:
    page = (previewed / "Chat-Llama70BDashboard.html").read_text(encoding="utf-8")
    assert "SAMPLE DATA" in page
    assert "AWQ INT4" in page
    assert page.count("data:image/svg+xml;base64,") >= 15
    assert not re.search(r'(src|href)="http', page.replace('href="https://console.aws.amazon.com', ""))
    assert "no data" not in page
    assert "not calculated here" not in page


def test_the_apps_dashboard_is_drawn_as_a_picture(previewed: Path) -> None:
    with Image.open(previewed / "Chat-Llama70BDashboard.png") as picture:
        width, height = picture.size
        assert (width, height > width) == (1190, True)
        assert len(picture.convert("RGB").getcolors(1_000) or []) > 20


def test_the_same_app_gives_the_same_preview(previewed: Path, synthesized: Path, tmp_path: Path) -> None:
    assert run("preview", str(synthesized), "--output", str(tmp_path)).exit_code == 0
    for drawn in tmp_path.iterdir():
        assert drawn.read_bytes() == (previewed / drawn.name).read_bytes()


def test_what_was_recorded_is_drawn_instead_of_samples(synthesized: Path, tmp_path: Path) -> None:
    asked = run("queries", str(synthesized), "--value", "EndpointName=chat-1")
    assert asked.exit_code == 0, asked.output
    queries = json.loads(asked.stdout)
    assert {"Name": "EndpointName", "Value": "chat-1"} in queries[0]["MetricStat"]["Metric"]["Dimensions"]
    times = ["2026-11-21T14:00:00+00:00", "2026-11-21T14:01:00+00:00"]
    answered = [{"Id": query["Id"], "Timestamps": times, "Values": [1.0, 2.0]} for query in queries[:4]]
    recorded = tmp_path / "recorded.json"
    recorded.write_text(json.dumps({"MetricDataResults": answered}))
    result = run("preview", str(synthesized), "--metrics", str(recorded), "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "nothing to draw in: " in result.output
    page = (tmp_path / "Chat-Llama70BDashboard.html").read_text(encoding="utf-8")
    assert "recorded metrics" in page
    assert "SAMPLE DATA" not in page


def test_a_folder_that_nothing_was_synthesized_into_is_told_of(tmp_path: Path) -> None:
    result = run("preview", str(tmp_path))
    assert result.exit_code == 2
    assert "run `cdk synth` first" in result.output


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("preview", str(tmp_path))
    assert result.exit_code == 2
    assert 'pip install "constructs-optim[evaluate]"' in result.output


def test_a_value_without_a_name_is_refused(synthesized: Path) -> None:
    result = run("queries", str(synthesized), "--value", "chat-1")
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.output


def test_the_picture_of_the_readme_is_small_enough_to_look_at() -> None:
    picture = ROOT / "docs" / "images" / "dashboard.png"
    assert picture.stat().st_size < 300_000
    with Image.open(picture) as opened:
        assert opened.format == "PNG"
