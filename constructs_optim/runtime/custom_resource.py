"""What every custom resource's handler shares: an answer for CloudFormation, whatever happens."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .cloudformation import respond
from .errors import DeploymentError
from .log import log

NOT_CREATED = "not-created"
"""The physical id of a resource that was never created: deleting it is nothing to do."""

# Standard retries back off over throttling and 5xx; eight attempts stay well below a function's timeout.
CLIENT = Config(retries={"mode": "standard", "max_attempts": 8}, connect_timeout=5, read_timeout=20)

Event = Mapping[str, Any]


def answer(
    event: Event, ensure: Callable[[Event], tuple[str, dict[str, str]]], delete: Callable[[Event], None]
) -> None:
    """Carry the event out and tell CloudFormation.

    Args:
        event: the custom resource event.
        ensure: for Create and Update; gives the physical id and the attributes.
        delete: for Delete.
    """
    physical_id = event.get("PhysicalResourceId") or NOT_CREATED
    log("received", request=event["RequestType"], stack=event["StackId"], resource=event["LogicalResourceId"])
    try:
        if event["RequestType"] == "Delete":
            delete(event)
            respond(event, physical_id=physical_id)
            return
        created, data = ensure(event)
        respond(event, physical_id=created, data=data)
    except DeploymentError as error:
        log("failed", reason=str(error))
        respond(event, physical_id=physical_id, failure=f"{event['LogicalResourceId']}: {error}")
    except (ClientError, BotoCoreError) as error:
        log("failed", reason=str(error))
        respond(event, physical_id=physical_id, failure=f"{event['LogicalResourceId']}: {_explained(error)}")
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


_NEXT_STEPS = {
    "ResourceLimitExceeded": "ask for a higher limit in Service Quotas, or deploy when other jobs have ended",
    "ThrottlingException": "the service kept throttling the call; deploy again",
    "NoSuchBucket": "the artifact store's bucket is gone; create it again, or name another store",
    "AccessDenied": "check permissions boundaries and service control policies of the stack's roles",
    "AccessDeniedException": "check permissions boundaries and service control policies of the stack's roles",
}


def _explained(error: ClientError | BotoCoreError) -> str:
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {error}"
    code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    next_step = _NEXT_STEPS.get(code, "")
    return f"{error.operation_name} answered {code}: {message}" + (f". Next: {next_step}" if next_step else "")
