"""Container images: what jobs make with them, what they serve, and the registries that they are pulled from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from pydantic import BaseModel

from . import load

# API reference, ProductionVariant.InferenceAmiVersion: driver 580, CUDA 13.0.
_CUDA_13_AMI = "al2023-ami-sagemaker-inference-gpu-4-1"
BLACKWELL = 10.0
"""The least compute capability of GPUs that need a newer CUDA release than others."""
_CUDA_OF_BLACKWELL = (12, 8)
VLLM = frozenset({"vllm", "lmi"})
"""Servers whose engine is vLLM."""
_SERVERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "djl-inference": "lmi",
    "huggingface-pytorch-tgi-inference": "text_generation_inference",
}
# AWS tags these repositories by the release of the engine: vllm:0.30.0-gpu-...
_TAGGED_BY_ENGINE = frozenset({"vllm", "sglang"})
FOR_BLACKWELL = "blackwell"
"""The lock file's prefix for images of jobs on Blackwell."""
SERVING = "serving"
"""The lock file's name for an image that any model is served with."""


class ImageRow(BaseModel, frozen=True):
    """A Deep Learning Container image, without its registry.

    ``server`` is what runs in it, and ``engine`` the release of its engine (of LMI, that of vLLM); None if there is
    none or it is not known. ``cuda`` is the CUDA release that it is built for. ``makes`` has what jobs make with it,
    ``serves`` what its engine reads and can do; ``missing_in`` the Regions whose registry lacks it.
    """

    repository: str
    tag: str
    server: str | None
    engine: str | None = None
    cuda: str | None = None
    makes: frozenset[str] = frozenset()
    serves: frozenset[str] = frozenset()
    missing_in: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """``repository:tag``."""
        return f"{self.repository}:{self.tag}"

    @property
    def ami_version(self) -> str | None:
        """The machine image whose driver it needs; None if any will do.

        CUDA 13 needs driver 580 (changelog of AWS's vLLM containers, 2.0), and the default of an instance type may be
        470 (developer guide, "GPU drivers").
        """
        return _CUDA_13_AMI if self.cuda is not None and self.cuda.startswith("13.") else None

    @property
    def accelerators(self) -> str:
        """The kind of accelerator that it is built for: ``neuron``, or ``gpu``.

        The SDK's image_uri_config writes the processor into the tag, and every configuration for Neuron devices has
        ``neuronx``.
        """
        return "neuron" if "neuronx" in self.tag else "gpu"

    def runs_on(self, compute_capability: float) -> bool:
        """Whether its CUDA release compiles for the accelerators: Blackwell's came with 12.8 (CUDA release notes)."""
        return compute_capability < BLACKWELL or self.cuda is None or _numbers(self.cuda) >= _CUDA_OF_BLACKWELL

    def has_engine(self, least: str | None) -> bool:
        """Whether its engine is known as a release of vLLM from ``least`` on, or is no vLLM."""
        if least is None or self.server not in VLLM:
            return True
        return self.engine is not None and is_from(self.engine, least)

    def has_version(self, version: str) -> bool:
        """Whether the tag is ``version``, or begins with it and a separator."""
        return self.tag == version or self.tag.startswith((f"{version}-", f"{version}."))

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers of the tag: a newer image has greater ones."""
        return _numbers(self.tag)


def is_from(version: str, least: str) -> bool:
    """Whether a release is ``least`` or a later one."""
    return _numbers(version) >= _numbers(least)


@cache
def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


class Choice(NamedTuple):
    """The image that is chosen, None if there is none, and the name that it is recorded by.

    ``usable`` are all that would do: the cataloged ones, the preferred one first, and recorded ones.
    """

    name: str
    image: ImageRow | None
    usable: tuple[ImageRow, ...] = ()


@cache
def rows() -> tuple[ImageRow, ...]:
    """Every cataloged image, of each server the newest or preferred one first."""
    return tuple(ImageRow.model_validate(row) for row in load("images")["images"])


def requirement(capabilities: Collection[str]) -> str:
    """Required capabilities as a lock file records them: ``awq+speculative_config``."""
    return "+".join(sorted(capabilities)) or SERVING


def making(capabilities: Collection[str]) -> list[ImageRow]:
    """The images that a job makes all of ``capabilities`` with, the preferred one first."""
    needed = frozenset(capabilities)
    return [row for row in rows() if row.makes >= needed]


def serving(capabilities: Collection[str], servers: Iterable[str]) -> list[ImageRow]:
    """The images that serve all of ``capabilities``: the newest of the first server first, then those of the next.

    Images of which nothing is claimed, as their engine is not known, come after the others of their server.
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
    """The cataloged image of that name; None if there is none."""
    return next((row for row in rows() if row.name == name), None)


def uncatalogued(name: str) -> ImageRow:
    """An image that the catalog does not know, or no longer: what its name says of it.

    The repository says what server it has; the tag has the CUDA release (``cu130``) and, of some, the engine's.
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
    """The entries of ``recorded`` for an image of that name, in any Region."""
    return {entry: image for entry, image in recorded.items() if entry.partition("@")[0] == name}


def choose(
    capable: Sequence[ImageRow],
    name: str,
    region: str | None,
    recorded: Mapping[str, str],
    kept: Sequence[ImageRow] = (),
    earlier: str | None = None,
) -> Choice:
    """The first image of ``capable`` that ``region``'s registry has, and the name that it is recorded by.

    The image that is recorded by ``name``, or by ``name@region``, comes before all others, if it is one of ``capable``
    or of ``kept``; then what earlier releases recorded by another name. None if there is none.
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
    """The registry's account by Region, in alphabetical order."""
    return dict(load("images")["registry_accounts"])


def registry_host(region: str) -> str | None:
    """The registry's host in ``region``."""
    account = registry_accounts().get(region)
    if account is None:
        return None
    suffixes: dict[str, str] = load("images")["dns_suffixes"]
    suffix = next(suffix for prefix, suffix in suffixes.items() if region.startswith(prefix))
    return f"{account}.dkr.ecr.{region}.{suffix}"
