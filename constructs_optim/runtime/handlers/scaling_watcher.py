"""One poll of an operation of a stack that has taken a variant's scaling away: put back what did not come back.

An operation that succeeds needs nothing: the request after the endpoint has put the scaling back. After any other end,
whichever way it came to it, the variant is registered as before, once it serves as before.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping

from ..custom_resource import DONE, Output, again, wait_seconds
from ..hosting.scaling_registration import register
from ..hosting.serving import serving_endpoint, stack_status
from ..requests.hosting_properties import ScalingWatch
from ..requests.properties import validate
from ..telemetry import LambdaContext, entry_point, log

# From then on, CloudFormation only deletes what was replaced.
_CLEANUP = "_CLEANUP_IN_PROGRESS"


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(ScalingWatch, event)
    status = stack_status(watch.stack_id)
    later = again(wait_seconds(dt.timedelta(seconds=max(0.0, time.time() - watch.since))))
    if status is None or status.startswith("DELETE_"):
        return DONE
    if status.endswith("_IN_PROGRESS") and not status.endswith(_CLEANUP):
        return later
    ended_well = status.removesuffix(_CLEANUP).removesuffix("_COMPLETE") in ("CREATE", "UPDATE", "IMPORT")
    if ended_well or (endpoint := serving_endpoint(watch.endpoint_name)) is None:
        return DONE
    if not endpoint.is_settled:
        return later
    if {name: list(types) for name, types in endpoint.variants.items()} != watch.variants:
        # A rollback that failed may be continued. After any other end, it is a later operation's.
        log("serves otherwise", status=status)
        return later if status.endswith("_FAILED") else DONE
    for registration in watch.registrations:
        register(registration)
    return DONE
