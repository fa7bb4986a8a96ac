"""Which resource types CloudFormation has in a region: cfn-lint's copy of the registry's lists."""

from __future__ import annotations

import functools
import json
from importlib.metadata import distribution
from pathlib import Path

_LISTS = "cfnlint/data/schemas/providers"


@functools.cache
def resource_types(region: str) -> frozenset[str] | None:
    """The resource types of a region; None for a region that has no list.

    The lists are read as files: importing cfn-lint takes seconds.
    """
    path = Path(str(distribution("cfn-lint").locate_file(f"{_LISTS}/{region}.json")))
    try:
        return frozenset(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
