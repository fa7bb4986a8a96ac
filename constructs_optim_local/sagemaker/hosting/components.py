"""Inference components: models and adapters that share an endpoint's accelerators.

Sources: API reference, CreateInferenceComponent, UpdateInferenceComponent, UpdateInferenceComponentRuntimeConfig and
InferenceComponentSpecification; developer guide, "Scale an endpoint to zero instances", "Deployment guardrails"
(rolling updates of inference components) and "Deploy models to GPU partitions with inference components".

AWS documents none of the following. From users' reports: the messages about placement, states in progress and endpoints
without support for components. Assumed: the other messages; a base component cannot be deleted while adapters use it;
if copies find no room, the running ones stay in service, with a FailureReason; a maximum of memory below the minimum is
refused.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator, Sequence

from constructs_optim_local.api.error import validation_error
from constructs_optim_local.sagemaker.records import Record, Records

from . import deployments, placement
from .component_changes import COPIES, Change
from .component_copies import Copies
from .endpoints import Endpoints
from .fleets import layout, pools
from .servers import Server

_STATES = {"Creating": "CREATE_IN_PROGRESS", "Updating": "UPDATE_IN_PROGRESS", "Deleting": "DELETE_IN_PROGRESS"}
_UNSUPPORTED = (
    "Invalid request provided: Inference Components are not supported in this Endpoint. Please make sure this endpoint "
    "can deploy inference components."
)


class InferenceComponents:
    """The inference components of one account and Region."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints, self._scope = endpoints, endpoints.hosting.scope
        self.records = Records(
            lambda name: validation_error(
                f'Could not find inference component "{self._scope.arn("inference-component", name)}".'
            ),
            lambda name: validation_error(f'Cannot create already existing inference component "{name}".'),
        )
        self._copies = Copies(self.records, endpoints)

    def create(self, request: Record) -> Record:
        """CreateInferenceComponent."""
        self.settle_all()
        endpoint = self.endpoints.settled(request["EndpointName"])
        name, component = request["InferenceComponentName"], copy.deepcopy(request)
        component["VariantName"] = self._check(component, endpoint)
        arn, at = self._scope.arn("inference-component", name), self._scope.now()
        copies = component.pop("RuntimeConfig", {}).get("CopyCount", 1)
        if copies < 1:
            # Scaling removes the last copy. Source of the message: https://github.com/stdapi-ai/stdapi.ai/issues/43
            # (2026-08-27, CreateInferenceComponent).
            raise validation_error("Inference components copy count an integer larger than 0")
        self.records.add(
            name,
            {
                **{key: value for key, value in component.items() if key != "Tags"},
                "EndpointArn": endpoint["EndpointArn"],
                "InferenceComponentArn": arn,
                "RuntimeConfig": {"DesiredCopyCount": copies},
                "CreationTime": at,
                "_placed": [],
            },
        )
        self._scope.tag(arn, request.get("Tags"))
        Change(self._copies, self.endpoints, self.records.get(name), "Creating", copies).begin()
        return {"InferenceComponentArn": arn}

    def describe(self, request: Record) -> Record:
        """DescribeInferenceComponent."""
        self.settle_all()
        component = self.records.get(request["InferenceComponentName"])
        shown = {key: copy.deepcopy(value) for key, value in component.items() if not key.startswith("_")}
        shown["RuntimeConfig"] |= self._copies.running(component)
        for key in ("Specification", "Specifications"):
            if key in shown:
                items = shown[key] if isinstance(shown[key], list) else [shown[key]]
                summaries = [_summary(item, self._scope.now()) for item in items]
                shown[key] = summaries if isinstance(shown[key], list) else summaries[0]
        return shown

    def update(self, request: Record) -> Record:
        """UpdateInferenceComponent: a new specification by a rolling update, or another number of copies."""
        component = self._changeable(request["InferenceComponentName"], "update")
        changed = {
            key: copy.deepcopy(request[key])
            for key in ("Specification", "Specifications")
            if key in request and request[key] != component.get(key)
        }
        if changed:
            self._check({**component, **dict.fromkeys(("Specification", "Specifications")), **changed}, None)
            before, after = (_partition(placement.specifications(each)[0]) for each in (component, changed))
            if before != after:
                raise validation_error(
                    f"AcceleratorPartitionType cannot be changed from {before} to {after}: create a new inference "
                    "component"
                )
        copies = request.get("RuntimeConfig", {}).get("CopyCount", component["RuntimeConfig"]["DesiredCopyCount"])
        deployment = request.get("DeploymentConfig", {})
        self._check_deployment(deployment, {COPIES: copies})
        if deployment:
            component["LastDeploymentConfig"] = deployment
        if changed:
            Change(self._copies, self.endpoints, component, "Updating", copies, changed, deployment).begin()
        else:
            self._scale(component, copies)
        return {"InferenceComponentArn": component["InferenceComponentArn"]}

    def update_runtime_config(self, request: Record) -> Record:
        """UpdateInferenceComponentRuntimeConfig: another number of copies."""
        component = self._changeable(request["InferenceComponentName"], "update")
        self._scale(component, request["DesiredRuntimeConfig"]["CopyCount"])
        return {"InferenceComponentArn": component["InferenceComponentArn"]}

    def delete(self, request: Record) -> Record:
        """DeleteInferenceComponent: Deleting, then gone."""
        name = request["InferenceComponentName"]
        component = self._changeable(name, "delete")
        adapters = [
            other["InferenceComponentName"]
            for other in self.records.by_name.values()
            if self._copies.base(other) is component and other is not component
        ]
        if adapters:
            raise validation_error(
                f'Cannot delete inference component "{name}" while adapter inference components use it: '
                + ", ".join(sorted(adapters))
            )
        component |= {"InferenceComponentStatus": "Deleting", "LastModifiedTime": self._scope.now()}
        return {}

    def delete_endpoint(self, request: Record) -> Record:
        """DeleteEndpoint, which an endpoint's inference components prevent, also those that are being deleted.

        Source: https://github.com/gruntwork-io/cloud-nuke/pull/1142.
        """
        self.settle_all()
        name = request["EndpointName"].lower()
        if any(component["EndpointName"].lower() == name for component in self.records.by_name.values()):
            raise validation_error(
                "Cannot delete endpoint with inference component associated. Please delete inference component and try "
                "it again."
            )
        return self.endpoints.delete(request)

    def list(self, request: Record) -> Record:
        """ListInferenceComponents."""
        self.settle_all()
        names = (
            "CreationTime",
            "EndpointArn",
            "EndpointName",
            "InferenceComponentArn",
            "InferenceComponentName",
            "InferenceComponentStatus",
            "LastModifiedTime",
            "VariantName",
        )
        filters = {
            member.removesuffix("Equals"): str(request[member]).lower()
            for member in ("EndpointNameEquals", "VariantNameEquals")
            if member in request
        }
        matching = Records(self.records.missing, self.records.taken)
        for name, component in self.records.by_name.items():
            if all(component[member].lower() == value for member, value in filters.items()):
                matching.by_name[name] = component
        return matching.page("InferenceComponents", request, lambda c: {n: c[n] for n in names if n in c})

    def copies(self, component: Record) -> int:
        """Return the number of a component's copies in service."""
        return self._copies.running(component)["CurrentCopyCount"]

    def servers_of(self, name: str) -> Iterator[Server]:
        """Return the servers of a component's copies."""
        return self._copies.servers_of(self.records.get(name))

    def settle_all(self) -> None:
        """Advance every component, and the instances managed for it, to the current time."""
        for endpoint in list(self.endpoints.records.by_name):
            self.endpoints.settled(endpoint)
        for name, component in list(self.records.by_name.items()):
            if (change := component.get("_change")) is not None:
                change.settle()
            elif component["InferenceComponentStatus"] == "Deleting":
                ended = component["LastModifiedTime"] + dt.timedelta(seconds=self.endpoints.pace.turn)
                if self._scope.now() >= ended:
                    del self.records.by_name[name]
                    self._copies.release(component)
            elif component["InferenceComponentStatus"] == "InService":
                self._copies.follow(component)

    def _changeable(self, name: str, verb: str) -> Record:
        self.settle_all()
        component = self.records.get(name)
        state = _STATES.get(component["InferenceComponentStatus"])
        if state is not None:
            change: Change | None = component.get("_change")
            state = "UPDATE_RC_IN_PROGRESS" if change is not None and change.kind == "Scaling" else state
            raise validation_error(f'Cannot {verb} inference component "{name}" while it is in state {state}.')
        return component

    def _scale(self, component: Record, copies: int) -> None:
        if self._copies.is_adapter(component):
            raise validation_error(
                f'Inference component "{component["InferenceComponentName"]}" is an adapter: it runs in the '
                "copies of its base inference component, and has no copies of its own."
            )
        Change(self._copies, self.endpoints, component, "Scaling", copies).begin()

    def _check(self, component: Record, endpoint: Record | None) -> str:
        """Refuse an inconsistent specification; otherwise, return the variant's name."""
        items = [component[key] for key in ("Specification", "Specifications") if component.get(key)]
        problems = list[str]()
        if len(items) != 1:
            raise validation_error("Exactly one of Specification and Specifications must be given")
        several = placement.specifications(component)
        endpoint = endpoint or self.endpoints.settled(component["EndpointName"])
        variant = self.endpoints.variant(endpoint, component.get("VariantName"))
        if variant.get("ModelName") or any("ModelNameOverride" in pool for pool in pools(variant)):
            raise validation_error(_UNSUPPORTED)
        types, here = [item.get("InstanceType") for item in several], {pool["InstanceType"] for pool in pools(variant)}
        if len(several) > 1 and (None in types or len(set(types)) != len(types)):
            problems.append("Each of several Specifications must have an InstanceType of its own")
        problems += [f"The variant has no instances of type {name}" for name in types if name and name not in here]
        for item in several:
            problems += list(self._item_problems(component, item))
            if "BaseInferenceComponentName" not in item:
                problems += list(_partition_problems(item, layout(variant)))
        if problems:
            raise validation_error("; ".join(problems))
        return variant["VariantName"]

    def _item_problems(self, component: Record, item: Record) -> Iterator[str]:
        base = item.get("BaseInferenceComponentName")
        if item.get("ModelName"):
            self.endpoints.hosting.models.get(item["ModelName"])
        if base is None:
            yield from self._isolation_problems(component, item)
            if "ComputeResourceRequirements" not in item:
                yield "ComputeResourceRequirements is required, except for an adapter"
            required = item.get("ComputeResourceRequirements", {})
            least, most = (required.get(f"{end}MemoryRequiredInMb", 0) for end in ("Min", "Max"))
            if most and most < least:
                yield f"MaxMemoryRequiredInMb ({most}) must not be less than MinMemoryRequiredInMb ({least})"
            if not item.get("ModelName") and not item.get("Container", {}).get("Image"):
                yield "Either ModelName or an Image of the Container is required"
            return
        if "ComputeResourceRequirements" in item:
            yield "An adapter uses the compute resources of its base: ComputeResourceRequirements must be omitted"
        if not item.get("Container", {}).get("ArtifactUrl"):
            yield "An adapter needs the ArtifactUrl of its Container"
        found = self.records.get(base)
        if found["EndpointName"].lower() != component["EndpointName"].lower():
            yield f'The base inference component "{base}" is on another endpoint'
        elif found["InferenceComponentStatus"] != "InService":
            yield f'The base inference component "{base}" is {found["InferenceComponentStatus"]}, and must be InService'
        elif self._copies.is_adapter(found):
            yield f'The base inference component "{base}" is an adapter itself'

    def _isolation_problems(self, component: Record, item: Record) -> Iterator[str]:
        """Yield conflicts with the endpoint's network isolation.

        Source: API reference, CreateEndpointConfig ("EnableNetworkIsolation: Sets whether all model containers deployed
        to the endpoint are isolated"). Assumed, without a source: a model with isolation is refused on an endpoint
        without. SageMaker may instead run it without isolation.
        """
        model = self.endpoints.hosting.models.find(item.get("ModelName") or "") or {}
        config = self.endpoints.records.get(component["EndpointName"])["_config"]
        if model.get("EnableNetworkIsolation") and not config.get("EnableNetworkIsolation"):
            yield (
                f"Model {item['ModelName']} has EnableNetworkIsolation, and the configuration of endpoint "
                f"{component['EndpointName']} does not: its setting applies to all model containers of the endpoint"
            )

    def _check_deployment(self, config: Record, counts: dict[str, int]) -> None:
        names = [alarm["AlarmName"] for alarm in config.get("AutoRollbackConfiguration", {}).get("Alarms", [])]
        scope, alarms = self._scope, self.endpoints.alarms
        found = [
            *deployments.problems(config, counts),
            *(
                f"Could not find the CloudWatch alarm {name}"
                for name in alarms.missing(names, account=scope.account, region=scope.region)
            ),
        ]
        if found:
            raise validation_error(f"Invalid DeploymentConfig: {'; '.join(found)}")


def _partition(item: Record) -> str | None:
    return item.get("ComputeResourceRequirements", {}).get("AcceleratorPartitionType")


def _partition_problems(item: Record, declared: Sequence[str]) -> Iterator[str]:
    """Yield conflicts between a component and the partition types that its endpoint's layout declares."""
    partition = _partition(item)
    if partition is None and declared:
        yield "AcceleratorPartitionType is required on an endpoint with AcceleratorPartitionLayouts"
    if partition is None:
        return
    if partition not in declared:
        types = ", ".join(sorted(set(declared))) or "none"
        yield f"AcceleratorPartitionType {partition} is not one that the endpoint's layout declares: {types}"
    if item["ComputeResourceRequirements"].get("NumberOfAcceleratorDevicesRequired") != 1:
        yield f"NumberOfAcceleratorDevicesRequired must be 1 with AcceleratorPartitionType {partition}"


def _summary(item: Record, at: dt.datetime) -> Record:
    """Return a specification as DescribeInferenceComponent shows it, with the deployed image."""
    container = dict(item.get("Container", {}))
    image = container.pop("Image", None)
    if image is not None:
        container["DeployedImage"] = {"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": at}
    return {**item, **({"Container": container} if "Container" in item else {})}
