"""One poll of an endpoint whose scaling is suspended: restore what the stack's operation did not.

However the operation ends, an endpoint that was scaled is scaled again. A variant that serves as before is registered
as before, with the stack's own policies that still exist, and with alarms that call the existing policies. If it
serves otherwise, a successful operation has registered it. A rollback that skipped the endpoint has not
(``ContinueUpdateRollback`` with ``ResourcesToSkip``), so that the watcher registers it.

A stack whose operation failed is left alone: its next operation fails if the variant is registered, and registers it.
Every poll then counts ``ScalingSuspended``. If the stack's next operation begins while a poll registers the variant,
the poll deregisters it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from botocore.exceptions import ClientError

from ..custom_resource import DONE, Output, later, unless_store_is_gone
from ..errors import DeploymentError, message_of
from ..hosting.scaling_registration import (
    connect_alarms,
    deregister,
    is_declared,
    is_registered,
    policies_of_stack,
    register,
    resource_id_of,
)
from ..hosting.serving import ServingEndpoint, serving_endpoint, stack_status
from ..hosting.suspended_scaling import SuspendedScaling, SuspendedScalingRecord
from ..requests.hosting_properties import Registration, ScalingWatch
from ..requests.properties import validate
from ..telemetry import Counted, LambdaContext, entry_point, log

_POLL_SECONDS, _DAMAGED_SECONDS = 5, 3_600


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input."""
    watch = validate(ScalingWatch, event)
    record = SuspendedScalingRecord(watch.stack_id, watch)
    return unless_store_is_gone(lambda: _restore(watch, record), lambda error: _end_without_record(watch, error))


def _end_without_record(watch: ScalingWatch, error: ClientError) -> Output:
    # The registration is gone with the store.
    reason = f"{message_of(error)}, and with it what was registered. Next: register the variants yourself"
    log(Counted.scaling_suspended, endpoint_name=watch.endpoint_name, reason=reason)
    return DONE


def _restore(watch: ScalingWatch, record: SuspendedScalingRecord) -> Output:
    try:
        suspended = record.get()
    except DeploymentError as error:
        # It may be restored, and nothing else knows the registration.
        log(Counted.scaling_suspended, endpoint_name=watch.endpoint_name, reason=str(error))
        return later(watch, _DAMAGED_SECONDS)
    if suspended is None:
        return DONE
    output = _poll(watch, suspended)
    return later(watch, _POLL_SECONDS, is_urgent=True) if output == DONE and not record.empty(suspended) else output


def _poll(watch: ScalingWatch, suspended: SuspendedScaling) -> Output:
    status = stack_status(watch.stack_id) or "DELETE_COMPLETE"
    if (output := _while_operating(watch, status)) is not None:
        return output
    endpoint = serving_endpoint(watch.endpoint_name)
    if endpoint is None:
        log("nothing to scale")
        return DONE
    if not endpoint.is_settled:
        return later(watch, _POLL_SECONDS, is_urgent=True)
    serves_otherwise = endpoint.as_lists != suspended.variants
    if status == "DELETE_FAILED" or (serves_otherwise and status.endswith("_FAILED")):
        reason = f"the stack is {status} and the endpoint serves {endpoint.as_lists}"
        log(Counted.scaling_suspended, endpoint_name=watch.endpoint_name, reason=reason)
        return later(watch, _POLL_SECONDS, is_urgent=True)
    registrations = suspended.registrations
    if serves_otherwise:
        log("serves otherwise", status=status)
        registrations = list(_missing(watch, suspended, endpoint, is_rollback="ROLLBACK" in status))
    # A later operation may have removed the scaling, or moved it to a component.
    return _restored(watch, [each for each in registrations if is_declared(watch.stack_id, each.resource_id)])


def _missing(
    watch: ScalingWatch, suspended: SuspendedScaling, endpoint: ServingEndpoint, *, is_rollback: bool
) -> Sequence[Registration]:
    """Return the registrations to restore for an endpoint that serves otherwise."""
    found: list[Registration] = []
    for registration in suspended.registrations:
        if registration.variant_name in endpoint.variants:
            found += [registration] if is_rollback or not is_registered(registration.resource_id) else []
        elif is_rollback and not any(is_registered(resource_id_of(watch.endpoint_name, n)) for n in endpoint.variants):
            reason = (
                f"the rollback skipped the endpoint, which serves {' and '.join(endpoint.variants)} instead of "
                f"the variant {registration.variant_name}, whose registration does not fit another one. Next: "
                "deploy the stack with the name of the serving variant, or register that variant yourself"
            )
            log(Counted.scaling_suspended, endpoint_name=watch.endpoint_name, reason=reason)
    return found


def _restored(watch: ScalingWatch, registrations: Sequence[Registration]) -> Output:
    """Register the variants, unless the stack's next operation begins; return the output of the poll."""
    absent = [each for each in registrations if not is_registered(each.resource_id)]
    own = {each.resource_id: policies_of_stack(watch.stack_id, each.resource_id) for each in registrations}
    # The next operation may have begun in the meantime, and fails if a variant that it deregistered is registered.
    if (output := _begun(watch)) is not None:
        return output
    for registration in registrations:
        gone = set(registration.own) - own[registration.resource_id].keys()
        register(registration, keeps=lambda name, gone=gone: name not in gone)
    if (output := _begun(watch)) is not None:
        for registration in absent:
            deregister(registration)
        return output
    for registration in registrations:
        connect_alarms(watch.stack_id, registration.resource_id)
    return DONE


def _begun(watch: ScalingWatch) -> Output | None:
    """Return the output of the poll if the stack's next operation has begun."""
    return _while_operating(watch, stack_status(watch.stack_id) or "DELETE_COMPLETE")


def _while_operating(watch: ScalingWatch, status: str) -> Output | None:
    """Return the output while the stack is in an operation or deleted, otherwise None."""
    if status == "DELETE_COMPLETE":
        return DONE
    return later(watch, _POLL_SECONDS, is_urgent=True) if status.endswith("_IN_PROGRESS") else None
