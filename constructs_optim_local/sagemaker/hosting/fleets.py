"""The instances of a variant: launched from its pools in their order, and what each has room for.

Sources: SageMaker developer guide, "Deploy to multiple instance types with instance pools" (the pool of the highest
priority first, the next one on an insufficient capacity error, until all are exhausted or
VariantInstanceProvisionTimeoutInSeconds is over; what is scaled in goes from the lowest priority first). Instance
data: see ``hardware.json``; an instance type that is not in it has room for anything.
"""

from __future__ import annotations

import functools
import itertools
import json
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
_serials = itertools.count(1)


@dataclass(frozen=True)
class Room:
    """Accelerators (GPUs, Neuron devices), vCPU and MiB of memory: what an instance has, or a copy takes."""

    accelerators: float
    cores: float
    memory: float

    def holds(self, other: Room) -> bool:
        """Whether there is room for another."""
        return all(
            mine >= its
            for mine, its in (
                (self.accelerators, other.accelerators),
                (self.cores, other.cores),
                (self.memory, other.memory),
            )
        )

    def less(self, other: Room) -> Room:
        """What is left."""
        return Room(self.accelerators - other.accelerators, self.cores - other.cores, self.memory - other.memory)


@dataclass(frozen=True)
class Instance:
    """An instance of an endpoint."""

    type_name: str
    serial: int = field(default_factory=lambda: next(_serials))

    @property
    def room(self) -> Room:
        """What it has while nothing is on it."""
        return hardware().get(self.type_name, Room(float("inf"), float("inf"), float("inf")))


@functools.cache
def hardware() -> dict[str, Room]:
    """What each instance type has."""
    table = json.loads(_HARDWARE.read_text(encoding="utf-8"))
    return {name: Room(*row) for name, row in table["instances"].items()}


def pools(variant: Record) -> list[Record]:
    """The pools of a variant, highest priority first; a variant with one type has one."""
    if "InstancePools" in variant:
        return sorted(variant["InstancePools"], key=lambda pool: pool["Priority"])
    return [{"InstanceType": variant["InstanceType"], "Priority": 1}] if "InstanceType" in variant else []


def models(variant: Record, types: Iterable[str] | None = None) -> list[str]:
    """The models that instances of the types serve, or those of all the variant's pools."""
    selected = set(types) if types is not None else None
    names = [
        pool.get("ModelNameOverride") or variant.get("ModelName")
        for pool in pools(variant)
        if selected is None or pool["InstanceType"] in selected
    ] or [variant.get("ModelName")]
    return list(dict.fromkeys(name for name in names if name))


def launch(variant: Record, count: int, faults: Faults, types: Iterable[str] | None = None) -> list[Instance] | None:
    """Instances from the pools of a variant; None where no pool has enough.

    Args:
        variant: of an endpoint configuration.
        count: how many.
        faults: which may leave an instance type without capacity.
        types: instance types that will do. Default: those of all pools.
    """
    selected = set(types) if types is not None else None
    launched: list[Instance] = []
    for _ in range(count):
        for pool in pools(variant):
            name = pool["InstanceType"]
            if (selected is None or name in selected) and not faults.strikes("no_capacity", instance_type=name):
                launched.append(Instance(name))
                break
        else:
            return None
    return launched


def shrunk(variant: Record, instances: list[Instance], count: int) -> list[Instance]:
    """The instances that stay when only ``count`` shall: those of the lowest priority go first."""
    order = {pool["InstanceType"]: pool["Priority"] for pool in pools(variant)}
    return sorted(instances, key=lambda instance: (order.get(instance.type_name, 0), instance.serial))[:count]


def pool_summaries(variant: Record, types: Iterable[str]) -> dict[str, list[Record]]:
    """``InstancePools`` of a variant's summary, for a variant that has pools."""
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
    """What the API forbids about the instances of a variant of an endpoint configuration."""
    name, found = variant["VariantName"], []
    capacities = [kind for kind in ("InstanceType", "InstancePools", "ServerlessConfig") if kind in variant]
    if len(capacities) != 1:
        found.append(
            f"Variant {name} must have exactly one of InstanceType, InstancePools and ServerlessConfig, and has "
            + (", ".join(capacities) or "none")
        )
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
    return found
