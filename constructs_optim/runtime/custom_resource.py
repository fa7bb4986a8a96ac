"""The frame of the handlers: custom resources, which always respond, and the polls of the jobs that they start.

A resource's handler responds as soon as its job runs. A state machine then polls the job, and the stack waits for the
signal of a wait condition. Responses and signals are PUT requests to pre-signed URLs, which are secrets. Reasons are
redacted like log lines.
Sources: AWS CloudFormation user guide, "Custom resource response objects" and "Create wait conditions".
"""

from __future__ import annotations

import datetime as dt
import json
import os
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from .aws import client
from .documents import not_created
from .errors import DeploymentError, LeftToWatcher, Superseded, code_of, message_of
from .telemetry import Counted, LambdaContext, entry_point, log, redacted

if TYPE_CHECKING:
    from .jobs.sagemaker_jobs import JobKind
    from .requests.properties import Watch, WatchedProperties

Output = dict[str, object]
"""The output of a poll, for the state machine."""
DONE: Output = {"Done": True}
"""The output that ends the state machine's execution."""
# "The total size of the response body can't exceed 4096 bytes" (Custom resource response objects), as for a wait
# condition (CloudFormation quotas, "Wait condition data").
_BODY_LIMIT = 4000
_ATTEMPTS = 5


class Event(TypedDict):
    """A request of CloudFormation's (user guide, "Custom resource request objects")."""

    RequestType: str
    RequestId: str
    ResponseURL: str
    StackId: str
    LogicalResourceId: str
    PhysicalResourceId: NotRequired[str]
    ResourceProperties: Mapping[str, object]
    OldResourceProperties: NotRequired[Mapping[str, object]]


def issued_at(response_url: str) -> int:
    """When a request was sent, in seconds since 1970, by its pre-signed URL; 0 without a date."""
    query = parse_qs(urlsplit(response_url).query)
    try:
        date = dt.datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")
    except (KeyError, ValueError):
        return 0
    return int(date.replace(tzinfo=dt.UTC).timestamp())


def account_and_region(event: Event) -> tuple[str, str]:
    """The account and region of the stack."""
    region, account = event["StackId"].split(":")[3:5]
    return account, region


def custom_resource(
    *, ensure: Callable[[Event], tuple[str, dict[str, str]]], delete: Callable[[Event], None]
) -> Callable[[Event, LambdaContext], None]:
    """The entry point of a function; ``ensure`` creates or updates, and returns the physical id and attributes."""

    @entry_point
    def handler(event: Event, context: LambdaContext) -> None:
        physical_id = event.get("PhysicalResourceId") or not_created(event["RequestId"])
        data: dict[str, str] = {}
        failure = None
        log("received", request_type=event["RequestType"])
        try:
            if event["RequestType"] == "Delete":
                delete(event)
            else:
                physical_id, data = _patiently(ensure, event, context)
        except Superseded as superseded:
            # CloudFormation waits for the response of the later request only.
            log("superseded", reason=str(superseded))
            return
        except LeftToWatcher:
            return
        except DeploymentError as error:
            failure = str(error)
            log(Counted.deployment_failed, reason=failure)
        except (ClientError, BotoCoreError) as error:
            failure = _explained(error, event)
            log(Counted.deployment_failed, reason=str(error))
        except Exception as error:
            # Not raised: CloudFormation invokes asynchronously, and Lambda would repeat a failed invocation after the
            # stack has rolled back.
            log(Counted.deployment_failed, reason=repr(error), traceback=traceback.format_exc())
            log_group = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "")
            failure = f"unexpected {type(error).__name__}: {error}. The function's log {log_group} has the details"
        reason = f"{event['LogicalResourceId']}: {failure}" if failure is not None else None
        respond(event, physical_id=physical_id, failure=reason, data=data)

    return handler


