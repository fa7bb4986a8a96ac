"""The model that an endpoint or an inference component serves at the time of a request."""

from __future__ import annotations

from constructs_optim_local.sagemaker.records import Record, Scope

from .components import InferenceComponents
from .fleets import models, pools
from .performance import Served, strings_of
from .placement import specifications


class NotServing(ValueError):
    """The reason why no model can respond."""


class NoCapacity(NotServing):
    """An inference component without copies."""

    def __init__(self, component: str) -> None:
        super().__init__(
            "Inference Component has no capacity to process this request. ApplicationAutoScaling may be "
            "in-progress (if configured) or try to increase the capacity by invoking "
            "UpdateInferenceComponentRuntimeConfig API."
        )
        self.component = component


class ServedModels:
    """The models that the endpoints of an account and Region serve."""

    def __init__(self, scope: Scope, components: InferenceComponents) -> None:
        self._scope, self._components = scope, components
        self._endpoints = components.endpoints

    def endpoint(self, identifier: str) -> Record | None:
        """Return an endpoint in its current state, by name or ARN; None if it does not exist."""
        name = identifier.rpartition("/")[2]
        if self._endpoints.records.find(name) is None:
            return None
        self._components.settle_all()
        return self._endpoints.records.find(name)

    def hosts_components(self, endpoint: Record) -> bool:
        """Return whether the endpoint's models are inference components."""
        return not any(models(variant) for variant in endpoint["_config"]["ProductionVariants"])

    def by_endpoint(self, endpoint: Record, variant_name: str | None = None) -> Served:
        """Return what an endpoint's variant serves. Default: the first variant.

        Raises:
            NotServing: if the variant does not exist or has no instance.
        """
        variants = endpoint["_config"]["ProductionVariants"]
        variant = next((item for item in variants if variant_name in (None, item["VariantName"])), None)
        if variant is None:
            raise NotServing(f"Variant {variant_name} not found for endpoint {endpoint['EndpointName']}")
        if not endpoint["_fleet"].get(variant["VariantName"]) and "ServerlessConfig" not in variant:
            raise NotServing(f"Endpoint {endpoint['EndpointName']} has no instance that could respond")
        return self.by_variant(endpoint, variant)

    def by_variant(self, endpoint: Record, variant: Record) -> Served:
        """Return what a production or shadow variant of an endpoint's configuration serves."""
        types = [instance.type_name for instance in endpoint["_fleet"].get(variant["VariantName"], [])]
        names = models(variant, types) or models(variant)
        return self._served(endpoint, variant, endpoint["EndpointName"], types, names, len(types))

    def by_component(self, endpoint: Record, identifier: str) -> Served:
        """Return what an inference component of an endpoint serves.

        Raises:
            NotServing: if the component does not exist.
            NoCapacity: if it has no copy.
        """
        name = identifier.rpartition("/")[2]
        component = self._components.records.find(name)
        if component is None or component["EndpointName"].lower() != endpoint["EndpointName"].lower():
            raise NotServing(f"Inference Component {name} not found on endpoint {endpoint['EndpointName']}")
        if component["InferenceComponentStatus"] not in ("InService", "Updating"):
            raise NotServing(f"Inference Component {name} is {component['InferenceComponentStatus']}")
        shown = self._components.describe({"InferenceComponentName": name})
        copies = shown["RuntimeConfig"]["CurrentCopyCount"]
        if not copies:
            raise NoCapacity(component["InferenceComponentName"])
        variant = next(
            item
            for item in endpoint["_config"]["ProductionVariants"]
            if item["VariantName"] == component["VariantName"]
        )
        types = [instance.type_name for instance in endpoint["_fleet"].get(variant["VariantName"], [])]
        items = specifications(component)
        base = items[0].get("BaseInferenceComponentName")
        if base is not None and (found := self._components.records.find(base)) is not None:
            items = [*items, *specifications(found)]
        names = [item["ModelName"] for item in items if item.get("ModelName")]
        return self._served(endpoint, variant, component["InferenceComponentName"], types, names, copies, *items)

    def servers(self, endpoint: Record, variant_name: str, component: str | None = None) -> tuple[str, ...]:
        """Return the keys of the servers that get requests for a variant, or for a component on it."""
        if component is not None:
            found = self._components.servers_of(component.rpartition("/")[2])
        else:
            found = self._endpoints.servers_with_traffic(endpoint, variant_name)
        return tuple(server.key for server in found)

    def _served(
        self,
        endpoint: Record,
        variant: Record,
        name: str,
        types: list[str],
        names: list[str],
        copies: int,
        *more: Record,
    ) -> Served:
        records = [self._endpoints.hosting.models.find(model) or {} for model in names]
        texts = [
            endpoint["EndpointName"],
            endpoint["EndpointConfigName"],
            variant["VariantName"],
            name,
            *types,
            *strings_of([*records, *more]),
        ]
        instance_type = types[0] if types else next((pool["InstanceType"] for pool in pools(variant)), None)
        containers = [
            container
            for record in (*records, *more)
            for container in (record.get("PrimaryContainer"), record.get("Container"), *record.get("Containers", []))
        ]
        image = next((container["Image"] for container in containers if container and "Image" in container), None)
        return Served(name, instance_type, tuple(dict.fromkeys(texts)), max(1, copies), image)
