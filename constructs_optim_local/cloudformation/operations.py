"""Which operations of which service make, change and delete the resources of a CloudFormation type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Properties = dict[str, Any]


@dataclass(frozen=True)
class Operations:
    """How a type's life is spelled in its service's API.

    Attributes:
        service: the service's name.
        create: operation that creates.
        delete: operation that deletes.
        update: operation that updates in place; None where every change replaces.
        describe: operation that tells name and ``status_member``.
        name: property that names the resource, made up where it is not given.
        arn: member of the create operation's answer that has the ARN; None where there is none.
        delete_members: members of the delete request, taken from the properties.
        status_member: member of its answer that has the status; None where creating is immediate.
        reference: what ``Ref`` gives, from properties and ARN.
        normalize: what turns the properties into the request's.
        parts: what the template says inside the resource and the API keeps beside it.
    """

    service: str
    create: str
    delete: str
    update: str | None = None
    describe: str | None = None
    name: str | None = None
    arn: str | None = None
    delete_members: tuple[str, ...] = ()
    status_member: str | None = None
    reference: Callable[[Properties, str], str] = field(default=lambda properties, arn: arn)
    normalize: Callable[[Properties], Properties] = field(default=dict)
    parts: Parts | None = None


@dataclass(frozen=True)
class Parts:
    """Things that a template lists in a property, and that have operations of their own.

    Attributes:
        member: the property.
        name: the member of each that names it.
        put: operation that creates or changes one.
        delete: operation that deletes one.
        shared: properties that name what they belong to.
    """

    member: str
    name: str
    put: str
    delete: str
    shared: tuple[str, ...]


def _target(properties: Properties) -> str:
    return "|".join(str(properties[name]) for name in ("ResourceId", "ScalableDimension", "ServiceNamespace"))


def _policy(properties: Properties) -> Properties:
    request = dict(properties)
    target = request.pop("ScalingTargetId", None)
    if target:
        resource, dimension, namespace = target.split("|")
        request |= {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}
    return request


_TARGET_MEMBERS = ("ServiceNamespace", "ResourceId", "ScalableDimension")
SAGEMAKER, SCALING = "sagemaker", "application-autoscaling"
OPERATIONS: dict[str, Operations] = {
    "AWS::SageMaker::AIWorkloadConfig": Operations(
        SAGEMAKER,
        "CreateAIWorkloadConfig",
        "DeleteAIWorkloadConfig",
        describe="DescribeAIWorkloadConfig",
        name="AIWorkloadConfigName",
        arn="AIWorkloadConfigArn",
        delete_members=("AIWorkloadConfigName",),
    ),
    "AWS::SageMaker::Model": Operations(
        SAGEMAKER,
        "CreateModel",
        "DeleteModel",
        describe="DescribeModel",
        name="ModelName",
        arn="ModelArn",
        delete_members=("ModelName",),
    ),
    "AWS::SageMaker::EndpointConfig": Operations(
        SAGEMAKER,
        "CreateEndpointConfig",
        "DeleteEndpointConfig",
        describe="DescribeEndpointConfig",
        name="EndpointConfigName",
        arn="EndpointConfigArn",
        delete_members=("EndpointConfigName",),
    ),
    "AWS::SageMaker::Endpoint": Operations(
        SAGEMAKER,
        "CreateEndpoint",
        "DeleteEndpoint",
        update="UpdateEndpoint",
        describe="DescribeEndpoint",
        name="EndpointName",
        arn="EndpointArn",
        delete_members=("EndpointName",),
        status_member="EndpointStatus",
    ),
    "AWS::SageMaker::InferenceComponent": Operations(
        SAGEMAKER,
        "CreateInferenceComponent",
        "DeleteInferenceComponent",
        update="UpdateInferenceComponent",
        describe="DescribeInferenceComponent",
        name="InferenceComponentName",
        arn="InferenceComponentArn",
        delete_members=("InferenceComponentName",),
        status_member="InferenceComponentStatus",
    ),
    "AWS::ApplicationAutoScaling::ScalableTarget": Operations(
        SCALING,
        "RegisterScalableTarget",
        "DeregisterScalableTarget",
        update="RegisterScalableTarget",
        delete_members=_TARGET_MEMBERS,
        parts=Parts(
            "ScheduledActions", "ScheduledActionName", "PutScheduledAction", "DeleteScheduledAction", _TARGET_MEMBERS
        ),
        reference=lambda properties, arn: _target(properties),
    ),
    "AWS::ApplicationAutoScaling::ScalingPolicy": Operations(
        SCALING,
        "PutScalingPolicy",
        "DeleteScalingPolicy",
        update="PutScalingPolicy",
        arn="PolicyARN",
        delete_members=("PolicyName", *_TARGET_MEMBERS),
        normalize=_policy,
    ),
}


def settles(type_name: str) -> bool:
    """Whether resources of the type take time to change, and may fail once they have begun."""
    operations = OPERATIONS.get(type_name)
    return operations is not None and operations.update is not None and operations.status_member is not None