def _patiently(
    ensure: Callable[[Event], tuple[str, dict[str, str]]], event: Event, context: LambdaContext
) -> tuple[str, dict[str, str]]:
    """Retry while permissions may not be effective yet, for at most half of the function's time.

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
    "give the role what is missing; permissions boundaries, service control policies and the policies of bucket and "
    "key may take away what its own policy allows"
)
_NEXT_STEPS = {
    "ResourceLimitExceeded": "ask for a higher limit in Service Quotas, or deploy when other jobs have ended",
    "ThrottlingException": "the service kept throttling the call; deploy again",
    "SlowDown": "S3 kept throttling the call; deploy again",
    "NoSuchBucket": "the artifact store's bucket is gone; create it again, or name another store",
    "AccessDenied": _PERMISSIONS,
    "AccessDeniedException": _PERMISSIONS,
    "KMS.DisabledException": "enable the artifact store's KMS key, then deploy again",
    "KMS.KMSInvalidStateException": "enable the artifact store's KMS key, or cancel its deletion, then deploy again",
    "KMS.NotFoundException": "the artifact store's KMS key is gone; name another key",
}


def _explained(error: ClientError | BotoCoreError, event: Event) -> str:
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {error}. Next: the service could not be reached; deploy again"
    code, message = code_of(error), message_of(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    next_step = _NEXT_STEPS.get(code) or ("the service failed; deploy again" if status >= 500 else "")
    store = event["ResourceProperties"].get("Bucket")
    if next_step == _PERMISSIONS and store:
        # S3 gives no details to another account.
        account = event["StackId"].split(":")[4]
        next_step += (
            f". If the store {store} is another account's, that one has to share it with this one, {account} "
            "(ArtifactStore.share_with_account)"
        )
    return f"{error.operation_name} failed with {code}: {message}" + (f". Next: {next_step}" if next_step else "")


def respond(
    event: Event, *, physical_id: str, failure: str | None = None, data: Mapping[str, str] | None = None
) -> None:
    """Respond to a custom resource event with SUCCESS, or with FAILED and the reason ``failure``."""
    _put(
        event["ResponseURL"],
        {
            "Status": "SUCCESS" if failure is None else "FAILED",
            "Reason": redacted(failure or "done"),
            "PhysicalResourceId": physical_id,
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
            "Data": dict(data or {}),
        },
    )


def signal(handle: str, *, failure: str | None = None, data: str = "") -> None:
    """Signal a wait condition, which may have been deleted with its stack."""
    body = {
        "Status": "SUCCESS" if failure is None else "FAILURE",
        "Reason": redacted(failure or "the artifact is ready"),
        # CloudFormation takes a signal with the same id as a retransmission, and keeps the first.
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
    """The body as JSON, with its reason shortened to the size limit."""
    reason, end = str(body["Reason"]), ""
    while True:
        # UTF-8 is shorter than \\uXXXX; surrogates become question marks.
        payload = json.dumps({**body, "Reason": reason + end}, ensure_ascii=False).encode(errors="replace")
        beyond = len(payload) - _BODY_LIMIT
        if beyond <= 0 or not reason:
            return payload
        # A character takes six bytes at most.
        reason, end = reason[: min(_BODY_LIMIT, len(reason) - max(1, beyond // 6))], "..."


def _put(url: str, body: Mapping[str, object]) -> None:
    payload = _fitting(body)
    # S3's pre-signed URLs are signed for an empty Content-Type. Handles are checked in requests/properties.py; response
    # URLs come from CloudFormation.
    request = urllib.request.Request(url, data=payload, method="PUT", headers={"Content-Type": ""})  # noqa: S310
    for attempt in range(1, _ATTEMPTS + 1):
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
    """Start the execution ``name`` with the input ``document``; False if an earlier attempt has started it."""
    deadline = None
    if props.wait_seconds is not None:
        # Fails the wait condition before it times out, as CloudFormation gives no reason for a timeout.
        deadline = int(time.time() + props.wait_seconds - min(60, props.wait_seconds / 10))
    text = json.dumps({**document, "Deadline": deadline, "WaitHandle": props.wait_handle})
    try:
        client("stepfunctions").start_execution(stateMachineArn=props.state_machine_arn, name=name, input=text)
    except ClientError as error:
        if code_of(error) != "ExecutionAlreadyExists":
            raise
        return False
    return True


def again(seconds: int) -> Output:
    """The output that makes the state machine poll again."""
    return {"Done": False, "WaitSeconds": seconds}


def wait_seconds(age: dt.timedelta, *, is_awaited: bool = False) -> int:
    """How many seconds to wait before the next poll."""
    # A stack waits for 12 hours at most.
    if age < dt.timedelta(hours=12) or is_awaited:
        return int(min(60, max(5, age.total_seconds() / 10)))
    # The longest job, which waits 28 days for spot capacity and runs for 28 days, stays within the 25,000 events of an
    # execution (AWS Step Functions developer guide, "Quotas").
    return int(min(3600, max(300, age.total_seconds() / 100)))


def is_out_of_time(watch: Watch) -> bool:
    """Whether the stack's deadline has passed."""
    return bool(watch.wait_handle) and watch.deadline is not None and time.time() >= watch.deadline


def poll(watch: Watch, kind: JobKind, name: str, job: Mapping[str, Any], *, advice: str) -> Output | None:
    """The output while a job runs; None once it has completed. A failed job is a :class:`DeploymentError`.

    A stack that has waited as long as it can is signalled, with ``advice``.
    """
    status = kind.status(job)
    log("polled", job_name=name, status=status)
    if kind.has_status(job, "COMPLETED"):
        return None
    if kind.has_status(job, "FAILED", "STOPPED"):
        reason = f"the {kind.title} {name} ended as {status}: {kind.failure_reason(job)}"
        raise DeploymentError(f"{reason}. Deploy again to run another one")
    # SageMaker's clock may be ahead of this function's.
    age = max(dt.datetime.now(dt.UTC) - job["CreationTime"], dt.timedelta(0))
    is_late = is_out_of_time(watch)
    if is_late:
        minutes = int(age.total_seconds() // 60)
        reason = f"the {kind.title} {name} is still {status} after {minutes // 60} h {minutes % 60} min"
        send_signal(watch, failure=f"{reason}, which is as long as this deployment waits{advice}")
    return again(wait_seconds(age, is_awaited=bool(watch.wait_handle) and watch.deadline is not None and not is_late))


def end(watch: Watch, *, failure: str | None = None, data: str = "") -> Output:
    """Signal the outcome to the stack, and end the execution."""
    log(Counted.job_failed if failure else Counted.job_completed, failure=failure or "")
    send_signal(watch, failure=failure, data=data)
    return DONE


def send_signal(watch: Watch, *, failure: str | None = None, data: str = "") -> None:
    """Signal the stack's wait condition, if any."""
    if watch.wait_handle:
        signal(watch.wait_handle, failure=failure, data=data)
