"""The number of copies that an update of an inference component keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnResource, Token
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS


class ComponentCapacity(Construct):
    """Looks up how many copies a scaled inference component has, before an update would set them back.

    ``AWS::SageMaker::InferenceComponent`` sends ``RuntimeConfig.CopyCount`` with every update, and an endpoint's
    ``RetainAllVariantProperties`` has no counterpart there. A ``Custom::ComponentCapacity`` has the component's
    definition for a property, so a change of the one invokes the other first.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        component: sagemaker.CfnInferenceComponent,
        definition: Mapping[str, Any],
        initial_copies: int,
    ) -> None:
        """Declare the look-up. ``definition`` has the component's properties, without ``runtimeConfig``.

        The component is named by its logical id and not referred to, as it waits for the response. Its own name has to
        be in lower case, as its ARN has it.
        """
        super().__init__(scope, id)
        resource = CfnResource(
            self,
            "Resource",
            type="Custom::ComponentCapacity",
            properties={
                "ServiceToken": OptimizationService.of(self).capacity_service_token,
                "ServiceTimeout": RESPONSE_SECONDS,
                "ComponentLogicalId": component.logical_id,
                "InitialCopyCount": initial_copies,
                "Component": _as_in_templates(definition),
                # They update the component as well, and are rendered when all of them are known.
                "ComponentTags": component.cdk_tag_manager.rendered_tags,
            },
        )
        self.copies: float = Token.as_number(resource.get_att("CopyCount"))
        """The copies that there are, or the initial ones (a token)."""


def _as_in_templates(value: Any) -> Any:
    """Properties with their names in a template: ``modelName`` and ``model_name`` are ``ModelName`` there."""
    if isinstance(value, list | tuple):
        return [_as_in_templates(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    names = {name: "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_")) for name in value}
    return {names[name]: _as_in_templates(item) for name, item in value.items()}
