"""Container images: what jobs make with them, what they serve, and their registries."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from pydantic import BaseModel

from . import load

BLACKWELL = 10.0
"""The lowest compute capability of GPUs that need a newer CUDA release than others."""
_CUDA_OF_BLACKWELL = (12, 8)
VLLM = frozenset({"vllm", "lmi"})
"""Servers whose engine is vLLM."""
_SERVERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "djl-inference": "lmi",
    "huggingface-pytorch-tgi-inference": "text_generation_inference",
}
# AWS tags these repositories with the engine's release: vllm:0.30.0-gpu-...
_TAGGED_BY_ENGINE = frozenset({"vllm", "sglang"})
FOR_BLACKWELL = "blackwell"
"""The lock file's prefix for images of jobs on Blackwell."""
SERVING = "serving"
"""The lock file's name for an image that serves any model."""


class ImageRow(BaseModel, frozen=True):
    """A Deep Learning Container image, without its registry.

    ``server`` is the server in the image, and ``engine`` the release of its engine (for LMI, the vLLM release); None if
    there is none or it is unknown. ``cuda`` is the CUDA release that the image is built for. ``makes`` has the results
    that jobs make with it, ``serves`` the formats and features that its engine supports, ``missing_in`` the Regions
    whose registry lacks it. ``ga`` and ``eop`` are the dates of general availability and of the end of patches; None if
    AWS's data does not have them.
    """

    repository: str
    tag: str
    server: str | None
    engine: str | None = None
    cuda: str | None = None
    makes: frozenset[str] = frozenset()
    serves: frozenset[str] = frozenset()
    missing_in: frozenset[str] = frozenset()
    ga: dt.date | None = None
    eop: dt.date | None = None

    @property
    def name(self) -> str:
        """``repository:tag``."""
        return f"{self.repository}:{self.tag}"

    @property
    def accelerators(self) -> str:
        """The kind of accelerator that the image is built for: ``neuron`` or ``gpu``.

        The SDK's image_uri_config puts the processor into the tag, and every configuration for Neuron devices contains
        ``neuronx``.
        """
        return "neuron" if "neuronx" in self.tag else "gpu"

    def runs_on(self, compute_capability: float) -> bool:
        """Return whether its CUDA release supports the GPUs: Blackwell needs 12.8 or later (CUDA release notes)."""
        return compute_capability < BLACKWELL or self.cuda is None or _numbers(self.cuda) >= _CUDA_OF_BLACKWELL

    def has_engine(self, least: str | None) -> bool:
        """Return whether its engine is another engine than vLLM, or a known vLLM release of at least ``least``."""
        if least is None or self.server not in VLLM:
            return True
        return self.engine is not None and is_from(self.engine, least)

    def has_version(self, version: str) -> bool:
        """Return whether the tag is ``version``, or begins with it and a separator."""
        return self.tag == version or self.tag.startswith((f"{version}-", f"{version}."))

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers in the tag; newer images have greater numbers."""
        return _numbers(self.tag)


def is_from(version: str, least: str) -> bool:
    """Return whether a release is ``least`` or later."""
    return _numbers(version) >= _numbers(least)


@cache
def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


class Choice(NamedTuple):
    """The chosen image, or None if none fits, and the name under which the lock file records it.

    ``usable`` are all images that fit: the cataloged images, the preferred one first, then recorded ones.
    """

    name: str
    image: ImageRow | None
    usable: tuple[ImageRow, ...] = ()


@cache
def rows() -> tuple[ImageRow, ...]:
    """Return every cataloged image, sorted for each server with the newest or preferred one first."""
    return tuple(ImageRow.model_validate(row) for row in load("images")["images"])


def requirement(capabilities: Collection[str]) -> str:
    """Return required capabilities as a lock file records them: ``awq+speculative_config``."""
    return "+".join(sorted(capabilities)) or SERVING


def making(capabilities: Collection[str]) -> list[ImageRow]:
    """Return the images with which a job makes all of ``capabilities``, the preferred one first."""
    needed = frozenset(capabilities)
    return [row for row in rows() if row.makes >= needed]


def serving(capabilities: Collection[str], servers: Iterable[str]) -> list[ImageRow]:
    """Return the images that serve all of ``capabilities``: those with the first server, newest first, then the next.

    Images whose engine is unknown, so that the catalog claims no capabilities, follow the others of their server.
    """
    needed = frozenset(capabilities)
    capable = [row for row in rows() if row.serves >= needed]
    return [
        row
        for name in servers
        for row in sorted(
            (row for row in capable if row.server == name),
            key=lambda row: (bool(row.serves), row.release),
            reverse=True,
        )
    ]


def find(name: str) -> ImageRow | None:
    """Return the cataloged image with this name, or None."""
    return next((row for row in rows() if row.name == name), None)


def uncataloged(name: str) -> ImageRow:
    """Return an image that is not in the catalog, or not anymore, as described by its name.

    The repository names the server. The tag has the CUDA release (``cu130``) and in some repositories the engine's.
    """
    repository, _, tag = name.partition(":")
    cuda, engine = re.search(r"\bcu(\d\d)(\d)\b", tag), re.match(r"\d+\.\d+\.\d+", tag)
    return ImageRow(
        repository=repository,
        tag=tag,
        server=_SERVERS.get(repository),
        engine=engine[0] if engine is not None and repository in _TAGGED_BY_ENGINE else None,
        cuda=f"{cuda[1]}.{cuda[2]}" if cuda is not None else None,
    )


def recorded_for(name: str, recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of ``recorded`` for an image with this name, in any Region."""
    return {entry: image for entry, image in recorded.items() if entry.partition("@")[0] == name}


def choose(
    capable: Sequence[ImageRow],
    name: str,
    region: str | None,
    recorded: Mapping[str, str],
    kept: Sequence[ImageRow] = (),
    earlier: str | None = None,
) -> Choice:
    """Return the first image of ``capable`` that ``region``'s registry has, and the name under which it is recorded.

    An image that is recorded under ``name@region`` or ``name`` has precedence if it is in ``capable`` or ``kept``, then
    an image that earlier releases recorded under ``earlier``. The image is None if none fits.
    """
    usable = (*capable, *kept)
    regional_name = f"{name}@{region}"
    keys = {regional_name: regional_name, name: name}
    if earlier is not None:
        keys |= {f"{earlier}@{region}": name, earlier: name}
    for key, recorded_by in keys.items():
        for row in usable if key in recorded else ():
            if recorded[key] == row.name and region not in row.missing_in:
                return Choice(recorded_by, row, usable)
    newest = next((row for row in capable if region not in row.missing_in), None)
    return Choice(regional_name if name in recorded else name, newest, usable)


def registry_accounts() -> dict[str, str]:
    """Return the registry's account by Region, in alphabetical order."""
    return dict(load("images")["registry_accounts"])


def registry_host(region: str) -> str | None:
    """Return the registry's host in ``region``; None for an unknown Region."""
    account = registry_accounts().get(region)
    if account is None:
        return None
    suffixes: dict[str, str] = load("images")["dns_suffixes"]
    suffix = next(suffix for prefix, suffix in suffixes.items() if region.startswith(prefix))
    return f"{account}.dkr.ecr.{region}.{suffix}"
