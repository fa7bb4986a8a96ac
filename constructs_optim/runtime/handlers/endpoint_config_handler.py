"""``Custom::OptimizedEndpointConfig``: an endpoint configuration with members or values that CloudFormation lacks.

It has the properties of ``AWS::SageMaker::EndpointConfig``, which the API validates. A variant's machine image and
volume can be attributes of ``Custom::OptimizedModel``: CloudFormation cannot leave out what the hub's document leaves
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..aws import client
from ..custom_resource import Event, custom_resource
from ..errors import DeploymentError
from ..immutable_resources import ENDPOINT_CONFIG, NAME_PREFIX, name_of
from ..jobs.hub_document import HubHosting
from ..jobs.sagemaker_jobs import typed
from ..requests.properties import EndpointConfigProperties, validate
from ..telemetry import log

# Properties for CloudFormation and the handlers' framework, which are not part of the API request.
_NOT_OF_THE_REQUEST = frozenset({"ServiceToken", "ServiceTimeout", "Tags"})
_VARIANTS = frozenset({"ProductionVariants", "ShadowProductionVariants"})


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    sagemaker = client("sagemaker")
    request, tags = _request(event["ResourceProperties"])
    name = name_of(event, request)
    arn = ENDPOINT_CONFIG.create(sagemaker, name, request, tags)
    if "OldResourceProperties" in event:
        # On a rollback, CloudFormation does not know the failed update's configuration if its response was lost.
        stale = _name_from(event, event["OldResourceProperties"])
        if stale is not None and stale not in (name, event.get("PhysicalResourceId")):
            ENDPOINT_CONFIG.delete(sagemaker, stale)
    return name, {"EndpointConfigName": name, "EndpointConfigArn": arn}


def _request(properties: object) -> tuple[dict[str, Any], list[Any]]:
    """Return the body of CreateEndpointConfig without the name, and the tags."""
    props = validate(EndpointConfigProperties, properties)
    operation = client("sagemaker").meta.service_model.operation_model("CreateEndpointConfig")
    members = {name: value for name, value in (props.model_extra or {}).items() if name not in _NOT_OF_THE_REQUEST}
    members["ProductionVariants"] = props.production_variants
    for name in _VARIANTS & members.keys():
        members[name] = [HubHosting.of_variant(variant) for variant in members[name]]
    return typed(members, operation.input_shape), props.tags


def _name_from(event: Event, properties: Mapping[str, object]) -> str | None:
    """Return the name of the configuration that ``properties`` describe; None if they are invalid."""
    try:
        return name_of(event, _request(properties)[0])
    except DeploymentError as error:
        log("no endpoint configuration to delete", reason=str(error))
        return None


def _delete(event: Event) -> None:
    name = event.get("PhysicalResourceId")
    if not isinstance(name, str) or not name.startswith(NAME_PREFIX):
        # A creation that failed or whose response was lost may have created it.
        name = _name_from(event, event["ResourceProperties"])
    if name is not None:
        ENDPOINT_CONFIG.delete(client("sagemaker"), name)


handler = custom_resource(ensure=_ensure, delete=_delete)
