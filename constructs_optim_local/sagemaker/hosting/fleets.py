"""The instances of a variant: launched from its pools by priority, each with its resources.

Sources: SageMaker developer guide, "Deploy to multiple instance types with instance pools" (the pool with the highest
priority first, the next one after an insufficient capacity error, until all are exhausted or
VariantInstanceProvisionTimeoutInSeconds is over; scaling in starts with the lowest priority), and "Create an endpoint
with GPU partitions" (one layout, whose partitions fit one accelerator and apply to each; no ``+`` profiles).
``hardware.json`` has the instance data. Instance types that are not in it have unlimited room.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.records import Record

NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
    "Please retry using a different ML instance type or after some time."
)
_HARDWARE = Path(__file__).parents[2] / "data" / "hardware.json"
# Compute and memory slices. Source: NVIDIA Multi-Instance GPU user guide, "Supported MIG Profiles".
_SLICES = 7, 8
_PARTITION = re.compile(r"mig-(\d+)g\.(\d+)gb")
# Families whose instances cannot have a volume. Source: volume_size_supported in sagemaker/utils.py of the SageMaker
# Python SDK 2.257; https://github.com/aws/sagemaker-python-sdk/pull/4828 (a size "throws a service exception").
_LOCAL_STORAGE = re.compile(r"ml\.(?:g5|g6|p5|trn1|[a-z0-9]*d)")
_serials = itertools.count(1)


@dataclass(frozen=True)
class Room:
    """Accelerators (GPUs, Neuron devices), vCPUs and MiB of memory that an instance has or a copy takes.

    ``partitions`` are the GPU partitions of a layout, by type.
    """

    accelerators: float
    cores: float
    memory: float
    partitions: Counter[str] = field(default_factory=lambda: Counter[str]())

    def holds(self, other: Room) -> bool:
        """Return whether ``other`` fits in this room."""
        return all(
            mine >= its
            for mine, its in (
                (self.accelerators, other.accelerators),
                (self.cores, other.cores),
                (self.memory, other.memory),
                *((self.partitions[kind], count) for kind, count in other.partitions.items()),
            )
        )

    def less(self, other: Room) -> Room:
        """Return the remaining room."""
        return Room(
            self.accelerators - other.accelerators,
            self.cores - other.cores,
            self.memory - other.memory,
            self.partitions - other.partitions,
        )


@dataclass(frozen=True)
class Instance:
    """An instance of an endpoint; ``layout`` has the partitions of each of its accelerators."""

    type_name: str
    layout: tuple[str, ...] = ()
    serial: int = field(default_factory=lambda: next(_serials))

    @property
    def room(self) -> Room:
        """The resources of an empty instance."""
        whole = hardware().get(self.type_name, Room(float("inf"), float("inf"), float("inf")))
        if not self.layout:
            return whole
        # An endpoint with a layout has only instance types with partitions.
        partitions = Counter({kind: count * int(whole.accelerators) for kind, count in Counter(self.layout).items()})
        return Room(0, whole.cores, whole.memory, partitions)


@functools.cache
def _table() -> Record:
    return json.loads(_HARDWARE.read_text(encoding="utf-8"))


@functools.cache
def hardware() -> dict[str, Room]:
    """Return the resources of each instance type."""
    return {name: Room(*row) for name, row in _table()["instances"].items()}


def variants_of(config: Record) -> list[Record]:
    """Return the variants of an endpoint configuration with instances: production first, then the shadow."""
    return [*config["ProductionVariants"], *config.get("ShadowProductionVariants", [])]


def layout(variant: Record) -> tuple[str, ...]:
    """Return the partitions of each accelerator of a variant; empty if accelerators are not partitioned."""
    layouts = variant.get("AcceleratorPartitionLayouts", [])
    return tuple(kind for each in layouts for kind in each.get("AcceleratorPartitionTypes", []))


def pools(variant: Record) -> list[Record]:
    """Return the pools of a variant, highest priority first. A variant with one instance type has one pool."""
    if "InstancePools" in variant:
        return sorted(variant["InstancePools"], key=lambda pool: pool["Priority"])
    return [{"InstanceType": variant["InstanceType"], "Priority": 1}] if "InstanceType" in variant else []


def models(variant: Record, types: Iterable[str] | None = None) -> list[str]:
    """Return the models that instances of the types serve. Default: of all the variant's pools."""
    selected = set(types) if types is not None else None
    names = [
        pool.get("ModelNameOverride") or variant.get("ModelName")
        for pool in pools(variant)
        if selected is None or pool["InstanceType"] in selected
    ] or [variant.get("ModelName")]
    return list(dict.fromkeys(name for name in names if name))


def launch(variant: Record, count: int, faults: Faults, types: Iterable[str] | None = None) -> list[Instance] | None:
    """Launch instances from the pools of a variant. Returns None if no pool has enough.

    Args:
        variant: a variant of an endpoint configuration.
        count: number of instances.
        faults: faults that may leave an instance type without capacity.
        types: accepted instance types. Default: those of all pools.
    """
    selected = set(types) if types is not None else None
    launched: list[Instance] = []
    for _ in range(count):
        for pool in pools(variant):
            name = pool["InstanceType"]
            if (selected is None or name in selected) and not faults.strikes("no_capacity", instance_type=name):
                launched.append(Instance(name, layout(variant)))
                break
        else:
            return None
    return launched


