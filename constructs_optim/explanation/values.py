"""Readers of values that anybody may have written in a template: a value of another form counts as none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constructs_optim.templates.json_values import as_array, as_object, number
from constructs_optim.templates.template import Resource

# Far beyond any number of instances or seconds, and small enough for arithmetic with prices.
_MOST = 10**12


def count(value: object) -> int | None:
    """Return a whole number of instances or seconds; None for anything else."""
    found = number(value)
    return found if found is not None and abs(found) <= _MOST else None


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the items of an array, as objects; none for anything else."""
    return [as_object(item) for item in as_array(value)]


def depends_on(resource: Resource) -> list[str]:
    """Return the logical IDs in a resource's ``DependsOn``."""
    return [name for name in resource.depends_on if isinstance(name, str)]
