"""One poll of an operation of a stack that has deregistered a variant: put back what did not come back.

After the operation's end, whichever way it came to it, a variant that serves as before is registered as before: with
those of the stack's own policies that the stack still has, and with alarms that call the policies which are there. A
variant that serves otherwise is the stack's, whose operation has succeeded. If the stack's next operation begins while
a poll registers the variant, the poll deregisters it again: that operation registers it later, or another poll does.
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
        # A rollback that failed may be continued.
        return _later(watch) if str(status).endswith("_FAILED") else DONE
    absent = [each for each in watch.registrations if not is_registered(each.resource_id)]
    own = {each.resource_id: policies_of_stack(watch.stack_id, each.resource_id) for each in watch.registrations}
    # The next operation may have begun meanwhile, and fails if it finds registered what it has deregistered.
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
    """The output while the stack is in an operation, or gone."""
    if status is None or status.startswith("DELETE_"):
        return DONE
    return _later(watch) if status.endswith("_IN_PROGRESS") else None


def _later(watch: ScalingWatch) -> Output:
    return again(wait_seconds(dt.timedelta(seconds=max(0.0, time.time() - watch.since))))
