"""The handlers' framework: custom resources, which always respond, and polls of the jobs that they start.

A resource's handler responds as soon as its job runs. A state machine then polls the job, while the stack waits for the
signal of a wait condition. Responses and signals are PUT requests to pre-signed URLs, which are secrets. Reasons are
redacted like log lines.
Sources: AWS CloudFormation user guide, "Custom resource response objects" and "Create wait conditions".
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from .aws import client, forget_clients
from .documents import nested, not_created
from .errors import DeploymentError, LeftToWatcher, Superseded, code_of, message_of
from .telemetry import Counted, LambdaContext, entry_point, log, redacted

if TYPE_CHECKING:
    from .jobs.sagemaker_jobs import JobKind
    from .requests.properties import Watch, WatchedProperties

T = TypeVar("T")
Output = dict[str, object]
"""The output of a poll, which the state machine reads."""
DONE: Output = {"Done": True}
"""The output that ends an execution of the state machine."""
# "The total size of the response body can't exceed 4096 bytes" (Custom resource response objects). The same limit
# applies to wait conditions (CloudFormation quotas, "Wait condition data").
_BODY_LIMIT = 4000
_ATTEMPTS = 5
# In seconds, between polls that wait for something without a known end.
_SHORTEST_WAIT, _LONGEST_WAIT = 30, 86_400
# The longest pauses before an urgent poll, and until when.
_URGENT = ((6 * 3_600, 60), (48 * 3_600, 3_600))
# How long a watcher pauses after polls kept failing, if no stack waits for it.
_REST_SECONDS = 1_800
# The longest job waits 28 days for spot capacity and runs for 28 days.
_LONGEST_JOB_SECONDS = 56 * 86_400
# The errors of an invocation that did not return. Source: AWS Step Functions developer guide, "Handling errors in Step
# Functions workflows" (Lambda.Unknown, Sandbox.Timedout, States.Timeout); AWS Lambda developer guide, "Runtime API".
_DETAILS = "For details, see the function's log"
_CRASHES = ("Lambda.Unknown", "Runtime.", "Sandbox.", "States.")


class Event(TypedDict):
    """A request from CloudFormation (user guide, "Custom resource request objects")."""

    RequestType: str
    RequestId: str
    ResponseURL: str
    StackId: str
    LogicalResourceId: str
    PhysicalResourceId: NotRequired[str]
    ResourceProperties: Mapping[str, object]
    OldResourceProperties: NotRequired[Mapping[str, object]]


def issued_at(response_url: str) -> int:
    """Return when a request was sent, in seconds since 1970, from its pre-signed URL; 0 if that has no date."""
    query = parse_qs(urlsplit(response_url).query)
    try:
        date = dt.datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")
    except (KeyError, ValueError):
        return 0
    return int(date.replace(tzinfo=dt.UTC).timestamp())


def account_and_region(event: Event) -> tuple[str, str]:
    """Return the stack's account and Region."""
    region, account = event["StackId"].split(":")[3:5]
    return account, region


def custom_resource(
    *, ensure: Callable[[Event], tuple[str, dict[str, str]]], delete: Callable[[Event], None]
) -> Callable[[Event, LambdaContext], None]:
    """Return a function's entry point; ``ensure`` creates or updates, and returns the physical ID and attributes."""

    @entry_point
    def handler(event: Event, context: LambdaContext) -> None:
        physical_id = event.get("PhysicalResourceId") or not_created(event.get("RequestId", ""))
        data: dict[str, str] = {}
        failure = None
        # Requests are rare, and none should be cut short by what failed before it.
        forget_clients()
        try:
            log("received", request_type=event["RequestType"])
            if event["RequestType"] == "Delete":
                delete(event)
            else:
                physical_id, data = _patiently(ensure, event, context)
        except Superseded as superseded:
            # CloudFormation waits only for the response to the later request.
            log("superseded", reason=str(superseded))
            return
        except LeftToWatcher:
            return
        except Exception as error:
            # Not raised: CloudFormation invokes asynchronously, so Lambda would retry a failed invocation after the
            # stack has rolled back.
            failure = _failure(error, event)
        reason = f"{event.get('LogicalResourceId', 'the resource')}: {failure}" if failure is not None else None
        respond(event, physical_id=physical_id, failure=reason, data=data)

    return handler


