"""``Custom::ComponentCapacity``: the current number of copies of an inference component.

CloudFormation sends the number of copies with every update of a component, which would undo scaling. This resource has
the component's definition as a property, so CloudFormation updates it before every update of the component.
"""

from __future__ import annotations

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource
from ..errors import message_of
from ..requests.properties import CapacityProperties, validate
from ..telemetry import log


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(CapacityProperties, event["ResourceProperties"])
    # On Create as well: the component may be older than this resource.
    copies = _copies_now(event["StackId"], props.component_logical_id)
    if copies is None:
        log("initial copies", copies=props.initial_copy_count)
        copies = props.initial_copy_count
    else:
        log("kept copies", copies=copies)
    return f"copies-of-{props.component_logical_id}", {"CopyCount": str(copies)}


def _copies_now(stack_id: str, logical_id: str) -> int | None:
    """Return the desired copies of the stack's component; None if it does not exist."""
    cloudformation = client("cloudformation")
    try:
        resource = cloudformation.describe_stack_resource(StackName=stack_id, LogicalResourceId=logical_id)
    except ClientError as error:
        if "does not exist" not in message_of(error):
            raise
        return None
    # The physical ID is the component's ARN, which ends in its name, or empty if its creation failed.
    name = resource["StackResourceDetail"].get("PhysicalResourceId", "").rpartition("/")[2]
    if not name:
        return None
    sagemaker = client("sagemaker")
    try:
        component = sagemaker.describe_inference_component(InferenceComponentName=name)
    except ClientError as error:
        if "could not find" not in message_of(error).lower():
            raise
        return None
    return component.get("RuntimeConfig", {}).get("DesiredCopyCount")


def _delete(event: Event) -> None:
    """Nothing to delete: CloudFormation deletes the component."""


handler = custom_resource(ensure=_ensure, delete=_delete)
