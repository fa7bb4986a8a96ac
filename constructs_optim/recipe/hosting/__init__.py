"""The hosting of an endpoint as plain data, which rules check."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.techniques import Technique

from .alarms import Alarm, Alarms, Watched, endpoint_alarms
from .options import Adapter, CapacityReservation, Component, Routing, ScaleIn, UpdateSettings

COMPONENT_STARTUP_SECONDS = 2700
"""The default timeout of a component for downloading its model, and for loading it.

CloudFormation waits 2 hours for an inference component (its schema has no timeout). This time includes launching an
instance and pulling an image.
"""
PARTITION_STARTUP_SECONDS = 1500
"""The same for a component on a GPU partition, for which a custom resource waits 1 hour."""


@dataclass(frozen=True)
class Hosting:
    """The hosting of one endpoint. None: not set.

    If ``pooled``, ``instance_types`` are the types of the instance pools by priority. An endpoint without a model
    serves the models of its components. ``techniques`` are the techniques of all pools. The instance counts are the
    range of managed instance scaling. ``partitions`` is the layout of each GPU. ``servers`` are the names of its
    models' servers. ``container_amis`` are the machine images that containers need. ``unsent_responses`` are the
    notifications with responses that have no topic. ``existing_configuration`` and
    ``existing_model`` are the names that an imported endpoint and component keep. ``region`` is None if it is known
    only at deployment.
    """

    instance_types: Sequence[str]
    pooled: bool = False
    has_model: bool = True
    techniques: Sequence[Technique] = ()
    inference_component: bool | None = None
    endpoint_name: str | None = None
    existing_configuration: str | None = None
    component_name: str | None = None
    existing_model: str | None = None
    variant_name: str = "AllTraffic"
    initial_instance_count: int = 1
    minimum_instance_count: int | None = None
    maximum_instance_count: int | None = None
    scale_in: ScaleIn | None = None
    routing: Routing | None = None
    servers: Sequence[str] = ()
    update: UpdateSettings = field(default_factory=UpdateSettings)
    capture_percentage: int | None = None
    asynchronous: bool = False
    concurrent_invocations: int | None = None
    download_timeout_seconds: int | None = None
    startup_timeout_seconds: int | None = None
    provision_timeout_seconds: int | None = None
    volume_gib: int | None = None
    encrypted_volume: bool = False
    ssm_access: bool = False
    network_isolation: bool | None = None
    ami_version: str | None = None
    container_amis: Sequence[str] = ()
    capacity_reservation: CapacityReservation | None = None
    rollback_alarms: int = 0
    alarms: Alarms = field(default_factory=Alarms)
    alarm_actions: int = 0
    ok_actions: int = 0
    unsent_responses: Sequence[str] = ()
    components: Sequence[Component] = ()
    adapters: Sequence[Adapter] = ()
    partitions: Sequence[str] = ()
    region: str | None = None

    @cached_property
    def serves_components(self) -> bool:
        """Whether models are inference components: as set, or if a technique or the lack of a model requires it."""
        if self.inference_component is not None:
            return bool(self.inference_component)
        return not self.has_model or any(technique.inference_component for technique in self.techniques)

    @cached_property
    def rollback_alarms_of_its_own(self) -> list[Alarm]:
        """The endpoint's own alarms that roll its updates back."""
        watched = Watched(self.serves_components, 1, is_asynchronous=self.asynchronous)
        return [alarm for alarm in endpoint_alarms(self.alarms, watched) if alarm.rolls_back]

    @cached_property
    def is_isolated(self) -> bool:
        """Whether containers have network isolation: as set, or if all techniques support it."""
        if self.network_isolation is not None:
            return self.network_isolation
        return all(technique.network_isolation for technique in self.techniques)

    @cached_property
    def rows(self) -> list[instances.InstanceRow]:
        """The catalog's rows for the instance types that it lists."""
        rows = (instances.find(name) for name in self.instance_types)
        return [row for row in rows if row is not None]


def instances_for_copies(
    components: Sequence[Component], row: instances.InstanceRow, partitions: Sequence[str] = ()
) -> int:
    """Return how many instances of a type hold all copies of components, by first-fit decreasing.

    ``partitions`` is the layout of each GPU. SageMaker does not document how it places copies. The result is never
    below the optimum.
    """
    free: list[tuple[float, ...]] = []
    kinds = sorted({*partitions})
    whole = [row.accelerator_count * partitions.count(kind) for kind in kinds] or [row.parallel_units]
    copies = (
        (*([int(c.partition == kind) for kind in kinds] or [c.accelerators]), c.memory_mib, c.cpu_cores or 0)
        for c in components
        for _ in range(c.copies)
    )
    for copy in sorted(copies, reverse=True):
        for index, room in enumerate(free):
            if all(taken <= left for taken, left in zip(copy, room, strict=True)):
                free[index] = _less(room, copy)
                break
        else:
            free.append(_less((*whole, row.memory_mib, row.vcpu), copy))
    return len(free)


def _less(room: Sequence[float], copy: Sequence[float]) -> tuple[float, ...]:
    return tuple(left - taken for left, taken in zip(room, copy, strict=True))