def _failure(error: Exception, event: Event) -> str:
    """Log an error and return it as the reason for the stack; whatever goes wrong here, there is a reason."""
    try:
        match error:
            case DeploymentError():
                failure = str(error)
                log(Counted.deployment_failed, reason=failure)
            case ClientError() | BotoCoreError():
                failure = _explained(error, event)
                log(Counted.deployment_failed, reason=str(error))
            case _:
                log_group = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "")
                failure = f"unexpected {type(error).__name__}: {error}. {_DETAILS} {log_group}"
                log(Counted.deployment_failed, reason=repr(error), traceback=traceback.format_exc())
    except Exception:
        return f"unexpected {type(error).__name__}. {_DETAILS}"
    return failure


def _patiently(
    ensure: Callable[[Event], tuple[str, dict[str, str]]], event: Event, context: LambdaContext
) -> tuple[str, dict[str, str]]:
    """Retry while permissions may not be effective yet, for at most half of the function's remaining time.

    Source: IAM user guide, "Changes that I make are not always immediately visible".
    """
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 2000
    pause = 1.0
    while True:
        try:
            return ensure(event)
        except ClientError as error:
            if not _may_be_too_early(error) or time.monotonic() + pause > deadline:
                raise
            log("waits for permissions", operation=error.operation_name, reason=str(error))
        time.sleep(pause)
        pause = min(2 * pause, 8.0)


def _may_be_too_early(error: ClientError) -> bool:
    code, message = code_of(error), message_of(error)
    return code in ("AccessDenied", "AccessDeniedException") or "assume" in message.lower()


_PERMISSIONS = (
    "grant the role the missing permission; a permissions boundary, a service control policy, or the policy of the "
    "bucket or key may deny what the role's own policy allows"
)
_NEXT_STEPS = {
    "ResourceLimitExceeded": "request a quota increase in Service Quotas, or deploy again when other jobs have ended",
    "ThrottlingException": "the service kept throttling the call; deploy again",
    "SlowDown": "S3 kept throttling the call; deploy again",
    "NoSuchBucket": "the artifact store's bucket does not exist; create it again, or use another store",
    "AccessDenied": _PERMISSIONS,
    "AccessDeniedException": _PERMISSIONS,
    "KMS.DisabledException": "enable the artifact store's KMS key, then deploy again",
    "KMS.KMSInvalidStateException": "enable the artifact store's KMS key, or cancel its deletion, then deploy again",
    "KMS.NotFoundException": "the artifact store's KMS key does not exist; use another key",
}


