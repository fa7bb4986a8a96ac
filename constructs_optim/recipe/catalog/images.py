"""Container images, what they are capable of, and the registries they are pulled from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from .files import load


@dataclass(frozen=True)
class ServerRow:
    """What a model server reads from its container's environment.

    Attributes:
        title: what people call it.
        tensor_parallel_degree: the variable for how many accelerators a copy of the model takes.
    """

    title: str
    tensor_parallel_degree: str


@dataclass(frozen=True)
class ImageRow:
    """A Deep Learning Container image, without its registry.

    ``server`` is None where nothing in it serves; ``missing_in`` has the regions whose registry lacks it.
    """

    repository: str
    tag: str
    capabilities: frozenset[str]
    server: ServerRow | None
    missing_in: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """``repository:tag``."""
        return f"{self.repository}:{self.tag}"


@cache
def rows() -> tuple[ImageRow, ...]:
    """Every catalogued image, the preferred one first."""
    data = load("images")
    servers = {name: ServerRow(**row) for name, row in data["servers"].items()}
    return tuple(
        ImageRow(
            row["repository"],
            row["tag"],
            frozenset(row["capabilities"]),
            servers[row["server"]] if row["server"] is not None else None,
            frozenset(row.get("missing_in", ())),
        )
        for row in data["images"]
    )


def select(capabilities: Collection[str], region: str | None = None) -> ImageRow | None:
    """The preferred image that has all of ``capabilities``, and that ``region`` has where it is known."""
    able = (row for row in rows() if row.capabilities >= set(capabilities))
    return next((row for row in able if region not in row.missing_in), None)


def registry_accounts() -> dict[str, str]:
    """The registry's account by region, in the order of the regions' names."""
    return dict(load("images")["registry_accounts"])


def registry_account(region: str) -> str | None:
    """The registry's account in ``region``; None where there is no such registry."""
    return load("images")["registry_accounts"].get(region)


def registry_host(region: str) -> str | None:
    """The registry's host in ``region``."""
    account = registry_account(region)
    if account is None:
        return None
    suffixes: dict[str, str] = load("images")["dns_suffixes"]
    suffix = next(suffix for prefix, suffix in suffixes.items() if region.startswith(prefix))
    return f"{account}.dkr.ecr.{region}.{suffix}"
