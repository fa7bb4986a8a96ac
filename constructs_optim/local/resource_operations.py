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
        is_named: whether ``Ref`` gives the name, and so tells it where the template has none.
        attributes: what turns the create and update operations' answer, with account and region, into attributes.
        further: operations with their requests that follow a creation (from no properties) or an update, from the
            properties before and after, account and region.
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
    is_named: bool = False
    attributes: Callable[[Properties, str, str], Properties] = field(default=lambda answer, account, region: {})
    further: Callable[[Properties, Properties, str, str], list[tuple[str, Properties]]] = field(
        default=lambda before, after, account, region: []
    )


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


def _pipeline(properties: Properties) -> Properties:
    """The API's spelling begins in lower case; what an action is configured with keeps its own."""
    beside = ("DisableInboundStageTransitions", "RestartExecutionOnUpdate")
    declaration: Properties = _spelled({name: value for name, value in properties.items() if name not in beside})
    tags = declaration.pop("tags", [])
    stores = declaration.pop("artifactStores", [])
    if stores:
        declaration["artifactStores"] = {store["region"]: store["artifactStore"] for store in stores}
    return {"pipeline": declaration, "tags": tags, "name": properties["Name"]}


def _pipeline_attributes(answer: Properties, account: str, region: str) -> Properties:
    declaration = answer.get("pipeline")
    if declaration is None:
        return {}
    arn = f"arn:aws:codepipeline:{region}:{account}:{declaration['name']}"
    return {"Arn": arn, "Version": str(declaration["version"])}


def _spelled(value: Any) -> Any:
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name[:1].lower() + name[1:]: item if name == "Configuration" else _spelled(item) for name, item in value.items()
    }


def _beside_pipeline(before: Properties, after: Properties, account: str, region: str) -> list[tuple[str, Properties]]:
    """What a pipeline's properties say and the API has operations of its own for: tags, transitions, a restart."""
    found: list[tuple[str, Properties]] = []
    arn = f"arn:aws:codepipeline:{region}:{account}:{after['Name']}"
    old_tags, tags = ({tag["Key"]: tag["Value"] for tag in each.get("Tags") or []} for each in (before, after))
    if gone := sorted(set(old_tags) - set(tags)):
        found.append(("UntagResource", {"resourceArn": arn, "tagKeys": gone}))
    if before and tags and tags != old_tags:
        named = [{"key": key, "value": value} for key, value in tags.items()]
        found.append(("TagResource", {"resourceArn": arn, "tags": named}))
    old_closed, closed = (
        {item["StageName"]: item["Reason"] for item in each.get("DisableInboundStageTransitions") or []}
        for each in (before, after)
    )
    of_stage = {"pipelineName": after["Name"], "transitionType": "Inbound"}
    opened = sorted(set(old_closed) - set(closed))
    found += [("EnableStageTransition", {**of_stage, "stageName": stage}) for stage in opened]
    found += [
        ("DisableStageTransition", {**of_stage, "stageName": stage, "reason": reason})
        for stage, reason in closed.items()
        if old_closed.get(stage) != reason
    ]
    changed = any(before.get(name) != after.get(name) for name in {*before, *after} - {"Name", "Tags"})
    if before and changed and str(after.get("RestartExecutionOnUpdate", "")).lower() == "true":
        found.append(("StartPipelineExecution", {"name": after["Name"]}))
    return found


_TARGET_MEMBERS = ("ServiceNamespace", "ResourceId", "ScalableDimension")
SAGEMAKER, SCALING, PIPELINES = "sagemaker", "application-autoscaling", "codepipeline"
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
    "AWS::CodePipeline::Pipeline": Operations(
        PIPELINES,
        "CreatePipeline",
        "DeletePipeline",
        update="UpdatePipeline",
        describe="GetPipeline",
        name="Name",
        delete_members=("name",),
        reference=lambda properties, arn: properties["Name"],
        normalize=_pipeline,
        is_named=True,
        attributes=_pipeline_attributes,
        further=_beside_pipeline,
    ),
}


def settles(type_name: str) -> bool:
    """Whether resources of the type take time to change, and may fail once they have begun."""
    operations = OPERATIONS.get(type_name)
    return operations is not None and operations.update is not None and operations.status_member is not None
