"""One poll of a restart by the state machine, which an alarm on decaying drafts starts.

SageMaker cannot restart instances. UpdateEndpoint "deploys the EndpointConfig specified in the request to a new fleet
of instances" (API reference), under the endpoint's deployment configuration and its alarms. So a restart moves the
endpoint to a second configuration with the same content, and the next restart moves it back. CloudFormation owns both.

Only one restart runs at a time, and the request sets the minimum time between two. A record in the store, changed by
compare-and-swap, names the run that holds the endpoint. A restart that fails or comes too soon is tried again after
that time if the alarm is still in ALARM. No restart begins while the stack is being deployed or the endpoint updated,
or if the endpoint serves a configuration other than these two.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import DONE, Output, later, unless_store_is_gone
from ..errors import DeploymentError, code_of, message_of
from ..hosting.serving import stack_status
from ..requests.properties import validate
from ..requests.restart_properties import RestartRequest, RestartWatch
from ..store.json_records import JsonRecords, StoredRecord
from ..telemetry import Counted, LambdaContext, entry_point, log

_BUSY_SECONDS, _UPDATE_SECONDS, _LONGEST_WAIT_SECONDS = 60, 30, 3_600
_MOST_UPDATES = 2
# The errors that refuse an update. "Cannot update in-progress endpoint" is the only temporary ValidationException.
_REFUSALS = ("ValidationException", "ResourceLimitExceeded")
_BUSY = "in-progress"
_CHANGING = ("Creating", "Updating", "SystemUpdating", "RollingBack")


class RestartRecord(StoredRecord):
    """The last restart of an endpoint: the run that holds it, since ``restarted`` in seconds since 1970.

    ``updates`` counts its attempts, and ``refusal`` is the reason if SageMaker refused the last one. ``reported``: its
    failure was logged.
    """

    run: str
    restarted: int
    target: str
    updates: int = 0
    refusal: str = ""
    reported: bool = False


class _TooSoon(Exception):
    """Another run holds or recently held the endpoint, or this one has failed."""


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input."""
    watch = validate(RestartWatch, event)
    request = watch.request
    region, account = context.invoked_function_arn.split(":")[3:5]
    name = f"restarts/{account}/{region}/{request.endpoint_name}.json"
    records = JsonRecords(client("s3"), request.bucket, request.kms_key_arn)
    # The watcher has no answer to give, so it goes on polling after errors that the state machine caught.
    try:
        # Without the store, no record can order the restarts.
        return unless_store_is_gone(
            lambda: _poll(watch, records, name), lambda error: _fail(request, message_of(error))
        )
    except DeploymentError as error:
        return _fail(request, str(error))


def _fail(request: RestartRequest, reason: str) -> Output:
    log(Counted.restart_failed, endpoint_name=request.endpoint_name, reason=reason)
    return DONE


def _poll(watch: RestartWatch, records: JsonRecords, name: str) -> Output:
    request, endpoint = watch.request, _endpoint(watch.request)
    if endpoint is None:
        return _end(request, "the endpoint does not exist")
    status, config = endpoint["EndpointStatus"], endpoint["EndpointConfigName"]
    record = records.get(name, RestartRecord)
    held = record if record is not None and record.run == watch.run else None
    if held is not None and config == held.target and status == "InService":
        log(Counted.restarted, endpoint_name=request.endpoint_name, config=config)
        return DONE
    if status in _CHANGING or _is_deployed(request):
        # This includes this run's own update.
        return later(watch, _UPDATE_SECONDS if held is not None else _BUSY_SECONDS)
    if status != "InService":
        return _end(request, f"it is {status}")
    if config not in request.config_names:
        return _end(request, f"it serves {config}, which belongs to another deployment or to a shadow run")
    goes_on = held is not None and held.updates < _MOST_UPDATES
    if not goes_on and not _is_alarming(request):
        return _end(request, "the alarm is no longer in ALARM")
    return _restart(watch, records, name, config, endpoint)


def _restart(watch: RestartWatch, records: JsonRecords, name: str, config: str, endpoint: Mapping[str, Any]) -> Output:
    """Record the restart and move the endpoint to the other configuration, or wait until a restart is allowed."""
    request, now = watch.request, time.time()
    first, second = request.config_names
    target = second if config == first else first

    def taken(before: RestartRecord | None) -> RestartRecord:
        if before is None or now - before.restarted >= request.at_most_every_seconds:
            return RestartRecord(run=watch.run, restarted=int(now), target=target)
        if before.run != watch.run or before.updates >= _MOST_UPDATES:
            raise _TooSoon
        return before

    def tried(before: RestartRecord | None, refusal: str) -> RestartRecord:
        before = before or RestartRecord(run=watch.run, restarted=int(now), target=target)
        return before.updated(updates=before.updates + 1, refusal=refusal)

    try:
        records.change(name, RestartRecord, taken)
        client("sagemaker").update_endpoint(
            EndpointName=request.endpoint_name,
            EndpointConfigName=target,
            # Keeps the scaled number of instances, and the deployment configuration with its alarms.
            RetainAllVariantProperties=True,
            RetainDeploymentConfig=True,
        )
    except _TooSoon:
        return _wait(watch, records, name, str(endpoint.get("FailureReason", "")), now)
    except ClientError as error:
        if code_of(error) not in _REFUSALS:
            raise
        refusal = message_of(error)
        if _BUSY in refusal:
            # CloudFormation or scaling began an update in the meantime.
            log("endpoint is busy", endpoint_name=request.endpoint_name, reason=refusal)
        else:
            log("restart refused", endpoint_name=request.endpoint_name, reason=refusal)
            records.change(name, RestartRecord, lambda before: tried(before, refusal))
    else:
        log("restart started", endpoint_name=request.endpoint_name, config=target)
        records.change(name, RestartRecord, lambda before: tried(before, ""))
    return later(watch, _UPDATE_SECONDS)


def _wait(watch: RestartWatch, records: JsonRecords, name: str, failure: str, now: float) -> Output:
    """Poll the alarm again when the next restart is allowed: an alarm that stays in ALARM starts no execution."""
    request, record = watch.request, records.get(name, RestartRecord)
    if record is not None and record.run == watch.run and not record.reported:
        reason = record.refusal or failure or "SageMaker rolled back the endpoint's update"
        log(Counted.restart_failed, endpoint_name=request.endpoint_name, reason=reason)
        records.change(name, RestartRecord, lambda before: (before or record).updated(reported=True))
    left = (record.restarted if record is not None else 0) + request.at_most_every_seconds - now
    log("restart waits", endpoint_name=request.endpoint_name, seconds=int(left))
    return later(watch, max(_UPDATE_SECONDS, min(_LONGEST_WAIT_SECONDS, int(left) + 1)))


def _end(request: RestartRequest, reason: str) -> Output:
    log("not restarted", endpoint_name=request.endpoint_name, reason=reason)
    return DONE


def _endpoint(request: RestartRequest) -> Mapping[str, Any] | None:
    try:
        return client("sagemaker").describe_endpoint(EndpointName=request.endpoint_name)
    except ClientError as error:
        if code_of(error) == "ValidationException" and "Could not find" in message_of(error):
            return None
        raise


def _is_deployed(request: RestartRequest) -> bool:
    return (stack_status(request.stack_id) or "").endswith("_IN_PROGRESS")


def _is_alarming(request: RestartRequest) -> bool:
    alarms = client("cloudwatch").describe_alarms(AlarmNames=[request.alarm_name]).get("MetricAlarms", [])
    return any(alarm.get("StateValue") == "ALARM" for alarm in alarms)
