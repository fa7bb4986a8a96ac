"""JumpStart has published every model version named in the documentation, docstrings and examples."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.documents import CHECKOUT

PUBLISHED: dict[str, list[str]] = json.loads((Path(__file__).parent / "model_versions.json").read_text())["versions"]
PAGES = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").rglob("*.md")),
    *sorted((CHECKOUT / "examples").glob("*.py")),
    *sorted(
        path
        for room in ("constructs", "cli", "recipe")
        for path in (CHECKOUT / "constructs_optim" / room).rglob("*.py")
    ),
]
NAMED = [
    re.compile(r"jumpstart\(\s*\"([a-z0-9-]+)\",\s*version=\"(\d[0-9.]*)\""),
    re.compile(r"--model ([a-z0-9-]+) --model-version ([0-9.]+)"),
]


def test_model_versions_named_in_the_pages_are_published() -> None:
    named = {(page, *found) for page in PAGES for pattern in NAMED for found in pattern.findall(page.read_text())}
    assert len(named) > 10
    assert CHECKOUT / "constructs_optim" / "constructs" / "endpoint" / "optimized_endpoint.py" in {
        page for page, *_ in named
    }
    unknown = {(page.name, model, version) for page, model, version in named if version not in PUBLISHED.get(model, [])}
    # A typing error of one model's name is what docs/likely-mistakes.md shows.
    assert {each for each in unknown if "-lama-" not in each[1]} == set()
