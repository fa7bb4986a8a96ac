"""Everything about an endpoint that somebody on call needs at first, and what of it is wrong.

An endpoint without a stack, or one whose stack the credentials may not read, is described as far as it can be seen.
Sources: API references of SageMaker (DescribeEndpoint, DescribeInferenceComponent), Application Auto Scaling
(DescribeScalingActivities) and CloudWatch (DescribeAlarms); SageMaker developer guide, "CloudWatch Logs for Amazon
SageMaker AI" (names of log groups).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from constructs_optim.runtime.errors import DENIED, DeploymentError, code_of, message_of
from constructs_optim.templates.resource_types import ALARM, COMPOSITE_ALARM, DASHBOARD, ENDPOINT
from constructs_optim.templates.template import Resource

from .capacity import (
    COPIES,
    INSTANCES,
    Component,
    Endpoint,
    EndpointCapacity,
    ScalingRange,
    Variant,
    suspended_text,
    suspending_command,
)
from .drift import StackDrift, drift_of
from .stacks import DeployedStack, DeployedTemplates

_NAMESPACE = "sagemaker"
_FAILED = ("Failed", "OutOfService", "UpdateRollbackFailed")
_CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
# A policy that an alarm runs.
_SCALING = ":scalingPolicy:"
# Statuses of a scaling activity that did not reach its capacity.
_FAILED_ACTIVITIES = ("Failed", "Unfulfilled")
# Scaling failures are looked at the next morning. Those that matter longer leave too few instances or copies.
_DAY = dt.timedelta(days=1)
# New instances and copies take minutes to start, also those that a request wakes from zero.
_STARTING = dt.timedelta(minutes=15)


class _Model(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, validate_by_name=True)


class EndpointAlarm(_Model):
    """An alarm of the endpoint; its description says what it means and what to do first."""

    name: str = Field(validation_alias="AlarmName")
    state: str = Field(validation_alias="StateValue")
    since: dt.datetime | None = Field(
        default=None, validation_alias=AliasChoices("StateTransitionedTimestamp", "StateUpdatedTimestamp")
    )
    description: str = Field(default="", validation_alias="AlarmDescription")
    actions_enabled: bool = Field(default=True, validation_alias="ActionsEnabled")


class ScalingActivity(_Model):
    """The last change of a capacity by Application Auto Scaling."""

    status: str = Field(validation_alias="StatusCode")
    description: str = Field(default="", validation_alias="Description")
    message: str = Field(default="", validation_alias="StatusMessage")
    started: dt.datetime = Field(validation_alias="StartTime")


class ScalingState(_Model):
    """The policies of a variant or component, and the last scaling activity; None without one."""

    policies: tuple[str, ...]
    last_activity: ScalingActivity | None


class Problem(_Model):
    """Something that is wrong with an endpoint, and the next step; empty if the text says it."""

    text: str
    remedy: str = ""


class Diagnosis(_Model):
    """The state of an endpoint.

    Attributes:
        endpoint: its capacity.
        stack: the name of the stack that declares it; None if there is none, or it is not known.
        stack_status: that stack's status.
        models: the names of the models that it serves.
        scaling: by resource ID of Application Auto Scaling.
        alarms: its alarms, without those that only run scaling policies.
        log_groups: the log groups of its containers.
        dashboards: links to its dashboards.
        drift: what its stack declares and the account lacks, or has otherwise.
        problems: what is wrong.
        not_seen: what could not be looked up, and why.
    """

    endpoint: Endpoint
    stack: str | None = None
    stack_status: str | None = None
    models: tuple[str, ...] = ()
    scaling: Mapping[str, ScalingState] = Field(default_factory=dict[str, ScalingState])
    alarms: tuple[EndpointAlarm, ...] = ()
    log_groups: tuple[str, ...] = ()
    dashboards: tuple[str, ...] = ()
    drift: StackDrift = StackDrift()
    problems: tuple[Problem, ...] = ()
    not_seen: tuple[str, ...] = ()


class EndpointDiagnosis:
    """Diagnoses endpoints of an account and Region."""

    def __init__(self, create_client: Callable[[str], Any], *, now: Callable[[], dt.datetime]) -> None:
        """Store the function that creates the client of a service, and the clock."""
        self._client, self._now = cache(create_client), now
        self._not_seen: dict[str, None] = {}

    def diagnose(self, name: str) -> Diagnosis | None:
        """Diagnose an endpoint; None if it does not exist.

        Raises:
            ClientError: if the endpoint itself cannot be described.
        """
        capacity = EndpointCapacity(self._client("sagemaker"), self._client("application-autoscaling"))
        endpoint = capacity.describe(name)
        if endpoint is None:
            return None
        stack: DeployedStack | None = None
        with self._unless_denied("its stack was not found"):
            stack = DeployedTemplates(lambda _: self._client("cloudformation")).stack_of(endpoint.arn, None)
        found = Diagnosis(
            endpoint=endpoint,
            stack=stack.name if stack is not None else None,
            stack_status=stack.status if stack is not None else None,
            models=tuple(self._models(endpoint)),
            scaling=self._scaling(endpoint),
            alarms=tuple(self._alarms(endpoint, stack)),
            log_groups=tuple(_log_groups(endpoint)),
            dashboards=tuple(_dashboards(stack, endpoint)) if stack is not None else (),
            drift=self._drift(endpoint, stack) if stack is not None else StackDrift(),
        )
        seen = (*self._not_seen, *found.drift.not_seen)
        return found.model_copy(update={"problems": tuple(problems(found, self._now())), "not_seen": seen})

    @contextmanager
    def _unless_denied(self, what: str) -> Iterator[None]:
        """Note what a block does not find out because AWS refuses a call."""
        try:
            yield
        except ClientError as error:
            why = "is denied" if code_of(error) in DENIED else f"failed: {message_of(error)}"
            self._not_seen[f"{what}: {error.operation_name} {why}"] = None
        except (BotoCoreError, DeploymentError) as error:
            # For example, the template of a stack that the CDK did not deploy is YAML.
            self._not_seen[f"{what}: {error}"] = None

    def _models(self, endpoint: Endpoint) -> Iterator[str]:
        sagemaker = self._client("sagemaker")
        with self._unless_denied("the models were not looked up"):
            if endpoint.config_name is not None:
                config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint.config_name)
                yield from (each["ModelName"] for each in config["ProductionVariants"] if "ModelName" in each)
        yield from (component.model for component in endpoint.components if component.model is not None)

    def _scaling(self, endpoint: Endpoint) -> dict[str, ScalingState]:
        scaling, found = self._client("application-autoscaling"), dict[str, ScalingState]()
        with self._unless_denied("policies and scaling activities were not looked up"):
            for _, resource_id in endpoint.scaled:
                of = {"ServiceNamespace": _NAMESPACE, "ResourceId": resource_id}
                pages = scaling.get_paginator("describe_scaling_policies").paginate(**of)
                policies = sorted(policy["PolicyName"] for page in pages for policy in page["ScalingPolicies"])
                # The newest is the first.
                activities = scaling.describe_scaling_activities(**of, MaxResults=1)["ScalingActivities"]
                last = ScalingActivity.model_validate(activities[0]) if activities else None
                found[resource_id] = ScalingState(policies=tuple(policies), last_activity=last)
        return found

    def _alarms(self, endpoint: Endpoint, stack: DeployedStack | None) -> Iterator[EndpointAlarm]:
        """Yield the alarms that the stack declares for the endpoint, and others on its metrics."""
        names = {name.lower() for name in (endpoint.name, *(each.name for each in endpoint.components))}
        own = set[str]()
        if stack is not None:
            own = {
                stack.physical_ids.get(resource.logical_id, "")
                for resource in stack.template.of_type(ALARM, COMPOSITE_ALARM)
                if _concerns(resource, stack, endpoint)
            }
        with self._unless_denied("the alarms were not looked up"):
            pages = self._client("cloudwatch").get_paginator("describe_alarms")
            for page in pages.paginate(AlarmTypes=["MetricAlarm", "CompositeAlarm"]):
                for alarm in (*page.get("MetricAlarms", []), *page.get("CompositeAlarms", [])):
                    is_own = alarm["AlarmName"] in own or not names.isdisjoint(_dimensions(alarm))
                    actions = alarm.get("AlarmActions", [])
                    if is_own and not (actions and all(_SCALING in action for action in actions)):
                        yield EndpointAlarm.model_validate(alarm)

    def _drift(self, endpoint: Endpoint, stack: DeployedStack) -> StackDrift:
        if stack.status.endswith("_IN_PROGRESS"):
            self._not_seen[f"the stack is {stack.status}, so what it declares was not compared with the account"] = None
            return StackDrift()
        return drift_of(stack, self._client, concerns=lambda resource: _concerns(resource, stack, endpoint))


def _dimensions(alarm: Mapping[str, Any]) -> set[str]:
    """Return the values of the dimensions of an alarm's metrics, in lower case."""
    metrics = [alarm, *(query.get("MetricStat", {}).get("Metric", {}) for query in alarm.get("Metrics", []))]
    return {each["Value"].lower() for metric in metrics for each in metric.get("Dimensions", [])}


