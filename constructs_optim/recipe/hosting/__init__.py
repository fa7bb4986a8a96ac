"""How an endpoint is hosted, with what the catalog knows of its instances; rules check it."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.techniques import Technique

from .options import Adapter, Adapters, CapacityReservation, Component, UpdateSettings

COMPONENT_STARTUP_SECONDS = 2700
"""How long a component's model may take to be downloaded, and then to be loaded, by default.

CloudFormation creates an inference component within 2 hours (its schema has no time of its own), in which an instance
is launched and an image pulled besides.
"""


@dataclass(frozen=True)
class Hosting:
    """The hosting of one endpoint. None: not set.

    ``instance_types`` has one for each pool, in the order of their priority, where they are ``pooled``. Without a model
    of its own, components bring theirs. ``techniques`` are those of any of the pools. The instance counts are the range
    of managed instance scaling. ``region`` is None where only the deployment knows it.
    """

    instance_types: Sequence[str]
    pooled: bool = False
    has_model: bool = True
    techniques: Sequence[Technique] = ()
    inference_component: bool | None = None
    endpoint_name: str | None = None
    variant_name: str = "AllTraffic"
    initial_instance_count: int = 1
    minimum_instance_count: int | None = None
    maximum_instance_count: int | None = None
    update: UpdateSettings = field(default_factory=UpdateSettings)
    capture_percentage: int | None = None
    asynchronous: bool = False
    concurrent_invocations: int | None = None
    download_timeout_seconds: int | None = None
    startup_timeout_seconds: int | None = None
    provision_timeout_seconds: int | None = None
    volume_gib: int | None = None
    encrypted_volume: bool = False
    ami_version: str | None = None
    capacity_reservation: CapacityReservation | None = None
    rollback_alarms: int = 0
    components: Sequence[Component] = ()
    adapters: Sequence[Adapter] = ()
    adapter_settings: Adapters | None = None
    region: str | None = None

    @cached_property
    def serves_components(self) -> bool:
        """Whether models are inference components: because that is set, or nothing else works."""
        if self.inference_component is not None:
            return bool(self.inference_component)
        return not self.has_model or any(technique.inference_component for technique in self.techniques)

    @cached_property
    def rows(self) -> list[instances.InstanceRow]:
        """The catalog's rows of the instance types that it knows."""
        rows = (instances.find(name) for name in self.instance_types)
        return [row for row in rows if row is not None]


def instances_for_copies(components: Sequence[Component], row: instances.InstanceRow) -> int:
    """How many instances of a type hold all copies of components: the largest first, each where it fits (first fit).

    SageMaker does not publish how it places copies; this is never fewer than the least that could hold them.
    """
    free: list[tuple[int, int]] = []
    copies = sorted(((c.accelerators, c.memory_mib) for c in components for _ in range(c.copies)), reverse=True)
    for accelerators, memory in copies:
        for index, (units, rest) in enumerate(free):
            if accelerators <= units and memory <= rest:
                free[index] = (units - accelerators, rest - memory)
                break
        else:
            free.append((row.parallel_units - accelerators, row.memory_mib - memory))
    return len(free)
