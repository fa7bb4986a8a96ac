"""One poll of an operation of a stack that has deregistered a variant: put back what did not come back.

After the operation's end, whichever way it came to it, a variant that serves as before is registered as before: with
those of the stack's own policies that the stack still has, and with alarms that call the policies which are there. A
variant that serves otherwise is the stack's, whose operation has succeeded.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping

from ..custom_resource import DONE, Output, again, wait_seconds
from ..hosting.scaling_registration import connect_alarms, policies_of_stack, register
from ..hosting.serving import serving_endpoint, stack_status
from ..requests.hosting_properties import ScalingWatch
from ..requests.properties import validate
from ..telemetry import LambdaContext, entry_point, log


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(ScalingWatch, event)
    status = stack_status(watch.stack_id)
    later = again(wait_seconds(dt.timedelta(seconds=max(0.0, time.time() - watch.since))))
    if status is None or status.startswith("DELETE_"):
        return DONE
    if status.endswith("_IN_PROGRESS"):
        return later
    endpoint = serving_endpoint(watch.endpoint_name)
    if endpoint is None:
        return DONE
    if not endpoint.is_settled:
        return later
    if endpoint.as_lists != watch.variants:
        # A rollback that failed may be continued.
        log("serves otherwise", status=status)
        return later if status.endswith("_FAILED") else DONE
    for registration in watch.registrations:
        gone = set(registration.own) - set(policies_of_stack(watch.stack_id, registration.resource_id))
        register(registration, keeps=lambda name, gone=gone: name not in gone)
        connect_alarms(watch.stack_id, registration.resource_id)
    return DONE
