"""The formats of numbers and counts in messages and reports."""

from __future__ import annotations


def number(value: float) -> str:
    """Return four significant digits, without an exponent: ``0.1234``, ``23,350``."""
    return f"{float(f'{value:.4g}'):,.15g}"


def counted(count: int, one: str, several: str) -> str:
    """Return, for example, ``1 copy`` or ``3 copies``."""
    return f"{count} {one if count == 1 else several}"


def users_of(users: int) -> str:
    """Return, for example, ``1 user`` or ``8 users``."""
    return counted(users, "user", "users")
