"""Lower limits of templates, for tests of small templates."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import cast

import pytest

from constructs_optim.templates.limits import Limit, limits


def lower(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """Lower a limit for the rest of a test."""
    kept = cast("MutableMapping[str, Limit]", limits())
    monkeypatch.setitem(kept, name, replace(kept[name], most=most))
