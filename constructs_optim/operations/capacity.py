"""An endpoint's capacity: what it has, stopping it and starting it again.

Only inference components can do without a copy. Scaling is suspended while an endpoint is stopped, so that nothing
brings it back before it is started; the range and the policies stay as they are.
Sources: API references of SageMaker (UpdateInferenceComponentRuntimeConfig) and of Application Auto Scaling
(RegisterScalableTarget, SuspendedState).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError, message_of

_NAMESPACE = "sagemaker"
_COPIES = "sagemaker:inference-component:DesiredCopyCount"
_INSTANCES = "sagemaker:variant:DesiredInstanceCount"
_SUSPENSIONS = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")
# A model may take an hour to load (the API's limit for a container's start); most take minutes.
_PATIENCE_SECONDS = 1800
_MOST_LOOKS = 5
# What Application Auto Scaling takes in one request.
_MOST_RESOURCES = 50


@dataclass(frozen=True)
class Schedule:
    """A scheduled action, and the range that it sets; None: as it was before."""

    name: str
    expression: str
    time_zone: str | None
    min_capacity: int | None
    max_capacity: int | None


@dataclass(frozen=True)
class ScalingRange:
    """What Application Auto Scaling keeps an instance or copy count within; ``suspended``: it does nothing for now."""

    min_capacity: int
    max_capacity: int
    suspended: bool
    schedules: tuple[Schedule, ...] = ()


@dataclass(frozen=True)
class Variant:
    """A production variant's instances; ``managed_instances`` is the range that SageMaker itself keeps them in."""

    name: str
    desired_instances: int | None
    current_instances: int | None
    managed_instances: tuple[int, int] | None
    scaling: ScalingRange | None = None


@dataclass(frozen=True)
class Component:
    """An inference component's copies. One that is an adapter has those of the component that it is loaded into."""

    name: str
    variant: str | None
    status: str
    desired_copies: int
    current_copies: int
    failure_reason: str | None = None
    is_adapter: bool = False
    scaling: ScalingRange | None = None


@dataclass(frozen=True)
class Endpoint:
    """One look at an endpoint."""

    name: str
    status: str
    failure_reason: str | None
    variants: tuple[Variant, ...]
    components: tuple[Component, ...]

    @property
    def stopped(self) -> bool:
        """Whether no copy is wanted, and nothing will want one."""
        scaled = [c for c in self.components if not c.is_adapter]
        return bool(scaled) and all(
            c.desired_copies == 0 and (c.scaling is None or c.scaling.suspended or c.scaling.max_capacity == 0)
            for c in scaled
        )

    @property
    def keeps_instances(self) -> bool:
        """Whether instances go on where there are no copies."""
        return any(v.managed_instances is None or v.managed_instances[0] > 0 for v in self.variants)

    def to_json(self) -> dict[str, Any]:
        """The endpoint as ``endpoint show --format json`` prints it."""
        return {**asdict(self), "stopped": self.stopped}


