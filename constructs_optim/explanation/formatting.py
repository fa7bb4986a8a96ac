"""Formats numbers, durations and money for readers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def money(dollars: float) -> str:
    """Format money as ``$7.09``; without cents for zero and from 100 dollars: ``$0``, ``$5,176``."""
    return f"${dollars:,.2f}" if 0 < abs(dollars) < 100 else f"${dollars:,.0f}"


def brief(value: float) -> str:
    """Format a number with two significant digits, or all integer digits from 100: ``0.25``, ``7.5``, ``1,234``."""
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Format a time span with its two largest units: ``1 h 12 min``."""
    remainder, parts = round(seconds), []
    for unit, length in _UNITS:
        count, remainder = divmod(remainder, length)
        parts.append((count, unit))
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


def exact_duration(seconds: int) -> str:
    """Format a setting in the largest unit that divides it: ``90 s``, ``10 min``, ``1 h``."""
    fitting = [(unit, length) for unit, length in _UNITS[1:] if seconds % length == 0 and abs(seconds) >= length]
    unit, length = next(iter(fitting), _UNITS[-1])
    return f"{seconds // length} {unit}"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Join parts as ``a, b and c``."""
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def between(low: str, high: str) -> str:
    """Format a range as ``1 h to 2 h``, or one value if both are the same."""
    return low if low == high else f"{low} to {high}"


def counted(count: int, noun: str) -> str:
    """Format a number with its noun: ``1 artifact``, ``2 artifacts``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def capitalized(text: str) -> str:
    """Capitalize only the first letter of a text."""
    return text[:1].upper() + text[1:]


def wrapped(text: str, width: int, *, indent: str = "", then: str = "") -> str:
    """Wrap a paragraph to lines of at most ``width``, without breaking longer words such as ARNs."""
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=then, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)
