"""The tables of docs/security.md, which tests compare with templates and with what deployments use."""

from __future__ import annotations

import re
from pathlib import Path

_DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "security.md"


def permissions_under(heading: str) -> set[tuple[str, str]]:
    """Pairs of role and action in the table below a heading: its first column lists roles, its second actions."""
    text = _DOCUMENT.read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    assert rows, f"docs/security.md has no table under {heading!r}"
    return {
        (role.strip(), action)
        for roles, actions in rows
        for role in roles.split(",")
        for action in re.findall(r"`([a-z0-9-]+:\w+)`", actions)
    }
