"""Describes, stops, and starts the capacity of an endpoint.

Only inference components can have zero copies. Scaling is suspended while an endpoint is stopped, and keeps its range
and policies. A tag of the scalable target records what was suspended before the stop, so that the start, in another
process and perhaps by another person, resumes only what the stop suspended.
Sources: API references of SageMaker (UpdateInferenceComponentRuntimeConfig) and of Application Auto Scaling
(RegisterScalableTarget, SuspendedState, TagResource).
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, computed_field

from constructs_optim.runtime.errors import DeploymentError, message_of

_NAMESPACE = "sagemaker"
COPIES = "sagemaker:inference-component:DesiredCopyCount"
INSTANCES = "sagemaker:variant:DesiredInstanceCount"
"""The scalable dimensions of a component and of a variant."""
# Each with what it stops.
_SUSPENSIONS = {
    "DynamicScalingInSuspended": "scaling in",
    "DynamicScalingOutSuspended": "scaling out",
    "ScheduledScalingSuspended": "schedules",
}
MOST_SUSPENSIONS = len(_SUSPENSIONS)
"""The number of suspensions of a target whose scaling is all suspended."""
SUSPENDED_BEFORE = "constructs-optim:suspended-before-stop"
"""The tag of a stopped component's scalable target, with the suspensions that are older than the stop."""
# A tag's value cannot be empty in all of AWS's tools.
_NOTHING = "nothing"
# A model may take an hour to load (the API's limit for a container's start); most take minutes.
_PATIENCE_SECONDS = 1800
_MOST_ATTEMPTS = 5
# The most resource IDs of a request to Application Auto Scaling.
_MOST_RESOURCES = 50


class _Model(BaseModel):
    """A part of a response from AWS."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, validate_by_name=True)


class Schedule(_Model):
    """A scheduled action and the range that it sets; None leaves a limit as it is."""

    name: str = Field(validation_alias="ScheduledActionName")
    expression: str = Field(validation_alias="Schedule")
    time_zone: str | None = Field(default=None, validation_alias="Timezone")
    min_capacity: int | None = Field(default=None, validation_alias=AliasPath("ScalableTargetAction", "MinCapacity"))
    max_capacity: int | None = Field(default=None, validation_alias=AliasPath("ScalableTargetAction", "MaxCapacity"))


class ScalingRange(_Model):
    """The range of an instance or copy count in Application Auto Scaling.

    ``suspensions`` are the members of SuspendedState that are true; ``suspended`` if all of them are.
    """

    min_capacity: int
    max_capacity: int
    suspended: bool
    schedules: tuple[Schedule, ...] = ()
    suspensions: tuple[str, ...] = ()
    arn: str | None = Field(default=None, exclude=True)


def _managed_range(managed: Mapping[str, Any]) -> tuple[int, int] | None:
    if managed.get("Status") != "ENABLED":
        return None
    return managed.get("MinInstanceCount", 1), managed.get("MaxInstanceCount", 1)


class Variant(_Model):
    """A production variant's instances; ``managed_instances`` is the range for managed instance scaling."""

    name: str = Field(validation_alias="VariantName")
    desired_instances: int | None = Field(default=None, validation_alias="DesiredInstanceCount")
    current_instances: int | None = Field(default=None, validation_alias="CurrentInstanceCount")
    managed_instances: Annotated[tuple[int, int] | None, BeforeValidator(_managed_range)] = Field(
        default=None, validation_alias="ManagedInstanceScaling"
    )
    scaling: ScalingRange | None = None


class Component(_Model):
    """An inference component's copies; an adapter shares its base component's copies."""

    name: str = Field(validation_alias="InferenceComponentName")
    variant: str | None = Field(default=None, validation_alias="VariantName")
    status: str = Field(default="Unknown", validation_alias="InferenceComponentStatus")
    last_modified: dt.datetime | None = Field(default=None, validation_alias="LastModifiedTime")
    desired_copies: int = Field(default=0, validation_alias=AliasPath("RuntimeConfig", "DesiredCopyCount"))
    current_copies: int = Field(default=0, validation_alias=AliasPath("RuntimeConfig", "CurrentCopyCount"))
    failure_reason: str | None = Field(default=None, validation_alias="FailureReason")
    model: str | None = Field(default=None, validation_alias=AliasPath("Specification", "ModelName"))
    is_adapter: Annotated[bool, BeforeValidator(bool)] = Field(
        default=False, validation_alias=AliasPath("Specification", "BaseInferenceComponentName")
    )
    scaling: ScalingRange | None = None

    @property
    def waits_for_capacity(self) -> bool:
        """Whether it has fewer copies than desired, and no update of it runs that starts them."""
        return not self.is_adapter and self.status == "InService" and self.current_copies < self.desired_copies


