"""The interfaces of TypeScript that are generated from the schema."""

from __future__ import annotations

import runpy
from pathlib import Path

TYPESCRIPT = Path(__file__).parent.parent.parent / "typescript"


def test_the_interfaces_are_those_of_the_schema() -> None:
    for name, text in runpy.run_path(str(TYPESCRIPT / "generate.py"))["written"]().items():
        assert (TYPESCRIPT / "src" / name).read_text() == text, f"python typescript/generate.py writes {name} anew"
