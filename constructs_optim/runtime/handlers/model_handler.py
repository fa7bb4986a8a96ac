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
from ..jobs.hub_document import HubDocument
from ..jobs.source import ResolvedSource, hub_document, resolve
from ..requests.properties import HubSource, ModelProperties, validate
from ..telemetry import log

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    sagemaker = client("sagemaker")
    props = validate(ModelProperties, event["ResourceProperties"])
    source = resolve(props.source, sagemaker=sagemaker, s3=client("s3"))
    document = _configuration(props, sagemaker)
    request = _request(props, sagemaker, source, document)
    name = name_of(event, request)
    arn = MODEL.create(sagemaker, name, request, props.tags)
    if "OldResourceProperties" in event:
        # On a rollback, CloudFormation does not know the failed update's model if its response was lost.
        stale = _name_from(event, event["OldResourceProperties"], sagemaker)
        if stale is not None and stale not in (name, event.get("PhysicalResourceId")):
            MODEL.delete(sagemaker, stale)
    image = request["PrimaryContainer"]["Image"]
    attributes = {"ModelName": name, "ModelArn": arn, "Image": image, **source.timeout_attributes}
    if document is not None:
        attributes |= document.hosting.attributes
    return name, attributes


def _configuration(props: ModelProperties, sagemaker: SageMakerClient) -> HubDocument | None:
    """Return the hub's configuration that the model is served with; None for a model with an image of its own.

    Raises:
        DeploymentError: if there is neither a configuration nor an image, or the model's host does not fit it.
    """
    if props.image is not None:
        return None
    if not isinstance(props.source, HubSource):
        raise DeploymentError("a model without an image needs a hub configuration that names one")
    document, _ = hub_document(props.source, sagemaker)
    host, ami = props.host, document.hosting.ami_version
    if host is not None and ami is not None and host.inference_ami_version != ami:
        option = f'variant=VariantOptions(inference_ami_version="{ami}")'
        where, fix = "endpoint", f"All models of an endpoint share its instances: set {option}"
        if host.is_shadow:
            where = "shadow"
            fix = (
                "Shadow another candidate, such as one whose techniques are not PreOptimized(...). Only an "
                f"OptimizedEndpoint can have the image instead: {option}, which also replaces production's instances"
            )
        raise DeploymentError(
            f"JumpStart hosts {props.source.model_id} on instances with the machine image {ami}, and its {where} has "
            f"{host.inference_ami_version or 'the default'}. {fix}"
        )
    if host is not None and host.enable_network_isolation and not document.network_isolation:
        raise DeploymentError(
            f"JumpStart's container of {props.source.model_id} needs the network, and its endpoint isolates all "
            "containers: set network=NetworkOptions(isolation=False)"
        )
    return document


def _request(
    props: ModelProperties, sagemaker: SageMakerClient, source: ResolvedSource, document: HubDocument | None
) -> dict[str, Any]:
    """Return the body of CreateModel without name and tags."""
    s3 = client("s3")
    image, environment, isolated = props.image, dict(props.environment), props.enable_network_isolation
    channels = [
        {"ChannelName": channel.name, "S3DataSource": resolve(channel.source, sagemaker=sagemaker, s3=s3).data_source}
        for channel in props.channels
    ]
    if document is not None and isinstance(props.source, HubSource):
        image, of_hub = document.container(props.instance_type)
        environment = {**of_hub, **environment}
        channels += _additional_files(document, props.source)
        if isolated is None:
            isolated = document.network_isolation
    return {
        "ExecutionRoleArn": props.role_arn,
        "EnableNetworkIsolation": isolated is not False,
        "PrimaryContainer": {
            "Image": image,
            "Environment": environment,
            "ModelDataSource": {"S3DataSource": source.data_source},
            **({"AdditionalModelDataSources": channels} if channels else {}),
        },
        **({"VpcConfig": props.vpc_config} if props.vpc_config else {}),
    }


def _additional_files(document: HubDocument, source: HubSource) -> list[dict[str, Any]]:
    """Return the channels of a hub configuration's own additional files."""
    channels: list[dict[str, Any]] = []
    for files in document.additional_files():
        if files.eula is not None and not source.accept_draft_eula:
            raise DeploymentError(
                f"the configuration {source.configuration!r} of {source.model_id} serves a draft model that is gated "
                f"by an end-user license agreement of its own ({files.eula}). Read it, then declare "
                f'PreOptimized(config="{source.configuration}", accept_draft_eula=True)'
            )
        resolved = ResolvedSource("", files.uri, accept_eula=files.eula is not None)
        channels.append({"ChannelName": files.channel, "S3DataSource": resolved.data_source})
    return channels


def _name_from(event: Event, properties: Mapping[str, object], sagemaker: SageMakerClient) -> str | None:
    """Return the name of the model that ``properties`` describe; None if it cannot have been created."""
    try:
        props = validate(ModelProperties, properties)
        source = resolve(props.source, sagemaker=sagemaker, s3=client("s3"))
        return name_of(event, _request(props, sagemaker, source, _configuration(props, sagemaker)))
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
