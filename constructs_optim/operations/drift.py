"""What a deployed stack declares and the account lacks, or has otherwise: changes that somebody made by hand.

A deployment without changes does not look at the account, and one with changes fails at a resource that is gone:
"CloudFormation requires that update actions to a non-existing resource always throw a ResourceNotFoundException"
(CloudFormation CLI user guide, "Resource type handler contract"). A drift-aware change set (``cdk deploy
--revert-drift``) creates again what was deleted: AWS DevOps blog, "Safely Handle Configuration Drift with
CloudFormation Drift-Aware Change Sets". It covers types whose schema has a ``read`` handler: not ``AWS::IAM::Policy``,
nor ``Custom::`` types.

This module only makes calls that read, each for itself: drift detection of a stack takes minutes, and sees neither
those types nor the alarms that Application Auto Scaling makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict

from constructs_optim.runtime.errors import DENIED, code_of, message_of
from constructs_optim.runtime.store.json_records import in_threads
from constructs_optim.templates.json_values import as_array, as_object, number
from constructs_optim.templates.resolution import KnownLater, Resolver
from constructs_optim.templates.resource_types import (
    ALARM,
    COMPOSITE_ALARM,
    DASHBOARD,
    ENDPOINT,
    ENDPOINT_CONFIGS,
    INFERENCE_COMPONENTS,
    MODELS,
    SCALABLE_TARGET,
    SCALING_POLICY,
)
from constructs_optim.templates.template import Resource

from .capacity import MOST_SUSPENSIONS, suspended_text, suspending_command, suspensions_of
from .deployed_values import resolver_of
from .role_policies import INLINE_POLICY, ROLE, RolePolicies
from .stacks import DeployedStack

_SCHEDULE = "AWS::Scheduler::Schedule"
# The most resource IDs of DescribeScalableTargets, and names of DescribeAlarms, in a request.
_MOST_TARGETS, _MOST_ALARMS = 50, 100
_NOT_FOUND = ("404", "NoSuchEntity", "ResourceNotFound", "ResourceNotFoundException", "StateMachineDoesNotExist")


class ResourceDrift(BaseModel):
    """A resource of a deployed stack that is gone, or is otherwise than declared."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    name: str
    logical_id: str
    type: str
    is_missing: bool
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name} {self.text}. Next: {self.remedy}"


