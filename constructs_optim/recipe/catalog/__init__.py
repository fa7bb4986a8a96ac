"""The catalog of models, instances and images: data files with sources and dates, and functions that look them up.

https://constructs-optim.dev/catalog/ documents the source of each file and how to refresh it.
"""

from __future__ import annotations

import datetime as dt
import json
from functools import cache
from importlib.resources import files
from typing import Any


def today() -> dt.date:
    """Return the date with which the ends of support in the catalog are compared; it never changes a template."""
    return dt.datetime.now(dt.UTC).date()


@cache
def load(name: str) -> dict[str, Any]:
    """Return the content of ``<name>.json``, which is read once per process."""
    return json.loads((files(__name__) / f"{name}.json").read_text(encoding="utf-8"))
