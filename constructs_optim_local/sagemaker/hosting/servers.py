"""The model servers that should run behind endpoints, and the interface of the class that runs them.

A server is a container on an instance. A variant with a model has one server for each instance, and an inference
component one for each copy. Source: API reference, ContainerDefinition and InferenceComponentContainerSpecification,
which overrides the model's container.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from constructs_optim_local.sagemaker.records import Record, Records, Scope

from . import placement
from .fleets import Instance, models, variants_of

_METRICS_SECONDS = 60


@dataclass(frozen=True, eq=False)
class Server:
    """A container on an instance.

    Attributes:
        key: unique key of the server.
        account: the endpoint's.
        region: the endpoint's.
        endpoint: the endpoint's name.
        variant: the variant's name.
        instance: the instance on which the server runs.
        component: the inference component whose copy it is; None for a variant's model.
        container: the ContainerDefinition.
        role: the model's execution role, if it has one.
        isolated: whether network isolation is on. If True, the server gets no credentials.
        startup_seconds: ``ContainerStartupHealthCheckTimeoutInSeconds``; None for SageMaker's default.
        metrics_seconds: the interval at which engine metrics are published; None if they are not. Source: API
            reference, MetricsConfig.
    """

    key: str
    account: str
    region: str
    endpoint: str
    variant: str
    instance: Instance
    component: str | None
    container: Record
    role: str | None
    isolated: bool
    startup_seconds: float | None
    metrics_seconds: float | None


class Servers(Protocol):
    """Runs servers."""

    def refusal(self, servers: Sequence[Server]) -> str | None:
        """Start missing servers. Return why one of them failed, or None once all are healthy.

        Raises:
            NotYet: while servers start.
        """
        ...

    def keep(self, servers: Collection[Server]) -> None:
        """End all servers except these, and start missing ones."""
        ...


class Wanted:
    """The servers that the endpoints and components of an account and Region should have."""

    def __init__(self, scope: Scope, models: Records) -> None:
        self._scope, self._models = scope, models

    def of_fleet(self, endpoint: Record, config: Record, fleet: dict[str, list[Instance]]) -> Iterator[Server]:
        """Yield the servers of instances, given by variant name, whose variants have models."""
        for variant in variants_of(config):
            for instance in fleet.get(variant["VariantName"], ()):
                yield from self.of_variant(endpoint, config, variant, [instance])

    def of_variant(
        self, endpoint: Record, config: Record, variant: Record, instances: Iterable[Instance]
    ) -> Iterator[Server]:
        """Yield the servers of some of a variant's instances."""
        for instance in instances:
            for name in models(variant, [instance.type_name]):
                model = self._models.find(name) or {}
                yield self._server(
                    str(instance.serial),
                    endpoint,
                    variant["VariantName"],
                    instance,
                    model,
                    config,
                    isolated=bool(config.get("EnableNetworkIsolation") or model.get("EnableNetworkIsolation")),
                    startup=variant,
                )

    def of_component(self, component: Record, endpoint: Record | None, fleet: Iterable[Instance]) -> Iterator[Server]:
        """Yield the servers of a component's copies. An adapter has none."""
        instances = {instance.serial: instance for instance in fleet}
        counted: dict[int, int] = {}
        for serial in component["_placed"] if endpoint is not None else ():
            counted[serial] = counted.get(serial, 0) + 1
            instance = instances.get(serial)
            found = placement.specification(component, instance.type_name) if instance is not None else None
            if endpoint is None or instance is None or found is None:
                continue
            own = hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()[:16]
            yield self._server(
                f"{component['InferenceComponentName']}/{own}/{serial}/{counted[serial]}",
                endpoint,
                component["VariantName"],
                instance,
                self._models.find(found.get("ModelName") or "") or {},
                endpoint["_config"],
                isolated=bool(endpoint["_config"].get("EnableNetworkIsolation")),
                startup=found.get("StartupParameters", {}),
                component=component["InferenceComponentName"],
                over=found.get("Container", {}),
            )

    def _server(
        self,
        key: str,
        endpoint: Record,
        variant: str,
        instance: Instance,
        model: Record,
        config: Record,
        *,
        isolated: bool,
        startup: Record,
        component: str | None = None,
        over: Record | None = None,
    ) -> Server:
        container = {**(model.get("PrimaryContainer") or next(iter(model.get("Containers", [])), {}))}
        for name, value in (over or {}).items():
            container["ModelDataUrl" if name == "ArtifactUrl" else name] = value
        if "ArtifactUrl" in (over or {}):
            container.pop("ModelDataSource", None)
        return Server(
            key=f"{endpoint['EndpointArn']}/{key}",
            account=self._scope.account,
            region=self._scope.region,
            endpoint=endpoint["EndpointName"],
            variant=variant,
            instance=instance,
            component=component,
            container=container,
            role=model.get("ExecutionRoleArn"),
            isolated=isolated,
            startup_seconds=startup.get("ContainerStartupHealthCheckTimeoutInSeconds"),
            metrics_seconds=_metrics_seconds(config.get("MetricsConfig", {})),
        )


def _metrics_seconds(config: Record) -> float | None:
    if config.get("EnableDetailedObservability") is False:
        return None
    return config.get("MetricPublishFrequencyInSeconds", _METRICS_SECONDS)