def _concerns(resource: Resource, stack: DeployedStack, endpoint: Endpoint) -> bool:
    """Return whether a resource of the stack is not another endpoint's, by its construct path."""
    owners = [each for each in stack.template.of_type(ENDPOINT) if f"{resource.label}/".startswith(f"{each.label}/")]
    owner = max(owners, key=lambda each: len(each.label), default=None)
    return owner is None or stack.physical_ids.get(owner.logical_id, "").lower() == endpoint.arn.lower()


def _log_groups(endpoint: Endpoint) -> Iterator[str]:
    if endpoint.components:
        yield from (f"/aws/sagemaker/InferenceComponents/{component.name}" for component in endpoint.components)
    else:
        yield f"/aws/sagemaker/Endpoints/{endpoint.name}"


def _dashboards(stack: DeployedStack, endpoint: Endpoint) -> Iterator[str]:
    console = _CONSOLES.get(endpoint.arn.split(":")[1], "console.aws.amazon.com")
    for dashboard in stack.template.of_type(DASHBOARD):
        name = stack.physical_ids.get(dashboard.logical_id)
        if name and _concerns(dashboard, stack, endpoint):
            region = stack.region
            yield f"https://{region}.{console}/cloudwatch/home?region={region}#dashboards/dashboard/{name}"