def shrunk(variant: Record, instances: list[Instance], count: int) -> list[Instance]:
    """Return the ``count`` instances that stay. Instances of the lowest priority end first."""
    order = {pool["InstanceType"]: pool["Priority"] for pool in pools(variant)}
    return sorted(instances, key=lambda instance: (order.get(instance.type_name, 0), instance.serial))[:count]


def pool_summaries(variant: Record, types: Iterable[str]) -> dict[str, list[Record]]:
    """Return ``InstancePools`` of a variant's summary, if the variant has pools."""
    if "InstancePools" not in variant:
        return {}
    counts = Counter(types)
    return {
        "InstancePools": [
            {"InstanceType": pool["InstanceType"], "CurrentInstanceCount": counts[pool["InstanceType"]]}
            for pool in pools(variant)
        ]
    }


def pool_problems(variant: Record) -> list[str]:
    """Return what the API forbids about the instances of an endpoint configuration's variant."""
    name, found = variant["VariantName"], []
    capacities = [kind for kind in ("InstanceType", "InstancePools", "ServerlessConfig") if kind in variant]
    if len(capacities) != 1:
        found.append(
            f"Variant {name} must have exactly one of InstanceType, InstancePools and ServerlessConfig, and has "
            + (", ".join(capacities) or "none")
        )
    found += [
        # Assumed: the message.
        f"VolumeSizeInGB of variant {name} is not supported for {pool['InstanceType']}, which has local storage"
        for pool in pools(variant)
        if "VolumeSizeInGB" in variant and _LOCAL_STORAGE.match(pool["InstanceType"])
    ]
    types = [pool["InstanceType"] for pool in variant.get("InstancePools", [])]
    priorities = [pool["Priority"] for pool in variant.get("InstancePools", [])]
    if len(set(types)) != len(types):
        found.append(f"The instance pools of variant {name} must have different instance types")
    if len(set(priorities)) != len(priorities):
        found.append(f"The instance pools of variant {name} must have different priorities")
    scaling = variant.get("ManagedInstanceScaling", {})
    low, high = scaling.get("MinInstanceCount"), scaling.get("MaxInstanceCount")
    if low is not None and high is not None and low > high:
        found.append(f"MinInstanceCount {low} of variant {name} must not exceed its MaxInstanceCount {high}")
    routing = variant.get("RoutingConfig", {})
    if (routing.get("RoutingStrategy") == "PREFIX_AWARE") != ("PrefixAwareRoutingConfig" in routing):
        found.append(
            f"PrefixAwareRoutingConfig of variant {name} is for RoutingStrategy PREFIX_AWARE, which requires it"
        )
    missing = {"PrefixLength", "ConcurrencyThreshold"} - set(routing.get("PrefixAwareRoutingConfig", {}))
    if "PrefixAwareRoutingConfig" in routing and missing:
        found.append(
            f"{' and '.join(sorted(missing))} of variant {name} must be given for RoutingStrategy PREFIX_AWARE"
        )
    return [*found, *_layout_problems(variant)]


def _layout_problems(variant: Record) -> Iterable[str]:
    """Yield what the guide forbids about a variant's accelerator partitions. Assumed: pools exclude them."""
    if "AcceleratorPartitionLayouts" not in variant:
        return
    name, kinds = variant["VariantName"], layout(variant)
    if len(variant["AcceleratorPartitionLayouts"]) != 1 or not kinds:
        yield f"AcceleratorPartitionLayouts of variant {name} must contain exactly 1 entry, with partition types"
        return
    if "InstancePools" in variant or variant.get("ModelName"):
        yield f"AcceleratorPartitionLayouts of variant {name} is for inference components on one InstanceType"
        return
    valid = _table()["partitions"].get(variant["InstanceType"].split(".")[1], [])
    if unknown := [kind for kind in kinds if kind not in valid]:
        yield (
            f"{', '.join(unknown)} of variant {name} is not valid for {variant['InstanceType']}; valid partition "
            f"types: {', '.join(valid) or 'none'}"
        )
        return
    compute, memory = (sum(of) for of in zip(*(_slices(kind, valid[-1]) for kind in kinds), strict=True))
    if compute > _SLICES[0] or memory > _SLICES[1]:
        yield (
            f"The layout of variant {name} needs {compute} compute slices and {memory} memory slices, and an "
            f"accelerator of {variant['InstanceType']} provides {_SLICES[0]} and {_SLICES[1]}"
        )


def _slices(kind: str, whole: str) -> tuple[int, int]:
    """Return a partition's compute and memory slices. ``whole`` is the type of an undivided GPU."""
    (compute, gigabytes), (_, most) = (
        map(int, matched.groups()) for each in (kind, whole) if (matched := _PARTITION.fullmatch(each))
    )
    return compute, round(gigabytes * _SLICES[1] / most)
