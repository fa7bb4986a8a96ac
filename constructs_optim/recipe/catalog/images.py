"""Container images with their capabilities, and the registries that they are pulled from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from pydantic import BaseModel

from . import load

SERVING = "serving"
"""The lock file's name for an image that needs no capability but serving."""


class ImageRow(BaseModel, frozen=True):
    """A Deep Learning Container image, without its registry.

    ``degree_variable`` is its server's variable for the tensor parallel degree, None where it has no server;
    ``missing_in`` has the regions whose registry lacks it.
    """

    repository: str
    tag: str
    capabilities: frozenset[str]
    degree_variable: str | None
    missing_in: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """``repository:tag``."""
        return f"{self.repository}:{self.tag}"


@cache
def rows() -> tuple[ImageRow, ...]:
    """Every catalogued image, the preferred one first."""
    data = load("images")
    degrees = {name: server["tensor_parallel_degree"] for name, server in data["servers"].items()}
    return tuple(
        ImageRow.model_validate({**row, "degree_variable": degrees.get(row["server"])}) for row in data["images"]
    )


def requirement(capabilities: Collection[str]) -> str:
    """Required capabilities as a lock file records them: ``awq+draft_model``."""
    return "+".join(sorted(capabilities)) or SERVING


def choose(
    capabilities: Collection[str], region: str | None, recorded: Mapping[str, str]
) -> tuple[str, ImageRow | None]:
    """The image for ``capabilities``, and the name that it is recorded by.

    It is the recorded image where ``region``'s registry has it, or else the catalog's preferred image that has all of
    ``capabilities``; None where there is none.
    """
    capable = [row for row in rows() if row.capabilities >= set(capabilities) and region not in row.missing_in]
    name = requirement(capabilities)
    regional_name = f"{name}@{region}"
    for key in (regional_name, name):
        for row in capable:
            if recorded.get(key) == row.name:
                return key, row
    return regional_name if name in recorded else name, next(iter(capable), None)


def select(capabilities: Collection[str], region: str | None = None) -> ImageRow | None:
    """The catalog's preferred image for ``capabilities``, of those in ``region`` where it is known."""
    return choose(capabilities, region, {})[1]


def registry_accounts() -> dict[str, str]:
    """The registry's account by region, in alphabetical order."""
    return dict(load("images")["registry_accounts"])


def registry_host(region: str) -> str | None:
    """The registry's host in ``region``."""
    account = registry_accounts().get(region)
    if account is None:
        return None
    suffixes: dict[str, str] = load("images")["dns_suffixes"]
    suffix = next(suffix for prefix, suffix in suffixes.items() if region.startswith(prefix))
    return f"{account}.dkr.ecr.{region}.{suffix}"
