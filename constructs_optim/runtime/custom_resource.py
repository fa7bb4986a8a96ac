"""Runs a custom resource's handler, and always responds to CloudFormation."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable

from botocore.exceptions import BotoCoreError, ClientError

from .cloudformation import Event, respond
from .documents import not_created
from .errors import DeploymentError, Superseded, code_of, message_of
from .telemetry import Counted, LambdaContext, entry_point, log


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
