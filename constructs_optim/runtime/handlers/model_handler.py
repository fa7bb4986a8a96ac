"""``Custom::OptimizedModel``: a SageMaker model with additional data sources, or one that the hub describes.

``AWS::SageMaker::Model`` has no additional data sources. The physical id is the model's name, which follows from the
stack, the resource and the model's definition: a repeated or rolled back request reuses its earlier model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource
from ..errors import DeploymentError, message_of
from ..jobs.source import ResolvedSource, hub_document, resolve
from ..requests.properties import HubSource, ModelProperties, Tag, validate
from ..telemetry import Counted, log

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

NAME_PREFIX = "optim-"


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    sagemaker = client("sagemaker")
    props = validate(ModelProperties, event["ResourceProperties"])
    source = resolve(props.source, sagemaker=sagemaker, s3=client("s3"))
    request = _request(props, sagemaker, source)
    name = _name(event, request)
    try:
        arn = sagemaker.create_model(ModelName=name, **request, Tags=props.tags)["ModelArn"]
        log(Counted.model_created, model_name=name)
    except ClientError as error:
        if "already existing" not in message_of(error):
            raise
        arn = sagemaker.describe_model(ModelName=name)["ModelArn"]
        _retag(sagemaker, arn, props.tags)
        log("kept", model_name=name)
    if "OldResourceProperties" in event:
        # On a rollback, the model of the failed update has no resource if its response was lost.
        stale = _name_from(event, event["OldResourceProperties"], sagemaker)
        if stale is not None and stale not in (name, event.get("PhysicalResourceId")):
            _delete_model(sagemaker, stale)
    image = request["PrimaryContainer"]["Image"]
    return name, {"ModelName": name, "ModelArn": arn, "Image": image, **source.timeout_attributes}


def _request(props: ModelProperties, sagemaker: SageMakerClient, source: ResolvedSource) -> dict[str, Any]:
    """The body of CreateModel without name and tags."""
    s3 = client("s3")
    image, environment = props.image, dict(props.environment)
    if image is None:
        if not isinstance(props.source, HubSource):
            raise DeploymentError("a model without an image needs a hub's configuration that names one")
        document, _ = hub_document(props.source, sagemaker)
        image, of_hub = document.container(props.instance_type)
        environment = {**of_hub, **environment}
    channels = [
        {"ChannelName": channel.name, "S3DataSource": resolve(channel.source, sagemaker=sagemaker, s3=s3).data_source}
        for channel in props.channels
    ]
    return {
        "ExecutionRoleArn": props.role_arn,
        "EnableNetworkIsolation": props.enable_network_isolation,
        "PrimaryContainer": {
            "Image": image,
            "Environment": environment,
            "ModelDataSource": {"S3DataSource": source.data_source},
            **({"AdditionalModelDataSources": channels} if channels else {}),
        },
        **({"VpcConfig": props.vpc_config} if props.vpc_config else {}),
    }


def _name(event: Event, request: Mapping[str, object]) -> str:
    definition = json.dumps([event["StackId"], event["LogicalResourceId"], request], sort_keys=True)
    digest = hashlib.sha256(definition.encode()).hexdigest()[:16]
    stack = re.sub(r"[^a-zA-Z0-9]+", "-", event["StackId"].split("/")[1])
    # The function's policy allows this prefix, in lower case as in ARNs. A name has at most 63 characters.
    readable = f"{NAME_PREFIX}{stack[:20]}-{event['LogicalResourceId']}".lower()
    return f"{readable[: 63 - 17].rstrip('-')}-{digest}"


def _retag(sagemaker: SageMakerClient, arn: str, tags: list[Tag]) -> None:
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
    current = {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}
    keys = {tag["Key"] for tag in tags}
    # AWS's own tags cannot be removed.
    removed = sorted(key for key in current if key not in keys and not key.startswith("aws:"))
    if removed:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=removed)
    new = [tag for tag in tags if current.get(tag["Key"]) != tag["Value"]]
    if new:
        sagemaker.add_tags(ResourceArn=arn, Tags=new)


def _name_from(event: Event, properties: Mapping[str, object], sagemaker: SageMakerClient) -> str | None:
    """The name of the model that ``properties`` describe; None if it could not have been created."""
    try:
        props = validate(ModelProperties, properties)
        source = resolve(props.source, sagemaker=sagemaker, s3=client("s3"))
        return _name(event, _request(props, sagemaker, source))
    except (DeploymentError, ClientError) as error:
        log("no model to delete", reason=str(error))
        return None


def _delete(event: Event) -> None:
    sagemaker = client("sagemaker")
    name = event.get("PhysicalResourceId")
    if not isinstance(name, str) or not name.startswith(NAME_PREFIX):
        # A creation that failed or had no response may have created the model.
        name = _name_from(event, event["ResourceProperties"], sagemaker)
    if name is not None:
        _delete_model(sagemaker, name)


def _delete_model(sagemaker: SageMakerClient, name: str) -> None:
    try:
        sagemaker.delete_model(ModelName=name)
        log("deleted", model_name=name)
    except ClientError as error:
        if "could not find" not in message_of(error).lower():
            raise


handler = custom_resource(ensure=_ensure, delete=_delete)
