"""Numbers, times and money in words."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def money(dollars: float) -> str:
    """``$7.09``; without cents where there is nothing, and from 100 dollars on: ``$0``, ``$5,176``."""
    return f"${dollars:,.2f}" if 0 < abs(dollars) < 100 else f"${dollars:,.0f}"


def duration(seconds: float) -> str:
    """The two largest units of a time span: ``1 h 12 min``."""
    left, parts = round(seconds), []
    for unit, length in _UNITS:
        count, left = divmod(left, length)
        parts.append((count, unit))
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def between(low: str, high: str) -> str:
    """``1 h to 2 h``, or one of them where they are the same."""
    return low if low == high else f"{low} to {high}"


def short_key(artifact_key: str) -> str:
    """The first 12 digits, which the commands on artifacts take for the whole key."""
    return artifact_key[:12]
