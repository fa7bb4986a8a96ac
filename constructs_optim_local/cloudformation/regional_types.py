"""The resource types that CloudFormation supports in a Region: cfn-lint's copy of the registry's lists."""

from __future__ import annotations

import functools
import json
from importlib.metadata import distribution
from pathlib import Path

_LISTS = "cfnlint/data/schemas/providers"


@functools.cache
def resource_types(region: str) -> frozenset[str] | None:
    """Return the resource types of a Region; None if cfn-lint has no list of it.

    The lists are read as files, because importing cfn-lint takes seconds.
    """
    path = Path(str(distribution("cfn-lint").locate_file(f"{_LISTS}/{region}.json")))
    try:
        return frozenset(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