def problems(found: Diagnosis, now: dt.datetime) -> Iterator[Problem]:
    """Yield what is wrong with an endpoint, the most urgent first."""
    endpoint = found.endpoint
    if endpoint.status in _FAILED:
        reason = f": {endpoint.failure_reason}" if endpoint.failure_reason else ""
        yield Problem(text=f"the endpoint is {endpoint.status}{reason}")
    waiting = endpoint.waiting
    for part in waiting:
        if isinstance(part, Variant) and _is_short(found, part, now):
            have = f"{part.current_instances or 0} of {part.desired_instances} instances"
            yield Problem(text=f"{part.name} has {have}, and waits for capacity")
    for component in endpoint.components:
        reason = f": {component.failure_reason}" if component.failure_reason else ""
        if component.status == "Failed":
            yield Problem(text=f"{component.name} failed{reason}")
        elif component in waiting and (reason or _is_short(found, component, now)):
            have = f"{component.current_copies} of {component.desired_copies}"
            since = waiting_minutes(component, now)
            yield Problem(
                text=f"{component.name} has {have} copies and waits for capacity{since}{reason}",
                remedy=f"if capacity is back and it does not start, `constructs-optim endpoint start {endpoint.name}` "
                "requests its copies again",
            )
    if found.stack_status is not None and found.stack_status.endswith("_FAILED"):
        yield Problem(
            text=f"the stack {found.stack} is {found.stack_status}",
            remedy="https://constructs-optim.dev/reliability/#a-rollback-that-failed"
            if "UPDATE_ROLLBACK" in found.stack_status
            else "see its events",
        )
    for alarm in found.alarms:
        if alarm.state == "ALARM":
            yield Problem(text=f"{alarm.name} is in ALARM: {alarm.description}".rstrip(": "))
    is_changing = (found.stack_status or "").endswith("_IN_PROGRESS")
    for part, resource_id in endpoint.scaled:
        state = found.scaling.get(resource_id)
        last = state.last_activity if state is not None else None
        if last is not None and last.status in _FAILED_ACTIVITIES and (part in waiting or now - last.started < _DAY):
            what = "failed" if last.status == "Failed" else "did not reach its capacity"
            why = last.message or last.description
            yield Problem(text=f"the last scaling of {resource_id} {what} at {last.started:%Y-%m-%d %H:%M} UTC: {why}")
        # A deployment replaces policies, and drift tells what a stack's targets lack.
        if part.scaling is not None and not is_changing and resource_id not in found.drift.targets:
            yield from _problems_of_scaling(endpoint, part, part.scaling, resource_id, state)
    for drift in found.drift.resources:
        yield Problem(text=f"{drift.name} {drift.text}", remedy=drift.remedy)


