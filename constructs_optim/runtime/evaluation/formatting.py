"""Numbers and counts as messages and reports write them."""

from __future__ import annotations


def number(value: float) -> str:
    """Four significant digits, without an exponent: ``0.1234``, ``23,350``."""
    return f"{float(f'{value:.4g}'):,.15g}"


def counted(count: int, one: str, several: str) -> str:
    """For instance ``1 copy``, ``3 copies``."""
    return f"{count} {one if count == 1 else several}"


def users_of(users: int) -> str:
    """``1 user``, ``8 users``."""
    return counted(users, "user", "users")
