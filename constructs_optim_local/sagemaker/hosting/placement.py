"""Placement of inference components' copies on instances with enough room.

Source: API reference, InferenceComponentComputeResourceRequirements and InferenceComponentSchedulingConfig. Assumed:
copies are spread unless a SchedulingConfig says otherwise. All resources of an instance type can be reserved here,
although the service keeps some for itself. Availability Zones are not modeled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from constructs_optim_local.sagemaker.records import Record

from .fleets import Instance, Room

NO_ROOM = (
    "There is not enough hardware resources on the instances for this endpoint to create a copy of the inference "
    "component. Please update resource requirements for this inference component, remove existing inference "
    "components, or increase the number of instances for this endpoint."
)


def specifications(component: Record) -> list[Record]:
    """Return a component's specifications, one for each instance type if they differ."""
    return component.get("Specifications") or [component["Specification"]]


def specification(component: Record, type_name: str) -> Record | None:
    """Return the specification for an instance type; None if the component cannot run there."""
    matching = (None, type_name)
    return next((item for item in specifications(component) if item.get("InstanceType") in matching), None)


def needs(component: Record, type_name: str) -> Room | None:
    """Return the room that a copy takes on an instance type; None if it cannot run there."""
    found = specification(component, type_name)
    if found is None:
        return None
    required = found.get("ComputeResourceRequirements", {})
    partition = required.get("AcceleratorPartitionType")
    return Room(
        required.get("NumberOfAcceleratorDevicesRequired", 0) if partition is None else 0,
        required.get("NumberOfCpuCoresRequired", 0),
        required.get("MinMemoryRequiredInMb", 0),
        Counter([partition] if partition is not None else []),
    )


def room_left(instances: Iterable[Instance], components: Iterable[Record]) -> dict[int, Room]:
    """Return the remaining room of each instance, by serial."""
    left = {instance.serial: instance.room for instance in instances}
    types = {instance.serial: instance.type_name for instance in instances}
    for component in components:
        for serial in component["_placed"]:
            taken = needs(component, types[serial]) if serial in types else None
            if taken is not None:
                left[serial] = left[serial].less(taken)
    return left


def place(component: Record, instances: Sequence[Instance], left: Mapping[int, Room]) -> int | None:
    """Return the serial of the instance for one more copy; None if none has room."""
    open_to = [
        instance
        for instance in instances
        if (required := needs(component, instance.type_name)) is not None and left[instance.serial].holds(required)
    ]
    if not open_to:
        return None
    copies = Counter(component["_placed"])
    strategy = specifications(component)[0].get("SchedulingConfig", {}).get("PlacementStrategy", "SPREAD")
    fullest = strategy == "BINPACK"
    used = {instance.serial: copies[instance.serial] for instance in open_to}
    if fullest:
        return max(open_to, key=lambda instance: (used[instance.serial], -instance.serial)).serial
    return min(open_to, key=lambda instance: (used[instance.serial], instance.serial)).serial


def unplace(component: Record, count: int, others: Iterable[Record]) -> list[int]:
    """Return the places of the ``count`` copies that stay. Copies alone on an instance end first, to free it."""
    busy = Counter(serial for other in [component, *others] for serial in other["_placed"])
    staying = sorted(component["_placed"], key=lambda serial: (-busy[serial], serial))
    return staying[:count]


def by_type(component: Record, instances: Iterable[Instance]) -> list[Record]:
    """Return ``PlacementStatus``: copies by instance type."""
    types = {instance.serial: instance.type_name for instance in instances}
    counts = Counter(types[serial] for serial in component["_placed"] if serial in types)
    return [{"InstanceType": name, "CurrentCopyCount": count} for name, count in sorted(counts.items())]
