"""Durations as users write them in code; messages about files translate them, for instance to ``10m``."""

from __future__ import annotations

_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60}


def duration(seconds: int) -> str:
    """Return a duration in code, in the largest unit that divides it: ``Duration.minutes(10)`` for 600 seconds."""
    unit = next((name for name, length in _UNITS.items() if seconds and seconds % length == 0), "seconds")
    return f"Duration.{unit}({seconds // _UNITS.get(unit, 1)})"
