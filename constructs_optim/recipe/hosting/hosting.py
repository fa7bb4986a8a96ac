"""How an endpoint is hosted, as it was given, with what the catalog knows of its instances; rules look at this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.techniques import Technique

from .options import Adapter, Component

COMPONENT_STARTUP_SECONDS = 2700
"""How long a component's model may take to be downloaded, and then to be loaded, where nothing else is said.

CloudFormation creates an inference component within 2 hours (its schema has no time of its own), in which an instance
is launched and an image pulled besides.
"""


@dataclass(frozen=True)
class Hosting:
    """Nothing in it is checked yet. None: not given.

    Attributes:
        instance_types: the endpoint's one, or one for each pool in the order of their priority.
        pooled: whether they were given as instance pools.
        has_model: whether the endpoint has a model of its own; without one, components bring theirs.
        techniques: all that is applied to its model, for any of the pools.
        inference_component: whether that model is served as an inference component, where it was said.
        initial_instance_count: instances to start with.
        minimum_instance_count: what managed instance scaling keeps at least.
        maximum_instance_count: what it launches at most; None where SageMaker does not scale the instances itself.
        capture_percentage: the share of requests whose data is captured.
        asynchronous: whether requests are queued and answered in S3.
        concurrent_invocations: requests that an asynchronous endpoint sends an instance at once.
        download_timeout_seconds: how long the model's files may take.
        startup_timeout_seconds: how long loading it may take.
        provision_timeout_seconds: how long an instance may take to be found.
        volume_gib: size of each instance's volume.
        encrypted_volume: whether a key is given for it.
        ami_version: the machine image of the instances.
        rollback_alarms: how many alarms roll an update back.
        components: what its inference components ask for.
        adapters: the LoRA adapters of its models.
        adapter_settings: how the model's container loads adapters.
        region: where it is; None where only the deployment knows.
    """

    instance_types: Sequence[Any]
    pooled: bool = False
    has_model: bool = True
    techniques: Sequence[Any] = ()
    inference_component: Any = None
    endpoint_name: Any = None
    variant_name: Any = "AllTraffic"
    initial_instance_count: Any = 1
    minimum_instance_count: Any = None
    maximum_instance_count: Any = None
    routing: Any = None
    update: Any = None
    capture_percentage: Any = None
    asynchronous: bool = False
    concurrent_invocations: Any = None
    download_timeout_seconds: Any = None
    startup_timeout_seconds: Any = None
    provision_timeout_seconds: Any = None
    volume_gib: Any = None
    encrypted_volume: bool = False
    ami_version: Any = None
    capacity_reservation: Any = None
    observability: Any = None
    rollback_alarms: int = 0
    components: Sequence[Component] = ()
    adapters: Sequence[Adapter] = ()
    adapter_settings: Any = None
    region: str | None = None

    @cached_property
    def serves_components(self) -> bool:
        """Whether models are inference components: because it was said, or nothing else will do."""
        if self.inference_component is not None:
            return bool(self.inference_component)
        return not self.has_model or any(technique.inference_component for technique in self.known_techniques)

    @cached_property
    def known_techniques(self) -> list[Technique]:
        """The techniques among what was given."""
        return [technique for technique in self.techniques if isinstance(technique, Technique)]

    @cached_property
    def rows(self) -> list[instances.InstanceRow]:
        """The catalog's rows of the instance types that it knows."""
        found = [instances.find(name) for name in self.instance_types if isinstance(name, str)]
        return [row for row in found if row is not None]
