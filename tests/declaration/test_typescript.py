"""The interfaces of TypeScript that are generated from the schema."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent


def test_the_interfaces_are_those_of_the_schema() -> None:
    tool = runpy.run_path(str(CHECKOUT / "tooling" / "typescript_declaration.py"))
    for name, text in tool["written"]().items():
        assert (CHECKOUT / "typescript" / "src" / name).read_text() == text, "python tooling/typescript_declaration.py"


def test_the_interfaces_speak_of_typescript() -> None:
    declaration = (CHECKOUT / "typescript" / "src" / "declaration.ts").read_text()
    lines = [line.strip() for line in declaration.splitlines()]
    documented = [lines[index - 1] for index, line in enumerate(lines) if line.startswith(("readonly ", "export "))]
    assert set(documented) <= {"*/", *(line for line in documented if line.endswith("*/"))}
    comments = [line for line in lines if line.startswith("*")]
    of_python = re.compile(
        r"Python API|\b(True|False|None)\b|(class|static) methods|factories|Default:|docs/|`[a-z\d]+_\w+`"
    )
    assert [line for line in comments if of_python.search(line)] == []
    # jsii has no unions, and each endpoint is a template of its own.
    assert not re.search(r"readonly \w+\??: .* \| ", declaration)
    assert not re.search(r"the whole stack|(models|jobs) of the stack", declaration)
