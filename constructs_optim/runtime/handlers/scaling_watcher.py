"""One poll of a stack operation that deregistered a variant: restore what the operation did not.

However the operation ends, a variant that serves as before is registered as before, with the stack's own policies that
still exist, and with alarms that call the existing policies. If the variant serves another configuration, the operation
succeeded, and the stack owns the registration. If the stack's next operation begins while a poll registers the variant,
the poll deregisters it again: that operation or another poll registers it later.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping

from ..custom_resource import DONE, Output, again, wait_seconds
from ..hosting.scaling_registration import connect_alarms, deregister, is_registered, policies_of_stack, register
from ..hosting.serving import serving_endpoint, stack_status
from ..requests.hosting_properties import ScalingWatch
from ..requests.properties import validate
from ..telemetry import LambdaContext, entry_point, log


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(ScalingWatch, event)
    status = stack_status(watch.stack_id)
    if (output := _while_operating(watch, status)) is not None:
        return output
    endpoint = serving_endpoint(watch.endpoint_name)
    if endpoint is None:
        return DONE
    if not endpoint.is_settled:
        return _later(watch)
    if endpoint.as_lists != watch.variants:
        log("serves otherwise", status=status)
        # A failed rollback may be continued.
        return _later(watch) if str(status).endswith("_FAILED") else DONE
    absent = [each for each in watch.registrations if not is_registered(each.resource_id)]
    own = {each.resource_id: policies_of_stack(watch.stack_id, each.resource_id) for each in watch.registrations}
    # The next operation may have begun in the meantime, and fails if a variant that it deregistered is registered.
    if (output := _while_operating(watch, stack_status(watch.stack_id))) is not None:
        return output
    for registration in watch.registrations:
        gone = set(registration.own) - own[registration.resource_id].keys()
        register(registration, keeps=lambda name, gone=gone: name not in gone)
    if (output := _while_operating(watch, stack_status(watch.stack_id))) is not None:
        for registration in absent:
            deregister(registration)
        return output
    for registration in watch.registrations:
        connect_alarms(watch.stack_id, registration.resource_id)
    return DONE


def _while_operating(watch: ScalingWatch, status: str | None) -> Output | None:
    """Return the output while the stack is in an operation or deleted, otherwise None."""
    if status is None or status.startswith("DELETE_"):
        return DONE
    return _later(watch) if status.endswith("_IN_PROGRESS") else None


def _later(watch: ScalingWatch) -> Output:
    return again(wait_seconds(dt.timedelta(seconds=max(0.0, time.time() - watch.since))))