class EndpointCapacity:
    """The capacity of endpoints in the clients' account and region."""

    def __init__(
        self,
        sagemaker: Any,
        autoscaling: Any,
        *,
        poll_seconds: float = 2.0,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Take the clients.

        Args:
            sagemaker: a SageMaker client.
            autoscaling: an Application Auto Scaling client.
            poll_seconds: how long to wait between two looks at a change that goes on.
            on_wait: told the name of a component that is being changed already, which is waited for.
        """
        self._sagemaker, self._autoscaling = sagemaker, autoscaling
        self._poll_seconds, self._on_wait = poll_seconds, on_wait

    def describe(self, name: str) -> Endpoint | None:
        """One look at the endpoint of that name, or None where there is none."""
        try:
            described = self._sagemaker.describe_endpoint(EndpointName=name)
        except ClientError as error:
            if "could not find" not in message_of(error).lower():
                raise
            return None
        variants: list[Mapping[str, Any]] = described.get("ProductionVariants", [])
        components = [
            self._sagemaker.describe_inference_component(InferenceComponentName=each["InferenceComponentName"])
            for page in self._sagemaker.get_paginator("list_inference_components").paginate(EndpointNameEquals=name)
            for each in page["InferenceComponents"]
        ]
        copies = self._ranges(_COPIES, [_component_id(each["InferenceComponentName"]) for each in components])
        instances = self._ranges(_INSTANCES, [_variant_id(name, each["VariantName"]) for each in variants])
        return Endpoint(
            name=described["EndpointName"],
            status=described["EndpointStatus"],
            failure_reason=described.get("FailureReason"),
            variants=tuple(_variant(each, instances.get(_variant_id(name, each["VariantName"]))) for each in variants),
            components=tuple(
                sorted(
                    (
                        _component(each, copies.get(_component_id(each["InferenceComponentName"])))
                        for each in components
                    ),
                    key=lambda component: component.name,
                )
            ),
        )

    def stop(self, endpoint: Endpoint) -> None:
        """Take all copies of an endpoint's components away, and keep scaling from bringing them back.

        May be repeated: what is done already stays done.

        Raises:
            DeploymentError: for an endpoint whose variants serve the model themselves.
        """
        own = self._own(endpoint, "stop")
        scaling = [c.name for c in own if c.scaling is not None and not c.scaling.suspended]
        for name in scaling:
            self._suspend(name, suspended=True)
        if scaling:
            # Registering a target brings it into its range, in its own time: not when it is at zero.
            time.sleep(self._poll_seconds)
        wanted = {component.name: component.desired_copies for component in own}
        for _ in range(_MOST_LOOKS):
            running = [name for name, copies in wanted.items() if copies != 0]
            if not running:
                return
            for name in running:
                self._set_copies(name, 0)
            time.sleep(self._poll_seconds)
            wanted = {name: self._desired(name) for name in running}
        raise DeploymentError(
            f"{endpoint.name} does not stay without copies: something else sets them. Who calls "
            "UpdateInferenceComponentRuntimeConfig is in the trail of CloudTrail."
        )

    def start(self, endpoint: Endpoint, *, copies: int | None = None) -> dict[str, int]:
        """Bring copies back and let scaling go on; the copies that each component has been given, by its name.

        May be repeated: a component with as many copies is left alone.

        Args:
            endpoint: as it was just looked at.
            copies: how many for each component. Default: the fewest that its scaling range allows, and at least 1.

        Raises:
            DeploymentError: for an endpoint whose variants serve the model themselves, or copies that no range allows.
        """
        wanted = {component.name: _copies_to_start(component, copies) for component in self._own(endpoint, "start")}
        for component in self._own(endpoint, "start"):
            scaling, (count, limits) = component.scaling, wanted[component.name]
            if component.desired_copies < count:
                self._set_copies(component.name, count)
            if scaling is not None and (scaling.suspended or limits):
                self._suspend(component.name, suspended=False, **limits)
        return {name: count for name, (count, _) in wanted.items()}

    def _own(self, endpoint: Endpoint, verb: str) -> Sequence[Component]:
        """The components that have copies of their own."""
        own = [component for component in endpoint.components if not component.is_adapter]
        if own:
            return own
        raise DeploymentError(
            f"{endpoint.name} has no inference component to {verb}: its model is served by a variant, of which "
            "SageMaker keeps at least one instance. Serve the model through an inference component, or delete the "
            "stack: the artifact stays in its store, and the next deployment runs no job."
        )

    def _desired(self, component: str) -> int:
        described = self._sagemaker.describe_inference_component(InferenceComponentName=component)
        return (described.get("RuntimeConfig") or {}).get("DesiredCopyCount", 0)

    def _set_copies(self, component: str, copies: int) -> None:
        """Set the number, after a change that may go on already."""
        deadline, told = time.monotonic() + _PATIENCE_SECONDS, False
        while True:
            try:
                self._sagemaker.update_inference_component_runtime_config(
                    InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": copies}
                )
                return
            except ClientError as error:
                if "while it is in state" not in message_of(error):
                    raise
                if time.monotonic() > deadline:
                    raise
            if not told:
                told = True
                self._on_wait(component)
            time.sleep(self._poll_seconds)

    def _suspend(self, component: str, *, suspended: bool, **limits: int) -> None:
        self._autoscaling.register_scalable_target(
            ServiceNamespace=_NAMESPACE,
            ResourceId=_component_id(component),
            ScalableDimension=_COPIES,
            SuspendedState=dict.fromkeys(_SUSPENSIONS, suspended),
            **limits,
        )

    def _ranges(self, dimension: str, resource_ids: Sequence[str]) -> dict[str, ScalingRange]:
        """The scaling ranges of those that have one, by their resource ids."""
        found: dict[str, ScalingRange] = {}
        for start in range(0, len(resource_ids), _MOST_RESOURCES):
            pages = self._autoscaling.get_paginator("describe_scalable_targets").paginate(
                ServiceNamespace=_NAMESPACE,
                ResourceIds=list(resource_ids[start : start + _MOST_RESOURCES]),
                ScalableDimension=dimension,
            )
            for target in (target for page in pages for target in page["ScalableTargets"]):
                found[target["ResourceId"]] = self._range(dimension, target)
        return found

    def _range(self, dimension: str, target: Mapping[str, Any]) -> ScalingRange:
        pages = self._autoscaling.get_paginator("describe_scheduled_actions").paginate(
            ServiceNamespace=_NAMESPACE, ResourceId=target["ResourceId"], ScalableDimension=dimension
        )
        schedules = [_schedule(action) for page in pages for action in page["ScheduledActions"]]
        suspended: Mapping[str, bool] = target.get("SuspendedState") or {}
        return ScalingRange(
            min_capacity=target["MinCapacity"],
            max_capacity=target["MaxCapacity"],
            suspended=all(suspended.get(name, False) for name in _SUSPENSIONS),
            schedules=tuple(sorted(schedules, key=lambda schedule: schedule.name)),
        )


def _copies_to_start(component: Component, asked: int | None) -> tuple[int, dict[str, int]]:
    """How many copies to start, and the range to set where a schedule's stop has left none."""
    scaling = component.scaling
    if scaling is None:
        return max(1, asked or 0), {}
    least, most, limits = scaling.min_capacity, scaling.max_capacity, dict[str, int]()
    if most == 0:
        # Stopped by a schedule: the range is the one with which a schedule starts it.
        starting = max(scaling.schedules, key=lambda schedule: schedule.max_capacity or 0, default=None)
        if starting is None or not starting.max_capacity:
            raise DeploymentError(
                f"{component.name} may have no copies: its scaling range is 0 to 0, and no scheduled action sets "
                "another. Set one with `aws application-autoscaling register-scalable-target`, or deploy the stack."
            )
        least, most = starting.min_capacity or 0, starting.max_capacity
        limits = {"MinCapacity": least, "MaxCapacity": most}
    count = max(1, least) if asked is None else asked
    if not max(1, least) <= count <= most:
        raise DeploymentError(
            f"{component.name} cannot start with {count} copies: its scaling range is {least} to {most}, and scaling "
            "would change the number at once."
        )
    return count, limits


def _component_id(name: str) -> str:
    return f"inference-component/{name}"


def _variant_id(endpoint: str, variant: str) -> str:
    return f"endpoint/{endpoint}/variant/{variant}"


def _variant(described: Mapping[str, Any], scaling: ScalingRange | None) -> Variant:
    managed: Mapping[str, Any] = described.get("ManagedInstanceScaling") or {}
    on = managed.get("Status") == "ENABLED"
    return Variant(
        name=described["VariantName"],
        desired_instances=described.get("DesiredInstanceCount"),
        current_instances=described.get("CurrentInstanceCount"),
        managed_instances=(managed.get("MinInstanceCount", 1), managed.get("MaxInstanceCount", 1)) if on else None,
        scaling=scaling,
    )


def _component(described: Mapping[str, Any], scaling: ScalingRange | None) -> Component:
    runtime: Mapping[str, Any] = described.get("RuntimeConfig") or {}
    return Component(
        name=described["InferenceComponentName"],
        variant=described.get("VariantName"),
        status=described.get("InferenceComponentStatus", "Unknown"),
        desired_copies=runtime.get("DesiredCopyCount", 0),
        current_copies=runtime.get("CurrentCopyCount", 0),
        failure_reason=described.get("FailureReason"),
        is_adapter=bool((described.get("Specification") or {}).get("BaseInferenceComponentName")),
        scaling=scaling,
    )


def _schedule(action: Mapping[str, Any]) -> Schedule:
    limits: Mapping[str, Any] = action.get("ScalableTargetAction") or {}
    return Schedule(
        name=action["ScheduledActionName"],
        expression=action["Schedule"],
        time_zone=action.get("Timezone"),
        min_capacity=limits.get("MinCapacity"),
        max_capacity=limits.get("MaxCapacity"),
    )
