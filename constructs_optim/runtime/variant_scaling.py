"""A scaled variant whose instance types, or name, change.

SageMaker refuses such an update of an endpoint while the variant is registered with Application Auto Scaling (developer
guide, "Update endpoints that use auto scaling"), and deregistering deletes the variant's policies. A stack has two
custom resources for such an endpoint, ``Custom::VariantScaling`` before it and, after it, ``ServedConfiguration``:

- On an update, the first writes down what is registered (as the input of an execution) and deregisters the variant.
  After the endpoint's update, the second registers the variant again, with all that is not the stack's. The stack's own
  policies are gone; the attribute ``PolicyEnding``, which their names end in, is another one then, so that
  CloudFormation replaces them, and has the alarms of step policies call the new ones.
- On a rollback both do the same, so that its order does not matter: while the endpoint serves otherwise than it is
  going to, the variant is deregistered; once it serves so, all that was written down is registered again.

Policies that were put again have other ARNs than CloudFormation knows. When the stack's policies or alarms change (the
property ``PoliciesHash``), the second resource notices that, and has them replaced in the same way.

What no request puts back, as when an update is cancelled, the execution does (``scaling_watcher``).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence

from botocore.exceptions import ClientError

from .aws import client
from .custom_resource import Event, start_watching
from .errors import DeploymentError, InvalidEvent, code_of
from .hosting.scaling_registration import (
    connect_alarms,
    deregister,
    policies_of_stack,
    register,
    registration_of,
    resource_id_of,
)
from .hosting.serving import ServingEndpoint, is_rolling_back, serving_endpoint
from .requests.hosting_properties import Registration, ScalingProperties, ScalingWatch
from .requests.properties import validate
from .telemetry import log

# What the names of policies end in that replace deleted ones.
_ENDING = re.compile("@[0-9a-f]{8}$")


def make_way(event: Event) -> dict[str, str]:
    """Suspend or resume scaling, as the endpoint is; the resource's attributes."""
    props = validate(ScalingProperties, event["ResourceProperties"])
    endpoint, change = serving_endpoint(props.endpoint_name), _Change(event, props)
    ending = change.ending
    if endpoint is not None and (other := change.otherwise(endpoint)):
        change.suspend(other, endpoint)
    elif endpoint is not None and endpoint.is_settled:
        ending = change.resume(endpoint)
    elif endpoint is not None:
        # The execution puts back what this request cannot.
        log("endpoint is changing", status=endpoint.described["EndpointStatus"])
    return {"PolicyEnding": ending}


