"""What recommendation jobs can be asked for, and where there are any."""

from __future__ import annotations

from functools import cache

from .files import load


@cache
def instance_types() -> tuple[str, ...]:
    """The instance types that a job can try."""
    return tuple(load("recommendations")["instance_types"])


@cache
def most_instance_types() -> int:
    """How many instance types one job tries."""
    return load("recommendations")["most_instance_types"]


@cache
def metrics() -> dict[str, str]:
    """The API's metric for each goal that people name."""
    return dict(load("recommendations")["metrics"])


@cache
def frameworks() -> tuple[str, ...]:
    """The serving frameworks, as the API names them."""
    return tuple(load("recommendations")["frameworks"])


@cache
def regions() -> tuple[str, ...]:
    """The regions that have recommendation jobs."""
    return tuple(load("recommendations")["regions"])
