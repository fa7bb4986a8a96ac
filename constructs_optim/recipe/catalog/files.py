"""The one loader of the catalog's data files."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load(name: str) -> dict[str, Any]:
    """The content of ``<name>.json``, read once a process."""
    return json.loads((files("constructs_optim.recipe.catalog") / f"{name}.json").read_text(encoding="utf-8"))