def _explained(error: ClientError | BotoCoreError, event: Event) -> str:
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {error}. Next: the service could not be reached; deploy again"
    code, message = code_of(error), message_of(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    next_step = _NEXT_STEPS.get(code) or ("the service failed; deploy again" if status >= 500 else "")
    store = event["ResourceProperties"].get("Bucket")
    if next_step == _PERMISSIONS and store:
        # S3 gives other accounts no details.
        account, _ = account_and_region(event)
        next_step += (
            f". If another account owns the store {store}, that account must share it with this one, {account} "
            "(ArtifactStore.share_with_account)"
        )
    return f"{error.operation_name} failed with {code}: {message}" + (f". Next: {next_step}" if next_step else "")


def respond(
    event: Event, *, physical_id: str, failure: str | None = None, data: Mapping[str, str] | None = None
) -> None:
    """Respond to a custom resource request with SUCCESS, or with FAILED and the reason ``failure``."""
    _put(
        event["ResponseURL"],
        {
            "Status": "SUCCESS" if failure is None else "FAILED",
            "Reason": _redacted(failure or "done"),
            "PhysicalResourceId": physical_id,
            "StackId": event.get("StackId", ""),
            "RequestId": event.get("RequestId", ""),
            "LogicalResourceId": event.get("LogicalResourceId", ""),
            "Data": dict(data or {}),
        },
    )


def _redacted(reason: str) -> str:
    """Return a reason without secrets; if it cannot be redacted, a constant one, because the stack waits."""
    try:
        return redacted(reason)
    except Exception:
        log("reason not redacted", traceback=traceback.format_exc())
        return f"the reason could not be shown. {_DETAILS}"


def signal(handle: str, *, failure: str | None = None, data: str = "") -> None:
    """Signal a wait condition, which may have been deleted with its stack."""
    body = {
        "Status": "SUCCESS" if failure is None else "FAILURE",
        "Reason": _redacted(failure or "the artifact is ready"),
        # CloudFormation treats a signal with the same ID as a retransmission and keeps the first.
        "UniqueId": "artifact",
        "Data": data,
    }
    try:
        _put(handle, body)
    except urllib.error.HTTPError as error:
        if error.code not in (403, 404):
            raise
        log("wait condition is gone", status=error.code)


def _fitting(body: Mapping[str, object]) -> bytes:
    """Return the body as JSON, with its reason cut so that it fits the size limit."""
    reason, end = str(body["Reason"]), ""
    while True:
        # UTF-8 is shorter than \\uXXXX; surrogates become question marks.
        payload = json.dumps({**body, "Reason": reason + end}, ensure_ascii=False).encode(errors="replace")
        beyond = len(payload) - _BODY_LIMIT
        if beyond <= 0 or not reason:
            return payload
        # A character takes at most six bytes.
        reason, end = reason[: min(_BODY_LIMIT, len(reason) - max(1, beyond // 6))], "..."


def _put(url: str, body: Mapping[str, object]) -> None:
    payload = _fitting(body)
    # S3's pre-signed URLs are signed for an empty Content-Type. requests/properties.py checks handles; response URLs
    # come from CloudFormation.
    request = urllib.request.Request(url, data=payload, method="PUT", headers={"Content-Type": ""})  # noqa: S310
    for attempt in itertools.count(1):
        try:
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == _ATTEMPTS:
                raise
        except OSError:
            if attempt == _ATTEMPTS:
                raise
        time.sleep(0.2 * 2**attempt)


def start_watching(props: WatchedProperties, name: str, document: Mapping[str, object]) -> bool:
    """Start the execution ``name`` with the input ``document``; return False if an earlier attempt started it."""
    deadline = None
    if props.wait_seconds is not None:
        # The watcher fails the wait condition before its timeout, because CloudFormation gives no reason for a timeout.
        deadline = int(time.time() + props.wait_seconds - min(60, props.wait_seconds / 10))
    text = json.dumps({**document, "Deadline": deadline, "WaitHandle": props.wait_handle})
    try:
        client("stepfunctions").start_execution(stateMachineArn=props.state_machine_arn, name=name, input=text)
    except ClientError as error:
        if code_of(error) != "ExecutionAlreadyExists":
            raise
        return False
    return True


def poll_or_give_up(caught: object, poll: Callable[[], Output], give_up: Callable[[str], Output]) -> Output:
    """Return the output of a poll or, if polls keep failing, of ``give_up``, which gets the reason.

    ``caught`` is what the state machine caught after its last retry; None or empty if it caught nothing. What failed
    may work by now, so this is one more poll, except after a crash: the next one would not return either.

    Raises:
        Exception: what ``poll`` raises, unless the state machine caught an error before.
    """
    if not caught:
        return poll()
    name = str(nested(caught, "Error") or "unknown")
    if name.startswith(_CRASHES):
        return give_up(f"the function ended as {name}, out of time or memory")
    try:
        return poll()
    except Exception as error:
        log("polls keep failing", reason=repr(error), traceback=traceback.format_exc())
        forget_clients()
        return give_up(f"{type(error).__name__}: {error}")


def unless_store_is_gone(poll: Callable[[], T], gone: Callable[[ClientError], T]) -> T:
    """Return the result of ``poll`` or, without the store's bucket, of ``gone``, which gets the error."""
    try:
        return poll()
    except ClientError as error:
        if code_of(error) != "NoSuchBucket":
            raise
        return gone(error)


def poll_run(watch: Watch, poll: Callable[[], Output], *, failed: str, advice: str) -> Output:
    """Return the output of a poll of a job or a run whose results only this execution writes.

    If polls keep failing, a stack that waits gets ``failed``, the reason, and ``advice``. If none waits, or no longer,
    the failure is counted, and the next poll is later, for as long as the longest job takes. Without the store's
    bucket, nothing can be written, and the execution ends.
    """

    def without_store(error: ClientError) -> Output:
        return end(watch, failure=f"{failed}: {error}. Next: {_NEXT_STEPS['NoSuchBucket']}")

    def give_up(reason: str) -> Output:
        now = int(time.time())
        # Of failures in a row: a poll that works has another output.
        since = int(watch.look.get("FailingSince") or now)
        if (watch.wait_handle and not is_out_of_time(watch)) or now - since > _LONGEST_JOB_SECONDS:
            return end(watch, failure=f"{failed}: {reason}. {advice}")
        log(Counted.watching_failed if since == now else "watches on", reason=f"{failed}: {reason}")
        return later(watch, _REST_SECONDS) | {"FailingSince": since}

    return poll_or_give_up(watch.error, lambda: unless_store_is_gone(poll, without_store), give_up)


def again(seconds: int) -> Output:
    """Return the output that makes the state machine poll again."""
    return {"Done": False, "WaitSeconds": seconds}


def later(watch: Watch, seconds: int, *, is_urgent: bool = False) -> Output:
    """Return the output that makes the state machine poll again after at least ``seconds``.

    The next of several such waits in a row takes at least an eighth of their time so far, from half a minute to a day.
    So an execution lasts the year that AWS Step Functions allows within its 25,000 events, even if nine attempts at
    each poll fail, and what has changed is noticed a day later at most. If it is urgent, and no attempts failed, it is
    noticed within a minute in the first six hours, and within an hour in the first two days.
    """
    waited = int(watch.look.get("Waited") or 0)
    longest = _LONGEST_WAIT
    if is_urgent and not watch.error:
        longest = next((pause for until, pause in _URGENT if waited < until), _LONGEST_WAIT)
    least = min(longest, max(_SHORTEST_WAIT, waited // 8)) if waited else 0
    pause = max(seconds, least)
    return again(pause) | {"Waited": waited + pause}


def wait_seconds(age: dt.timedelta, *, is_awaited: bool = False) -> int:
    """Return the number of seconds to wait before the next poll."""
    # A stack waits for at most 12 hours.
    if age < dt.timedelta(hours=12) or is_awaited:
        return int(min(60, max(5, age.total_seconds() / 10)))
    # The longest job stays within the 25,000 events of an execution (AWS Step Functions developer guide, "Quotas").
    return int(min(3600, max(300, age.total_seconds() / 100)))


def is_out_of_time(watch: Watch) -> bool:
    """Return whether the stack's deadline has passed."""
    return bool(watch.wait_handle) and watch.deadline is not None and time.time() >= watch.deadline


def poll(watch: Watch, kind: JobKind, name: str, job: Mapping[str, Any], *, advice: str) -> Output | None:
    """Return the output while a job runs, or None once it has completed.

    After the stack's deadline, signal a failure whose reason ends with ``advice``.

    Raises:
        DeploymentError: if the job failed or was stopped.
    """
    status = kind.status(job)
    log("polled", job_name=name, status=status)
    if kind.has_status(job, "COMPLETED"):
        return None
    if kind.has_status(job, "FAILED", "STOPPED"):
        reason = f"the {kind.title} {name} ended as {status}: {kind.failure_reason(job)}"
        raise DeploymentError(f"{reason}. {kind.next_step(job)}")
    # SageMaker's clock may be ahead of this function's.
    age = max(dt.datetime.now(dt.UTC) - job["CreationTime"], dt.timedelta(0))
    is_late = is_out_of_time(watch)
    if is_late:
        minutes = int(age.total_seconds() // 60)
        reason = f"the {kind.title} {name} is still {status} after {minutes // 60} h {minutes % 60} min"
        send_signal(watch, failure=f"{reason}, the longest that this deployment waits{advice}")
    return again(wait_seconds(age, is_awaited=bool(watch.wait_handle) and watch.deadline is not None and not is_late))


def end(watch: Watch, *, failure: str | None = None, data: str = "") -> Output:
    """Signal the outcome to the stack and end the execution."""
    log(Counted.job_failed if failure else Counted.job_completed, failure=failure or "")
    send_signal(watch, failure=failure, data=data)
    return DONE


def send_signal(watch: Watch, *, failure: str | None = None, data: str = "") -> None:
    """Signal the stack's wait condition, if any."""
    if watch.wait_handle:
        signal(watch.wait_handle, failure=failure, data=data)