class Endpoint(_Model):
    """The description of an endpoint."""

    name: str = Field(validation_alias="EndpointName")
    arn: str = Field(validation_alias="EndpointArn")
    status: str = Field(validation_alias="EndpointStatus")
    config_name: str | None = Field(default=None, validation_alias="EndpointConfigName")
    last_modified: dt.datetime | None = Field(default=None, validation_alias="LastModifiedTime")
    failure_reason: str | None = Field(default=None, validation_alias="FailureReason")
    variants: tuple[Variant, ...]
    components: tuple[Component, ...]

    @property
    def own_components(self) -> list[Component]:
        """The components with copies of their own: all but adapters."""
        return [component for component in self.components if not component.is_adapter]

    @computed_field
    @property
    def stopped(self) -> bool:
        """Whether it has no copies, and scaling adds none."""
        return bool(self.own_components) and all(
            c.desired_copies == 0 and (c.scaling is None or c.scaling.suspended or c.scaling.max_capacity == 0)
            for c in self.own_components
        )

    @property
    def waiting(self) -> list[Variant | Component]:
        """The variants and components with fewer instances or copies than desired, while no update of them runs."""
        is_settled = self.status == "InService"
        variants = [v for v in self.variants if is_settled and (v.current_instances or 0) < (v.desired_instances or 0)]
        return [*variants, *(component for component in self.own_components if component.waits_for_capacity)]

    @property
    def scaled(self) -> list[tuple[Variant | Component, str]]:
        """Its variants and components, each with what Application Auto Scaling calls it."""
        variants = [(variant, f"endpoint/{self.name}/variant/{variant.name}") for variant in self.variants]
        return [*variants, *((each, f"inference-component/{each.name}") for each in self.own_components)]

    @property
    def keeps_instances(self) -> bool:
        """Whether instances keep running without copies."""
        return any(v.managed_instances is None or v.managed_instances[0] > 0 for v in self.variants)


