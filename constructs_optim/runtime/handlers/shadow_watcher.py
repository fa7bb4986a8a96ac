"""One poll of a shadow run by the state machine: read new captures and metrics, decide, report, and end the shadow.

The run ends when the endpoint is updated to another configuration of the same stack, which has no shadow variant or has
the candidate in production. The endpoint's deployment configuration applies, so its alarms roll back a promotion.

CloudFormation still uses the configuration with the shadow variant. The next update of the endpoint or a rollback
returns to it. So each time the endpoint comes into service, EventBridge starts an execution that ends a shadow that no
run watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import DONE, Output, again, later, poll_or_give_up, unless_store_is_gone
from ..errors import DeploymentError, code_of, message_of
from ..hosting.serving import stack_status
from ..requests.properties import validate
from ..requests.shadow_properties import ShadowRequest, ShadowWatch
from ..shadow import report
from ..shadow.observation import Observer, Reading, RunState, criteria_of
from ..shadow.verdict import Verdict, verdict
from ..store.json_records import NewerRecord
from ..store.run_records import CURRENT, OBSERVING, RESULT, RUN, RunRecords, ShadowDecision
from ..telemetry import Counted, LambdaContext, entry_point, log

_T = TypeVar("_T")
_POLL_SECONDS, _UPDATE_SECONDS = 300, 30
# A poll with its choice and wait adds 9 of the 25,000 events of an execution's history. The most include the polls that
# read more captures at once. The rest is for a year after the run (custom_resource.later).
_LONGEST_POLLS, _MOST_POLLS = 700, 800
# A poll reads on for this long, within a function's 180 seconds.
_READING_SECONDS = 60
# A run may last a tenth longer than declared, and at least this, to compare what waits at its end.
_SHORTEST_GRACE_SECONDS = 600
_UPDATE_ATTEMPTS, _TOLD_REFUSALS = 3, 3
# An execution that has not ended a shadow after this time counts as dead.
_LONGEST_END_SECONDS = 86_400
# The errors that refuse an update. "Cannot update in-progress endpoint" is the only temporary ValidationException.
_REFUSALS = ("ValidationException", "ResourceLimitExceeded")
_BUSY = "in-progress"
_CHANGING = ("Creating", "Updating", "SystemUpdating", "RollingBack")
# Without records, each refusal is told, so that this is not too often.
_REFUSED_SECONDS = 3_600


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(ShadowWatch, event)
    request = watch.request
    region, account = context.invoked_function_arn.split(":")[3:5]
    records = RunRecords(client("s3"), "shadows", request.bucket, request.kms_key_arn, request.key(account, region))
    return poll_or_give_up(
        watch.error, lambda: _poll(watch, records, time.time()), lambda reason: _give_up(watch, records, reason)
    )


def _poll(watch: ShadowWatch, records: RunRecords, now: float) -> Output:
    output = _excused(watch, records, now)
    return _continued(watch, records, _state(records, watch, now), now) if output is None else output


def _excused(watch: ShadowWatch, records: RunRecords, now: float) -> Output | None:
    """Return the output of the poll if this execution must not end the shadow as its records say, or not yet."""

    def without_store(error: ClientError) -> Output:
        # No run goes on.
        log("shadow ends without records", reason=repr(error))
        return _end_without_records(watch)

    def by_records() -> Output | None:
        if watch.issued is None:
            return _wait_for_others(watch, records, now)
        if records.is_given_up(watch.issued):
            log("shadow given up", shadow=records.key, run=watch.run)
            return DONE
        return None

    return unless_store_is_gone(by_records, without_store)


def _continued(watch: ShadowWatch, records: RunRecords, state: RunState, now: float) -> Output:
    output = _observe(watch, records, state, now) if state.phase == "observing" else None
    output = output or _end(watch, records, state)
    if output == DONE:
        # If the shadow comes back again, another execution ends it.
        records.change(CURRENT, ShadowDecision, lambda before: _ended(before or _undecided(watch), watch))
    return output


def _give_up(watch: ShadowWatch, records: RunRecords, reason: str) -> Output:
    """End the shadow after polls kept failing: its instances cost money, and nothing watches it.

    Each step may fail for the same reason as the polls. The last one needs only the request. An execution without a run
    ends nothing as long as it cannot know whether a run watches the shadow.
    """
    now = time.time()
    try:
        if (output := _excused(watch, records, now)) is not None:
            return output
    except Exception as error:
        log("unknown whether the shadow is watched", reason=repr(error))
        # A damaged record of the verdict stays damaged, and is no run's.
        if watch.issued is None and not isinstance(error, DeploymentError):
            return later(watch, _REFUSED_SECONDS)
    state = _tried(lambda: _state(records, watch, now)) or _new_state(watch, now)

    def concluded() -> Output:
        if state.phase == "observing":
            _conclude(watch, records, state, Verdict("not decided"), f"Watching failed: {reason}", now)
        return _continued(watch, records, state, now)

    return _tried(concluded) or _end_without_records(watch)


def _tried(step: Callable[[], _T]) -> _T | None:
    """Return the result of a step; None if it fails."""
    try:
        return step()
    except Exception as error:
        log("shadow ends without records", reason=repr(error))
        return None


def _end_without_records(watch: ShadowWatch) -> Output:
    """Take the shadow variant off the endpoint, as long as the endpoint has it; return the output of the poll."""
    request = watch.request
    if watch.issued is None and (output := _while_deployed(watch)) is not None:
        return output
    endpoint = _endpoint(request)
    if endpoint is None or endpoint["EndpointConfigName"] != request.shadow_config_name:
        return DONE
    updates = int(watch.look.get("Updates") or 0)
    if endpoint["EndpointStatus"] in _CHANGING:
        return later(watch, _UPDATE_SECONDS) | {"Updates": updates}
    if updates >= _UPDATE_ATTEMPTS:
        _tell_of_remaining(request, _rolled_back(endpoint))
        return DONE
    refusal = _move(request, request.ended_config_name)
    if not refusal or _BUSY in refusal:
        return later(watch, _UPDATE_SECONDS) | {"Updates": updates + (not refusal)}
    _tell_of_remaining(request, refusal)
    return later(watch, _REFUSED_SECONDS) | {"Updates": updates}


def _while_deployed(watch: ShadowWatch) -> Output | None:
    """Return the output of the poll while the stack is in an operation, or if it is deleted."""
    status = stack_status(watch.stack_id) if watch.stack_id is not None else None
    if status is None or status.startswith("DELETE_"):
        return DONE
    return later(watch, _UPDATE_SECONDS) if status.endswith("_IN_PROGRESS") else None


def _wait_for_others(watch: ShadowWatch, records: RunRecords, now: float) -> Output | None:
    """Return the output of the poll, or None if this execution must end the shadow because no run watches it."""
    current = records.get(CURRENT, ShadowDecision)
    if current is not None and current.ending == watch.run:
        return None
    if (output := _while_deployed(watch)) is not None:
        return output
    endpoint = _endpoint(watch.request)
    if endpoint is None or endpoint["EndpointConfigName"] != watch.request.shadow_config_name:
        return DONE
    if current is None or current.outcome == OBSERVING:
        return DONE

    def taken(before: ShadowDecision | None) -> ShadowDecision:
        before = before or current
        is_free = before.ending is None or before.since < now - _LONGEST_END_SECONDS
        # A run may have begun in the meantime.
        takes = is_free and before.outcome != OBSERVING
        return before.updated(ending=watch.run, since=int(now)) if takes else before

    return None if records.change(CURRENT, ShadowDecision, taken).ending == watch.run else DONE


def _undecided(watch: ShadowWatch) -> ShadowDecision:
    return ShadowDecision(outcome="not decided", run=watch.run)


def _ended(before: ShadowDecision, watch: ShadowWatch) -> ShadowDecision:
    return before.updated(ending=None) if before.ending == watch.run else before


def _is_open(current: ShadowDecision | None, watch: ShadowWatch) -> bool:
    """Return whether this run may still record its verdict: it has none, and no other run has taken its place."""
    return current is None or (current.run == watch.run and current.outcome == OBSERVING)


def _state(records: RunRecords, watch: ShadowWatch, now: float) -> RunState:
    if (stored := records.get(RUN, RunState, watch.run)) is not None:
        return stored
    state = _new_state(watch, now)
    earlier = records.get(CURRENT, ShadowDecision)
    if watch.issued is not None and earlier is not None and earlier.is_final:
        log("decided before", shadow=records.key, outcome=earlier.outcome)
        state.phase = "ending"
        decided = earlier.updated(ending=watch.run, since=int(now), promotion_failed=False)
        records.write(CURRENT, decided.to_record())
    return state


def _new_state(watch: ShadowWatch, now: float) -> RunState:
    phase = "ending" if watch.issued is None else "observing"
    return RunState(began=now, minute=now // 60 * 60 + 60, phase=phase)


def _observe(watch: ShadowWatch, records: RunRecords, state: RunState, now: float) -> Output | None:
    """Read new captures and metrics; return the output of the poll if the run continues."""
    request = watch.request
    endpoint = _endpoint(request)
    if endpoint is None or endpoint["EndpointConfigName"] != request.shadow_config_name:
        if endpoint is not None and endpoint["EndpointStatus"] in ("Creating", "Updating", "SystemUpdating"):
            return later(watch, _UPDATE_SECONDS)
        _conclude(watch, records, state, Verdict("not decided"), "Another configuration was deployed", now)
        return DONE
    current = records.get(CURRENT, ShadowDecision)
    if current is not None and not _is_open(current, watch):
        if current.run == watch.run:
            # The poll that recorded the verdict did not return.
            _announce(watch, records, state, current.outcome, "The verdict was recorded by an interrupted poll")
        else:
            _let_end(watch, records, state)
        return None
    is_over = now >= state.began + request.duration_seconds
    if state.observed.pairs == 0 and endpoint["EndpointStatus"] != "InService" and not is_over:
        return later(watch, _UPDATE_SECONDS)
    criteria = criteria_of(request)
    until = time.monotonic() + _READING_SECONDS
    try:
        while (more := Observer(request, state).observe(now, until)) and time.monotonic() < until:
            pass
    except DeploymentError as error:
        reason = f"{error}"
        _conclude(watch, records, state, Verdict("not decided"), reason[:1].upper() + reason[1:], now)
        return None
    found = verdict(state.observed, criteria)
    log(
        "observed",
        shadow=records.key,
        run=watch.run,
        pairs=state.observed.pairs,
        effective_pairs=state.observed.effective_pairs,
        outcome=found.outcome,
    )
    seconds = _seconds_between_polls(request.duration_seconds)
    # What waits at the end is still compared, but the candidate's instances cost money.
    late = now - state.began - request.duration_seconds
    reads_on = (
        more
        and state.further_polls < _MOST_POLLS - request.duration_seconds // seconds
        and late < max(_SHORTEST_GRACE_SECONDS, request.duration_seconds / 10)
    )
    if found.outcome == "not decided" and (reads_on or not is_over):
        state.further_polls += reads_on
        records.write(RUN, state.model_dump(), watch.run)
        left = max(5, int(state.began + request.duration_seconds - now))
        return again(1 if reads_on else min(left, seconds))
    _conclude(watch, records, state, found, _reason(found, state, now), now)
    return None


def _seconds_between_polls(duration_seconds: int) -> int:
    return max(5, min(_POLL_SECONDS, duration_seconds // 20), duration_seconds // _LONGEST_POLLS)


def _reason(found: Verdict, state: RunState, now: float) -> str:
    measures = [finding.measure for finding in found.findings if finding.outcome == found.outcome]
    match found.outcome:
        case "worse":
            return f"The candidate is worse by {' and '.join(measures)}"
        case "pass":
            return "No measure is worse by its margin"
        case "not decided":
            hours = (now - state.began) / 3600
            pairs, effective = state.observed.pairs, state.observed.effective_pairs
            return (
                f"{pairs} pairs in {hours:.3g} hours, which show as much as {effective} independent ones, do not "
                f"decide {', '.join(measures)}"
            )


def _conclude(
    watch: ShadowWatch, records: RunRecords, state: RunState, found: Verdict, reason: str, now: float
) -> None:
    """Write the report, notify subscribers, and let the shadow end. A recorded verdict stays."""
    request, current = watch.request, _readable(watch, records)
    if current is not None and not _is_open(current, watch):
        log("decided before", shadow=records.key, outcome=current.outcome)
        _let_end(watch, records, state)
        return
    result = report.document(request, state, found, reason, now)
    records.write_report(watch.run, report.markdown(result))
    records.write(RESULT, result, watch.run)
    records.write(RESULT, result)
    decision = ShadowDecision(outcome=found.outcome, run=watch.run, ending=watch.run, since=int(now))
    records.change(
        CURRENT, ShadowDecision, lambda before: before if before and not _is_open(before, watch) else decision
    )
    _announce(watch, records, state, found.outcome, reason)


def _readable(watch: ShadowWatch, records: RunRecords) -> ShadowDecision | None:
    """Return the record of the verdict; a damaged one is replaced, because it must not keep this run from its own."""
    try:
        return records.get(CURRENT, ShadowDecision)
    except NewerRecord:
        raise
    except DeploymentError as error:
        log("verdict replaced", shadow=records.key, reason=str(error))
        records.write(CURRENT, ShadowDecision(outcome=OBSERVING, run=watch.run).to_record())
        return None


def _announce(watch: ShadowWatch, records: RunRecords, state: RunState, outcome: str, reason: str) -> None:
    _let_end(watch, records, state)
    log(
        Counted.shadow_decided if outcome != "not decided" else Counted.shadow_not_decided,
        shadow=records.key,
        outcome=outcome,
        pairs=state.observed.pairs,
        effective_pairs=state.observed.effective_pairs,
    )
    _tell(watch.request, outcome, f"{reason}. Report: {records.uri('report.md', watch.run)}")


def _let_end(watch: ShadowWatch, records: RunRecords, state: RunState) -> None:
    # Ending the shadow needs neither files nor places.
    state.phase, state.files = "ending", []
    state.production, state.candidate = Reading(), Reading()
    records.write(RUN, state.model_dump(), watch.run)


def _tell(request: ShadowRequest, what: str, message: str) -> None:
    if request.topic_arn is None:
        return
    subject = f"Shadow of {request.endpoint_name}: {what}"[:100]
    try:
        client("sns").publish(TopicArn=request.topic_arn, Subject=subject, Message=message)
    except ClientError as error:
        # A topic that is gone, or whose key is disabled, must not keep the shadow on the endpoint.
        log("not told", topic=request.topic_arn, reason=message_of(error))


def _end(watch: ShadowWatch, records: RunRecords, state: RunState) -> Output:
    """Remove the shadow variant or promote the candidate; return the output of the poll."""
    request = watch.request
    current = records.get(CURRENT, ShadowDecision)
    if current is not None and current.outcome == OBSERVING and current.run != watch.run:
        # A later run compares the same candidate.
        return DONE
    promotes = (
        current is not None
        and current.outcome == "pass"
        and request.promoted_config_name is not None
        and not current.promotion_failed
    )
    target = request.promoted_config_name if promotes else request.ended_config_name
    endpoint = _endpoint(request)
    if endpoint is None:
        return DONE
    if endpoint["EndpointStatus"] in _CHANGING:
        return later(watch, _UPDATE_SECONDS)
    if endpoint["EndpointConfigName"] != request.shadow_config_name:
        # This execution or another deployment moved the endpoint.
        log("shadow ended", shadow=records.key, config=endpoint["EndpointConfigName"])
        return DONE
    if state.updates >= _UPDATE_ATTEMPTS:
        # Updates that alarms roll back are not repeated any more.
        _tell_of_remaining(request, _rolled_back(endpoint))
        return DONE
    if (state.updates or state.refusals) and promotes:
        # Alarms rolled back the promotion, the candidate did not start, or a quota refused it. Production stays.
        reason = state.refusal or _rolled_back(endpoint)
        log("promotion failed", shadow=records.key, reason=reason)
        target = request.ended_config_name
        records.change(
            CURRENT, ShadowDecision, lambda before: (before or _undecided(watch)).updated(promotion_failed=True)
        )
    state.refusal = _move(request, str(target))
    if _BUSY in state.refusal:
        # CloudFormation began an update in the meantime.
        log("endpoint is busy", shadow=records.key)
        return later(watch, _UPDATE_SECONDS)
    if not state.refusal:
        state.updates, state.refusals = state.updates + 1, 0
    else:
        # A refused update changes nothing, and may be accepted once a quota is raised.
        state.refusals += 1
        if state.refusals == _TOLD_REFUSALS:
            _tell_of_remaining(request, state.refusal)
    records.write(RUN, state.model_dump(), watch.run)
    return later(watch, _REFUSED_SECONDS if state.refusals >= _TOLD_REFUSALS else _UPDATE_SECONDS)


def _move(request: ShadowRequest, config_name: str) -> str:
    """Update the endpoint to a configuration; return SageMaker's refusal, empty if it accepts the update."""
    try:
        client("sagemaker").update_endpoint(
            EndpointName=request.endpoint_name,
            EndpointConfigName=config_name,
            # Keeps the scaled number of instances, and the deployment configuration with its alarms.
            RetainAllVariantProperties=True,
            RetainDeploymentConfig=True,
        )
    except ClientError as error:
        if code_of(error) not in _REFUSALS:
            raise
        log("update refused", endpoint_name=request.endpoint_name, reason=message_of(error))
        return message_of(error)
    return ""


def _rolled_back(endpoint: Mapping[str, Any]) -> str:
    return str(endpoint.get("FailureReason") or "SageMaker rolled back the endpoint's update")


def _tell_of_remaining(request: ShadowRequest, reason: str) -> None:
    log(
        Counted.job_failed,
        endpoint_name=request.endpoint_name,
        failure=f"the shadow variant could not be removed: {reason}",
    )
    _tell(request, "not ended", f"The shadow variant could not be removed, and its instances keep running: {reason}")


def _endpoint(request: ShadowRequest) -> Mapping[str, Any] | None:
    try:
        return client("sagemaker").describe_endpoint(EndpointName=request.endpoint_name)
    except ClientError as error:
        if code_of(error) == "ValidationException" and "Could not find" in message_of(error):
            return None
        raise
