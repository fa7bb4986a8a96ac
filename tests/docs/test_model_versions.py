"""Every JumpStart version that the documentation and the examples name is one that JumpStart has published."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.documents import CHECKOUT

PUBLISHED: dict[str, list[str]] = json.loads((Path(__file__).parent / "model_versions.json").read_text())["versions"]
PAGES = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").rglob("*.md")),
    *sorted((CHECKOUT / "examples").glob("*.py")),
]
NAMED = [
    re.compile(r"jumpstart\(\s*\"([a-z0-9-]+)\",\s*version=\"([0-9.]+)\""),
    re.compile(r"--model ([a-z0-9-]+) --model-version ([0-9.]+)"),
]


def test_a_version_that_the_pages_name_is_published() -> None:
    named = {(page, *found) for page in PAGES for pattern in NAMED for found in pattern.findall(page.read_text())}
    assert len(named) > 10
    # A typing error of one model's name is what docs/likely-mistakes.md shows.
    unknown = {(page.name, model, version) for page, model, version in named if version not in PUBLISHED.get(model, [])}
    assert {each for each in unknown if "-lama-" not in each[1]} == set()