class EndpointCapacity:
    """The capacity of endpoints in the clients' account and Region."""

    def __init__(
        self,
        sagemaker: Any,
        autoscaling: Any,
        *,
        poll_seconds: float = 2.0,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Store the clients; ``on_wait`` is called with the name of a component before waiting for its update."""
        self._sagemaker, self._autoscaling = sagemaker, autoscaling
        self._poll_seconds, self._on_wait = poll_seconds, on_wait

    def describe(self, name: str) -> Endpoint | None:
        """Describe an endpoint; None if it does not exist."""
        try:
            described = self._sagemaker.describe_endpoint(EndpointName=name)
        except ClientError as error:
            if "could not find" not in message_of(error).lower():
                raise
            return None
        variants = {
            f"endpoint/{name}/variant/{variant['VariantName']}": variant
            for variant in described.get("ProductionVariants", [])
        }
        pages = self._sagemaker.get_paginator("list_inference_components").paginate(EndpointNameEquals=name)
        names = sorted(item["InferenceComponentName"] for page in pages for item in page["InferenceComponents"])
        components = {f"inference-component/{component}": self._component(component) for component in names}
        return Endpoint.model_validate(
            {
                **described,
                "variants": self._with_ranges(INSTANCES, variants),
                "components": self._with_ranges(COPIES, components),
            }
        )

    def stop(self, endpoint: Endpoint, *, tell: Callable[[str], None] = lambda _: None) -> None:
        """Suspend scaling and set the copies of an endpoint's components to zero; may be repeated.

        If that fails or is interrupted, scaling becomes what it was before, which ``tell`` is called with.
        An endpoint without components is an error.
        """
        own = self._own(endpoint, "stop")
        before = dict[str, ScalingRange]()
        removed = dict[str, None]()
        try:
            self._stop(endpoint.name, own, before, removed, tell)
        except BaseException:  # An interruption by Ctrl-C as well.
            self._undo(before, tell)
            if removed:
                tell(
                    f"Copies of {', '.join(removed)} may be gone: `constructs-optim endpoint show {endpoint.name}` "
                    f"shows them, and `constructs-optim endpoint start {endpoint.name}` brings them back."
                )
            raise

    def _stop(
        self,
        name: str,
        own: Sequence[Component],
        before: dict[str, ScalingRange],
        removed: dict[str, None],
        tell: Callable[[str], None],
    ) -> None:
        """Stop components; add their scaling ``before``, and those whose copies are ``removed``."""
        for component in own:
            if component.scaling is not None:
                self._pause(component, component.scaling, before, tell)
        if before:
            # Soon after a target is registered, its capacity is set to its range, unless it is at zero. Wait for that
            # first.
            time.sleep(self._poll_seconds)
        running = [component.name for component in own if component.desired_copies != 0]
        for _ in range(_MOST_ATTEMPTS):
            if not running:
                return
            for component in running:
                self._set_copies(component, 0)
                removed[component] = None
            time.sleep(self._poll_seconds)
            running = [each for each in running if Component.model_validate(self._component(each)).desired_copies != 0]
        raise DeploymentError(
            f"{name} does not stay at zero copies, because something else sets the number. CloudTrail shows "
            "the caller of UpdateInferenceComponentRuntimeConfig."
        )

    def _pause(
        self,
        component: Component,
        scaling: ScalingRange,
        before: dict[str, ScalingRange],
        tell: Callable[[str], None],
    ) -> None:
        """Suspend a component's scaling, after recording in its tag and in ``before`` what is suspended already."""
        if not scaling.suspended:
            before[component.name] = scaling
            # A stopped component keeps the record of its stop, even if some of its scaling was resumed since.
            if component.desired_copies != 0 or self._remembered(scaling) is None:
                self._remember(component.name, scaling, tell)
            self._suspend(component.name, [*_SUSPENSIONS])
        elif component.desired_copies != 0:
            # With a tag, a stop suspended it and could not go on; without one, a person did.
            remembered = self._remembered(scaling)
            if remembered is None:
                self._remember(component.name, scaling, tell)
            else:
                scaling = scaling.model_copy(update={"suspensions": remembered})
            before[component.name] = scaling

    def _undo(self, before: Mapping[str, ScalingRange], tell: Callable[[str], None]) -> None:
        """Make scaling what it was ``before``, and tell so, or what remains suspended."""
        left, restored = dict(before), list[str]()
        try:
            for name, scaling in before.items():
                try:
                    self._suspend(name, scaling.suspensions)
                except (BotoCoreError, ClientError):
                    # If the request that suspends failed for the same reason, nothing has changed.
                    if not self._has(name, scaling.suspensions):
                        continue
                del left[name]
                restored.append(name)
                self._forget(scaling)
        finally:
            # Also if the user does not wait for this either.
            if restored:
                tell(f"Scaling of {', '.join(restored)} is as before the command.")
            for name, scaling in left.items():
                stopped = [suspension for suspension in _SUSPENSIONS if suspension not in scaling.suspensions]
                tell(
                    f"Scaling of {name} could not be resumed and stays suspended ({', '.join(stopped)}). Resume it "
                    f"with `{_command(name, scaling.suspensions)}`."
                )

    def start(
        self, endpoint: Endpoint, *, copies: int | None = None, tell: Callable[[str], None] = lambda _: None
    ) -> dict[str, int]:
        """Set the copies of an endpoint's components and resume the scaling that the stop suspended.

        Copies that SageMaker has not started for lack of capacity are requested again.

        Returns the copies by component name. The default is the minimum of a component's scaling range, and at least
        1. ``tell`` is called with what else happens to suspensions. You can call this again.

        Raises:
            DeploymentError: if the number of copies is outside the range.
        """
        own = self._own(endpoint, "start")
        requested = {component.name: _copies_to_start(component, copies) for component in own}
        suspended = {c.name: c.scaling for c in own if c.scaling is not None and c.scaling.suspensions}
        remembered = {name: self._remembered(scaling) for name, scaling in suspended.items()}
        left = dict(suspended)
        try:
            for component in own:
                scaling, (count, limits) = component.scaling, requested[component.name]
                if component.waits_for_capacity and component.desired_copies >= count:
                    # SageMaker acts on a change of the number. Running copies stay.
                    self._set_copies(component.name, component.current_copies)
                    self._set_copies(component.name, component.desired_copies)
                elif component.desired_copies < count:
                    self._set_copies(component.name, count)
                if scaling is not None:
                    self._resume(component, scaling, remembered.get(component.name), limits, tell)
                left.pop(component.name, None)
        except BaseException:  # An interruption by Ctrl-C as well.
            if left:
                tell(
                    f"Scaling of {', '.join(left)} may still be suspended: `constructs-optim endpoint start "
                    f"{endpoint.name}` continues."
                )
            raise
        return {name: count for name, (count, _) in requested.items()}

    def _resume(
        self,
        component: Component,
        scaling: ScalingRange,
        before: tuple[str, ...] | None,
        limits: Mapping[str, int],
        tell: Callable[[str], None],
    ) -> None:
        """Resume what the stop suspended; ``before`` is what a person had suspended, None if no stop recorded it."""
        # What runs was not stopped, or has been started, as by an earlier call.
        is_stopped = scaling.suspended and component.desired_copies == 0
        kept = before if before is not None else () if is_stopped else scaling.suspensions
        if limits or kept != scaling.suspensions:
            self._suspend(component.name, kept, **limits)
        if before is not None:
            self._forget(scaling)
        if kept and before is not None:
            tell(f"Scaling of {component.name} that was suspended before the stop stays suspended: {', '.join(kept)}.")
        elif kept:
            tell(
                f"Scaling of {component.name} stays suspended ({', '.join(kept)}), because no stop recorded that it "
                f"suspended it. Resume it with `{_command(component.name, ())}`."
            )
        elif is_stopped and before is None:
            tell(f"All scaling of {component.name} resumes: no stop recorded what was suspended before it.")

    def _own(self, endpoint: Endpoint, verb: str) -> Sequence[Component]:
        if own := endpoint.own_components:
            return own
        raise DeploymentError(
            f"{endpoint.name} has no inference component to {verb}: a variant serves its model, and SageMaker keeps at "
            "least one instance of it. Serve the model from an inference component, or delete the stack: the artifact "
            "stays in its store, and the next deployment runs no job."
        )

    def _component(self, name: str) -> Mapping[str, Any]:
        return self._sagemaker.describe_inference_component(InferenceComponentName=name)

    def _set_copies(self, component: str, copies: int) -> None:
        """Set the number of copies, after waiting for an update in progress."""
        deadline, is_waiting = time.monotonic() + _PATIENCE_SECONDS, False
        while True:
            try:
                self._sagemaker.update_inference_component_runtime_config(
                    InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": copies}
                )
                return
            except ClientError as error:
                if "while it is in state" not in message_of(error) or time.monotonic() > deadline:
                    raise
            if not is_waiting:
                is_waiting = True
                self._on_wait(component)
            time.sleep(self._poll_seconds)

    def _suspend(self, component: str, suspensions: Sequence[str], **limits: int) -> None:
        """Suspend this scaling of a component, and resume the rest."""
        self._autoscaling.register_scalable_target(
            **_target(component),
            SuspendedState={name: name in suspensions for name in _SUSPENSIONS},
            **limits,
        )

    def _has(self, component: str, suspensions: Sequence[str]) -> bool:
        """Return whether a component's scaling is known to have these suspensions."""
        try:
            [described] = self._with_ranges(COPIES, {f"inference-component/{component}": {}})
        except (BotoCoreError, ClientError):
            return False
        scaling: ScalingRange | None = described["scaling"]
        return scaling is not None and scaling.suspensions == suspensions

    def _remember(self, component: str, scaling: ScalingRange, tell: Callable[[str], None]) -> None:
        if scaling.arn is None:
            return
        value = " ".join(scaling.suspensions) or _NOTHING
        try:
            self._autoscaling.tag_resource(ResourceARN=scaling.arn, Tags={SUSPENDED_BEFORE: value})
        except ClientError as error:
            # Whoever must stop an endpoint now can do without the record.
            tell(
                f"What was suspended of {component} before the stop is not recorded ({message_of(error)}): the start "
                "resumes all of its scaling."
            )

    def _remembered(self, scaling: ScalingRange) -> tuple[str, ...] | None:
        """Return what was suspended before the stop; None if no stop recorded it, or its record may not be read."""
        if scaling.arn is None:
            return None
        try:
            tags: Mapping[str, str] = self._autoscaling.list_tags_for_resource(ResourceARN=scaling.arn)["Tags"]
        except ClientError:
            return None
        value = tags.get(SUSPENDED_BEFORE)
        return None if value is None else tuple(name for name in _SUSPENSIONS if name in value.split())

    def _forget(self, scaling: ScalingRange) -> None:
        # The next stop of a running component overwrites a tag that remains.
        with suppress(BotoCoreError, ClientError):
            if scaling.arn is not None:
                self._autoscaling.untag_resource(ResourceARN=scaling.arn, TagKeys=[SUSPENDED_BEFORE])

    def _with_ranges(self, dimension: str, described: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the descriptions, by resource ID, with their scaling ranges."""
        ids, ranges = [*described], dict[str, ScalingRange]()
        for start in range(0, len(ids), _MOST_RESOURCES):
            pages = self._autoscaling.get_paginator("describe_scalable_targets").paginate(
                ServiceNamespace=_NAMESPACE,
                ResourceIds=ids[start : start + _MOST_RESOURCES],
                ScalableDimension=dimension,
            )
            for target in (target for page in pages for target in page["ScalableTargets"]):
                ranges[target["ResourceId"]] = self._range(dimension, target)
        return [{**part, "scaling": ranges.get(resource_id)} for resource_id, part in described.items()]

    def _range(self, dimension: str, target: Mapping[str, Any]) -> ScalingRange:
        pages = self._autoscaling.get_paginator("describe_scheduled_actions").paginate(
            ServiceNamespace=_NAMESPACE, ResourceId=target["ResourceId"], ScalableDimension=dimension
        )
        schedules = [Schedule.model_validate(action) for page in pages for action in page["ScheduledActions"]]
        suspensions = suspensions_of(target)
        return ScalingRange(
            min_capacity=target["MinCapacity"],
            max_capacity=target["MaxCapacity"],
            suspended=len(suspensions) == MOST_SUSPENSIONS,
            schedules=tuple(sorted(schedules, key=lambda schedule: schedule.name)),
            arn=target.get("ScalableTargetARN"),
            suspensions=suspensions,
        )


def _target(component: str) -> dict[str, str]:
    return {
        "ServiceNamespace": _NAMESPACE,
        "ResourceId": f"inference-component/{component}",
        "ScalableDimension": COPIES,
    }


def _command(component: str, suspensions: Sequence[str]) -> str:
    """Return the AWS CLI's command that leaves only these suspensions."""
    return suspending_command(_target(component), suspensions)


def suspensions_of(target: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is suspended of a scalable target, as DescribeScalableTargets has it."""
    state: Mapping[str, bool] = target.get("SuspendedState") or {}
    return tuple(name for name in _SUSPENSIONS if state.get(name, False))


def suspended_text(suspensions: Sequence[str]) -> str:
    """Return what is suspended in words, such as ``scaling in and schedules``; empty if nothing is."""
    words = [_SUSPENSIONS[name] for name in suspensions]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def suspending_command(target: Mapping[str, str], suspensions: Sequence[str]) -> str:
    """Return the AWS CLI's command that leaves only these suspensions of a target.

    Args:
        target: ServiceNamespace, ResourceId and ScalableDimension.
        suspensions: the names of what stays suspended.
    """
    state = ",".join(f"{name}={str(name in suspensions).lower()}" for name in _SUSPENSIONS)
    return (
        f"aws application-autoscaling register-scalable-target --service-namespace {target['ServiceNamespace']} "
        f"--resource-id {target['ResourceId']} --scalable-dimension {target['ScalableDimension']} "
        f"--suspended-state {state}"
    )


def _copies_to_start(component: Component, requested: int | None) -> tuple[int, dict[str, int]]:
    """Return how many copies to start, and the scaling range to restore if a schedule set it to zero."""
    scaling = component.scaling
    if scaling is None:
        return max(1, requested or 0), {}
    least, most, limits = scaling.min_capacity, scaling.max_capacity, dict[str, int]()
    if most == 0:
        # A schedule stopped it: restore the range of the schedule that starts it.
        starting = max(scaling.schedules, key=lambda schedule: schedule.max_capacity or 0, default=None)
        if starting is None or not starting.max_capacity:
            raise DeploymentError(
                f"{component.name} cannot have copies: its scaling range is 0 to 0, and no scheduled action sets "
                "another. Set one with `aws application-autoscaling register-scalable-target`, or deploy the stack."
            )
        least, most = starting.min_capacity or 0, starting.max_capacity
        limits = {"MinCapacity": least, "MaxCapacity": most}
    count = max(1, least) if requested is None else requested
    if not max(1, least) <= count <= most:
        raise DeploymentError(
            f"{component.name} cannot start with {count} copies: its scaling range is {least} to {most}, so "
            "scaling would change the number immediately."
        )
    return count, limits
