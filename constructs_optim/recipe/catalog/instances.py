"""Instance types and their accelerators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from . import load

# By compute capability: H100 and H200; B200 and B300; RTX PRO 6000.
_GENERATIONS = {9.0: "hopper", 10.0: "blackwell", 10.3: "blackwell", 12.0: "rtx_pro_6000"}

COMPUTE_SLICES, MEMORY_SLICES = 7, 8
"""The slices of a GPU that can be divided: NVIDIA Multi-Instance GPU user guide, "Supported MIG Profiles"."""
_PARTITION = re.compile(r"mig-(\d+)g\.(\d+)gb")


@dataclass(frozen=True)
class InstanceRow:
    """An accelerated instance type. Memory is in MiB, NVMe storage in GB.

    ``accelerator_memory_mib`` is the memory of one accelerator, ``memory_mib`` the host's. ``memory_bandwidth`` is the
    vendor's figure for one accelerator in GB per second, ``teraflops`` the dense rate of its matrix units by the bits
    of their operands, and ``link_bandwidth`` its rate to other accelerators of the instance in GB per second.
    ``sdk_lists`` tells whether the SageMaker SDK lists the family for optimization, ``runs_optimization`` whether a job
    accepts it as deployment instance type. ``partitions`` are the types of partitions that a GPU can be divided into
    (Multi-Instance GPU), the whole GPU last.
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
        """The generation of its GPUs, as named in vLLM's recipes; None if they have no name for it."""
        return _GENERATIONS.get(self.compute_capability or 0)

    @property
    def parallel_units(self) -> int:
        """The number of units for tensor parallelism: GPUs, or NeuronCores."""
        return self.accelerator_count * self.cores_per_accelerator

    @property
    def total_accelerator_memory_gb(self) -> float:
        """Memory of all accelerators, in GB (10^9 bytes)."""
        return self.accelerator_count * self.accelerator_memory_mib * 2**20 / 1e9

    def slices(self, partition: str) -> tuple[int, int]:
        """Return the compute and memory slices of a type of partition."""
        (compute, gigabytes), (_, whole) = (
            map(int, found.groups()) for name in (partition, self.partitions[-1]) if (found := _PARTITION.match(name))
        )
        return compute, round(gigabytes * MEMORY_SLICES / whole)

    def partitioned(self, partition: str) -> InstanceRow:
        """Return the instance type as a model on one partition sees it: one smaller accelerator, and its share of the
        host's memory.
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
    """Return every cataloged accelerated instance type by name."""
    data = load("instances")
    families: dict[str, dict[str, Any]] = {
        name: {**family, "partitions": tuple(family.get("partitions", ()))} for name, family in data["families"].items()
    }
    return MappingProxyType({row["name"]: InstanceRow(**row, **families[row["family"]]) for row in data["accelerated"]})


@cache
def by_size() -> tuple[InstanceRow, ...]:
    """Return every cataloged accelerated instance type, the smallest first."""
    return tuple(sorted(by_name().values(), key=size))


@cache
def other_names() -> frozenset[str]:
    """Return the endpoint instance types without an accelerator that any technique supports."""
    return frozenset(load("instances")["without_cataloged_accelerator"])


@cache
def training_names() -> frozenset[str]:
    """Return every instance type for training jobs, with or without an accelerator."""
    others: list[str] = load("instances")["training_without_cataloged_accelerator"]
    return frozenset([*others, *(name for name, row in by_name().items() if row.runs_training)])


def find(name: object) -> InstanceRow | None:
    """Return the accelerated instance type with this name, or None."""
    return by_name().get(name) if isinstance(name, str) else None


def size(row: InstanceRow) -> tuple[float, int, int]:
    """Return a sort key for instance types: accelerator memory in GB, then accelerators, then vCPUs."""
    return row.total_accelerator_memory_gb, row.accelerator_count, row.vcpu


def smallest(rows: Iterable[InstanceRow]) -> InstanceRow | None:
    """Return the smallest instance type; None if there are none."""
    return min(rows, key=size, default=None)


def smallest_instead_of(instance: InstanceRow, suits: Callable[[InstanceRow], bool]) -> InstanceRow | None:
    """Return the smallest instance type for endpoints that suits, and whose accelerators have together as much memory
    as another's.
    """
    memory = instance.total_accelerator_memory_gb
    found = (row for row in by_size() if row.hosts_endpoints and row.total_accelerator_memory_gb >= memory)
    return next((row for row in found if suits(row)), None)
