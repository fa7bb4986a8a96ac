"""What handlers share: clients of AWS, and an answer for CloudFormation, whatever happens."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, overload

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .cloudformation import Event, respond
from .documents import is_artifact_key
from .errors import DeploymentError, code_of, message_of
from .store.owner_records import (
    BEGUN,
    CARRIED_OUT,
    LEAVING,
    Owner,
    OwnerRecord,
    Superseded,
)
from .telemetry import log

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_stepfunctions.client import SFNClient

_NOT_CREATED = "not-created-"

# Standard retries back off over throttling and 5xx; eight attempts stay well below a function's timeout.
CLIENT = Config(retries={"mode": "standard", "max_attempts": 8}, connect_timeout=5, read_timeout=20)

T = TypeVar("T")


@overload
def client(name: Literal["cloudformation"]) -> CloudFormationClient: ...
@overload
def client(name: Literal["cloudwatch"]) -> CloudWatchClient: ...
@overload
def client(name: Literal["s3"]) -> S3Client: ...
@overload
def client(name: Literal["sagemaker"]) -> SageMakerClient: ...
@overload
def client(name: Literal["stepfunctions"]) -> SFNClient: ...
def client(name: str) -> object:
    """boto3's client of a service, as patient as handlers are."""
    if boto3.DEFAULT_SESSION is None:
        boto3.setup_default_session(botocore_session=_knowing_newest_operations())
    return boto3.client(name, config=CLIENT)


def _knowing_newest_operations() -> botocore.session.Session:
    """A session that knows SageMaker's newest operations, whichever boto3 the Lambda runtime brings.

    botocore adds what it finds in "sdk-extras" to its own model of a service (botocore/loaders.py); boto3 adds its own
    folder to the same list.
    """
    made = botocore.session.get_session()
    made.get_component("data_loader").search_paths.append(str(Path(__file__).with_name("botocore_data")))
    return made


def not_created(request: str) -> str:
    """The physical id of a resource whose creation by ``request`` failed: it tells what its deletion is about."""
    return f"{_NOT_CREATED}{request}"


def failed_request(physical_id: object) -> str | None:
    """The request whose failed creation :func:`not_created` gave ``physical_id``; None for any other id."""
    if not isinstance(physical_id, str) or not physical_id.startswith(_NOT_CREATED):
        return None
    return physical_id.removeprefix(_NOT_CREATED)


def deleted_artifacts(record: OwnerRecord, physical_id: object) -> set[str]:
    """The artifacts that the deletion of ``physical_id`` gives up.

    With a key for an id these are that one and what is left from requests that died; the key of a request that was
    carried out stays, for it may be the replacement of the one that is deleted. Any other id is that of a creation:
    one that failed, whose request the id tells, or one whose answer never arrived. What an earlier request was giving
    up goes in any case.
    """
    leaving = record.keys_in(LEAVING)
    if is_artifact_key(physical_id):
        return {str(physical_id)} | record.keys_in(BEGUN) | leaving
    request = failed_request(physical_id)
    unanswered = record.keys_in(BEGUN, CARRIED_OUT)
    return {key for key in unanswered if request in (None, record.keys[key].request)} | leaving


def answer(
    event: Event,
    context: LambdaContext,
    *,
    ensure: Callable[[Event], tuple[str, dict[str, str]]],
    delete: Callable[[Event], None],
) -> None:
    """Carry the event out and tell CloudFormation.

    Args:
        event: the custom resource event.
        context: Lambda's, which says how much time there is.
        ensure: for Create and Update; gives the physical id and the attributes. It may be repeated.
        delete: for Delete.
    """
    physical_id = event.get("PhysicalResourceId") or not_created(event["RequestId"])
    log("received", request=event["RequestType"], stack=event["StackId"], resource=event["LogicalResourceId"])
    try:
        if event["RequestType"] == "Delete":
            delete(event)
            respond(event, physical_id=physical_id)
            return
        created, data = _patiently(lambda: ensure(event), context)
        respond(event, physical_id=created, data=data)
    except Superseded as superseded:
        # CloudFormation does not wait for this answer any more, and the later request has its own.
        log("superseded", reason=str(superseded))
    except DeploymentError as error:
        log("failed", reason=str(error))
        respond(event, physical_id=physical_id, failure=f"{event['LogicalResourceId']}: {error}")
    except (ClientError, BotoCoreError) as error:
        log("failed", reason=str(error))
        respond(event, physical_id=physical_id, failure=f"{event['LogicalResourceId']}: {_explained(error, event)}")
    except Exception as error:
        log("failed", reason=repr(error), traceback=traceback.format_exc())
        # Answered, not raised: CloudFormation invokes asynchronously, and Lambda would repeat a failed invocation
        # after the stack has rolled back.
        respond(
            event,
            physical_id=physical_id,
            failure=f"{event['LogicalResourceId']}: unexpected {type(error).__name__}: {error}. "
            f"The function's log {os.environ.get('AWS_LAMBDA_LOG_GROUP_NAME', '')} has the details",
        )


def _patiently(carry_out: Callable[[], T], context: LambdaContext) -> T:
    """Carry out, and again while permissions may still be on their way: half of the function's time at most.

    A role and its policies are there a while before every service knows of them. Source: IAM user guide, "Changes
    that I make are not always immediately visible".
    """
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 2000
    pause = 1.0
    while True:
        try:
            return carry_out()
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
    "InternalFailure": "the service failed; deploy again",
    "InternalError": "the service failed; deploy again",
    "ServiceUnavailable": "the service is not available at the moment; deploy again",
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
        # S3 tells those of another account nothing but "Access Denied".
        account = Owner(event["StackId"], event["LogicalResourceId"]).account
        next_step += (
            f". If the store {store} is another account's, that one has to share it with this one, {account} "
            "(ArtifactStore.share_with_account)"
        )
    return f"{error.operation_name} answered {code}: {message}" + (f". Next: {next_step}" if next_step else "")
