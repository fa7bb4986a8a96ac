"""Instance types and their accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from . import load

# By compute capability: H100 and H200; B200 and B300; RTX PRO 6000.
_GENERATIONS = {9.0: "hopper", 10.0: "blackwell", 10.3: "blackwell", 12.0: "rtx_pro_6000"}

COMPUTE_SLICES, MEMORY_SLICES = 7, 8
"""Of a GPU that can be divided: NVIDIA Multi-Instance GPU user guide, "Supported MIG Profiles"."""
_PARTITION = re.compile(r"mig-(\d+)g\.(\d+)gb")


@dataclass(frozen=True)
class InstanceRow:
    """An accelerated instance type. Memory is in MiB, NVMe in GB.

    ``accelerator_memory_mib`` is of one accelerator, ``memory_mib`` of the host.
    ``memory_bandwidth`` is the maker's figure for one accelerator, in GB per second, ``teraflops`` those of its dense
    matrix units by the bits of their operands, and ``link_bandwidth`` what it sends to other accelerators of its
    instance, in GB per second. ``sdk_lists``: whether the
    SageMaker SDK lists the family for optimization. ``runs_optimization``: as a job's deployment instance type.
    ``partitions`` are the types of partitions that a GPU can be divided into (Multi-Instance GPU), the whole GPU last.
    """

    name: str
    family: str
    accelerator: str
    kind: str
    accelerator_count: int
    accelerator_memory_mib: int
    vcpu: int
    memory_mib: int
    nvme_gb: int
    hosts_endpoints: bool
    runs_optimization: bool
    runs_training: bool
    memory_bandwidth: float
    teraflops: Mapping[str, float]
    link_bandwidth: float
    sdk_lists: bool
    compute_capability: float | None = None
    cores_per_accelerator: int = 1
    partitions: tuple[str, ...] = ()

    @property
    def generation(self) -> str | None:
        """The generation of its GPUs, as vLLM's recipes name it; None if they name none."""
        return _GENERATIONS.get(self.compute_capability or 0)

    @property
    def parallel_units(self) -> int:
        """The units of a tensor parallel degree: GPUs, or NeuronCores."""
        return self.accelerator_count * self.cores_per_accelerator

    @property
    def total_accelerator_memory_gb(self) -> float:
        """Memory of all accelerators, in GB (10^9 bytes)."""
        return self.accelerator_count * self.accelerator_memory_mib * 2**20 / 1e9

    def slices(self, partition: str) -> tuple[int, int]:
        """The compute and memory slices of one of its types of partitions."""
        (compute, gigabytes), (_, whole) = (
            map(int, found.groups()) for name in (partition, self.partitions[-1]) if (found := _PARTITION.match(name))
        )
        return compute, round(gigabytes * MEMORY_SLICES / whole)

    def partitioned(self, partition: str) -> InstanceRow:
        """The instance type as a model on one partition sees it: a single, smaller accelerator, and its share of host
        memory.
        """
        compute, memory = self.slices(partition)
        return replace(
            self,
            accelerator_count=1,
            accelerator_memory_mib=self.accelerator_memory_mib * memory // MEMORY_SLICES,
            memory_mib=self.memory_mib * memory // (MEMORY_SLICES * self.accelerator_count),
            memory_bandwidth=self.memory_bandwidth * memory / MEMORY_SLICES,
            teraflops={bits: peak * compute / COMPUTE_SLICES for bits, peak in self.teraflops.items()},
        )


@cache
def by_name() -> MappingProxyType[str, InstanceRow]:
    """Every cataloged accelerated instance type."""
    data = load("instances")
    families: dict[str, dict[str, Any]] = {
        name: {**family, "partitions": tuple(family.get("partitions", ()))} for name, family in data["families"].items()
    }
    return MappingProxyType({row["name"]: InstanceRow(**row, **families[row["family"]]) for row in data["accelerated"]})


@cache
def by_size() -> tuple[InstanceRow, ...]:
    """Every cataloged accelerated instance type, the smallest first."""
    return tuple(sorted(by_name().values(), key=size))


@cache
def other_names() -> frozenset[str]:
    """Endpoint instance types without an accelerator that any technique supports."""
    return frozenset(load("instances")["without_catalogued_accelerator"])


@cache
def training_names() -> frozenset[str]:
    """Every instance type of training jobs, with an accelerator or without."""
    others: list[str] = load("instances")["training_without_catalogued_accelerator"]
    return frozenset([*others, *(name for name, row in by_name().items() if row.runs_training)])


def find(name: object) -> InstanceRow | None:
    """The accelerated instance type of that name; None if there is none."""
    return by_name().get(name) if isinstance(name, str) else None


def size(row: InstanceRow) -> tuple[float, int, int]:
    """What instance types are compared by: accelerator memory, then accelerators and vCPUs."""
    return row.total_accelerator_memory_gb, row.accelerator_count, row.vcpu


def smallest(rows: Iterable[InstanceRow]) -> InstanceRow | None:
    """The smallest instance type; None of none."""
    return min(rows, key=size, default=None)
