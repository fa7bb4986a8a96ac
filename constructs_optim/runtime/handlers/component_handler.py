"""``Custom::OptimizedInferenceComponent``: an inference component on a GPU partition, which CloudFormation lacks.

It has the properties of ``AWS::SageMaker::InferenceComponent``, which the API validates. A component takes longer than
a function may run, so a state machine applies the request, and its watcher responds to CloudFormation.
"""

from __future__ import annotations

import hashlib
import time

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource, start_watching
from ..documents import is_component_arn
from ..errors import InvalidEvent, LeftToWatcher, code_of
from ..requests.properties import ComponentProperties, validate
from ..telemetry import log

# CloudFormation waits for an hour (user guide, AWS::CloudFormation::CustomResource, ServiceTimeout).
_PATIENCE_SECONDS = 3600 - 120


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    _start(event, validate(ComponentProperties, event["ResourceProperties"]))
    raise LeftToWatcher(event["RequestType"])


def _delete(event: Event) -> None:
    try:
        props = validate(ComponentProperties, event["ResourceProperties"])
    except InvalidEvent as error:
        if is_component_arn(event.get("PhysicalResourceId")):
            raise
        log("no inference component to delete", reason=str(error))
        return
    _start(event, props)
    raise LeftToWatcher(event["RequestType"])


def _start(event: Event, props: ComponentProperties) -> None:
    """Start the request's watcher, and stop those of earlier requests for the same resource."""
    resource, request = _digest(event["StackId"], event["LogicalResourceId"]), _digest(event["RequestId"])
    own = f"{resource}-{request}"
    stepfunctions = client("stepfunctions")
    running = stepfunctions.get_paginator("list_executions").paginate(
        stateMachineArn=props.state_machine_arn, statusFilter="RUNNING"
    )
    earlier = [
        execution["executionArn"]
        for page in running
        for execution in page["executions"]
        if execution["name"].startswith(f"{resource}-") and execution["name"] != own
    ]
    document = {"Event": event, "Until": int(time.time()) + _PATIENCE_SECONDS, "Settle": bool(earlier)}
    if not start_watching(props, own, document):
        # Lambda may have repeated the invocation, and the running watcher may belong to a later request.
        return
    for arn in earlier:
        try:
            stepfunctions.stop_execution(executionArn=arn, cause="CloudFormation has sent a later request")
        except ClientError as error:
            # It has ended in the meantime.
            if code_of(error) not in ("ExecutionDoesNotExist", "ValidationException"):
                raise
        log("superseded", execution=arn)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


handler = custom_resource(ensure=_ensure, delete=_delete)
