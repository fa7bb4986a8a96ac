from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from constructs_optim.cli.installation import installing
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
    shown = next(line for line in result.output.splitlines() if "with sample data" in line)
    assert shown in (ROOT / "docs" / "dashboards.md").read_text().splitlines()
    return synthesized / "preview"


def test_the_dashboard_of_an_app_is_rendered_as_a_png(previewed: Path) -> None:
    with Image.open(previewed / "Chat-GemmaDashboard.png") as picture:
        width, height = picture.size
        assert (width, height > width) == (1190, True)
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 20


def test_the_same_app_yields_an_identical_preview(previewed: Path, synthesized: Path, tmp_path: Path) -> None:
    assert run("preview", str(synthesized), "--output", str(tmp_path)).exit_code == 0
    for drawn in tmp_path.iterdir():
        assert drawn.read_bytes() == (previewed / drawn.name).read_bytes()


def test_a_folder_without_a_synthesized_app_is_refused(tmp_path: Path) -> None:
    result = run("preview", str(tmp_path))
    assert result.exit_code == 2
    assert "run `cdk synth` first" in result.output


def test_without_the_evaluate_extra_the_preview_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("preview", str(tmp_path))
    assert result.exit_code == 2
    assert installing("plots") in result.output


def test_the_readme_s_dashboard_image_is_a_png_under_300_kb() -> None:
    picture = ROOT / "docs" / "images" / "dashboard.png"
    assert picture.stat().st_size < 300_000
    with Image.open(picture) as opened:
        assert opened.format == "PNG"
