"""The interfaces of TypeScript that are generated from the schema."""

from __future__ import annotations

import runpy
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent


def test_the_interfaces_are_those_of_the_schema() -> None:
    tool = runpy.run_path(str(CHECKOUT / "tooling" / "typescript_declaration.py"))
    for name, text in tool["written"]().items():
        assert (CHECKOUT / "typescript" / "src" / name).read_text() == text, "python tooling/typescript_declaration.py"
