"""The limits of templates and of their resources, by name. ``limits.json`` says where AWS documents each of them."""

from __future__ import annotations

import functools
import json
from pathlib import Path

LONGEST_MESSAGE = 4_096
"""The bytes of a custom resource's response, and of a signal to a wait condition (CloudFormation user guide,
"Understand CloudFormation quotas").
"""


def most(name: str) -> int:
    """Return the largest number that a limit allows."""
    return _limits()[name]["most"]


@functools.cache
def _limits() -> dict[str, dict[str, int]]:
    return json.loads(Path(__file__).with_name("limits.json").read_text(encoding="utf-8"))
