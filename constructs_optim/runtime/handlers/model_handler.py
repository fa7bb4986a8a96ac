"""``Custom::OptimizedModel``: a SageMaker model with additional data sources, or one from a hub's description.

``AWS::SageMaker::Model`` supports neither additional data sources nor a manifest of the model's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource
from ..errors import DeploymentError
from ..immutable_resources import MODEL, NAME_PREFIX, name_of
from ..jobs.source import ResolvedSource, hub_document, resolve
from ..requests.properties import HubSource, ModelProperties, validate
from ..telemetry import log

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    sagemaker = client("sagemaker")
    props = validate(ModelProperties, event["ResourceProperties"])
    source = resolve(props.source, sagemaker=sagemaker, s3=client("s3"))
    request = _request(props, sagemaker, source)
    name = name_of(event, request)
    arn = MODEL.create(sagemaker, name, request, props.tags)
    if "OldResourceProperties" in event:
        # On a rollback, CloudFormation does not know the failed update's model if its response was lost.
        stale = _name_from(event, event["OldResourceProperties"], sagemaker)
        if stale is not None and stale not in (name, event.get("PhysicalResourceId")):
            MODEL.delete(sagemaker, stale)
    image = request["PrimaryContainer"]["Image"]
    return name, {"ModelName": name, "ModelArn": arn, "Image": image, **source.timeout_attributes}


def _request(props: ModelProperties, sagemaker: SageMakerClient, source: ResolvedSource) -> dict[str, Any]:
    """Return the body of CreateModel without name and tags."""
    s3 = client("s3")
    image, environment = props.image, dict(props.environment)
    if image is None:
        if not isinstance(props.source, HubSource):
            raise DeploymentError("a model without an image needs a hub configuration that names one")
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


def _name_from(event: Event, properties: Mapping[str, object], sagemaker: SageMakerClient) -> str | None:
    """Return the name of the model that ``properties`` describe; None if it cannot have been created."""
    try:
        props = validate(ModelProperties, properties)
        source = resolve(props.source, sagemaker=sagemaker, s3=client("s3"))
        return name_of(event, _request(props, sagemaker, source))
    except (DeploymentError, ClientError) as error:
        log("no model to delete", reason=str(error))
        return None


def _delete(event: Event) -> None:
    sagemaker = client("sagemaker")
    name = event.get("PhysicalResourceId")
    if not isinstance(name, str) or not name.startswith(NAME_PREFIX):
        # A creation that failed or whose response was lost may have created the model.
        name = _name_from(event, event["ResourceProperties"], sagemaker)
    if name is not None:
        MODEL.delete(sagemaker, name)


handler = custom_resource(ensure=_ensure, delete=_delete)
