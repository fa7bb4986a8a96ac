"""The catalog of models, instances and images: data files with source and date, and their look-ups.

``docs/catalog.md`` documents where each file comes from and how to refresh it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load(name: str) -> dict[str, Any]:
    """The content of ``<name>.json``, read once a process."""
    return json.loads((files(__name__) / f"{name}.json").read_text(encoding="utf-8"))
