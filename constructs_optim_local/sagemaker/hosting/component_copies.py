"""The copies of inference components on an endpoint's instances, and the instances managed for them."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim_local.sagemaker.records import Record, Records

from . import placement
from .endpoints import Endpoints
from .fleets import Instance, layout, pools
from .servers import Server


class Copies:
    """The copies of all components of one account and Region."""

    def __init__(self, components: Records, endpoints: Endpoints) -> None:
        self._components, self._endpoints = components, endpoints

    def base(self, component: Record) -> Record:
        """Return the base component of an adapter; the component itself if it is not an adapter."""
        name = placement.specifications(component)[0].get("BaseInferenceComponentName")
        return (self._components.find(name) or component) if name else component

    def is_adapter(self, component: Record) -> bool:
        """Return whether the component is an adapter, which its base loads and which has no copies of its own."""
        return "BaseInferenceComponentName" in placement.specifications(component)[0]

    def instances(self, component: Record) -> list[Instance]:
        """Return the instances on which the component may run."""
        endpoint = self._endpoints.records.find(component["EndpointName"])
        return endpoint["_fleet"].get(component["VariantName"], []) if endpoint else []

    def servers_of(self, component: Record) -> Iterator[Server]:
        """Yield the servers of a component's copies and of their replacements; for an adapter, its base's."""
        own = self.base(component)
        endpoint = self._endpoints.records.find(own["EndpointName"])
        for record in _both(own):
            yield from self._endpoints.wanted.of_component(record, endpoint, self.instances(own))

    def refusal(self, component: Record) -> str | None:
        """Return why a server of the component's copies failed; None once all are healthy.

        Raises:
            NotYet: while servers start.
        """
        servers = self._endpoints.servers
        return servers.refusal(list(self.servers_of(component))) if servers is not None else None

    def running(self, component: Record) -> Record:
        """Return ``CurrentCopyCount`` and ``PlacementStatus``, for an adapter its base's."""
        own = self.base(component)
        placed = [serial for record in _both(own) for serial in record["_placed"]]
        by_type = placement.by_type({"_placed": placed}, self.instances(own))
        return {"CurrentCopyCount": len(placed), **({"PlacementStatus": by_type} if by_type else {})}

    def place(self, component: Record, count: int) -> str | None:
        """Change the number of copies, launching managed instances as needed. Return why that fails, or None."""
        if self.is_adapter(component):
            return None
        endpoint, variant = self._place_of(component)
        if endpoint is None or variant is None:
            return placement.NO_ROOM
        others = [other for other in self._beside(component) if other is not component]
        if len(component["_placed"]) > count:
            component["_placed"] = placement.unplace(component, count, others)
            self.release(component)
        while len(component["_placed"]) < count:
            fleet = endpoint["_fleet"][variant["VariantName"]]
            serial = placement.place(component, fleet, placement.room_left(fleet, [component, *others]))
            if serial is None:
                grown = self._endpoints.grow(endpoint, variant, _fitting_types(component, variant))
                if grown is None:
                    return placement.NO_ROOM
                serial = grown.serial
            component["_placed"].append(serial)
        return None

    def release(self, component: Record) -> None:
        """End managed instances on which no copy runs."""
        endpoint, variant = self._place_of(component)
        if endpoint is not None and variant is not None:
            busy = {serial for other in self._beside(component) for serial in other["_placed"]}
            self._endpoints.release(endpoint, variant, busy)

    def follow(self, component: Record) -> None:
        """Move the copies of an endpoint whose instances were replaced or removed."""
        here = {instance.serial for instance in self.instances(component)}
        there = component["_placed"]
        component["_placed"] = [serial for serial in there if serial in here]
        if len(component["_placed"]) < len(there):
            self.place(component, component["RuntimeConfig"]["DesiredCopyCount"])

    def _place_of(self, component: Record) -> tuple[Record | None, Record | None]:
        """Return the component's endpoint and variant, if they exist."""
        endpoint = self._endpoints.records.find(component["EndpointName"])
        variants = endpoint["_config"]["ProductionVariants"] if endpoint else []
        return endpoint, next((item for item in variants if item["VariantName"] == component["VariantName"]), None)

    def _beside(self, component: Record) -> list[Record]:
        """Return the components of the same variant, and their replacements."""
        place = (component["EndpointName"].lower(), component["VariantName"])
        return [
            record
            for other in self._components.by_name.values()
            if (other["EndpointName"].lower(), other["VariantName"]) == place
            for record in _both(other)
        ]


def _both(component: Record) -> list[Record]:
    """Return a component, and its replacement in an update."""
    return [component, *([component["_fresh"]] if component.get("_fresh") else [])]


def _fitting_types(component: Record, variant: Record) -> list[str]:
    """Return the variant's instance types that hold a copy when empty."""
    return [
        pool["InstanceType"]
        for pool in pools(variant)
        if (required := placement.needs(component, pool["InstanceType"])) is not None
        and Instance(pool["InstanceType"], layout(variant)).room.holds(required)
    ]
