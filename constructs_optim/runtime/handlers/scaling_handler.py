"""``Custom::VariantScaling``: a scaled variant whose instance type, or name, changes.

SageMaker refuses such an update of an endpoint while the variant is registered with Application Auto Scaling (developer
guide, "Update endpoints that use auto scaling"). A stack has two of these resources for an endpoint: one that comes
before the endpoint, and one after it. Both do the same, so that the order of a rollback does not matter:

- While the variant that serves is another one than it is going to be, and registered, the registration is written down
  (as the input of an execution) and taken away.
- Once it serves as it is going to be, the registration comes back: on the way forward without the stack's own policies,
  which CloudFormation replaces, as their names end in the instance types; on the way back with them.

What no request puts back, as when an update is cancelled, the execution does (``scaling_watcher``).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource, start_watching
from ..errors import InvalidEvent, code_of
from ..hosting.scaling_registration import Registration, deregister, register, registration_of
from ..hosting.serving import serving_endpoint, stack_status
from ..requests.hosting_properties import ScalingProperties, ScalingWatch
from ..requests.properties import validate
from ..telemetry import log


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props, before = validate(ScalingProperties, event["ResourceProperties"]), _before(event)
    endpoint = serving_endpoint(props.endpoint_name)
    if endpoint is not None:
        wanted = {props.variant_name: tuple(props.instance_types)}
        names = {str(each.variant_name) for each in (props, before) if each is not None}
        other = [
            name for name in sorted(names) if name in endpoint.variants and endpoint.variants[name] != wanted.get(name)
        ]
        is_rollback = "ROLLBACK" in (stack_status(event["StackId"]) or "")
        change = _Change(event, props, before, is_rollback=is_rollback)
        if other:
            change.suspend(other, {name: list(types) for name, types in endpoint.variants.items()})
        elif endpoint.is_settled:
            change.resume()
        else:
            # The execution puts back what this request cannot.
            log("endpoint is changing", status=endpoint.described["EndpointStatus"])
    return event.get("PhysicalResourceId") or event["LogicalResourceId"], {}


def _before(event: Event) -> ScalingProperties | None:
    try:
        return validate(ScalingProperties, event["OldResourceProperties"]) if "OldResourceProperties" in event else None
    except InvalidEvent as error:
        log("no variant before", reason=str(error))
        return None


class _Change:
    """A request in one of the stack's operations."""

    def __init__(
        self, event: Event, props: ScalingProperties, before: ScalingProperties | None, *, is_rollback: bool
    ) -> None:
        self._event, self._props, self._before, self._is_rollback = event, props, before, is_rollback
        self._prefix = _digest(event["StackId"], props.endpoint_name)

    def suspend(self, names: list[str], variants: dict[str, list[str]]) -> None:
        """Write down what is registered of variants, and take it away."""
        registered = [registration_of(self._props.endpoint_name, name) for name in names]
        there = [registration for registration in registered if registration is not None]
        written = self._written()
        if not self._is_rollback and not there and written is not None and written.variants == variants:
            # An operation that was given up has taken it away, and nothing has put it back yet.
            there = written.registrations
        if not there:
            return
        if not self._is_rollback or written is None:
            # On a rollback, what was there before is what comes back.
            wanted = {**variants, self._props.variant_name: self._props.instance_types}
            ending = self._before.policy_ending if self._before is not None else None
            self._write(wanted if self._is_rollback else variants, there, ending)
        for registration in there:
            deregister(registration)

    def resume(self) -> None:
        """Put back what was taken away, as far as the variants are there."""
        written = self._written()
        if written is None:
            return
        if self._is_rollback:
            if written.variants.get(self._props.variant_name) == self._props.instance_types:
                for registration in written.registrations:
                    register(registration)
            return
        own = written.policy_ending
        for registration in written.registrations:
            if registration.variant_name == self._props.variant_name:
                register(registration, keeps=lambda name: own is None or not name.endswith(own))

    def _write(self, variants: dict[str, list[str]], registrations: list[Registration], ending: str | None) -> None:
        document = {
            "StackId": self._event["StackId"],
            "EndpointName": self._props.endpoint_name,
            "Variants": variants,
            "Registrations": [registration.model_dump() for registration in registrations],
            "PolicyEnding": ending,
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


def _stop(arn: str) -> None:
    try:
        client("stepfunctions").stop_execution(executionArn=arn, cause="A later operation of the stack goes on")
    except ClientError as error:
        # It has ended meanwhile.
        if code_of(error) not in ("ExecutionDoesNotExist", "ValidationException"):
            raise


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def _delete(event: Event) -> None:
    """Nothing to delete: CloudFormation deletes the scalable target and its policies."""


handler = custom_resource(ensure=_ensure, delete=_delete)