class _Change:
    """A request in one of the stack's operations."""

    def __init__(self, event: Event, props: ScalingProperties) -> None:
        self._event, self._props = event, props
        self._prefix = _digest(event["StackId"], props.endpoint_name)
        self._is_rollback = is_rolling_back(event["StackId"])
        self._own = policies_of_stack(event["StackId"], resource_id_of(props.endpoint_name, props.variant_name))

    @property
    def ending(self) -> str:
        """What the names of the stack's policies end in; after a rollback, what they ended in before."""
        if self._is_rollback and (before := self._before()) is not None:
            return _ending_of(before.own)
        return _ending_of(self._own)

    def otherwise(self, endpoint: ServingEndpoint) -> list[str]:
        """The variants that serve, and that are not as they are going to be."""
        props, names = self._props, [self._props.variant_name]
        if "OldResourceProperties" in self._event:
            try:
                names.append(validate(ScalingProperties, self._event["OldResourceProperties"]).variant_name)
            except InvalidEvent as error:
                log("no variant before", reason=str(error))
        wanted = {props.variant_name: tuple(props.instance_types)}
        return [
            name
            for name in dict.fromkeys(names)
            if name in endpoint.variants and endpoint.variants[name] != wanted.get(name)
        ]

    def suspend(self, names: Sequence[str], endpoint: ServingEndpoint) -> None:
        """Write down what is registered of variants, and deregister them."""
        there = list(self._registered(names))
        if there and self._event["RequestType"] == "Create":
            # Were it created, no request of a rollback would deregister the variant before the endpoint goes back.
            serving = ", ".join(f"{name} on {' and '.join(endpoint.variants[name])}" for name in names)
            raise DeploymentError(
                f"the endpoint {self._props.endpoint_name} is scaled, and serves {serving}. What lets its instance "
                "type change is new in this deployment, which could not be rolled back. Next: deploy once with the "
                "instance type and the variant's name as they are, then change them"
            )
        written, serving_now = self._written(), endpoint.as_lists
        if not self._is_rollback and written is not None and written.variants == serving_now:
            # An operation that was given up has deregistered it, and nothing, or only a part, has been put back yet.
            there = list(self._with_missing(there, written))
        if not there:
            return
        if not self._is_rollback:
            self._write(serving_now, there)
        elif written is None:
            self._write({**serving_now, self._props.variant_name: self._props.instance_types}, there)
        for registration in there:
            deregister(registration)

    def _with_missing(self, there: Sequence[Registration], written: ScalingWatch) -> Iterator[Registration]:
        """What is registered, with what else was written down and is not a policy that the stack has given up."""
        live = {registration.resource_id: registration for registration in there}
        for before in written.registrations:
            now = live.pop(before.resource_id, None)
            yield before if now is None else now.joined(before, without=set(before.own) - self._own.keys())
        yield from live.values()

    def resume(self, endpoint: ServingEndpoint) -> str:
        """Put back what was deregistered, as far as it is not the stack's to put. Returns the ending of policies."""
        if self._is_rollback:
            self._restore()
            return self.ending
        now = next(self._registered([self._props.variant_name]), None)
        arns = {each["PolicyName"]: each["PolicyARN"] for each in now.policies} if now is not None else {}
        if self._props.policies_hash is None or (now is not None and arns.items() >= self._own.items()):
            return self.ending
        source = now if any(arns[name] != self._own[name] for name in arns if name in self._own) else self._before()
        if source is None:
            log("nothing to put back", variant=self._props.variant_name)
            return self.ending
        if source is now and now is not None:
            # Put back by a rollback: CloudFormation knows other policies of these names.
            self._write(endpoint.as_lists, [now])
            deregister(now)
        own = {*source.own, *self._own}
        register(source, keeps=lambda name: name not in own)
        return f"@{_digest(self._event['RequestId'])[:8]}" if own else ""

    def _restore(self) -> None:
        if self._before() is None:
            return
        for registration in self._written_registrations():
            now = registration_of(registration.resource_id)
            if now is not None and now.policy_names - registration.policy_names:
                # Those that replaced them, which CloudFormation deletes later, may track the same metrics.
                deregister(now)
            register(registration)
            connect_alarms(self._event["StackId"], registration.resource_id)

    def _registered(self, names: Iterable[str]) -> Iterator[Registration]:
        for name in names:
            resource_id = resource_id_of(self._props.endpoint_name, name)
            if (registration := registration_of(resource_id)) is not None:
                own = policies_of_stack(self._event["StackId"], resource_id)
                yield registration.model_copy(update={"own": sorted(own)})

    def _before(self) -> Registration | None:
        """What was registered of the variant, by what an operation has written down."""
        written, name = self._written(), self._props.variant_name
        if written is None or (self._is_rollback and written.variants.get(name) != self._props.instance_types):
            return None
        return next((each for each in written.registrations if each.variant_name == name), None)

    def _written_registrations(self) -> list[Registration]:
        written = self._written()
        return written.registrations if written is not None else []

    def _write(self, variants: dict[str, list[str]], registrations: list[Registration]) -> None:
        document = {
            "StackId": self._event["StackId"],
            "EndpointName": self._props.endpoint_name,
            "Variants": variants,
            "Registrations": [registration.model_dump() for registration in registrations],
            "Since": int(time.time()),
        }
        own = f"{self._prefix}-{_digest(self._event['RequestId'])}"
        if start_watching(self._props, own, document):
            log("written down", execution=own)
        for arn, name in self._executions():
            if name != own:
                _stop(arn)

    def _written(self) -> ScalingWatch | None:
        """What the latest operation has written down, while it may be needed."""
        for arn, _ in self._executions():
            found = client("stepfunctions").describe_execution(executionArn=arn)
            return validate(ScalingWatch, json.loads(found["input"]))
        return None

    def _executions(self) -> Iterator[tuple[str, str]]:
        """The running executions of the endpoint, the latest first."""
        running = (
            client("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self._props.state_machine_arn, statusFilter="RUNNING")
        )
        found = [
            execution
            for page in running
            for execution in page["executions"]
            if execution["name"].startswith(f"{self._prefix}-")
        ]
        for execution in sorted(found, key=lambda each: each["startDate"], reverse=True):
            yield execution["executionArn"], execution["name"]


def _ending_of(names: Iterable[str]) -> str:
    endings = (_ENDING.search(name) for name in names)
    return next((match.group() for match in endings if match is not None), "")


def _stop(arn: str) -> None:
    try:
        client("stepfunctions").stop_execution(executionArn=arn, cause="A later operation of the stack goes on")
    except ClientError as error:
        # It has ended meanwhile.
        if code_of(error) not in ("ExecutionDoesNotExist", "ValidationException"):
            raise


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
