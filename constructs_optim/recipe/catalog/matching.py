"""Names that a mistyped one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 4
_LEAST_ALIKE = 0.6


def close_matches(given: object, names: Iterable[str]) -> list[str]:
    """Up to four of ``names`` that look like ``given``, the closest first."""
    return difflib.get_close_matches(str(given).strip().lower()[:128], list(names), n=_MOST, cutoff=_LEAST_ALIKE)
