"""Changes the instance types or the name of a scaled variant.

SageMaker refuses such an endpoint update while the variant is registered with Application Auto Scaling (developer
guide, "Update endpoints that use auto scaling"), and deregistering deletes the variant's policies. So a stack has two
custom resources for such an endpoint: ``Custom::VariantScaling`` before it and ``ServedConfiguration`` after it.

- On an update, the first resource records the registration in the store and deregisters the variant.
  After the endpoint's update, the second one registers the variant again, with everything that the stack does not
  own. The stack's own policies are deleted by then. Their names end in the attribute ``PolicyEnding``, which changes,
  so that CloudFormation replaces the policies and points the alarms of step policies at the new ones.
- On a rollback both do the same, so their order does not matter: they deregister the variant while the endpoint does
  not serve its target state, and restore the recorded registration once it does.

Restored policies have ARNs that CloudFormation does not know. When the stack's policies or alarms change (the property
``PoliciesHash``), the second resource notices the difference and has the policies replaced in the same way.

Somebody may have deregistered the variant or deleted policies, which CloudFormation then cannot update ("not found").
So the second resource, which the scalable target depends on, registers a variant again as the stack declared it (the
property ``Target``), and has the policies replaced. If that deployment fails, the rollback leaves the policies deleted.

An execution restores what no request restores, for example after a canceled update (``scaling_watcher``).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence

from .custom_resource import Event, start_watching
from .errors import DeploymentError, InvalidEvent
from .hosting.scaling_registration import (
    connect_alarms,
    declared_registration,
    deregister,
    is_declared,
    policies_of_stack,
    register,
    registration_of,
    resource_id_of,
)
from .hosting.serving import ServingEndpoint, is_rolling_back, serving_endpoint
from .hosting.suspended_scaling import SuspendedScaling, SuspendedScalingRecord
from .requests.hosting_properties import Registration, ScalingProperties
from .requests.properties import validate
from .telemetry import log

# The suffix of policy names that replace deleted policies.
_ENDING = re.compile("@[0-9a-f]{8}$")


def make_way(event: Event) -> dict[str, str]:
    """Suspend or resume scaling to suit the endpoint's state; return the resource's attributes."""
    props = validate(ScalingProperties, event["ResourceProperties"])
    endpoint, change = serving_endpoint(props.endpoint_name), _Change(event, props)
    ending = change.ending
    if endpoint is not None and (other := change.otherwise(endpoint)):
        change.suspend(other, endpoint)
    elif endpoint is not None and endpoint.is_settled:
        ending = change.resume(endpoint)
    elif endpoint is not None:
        # The execution restores what this request cannot.
        log("endpoint is changing", status=endpoint.described["EndpointStatus"])
    change.watch()
    return {"PolicyEnding": ending}


class _Change:
    """A request in one of the stack's operations."""

    def __init__(self, event: Event, props: ScalingProperties) -> None:
        self._event, self._props = event, props
        self._record = SuspendedScalingRecord(event["StackId"], props)
        self._former = _former(event)
        self._request = _digest(event["RequestId"])
        self._is_rollback = is_rolling_back(event["StackId"])
        self._own = policies_of_stack(event["StackId"], resource_id_of(props.endpoint_name, props.variant_name))

    @property
    def ending(self) -> str:
        """The suffix of the stack's policy names; in a rollback, their earlier suffix."""
        if self._is_rollback and (before := self._before()) is not None:
            return _ending_of(before.own)
        return _ending_of(self._own)

    def otherwise(self, endpoint: ServingEndpoint) -> list[str]:
        """Return the serving variants whose instance types differ from the requested ones."""
        props, names = self._props, [self._props.variant_name]
        if self._former is not None:
            names.append(self._former.variant_name)
        wanted = {props.variant_name: tuple(props.instance_types)}
        return [
            name
            for name in dict.fromkeys(names)
            if name in endpoint.variants and endpoint.variants[name] != wanted.get(name)
        ]

    def suspend(self, names: Sequence[str], endpoint: ServingEndpoint) -> None:
        """Record the variants' registrations and deregister them."""
        there = list(self._registered(names))
        if there and self._event["RequestType"] == "Create":
            # If it were created, no request of a rollback would deregister the variant before the endpoint reverts.
            serving = ", ".join(f"{name} on {' and '.join(endpoint.variants[name])}" for name in names)
            raise DeploymentError(
                f"the endpoint {self._props.endpoint_name} is scaled and serves {serving}. This deployment adds the "
                "resources that let its instance type change, so it could not be rolled back. Next: deploy once with "
                "the current instance type and variant name, then change them"
            )
        written, serving_now = self._written(), endpoint.as_lists
        if not self._is_rollback and written is not None and written.variants == serving_now:
            # An abandoned operation deregistered it, and at most part of the registration has been restored.
            there = list(self._with_missing(there, written))
        if not there:
            return
        if not self._is_rollback:
            self._write(serving_now, there)
        elif written is None:
            self._write({**serving_now, self._props.variant_name: self._props.instance_types}, there)
        for registration in there:
            deregister(registration)

    def _with_missing(self, there: Sequence[Registration], written: SuspendedScaling) -> Iterator[Registration]:
        """Yield the registrations, with the recorded parts that are missing, except policies that the stack dropped."""
        live = {registration.resource_id: registration for registration in there}
        for before in written.registrations:
            now = live.pop(before.resource_id, None)
            yield before if now is None else now.joined(before, without=set(before.own) - self._own.keys())
        yield from live.values()

    def resume(self, endpoint: ServingEndpoint) -> str:
        """Restore the registration, except what the stack creates itself; return the suffix of policy names."""
        if self._is_rollback:
            self._restore()
            return self.ending
        now = next(self._registered([self._props.variant_name]), None)
        resource_id = resource_id_of(self._props.endpoint_name, self._props.variant_name)
        # CloudFormation creates a target that the stack does not have yet.
        if self._props.policies_hash is None or not is_declared(self._event["StackId"], resource_id):
            return self.ending
        # CloudFormation changes what the stack declared before, and a rollback leaves alone what it has not changed.
        target = (self._former.target if self._former is not None else None) or self._props.target
        declared = declared_registration(resource_id, target) if target is not None else None
        ending = self._replace_policies(endpoint, now, declared)
        if declared is not None and (now is not None or ending is not None):
            # CloudFormation puts no schedule again that it does not change.
            register(declared)
        return self.ending if ending is None else ending

    def _replace_policies(
        self, endpoint: ServingEndpoint, now: Registration | None, declared: Registration | None
    ) -> str | None:
        """Register what the stack does not own, and return the suffix of the policies that CloudFormation creates.

        None if CloudFormation knows all policies that there are, or if nothing tells what to register.
        """
        arns = {each["PolicyName"]: each["PolicyARN"] for each in now.policies} if now is not None else {}
        if now is not None and arns.items() >= self._own.items():
            return None
        is_restored = any(arns[name] != self._own[name] for name in arns if name in self._own)
        # The record may be of an earlier operation.
        source = None if is_restored else self._before()
        if source is None and now is not None:
            # A rollback restored it: CloudFormation knows these policies by other ARNs. Or somebody deleted policies.
            source = now
            self._write(endpoint.as_lists, [now])
            deregister(now)
        elif source is None:
            # Somebody deregistered it.
            source = declared
        if source is None:
            log("nothing to put back", variant=self._props.variant_name)
            return None
        own = {*source.own, *self._own}
        register(source, keeps=lambda name: name not in own)
        return f"@{_digest(self._event['RequestId'])[:8]}" if own else ""

    def _restore(self) -> None:
        if self._before() is None:
            return
        for registration in self._written_registrations():
            now = registration_of(registration.resource_id)
            if now is not None and now.policy_names - registration.policy_names:
                # The replacement policies, which CloudFormation deletes later, may track the same metrics.
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
        """Return the variant's registration as an operation recorded it."""
        written, name = self._written(), self._props.variant_name
        if written is None or (self._is_rollback and written.variants.get(name) != self._props.instance_types):
            return None
        return next((each for each in written.registrations if each.variant_name == name), None)

    def _written_registrations(self) -> list[Registration]:
        written = self._written()
        return written.registrations if written is not None else []

    def _write(self, variants: dict[str, list[str]], registrations: list[Registration]) -> None:
        suspended = SuspendedScaling(
            stack_id=self._event["StackId"],
            variants=variants,
            registrations=registrations,
            since=int(time.time()),
            request=self._request,
        )
        self._record.write(suspended)
        log("written down", registrations=[registration.resource_id for registration in registrations])
        self._start()

    def watch(self) -> None:
        """Let an execution watch scaling that is still suspended; that of an earlier request may be lost."""
        written = self._written()
        if written is not None and written.request != self._request:
            self._start()

    def _start(self) -> None:
        props, stack_id = self._props, self._event["StackId"]
        document = {
            "StackId": stack_id,
            "EndpointName": props.endpoint_name,
            "Bucket": props.bucket,
            "KmsKeyArn": props.kms_key_arn,
        }
        start_watching(props, f"{_digest(stack_id, props.endpoint_name)}-{self._request}", document)

    def _written(self) -> SuspendedScaling | None:
        """Return the record of the latest operation."""
        try:
            return self._record.get()
        except DeploymentError as error:
            if not self._is_rollback:
                raise
            # A rollback must not fail.
            log("registration is unknown", reason=str(error))
            return None


def _former(event: Event) -> ScalingProperties | None:
    """Return the properties before this request; None if the variant was not scaled."""
    if "OldResourceProperties" not in event:
        return None
    try:
        return validate(ScalingProperties, event["OldResourceProperties"])
    except InvalidEvent as error:
        log("no variant before", reason=str(error))
        return None


def _ending_of(names: Iterable[str]) -> str:
    endings = (_ENDING.search(name) for name in names)
    return next((match.group() for match in endings if match is not None), "")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
