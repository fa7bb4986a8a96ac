"""The Lambda layers that AWS publishes, and the accounts that have them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .files import load


@dataclass(frozen=True)
class LayerRow:
    """One version of a layer, the release of the library in it, and the account that has it by region."""

    name: str
    version: int
    release: str
    accounts: dict[str, str]


@cache
def powertools() -> LayerRow:
    """Powertools for AWS Lambda (Python), for the handlers' runtime and architecture."""
    return LayerRow(**load("layers")["powertools"])