class StackDrift(BaseModel):
    """The drift of a stack's resources.

    ``not_seen`` tells what could not be looked up, and why. ``targets`` are the resource IDs whose scaling was
    compared.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    resources: tuple[ResourceDrift, ...] = ()
    not_seen: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Look:
    """The call that describes one resource: service, operation, and the member that takes its name."""

    service: str
    operation: str
    member: str
    # Whether the physical ID is an ARN that ends in the name.
    by_arn: bool = False


_LOOKS: Mapping[str, _Look] = {
    **dict.fromkeys(MODELS, _Look("sagemaker", "describe_model", "ModelName", by_arn=True)),
    **dict.fromkeys(
        ENDPOINT_CONFIGS, _Look("sagemaker", "describe_endpoint_config", "EndpointConfigName", by_arn=True)
    ),
    **dict.fromkeys(
        INFERENCE_COMPONENTS,
        _Look("sagemaker", "describe_inference_component", "InferenceComponentName", by_arn=True),
    ),
    ENDPOINT: _Look("sagemaker", "describe_endpoint", "EndpointName", by_arn=True),
    DASHBOARD: _Look("cloudwatch", "get_dashboard", "DashboardName"),
    ROLE: _Look("iam", "get_role", "RoleName"),
    "AWS::IAM::ManagedPolicy": _Look("iam", "get_policy", "PolicyArn"),
    "AWS::Lambda::Function": _Look("lambda", "get_function_configuration", "FunctionName"),
    "AWS::S3::Bucket": _Look("s3", "head_bucket", "Bucket"),
    _SCHEDULE: _Look("scheduler", "get_schedule", "Name"),
    "AWS::StepFunctions::StateMachine": _Look("stepfunctions", "describe_state_machine", "stateMachineArn"),
}
_SERVICES = {
    SCALABLE_TARGET: "application-autoscaling", SCALING_POLICY: "application-autoscaling", ALARM: "cloudwatch",
    COMPOSITE_ALARM: "cloudwatch", INLINE_POLICY: "iam", **{name: look.service for name, look in _LOOKS.items()},
}  # fmt: skip
# What decides when a metric alarm goes into ALARM, and a composite one.
_OF_ALARMS = (
    "AlarmRule", "ComparisonOperator", "DatapointsToAlarm", "EvaluationPeriods", "ExtendedStatistic", "MetricName",
    "Namespace", "Period", "Statistic", "Threshold", "TreatMissingData",
)  # fmt: skip
_Lookup = Callable[[], Iterable[ResourceDrift]]


def drift_of(
    stack: DeployedStack,
    create_client: Callable[[str], Any],
    *,
    exported: Callable[[str], str | None] = lambda name: None,
    concerns: Callable[[Resource], bool] = lambda resource: True,
) -> StackDrift:
    """Compare a stack's resources with the account.

    Args:
        stack: the deployed stack.
        create_client: creates the client for a service by botocore's name, in the stack's Region.
        exported: returns the value of another stack's export. Default: no export is known.
        concerns: whether a resource is compared. Default: all are.
    """
    resources = [
        resource
        for name, resource in stack.template.resources.items()
        if stack.physical_ids.get(name) and resource.type in _SERVICES and concerns(resource)
    ]
    client = cache(create_client)
    for resource in resources:
        # Clients are created sequentially: boto3's session is not thread-safe.
        client(_SERVICES[resource.type])
        if resource.type == SCALABLE_TARGET:
            # It says which components are stopped.
            client("sagemaker")
    return _Comparison(stack, resources, client, exported).drift()


class _Comparison:
    """The comparison of some resources of a stack."""

    def __init__(
        self,
        stack: DeployedStack,
        resources: Sequence[Resource],
        client: Callable[[str], Any],
        exported: Callable[[str], str | None],
    ) -> None:
        self._stack, self._resources, self._client = stack, resources, client
        self._resolver: Resolver = resolver_of(
            stack.template,
            stack_name=stack.name,
            account=stack.account,
            region=stack.region,
            physical_id=stack.physical_ids.get,
            exported=exported,
            parameters=stack.parameters,
        )
        self._not_seen: dict[str, None] = {}

    def drift(self) -> StackDrift:
        found = list(itertools.chain.from_iterable(in_threads(self._looked_up, self._lookups())))
        order = {name: position for position, name in enumerate(self._stack.template.resources)}
        targets = [self._id(each).split("|")[0] for each in self._resources if each.type == SCALABLE_TARGET]
        return StackDrift(
            resources=tuple(sorted(found, key=lambda drift: order[drift.logical_id])),
            not_seen=tuple(self._not_seen),
            targets=tuple(targets),
        )

    def _looked_up(self, lookup: _Lookup) -> list[ResourceDrift]:
        found: list[ResourceDrift] = []
        try:
            # What was found before a call that fails counts.
            for drift in lookup():
                found.append(drift)  # noqa: PERF402
        except ClientError as error:
            why = "is denied" if code_of(error) in DENIED else f"failed: {message_of(error)}"
            self._not_seen[f"{error.operation_name} {why}"] = None
        except BotoCoreError as error:
            self._not_seen[str(error)] = None
        return found

    def _lookups(self) -> Iterator[_Lookup]:
        by_type: dict[str, list[Resource]] = {}
        for resource in self._resources:
            by_type.setdefault(resource.type, []).append(resource)
        yield lambda: self._targets(by_type.get(SCALABLE_TARGET, []))
        yield lambda: self._policies(by_type.get(SCALING_POLICY, []))
        yield lambda: self._alarms([*by_type.get(ALARM, []), *by_type.get(COMPOSITE_ALARM, [])])
        policies = RolePolicies(self._stack, self._client, self._resolver)
        for resource in self._resources:
            if resource.type in _LOOKS:
                yield lambda resource=resource: self._one(resource, policies)
            elif resource.type == INLINE_POLICY:
                yield lambda resource=resource: self._inline(resource, policies)

    def _one(self, resource: Resource, policies: RolePolicies) -> Iterator[ResourceDrift]:
        """Look a resource up by its name, and compare it."""
        look = _LOOKS[resource.type]
        physical_id = self._id(resource)
        name = physical_id.rpartition("/")[2] if look.by_arn else physical_id
        try:
            # A schedule has its name in a group.
            group = self._resolver.value(resource.get("GroupName")) if resource.type == _SCHEDULE else None
        except KnownLater as later:
            self._not_seen[f"the schedule {name}, whose group is {later}"] = None
            return
        try:
            asked = {look.member: name, **({"GroupName": group} if group is not None else {})}
            described: Mapping[str, Any] = getattr(self._client(look.service), look.operation)(**asked)
        except ClientError as error:
            if code_of(error) not in _NOT_FOUND and "could not find" not in message_of(error).lower():
                raise
            yield _missing(resource, f"({name}) does not exist")
            return
        if resource.type == ENDPOINT:
            yield from self._configuration(resource, described)
        elif resource.type in INFERENCE_COMPONENTS:
            yield from self._served_model(resource, described)
        elif resource.type == ROLE:
            for loss in policies.of_role(resource):
                yield _changed(resource, loss)

    def _inline(self, resource: Resource, policies: RolePolicies) -> Iterator[ResourceDrift]:
        for loss in policies.of_policy(resource):
            # The type has no read handler, so that CloudFormation sees no drift of it.
            yield ResourceDrift(
                **_labels(resource),
                is_missing=loss.is_gone,
                text=loss.text,
                remedy=f"put it back with `{loss.command}`",
            )

    def _configuration(self, resource: Resource, described: Mapping[str, Any]) -> Iterator[ResourceDrift]:
        """Compare an endpoint's configuration with those of its stack.

        A restart, or the end of a shadow, moves it to another configuration of the stack.
        """
        serves: str = described["EndpointConfigName"]
        (declared,) = self._names(resource.get("EndpointConfigName"), *ENDPOINT_CONFIGS) or [None]
        own = {self._id(each).rpartition("/")[2].lower() for each in self._stack.template.of_type(*ENDPOINT_CONFIGS)}
        if declared is None or serves.lower() == declared.lower() or serves.lower() in own:
            return
        models = [self._models_of(name) for name in (serves, declared)]
        difference = f", and the model {models[0]} instead of {models[1]}" if models[0] != models[1] else ""
        yield _changed(resource, f"serves the configuration {serves} instead of {declared}{difference}")

    def _models_of(self, config_name: str) -> str:
        """Return the names of a configuration's models; empty if it has none, or is gone."""
        try:
            config = self._client("sagemaker").describe_endpoint_config(EndpointConfigName=config_name)
        except ClientError:
            return ""
        return ", ".join(variant["ModelName"] for variant in config["ProductionVariants"] if "ModelName" in variant)

    def _served_model(self, resource: Resource, described: Mapping[str, Any]) -> Iterator[ResourceDrift]:
        value = as_object(resource.get("Specification") or as_object(resource.get("Component")).get("Specification"))
        (declared,) = self._names(value.get("ModelName"), *MODELS) or [None]
        serves = as_object(described.get("Specification")).get("ModelName")
        if declared is not None and serves is not None and str(serves).lower() != declared.lower():
            yield _changed(resource, f"serves the model {serves} instead of {declared}")

    def _names(self, value: Any, *types: str) -> list[str]:
        """Return the name that a value refers to, or the literal name; empty if it is unknown."""
        referred = self._stack.template.referred(value, *types)
        if referred:
            return [self._id(referred[0]).rpartition("/")[2]]
        return [value] if isinstance(value, str) else []

    def _targets(self, resources: Sequence[Resource]) -> Iterator[ResourceDrift]:
        by_dimension: dict[tuple[str, str], dict[str, Resource]] = {}
        for resource in resources:
            # Its physical ID is ``<resource ID>|<dimension>|<namespace>`` (scaling_registration.py).
            resource_id, dimension, namespace = self._id(resource).split("|")
            by_dimension.setdefault((namespace, dimension), {})[resource_id] = resource
        for (namespace, dimension), wanted in by_dimension.items():
            key = {"ServiceNamespace": namespace, "ScalableDimension": dimension}
            targets: dict[str, Mapping[str, Any]] = {}
            for ids in _batches(wanted, _MOST_TARGETS):
                pages = self._scaling("describe_scalable_targets").paginate(**key, ResourceIds=ids)
                targets |= {target["ResourceId"]: target for page in pages for target in page["ScalableTargets"]}
            for resource_id, resource in wanted.items():
                if resource_id not in targets:
                    yield _missing(resource, f"is not registered, so nothing scales {resource_id}")
                else:
                    of_target = {**key, "ResourceId": resource_id}
                    yield from self._suspended(resource, targets[resource_id], of_target)
                    yield from self._range(resource, targets[resource_id], of_target)

    def _suspended(
        self, resource: Resource, target: Mapping[str, Any], key: Mapping[str, str]
    ) -> Iterator[ResourceDrift]:
        """Compare what is suspended of a target, unless it is a component's that somebody stopped."""
        declared = as_object(resource.get("SuspendedState"))
        suspensions = suspensions_of(target)
        found = [name for name in suspensions if str(self._known(declared.get(name, False))).lower() == "false"]
        if not found or (len(found) == MOST_SUSPENSIONS and self._is_stopped(key["ResourceId"])):
            return
        yield _changed(
            resource,
            f"has {suspended_text(found)} of {key['ResourceId']} suspended",
            f"`{suspending_command(key, [name for name in suspensions if name not in found])}`",
        )

    def _is_stopped(self, resource_id: str) -> bool:
        """Return whether a component has no copies, as after ``constructs-optim endpoint stop``; assumed if unknown."""
        kind, _, name = resource_id.partition("/")
        if kind != "inference-component":
            return False
        try:
            found = self._client("sagemaker").describe_inference_component(InferenceComponentName=name)
        except ClientError as error:
            self._not_seen[f"whether {name} is stopped: {error.operation_name} failed: {message_of(error)}"] = None
            return True
        return found.get("RuntimeConfig", {}).get("DesiredCopyCount", 0) == 0

    def _range(self, resource: Resource, target: Mapping[str, Any], key: Mapping[str, str]) -> Iterator[ResourceDrift]:
        schedules = [str(as_object(each).get("ScheduledActionName")) for each in self._items(resource)]
        if schedules:
            # A schedule changes the range.
            pages = self._scaling("describe_scheduled_actions").paginate(**key)
            there = {action["ScheduledActionName"] for page in pages for action in page["ScheduledActions"]}
            if lacking := [name for name in schedules if name not in there]:
                yield _changed(resource, f"lacks the schedule {', '.join(lacking)}")
            return
        declared = [number(resource.get(name)) for name in ("MinCapacity", "MaxCapacity")]
        actual = [target["MinCapacity"], target["MaxCapacity"]]
        if None not in declared and declared != actual:
            ranges = ["{} to {}".format(*limits) for limits in (actual, declared)]
            yield _changed(resource, f"scales {key['ResourceId']} from {ranges[0]} instead of {ranges[1]}")

    def _scaling(self, operation: str) -> Any:
        """Return the paginator of an operation of Application Auto Scaling."""
        return self._client("application-autoscaling").get_paginator(operation)

    @staticmethod
    def _items(resource: Resource) -> Sequence[Any]:
        return as_array(resource.get("ScheduledActions"))

    def _policies(self, resources: Sequence[Resource]) -> Iterator[ResourceDrift]:
        by_target: dict[tuple[str, str], dict[str, Resource]] = {}
        for resource in resources:
            # arn:...:scalingPolicy:<ID>:resource/<namespace>/<resource ID>:policyName/<name>. Another policy of the
            # same name is one that was put back.
            of, _, name = self._id(resource).partition(":resource/")[2].partition(":policyName/")
            namespace, _, resource_id = of.partition("/")
            by_target.setdefault((namespace, resource_id), {})[name] = resource
        tracked: dict[str, Resource] = {}
        for (namespace, resource_id), wanted in by_target.items():
            key = {"ServiceNamespace": namespace, "ResourceId": resource_id}
            pages = self._scaling("describe_scaling_policies").paginate(**key)
            policies = {policy["PolicyName"]: policy for page in pages for policy in page["ScalingPolicies"]}
            for name, resource in wanted.items():
                if name not in policies:
                    yield _missing(resource, f"does not exist, so {resource_id} does not scale by it")
                elif policies[name]["PolicyType"] == "TargetTrackingScaling":
                    tracked |= {alarm["AlarmName"]: resource for alarm in policies[name].get("Alarms", [])}
        yield from self._tracking_alarms(tracked)

    def _tracking_alarms(self, tracked: Mapping[str, Resource]) -> Iterator[ResourceDrift]:
        """Look for the alarms that Application Auto Scaling made for target tracking policies.

        CloudFormation does not see them. PutScalingPolicy makes them again (Application Auto Scaling user guide,
        "Target tracking scaling policies": do not delete them).
        """
        if not tracked:
            return
        there = self._described_alarms(self._client("cloudwatch"), list(tracked))
        lacking: dict[str, list[str]] = {}
        for name, resource in tracked.items():
            if name not in there:
                lacking.setdefault(resource.logical_id, []).append(name)
        for logical_id, names in lacking.items():
            resource = self._stack.template.resources[logical_id]
            yield ResourceDrift(
                **_labels(resource),
                is_missing=False,
                text=f"scales nothing: its alarm {' and '.join(names)} does not exist",
                remedy="deploy a change of its target or cool-down, with which Auto Scaling makes its alarms again",
            )

    def _alarms(self, resources: Sequence[Resource]) -> Iterator[ResourceDrift]:
        names = {self._id(resource): resource for resource in resources}
        if not names:
            return
        alarms = self._described_alarms(self._client("cloudwatch"), list(names))
        for name, resource in names.items():
            if name not in alarms:
                yield _missing(resource, f"({name}) does not exist")
                continue
            if not alarms[name]["ActionsEnabled"] and str(resource.get("ActionsEnabled")).lower() != "false":
                yield _changed(
                    resource,
                    f"({name}) notifies nobody: its actions are disabled",
                    f"`aws cloudwatch enable-alarm-actions --alarm-names {name}`",
                )
            if differences := list(self._differences(resource, alarms[name])):
                yield _changed(resource, f"({name}) {' and '.join(differences)}")

    def _differences(self, resource: Resource, alarm: Mapping[str, Any]) -> Iterator[str]:
        """Yield how an alarm differs from what its stack declares: what it compares, and whom it notifies."""
        settings = dict(_settings_of(alarm))
        for name, value in _settings_of(resource.properties):
            declared, actual = self._known(value), settings.get(name)
            if declared is not None and not _equal(declared, actual):
                yield f"has the {name} {'none' if actual is None else _shown(actual)} instead of {_shown(declared)}"
        for member in ("AlarmActions", "OKActions"):
            runs = {_action(each) for each in alarm.get(member) or ()}
            declared = [self._known(each) for each in as_array(resource.get(member))]
            if lacking := [each for each in declared if isinstance(each, str) and _action(each) not in runs]:
                yield f"lacks the action {', '.join(lacking)} in {member}"

    def _known(self, value: Any) -> Any:
        """Return a value of the template; None if it is only known at deployment."""
        try:
            return self._resolver.value(value)
        except KnownLater:
            return None

    @staticmethod
    def _described_alarms(cloudwatch: Any, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for asked in _batches(names, _MOST_ALARMS):
            page = cloudwatch.describe_alarms(
                AlarmNames=asked, AlarmTypes=["MetricAlarm", "CompositeAlarm"], MaxRecords=_MOST_ALARMS
            )
            found |= {alarm["AlarmName"]: alarm for kind in ("MetricAlarms", "CompositeAlarms") for alarm in page[kind]}
        return found

    def _id(self, resource: Resource) -> str:
        return self._stack.physical_ids.get(resource.logical_id, "")


def _settings_of(alarm: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what an alarm compares, from its properties in a template or from DescribeAlarms."""
    yield from ((name, alarm.get(name)) for name in _OF_ALARMS)
    yield from ((f"dimension {name}", value) for name, value in _dimensions(alarm))
    for query in map(as_object, as_array(alarm.get("Metrics"))):
        of, stat = f" of {query.get('Id')}", as_object(query.get("MetricStat"))
        metric = as_object(stat.get("Metric"))
        yield f"Expression{of}", query.get("Expression")
        yield from ((f"{name}{of}", stat.get(name)) for name in ("Period", "Stat"))
        yield from ((f"{name}{of}", metric.get(name)) for name in ("Namespace", "MetricName"))
        yield from ((f"dimension {name}{of}", value) for name, value in _dimensions(metric))
    criteria = as_object(as_object(alarm.get("EvaluationCriteria")).get("PromQLCriteria"))
    yield from ((name, criteria.get(name)) for name in ("Query", "PendingPeriod", "RecoveryPeriod"))


def _dimensions(metric: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    for dimension in map(as_object, as_array(metric.get("Dimensions"))):
        yield dimension.get("Name"), dimension.get("Value")


def _action(arn: str) -> str:
    """Return the ARN of an alarm's action, or the part of a scaling policy's that stays if it is put back."""
    return arn.partition(":resource/")[2] or arn


def _equal(declared: Any, actual: Any) -> bool:
    """Return whether two values are equal; numbers of a template may be texts."""
    try:
        return float(declared) == float(actual)
    except (TypeError, ValueError):
        return declared == actual


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _batches(names: Iterable[str], size: int) -> Iterator[list[str]]:
    listed = list(names)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]


def _labels(resource: Resource) -> dict[str, str]:
    return {"name": resource.label, "logical_id": resource.logical_id, "type": resource.type}


def _missing(resource: Resource, text: str) -> ResourceDrift:
    is_custom = resource.type.startswith("Custom::")
    remedy = (
        "deploy a change of it: CloudFormation does not look at resources of this library's own types"
        if is_custom
        else "`cdk deploy --revert-drift` creates it again"
    )
    return ResourceDrift(**_labels(resource), is_missing=True, text=text, remedy=remedy)


def _changed(resource: Resource, text: str, remedy: str = "`cdk deploy --revert-drift` restores it") -> ResourceDrift:
    return ResourceDrift(**_labels(resource), is_missing=False, text=text, remedy=remedy)