def _problems_of_scaling(
    endpoint: Endpoint, part: Variant | Component, scaling: ScalingRange, resource_id: str, state: ScalingState | None
) -> Iterator[Problem]:
    if scaling.suspensions and not endpoint.stopped:
        dimension = COPIES if isinstance(part, Component) else INSTANCES
        key = {"ServiceNamespace": _NAMESPACE, "ResourceId": resource_id, "ScalableDimension": dimension}
        verb = "is" if len(scaling.suspensions) == 1 else "are"
        yield Problem(
            text=f"{suspended_text(scaling.suspensions)} of {resource_id} {verb} suspended",
            remedy=f"`{suspending_command(key, ())}`",
        )
    has_range = scaling.min_capacity < scaling.max_capacity
    if state is not None and has_range and not state.policies and not scaling.schedules:
        yield Problem(
            text=f"nothing scales {resource_id}: its target has no policy and no schedule",
            remedy="deploy a policy, such as on_concurrency(target=8)",
        )


def _is_short(found: Diagnosis, part: Variant | Component, now: dt.datetime) -> bool:
    """Return whether a variant or component lacks capacity for longer than a start takes, or has none at all.

    What may be at zero takes its time to wake up. SageMaker starts managed instances without a change of the endpoint.
    """
    current = part.current_copies if isinstance(part, Component) else part.current_instances
    managed = None if isinstance(part, Component) else part.managed_instances
    least = managed[0] if managed is not None else part.scaling.min_capacity if part.scaling is not None else 1
    if not current and least > 0:
        return True
    if current and managed is not None:
        return False
    changed = _last_change(found, part)
    return changed is None or now - changed >= _STARTING


def _last_change(found: Diagnosis, part: Variant | Component) -> dt.datetime | None:
    """Return when an update or scaling last changed a variant's or component's capacity; None if it is not known."""
    changed = part.last_modified if isinstance(part, Component) else found.endpoint.last_modified
    states = [found.scaling.get(resource_id) for each, resource_id in found.endpoint.scaled if each is part]
    activities = [state.last_activity for state in states if state is not None]
    moments = [changed, *(activity.started for activity in activities if activity is not None)]
    return max(filter(None, moments), default=None)


def waiting_minutes(component: Component, now: dt.datetime) -> str:
    """Return since when a component has waited, such as `` (12 min)``; empty if it is not known."""
    if component.last_modified is None:
        return ""
    return f" ({max(0, round((now - component.last_modified).total_seconds() / 60))} min)"
