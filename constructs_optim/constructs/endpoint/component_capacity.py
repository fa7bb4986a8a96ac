"""The number of copies that an update of an inference component keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnResource, Token
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS

# Keys below these are the user's own.
_FREE_KEYS = frozenset({"Environment"})


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
        """Declare the look-up. Its :attr:`copies` are the component's ``copyCount``.

        The component is named by its logical id and not referred to, as it waits for the response. Its own name has to
        be in lower case, as its ARN has it. ``definition`` has its properties, without ``runtimeConfig``.
        """
        super().__init__(scope, id)
        service = OptimizationService.of(self)
        self._resource = CfnResource(
            self,
            "Resource",
            type="Custom::ComponentCapacity",
            properties={
                "ServiceToken": service.capacity_service_token,
                "ServiceTimeout": RESPONSE_SECONDS,
                "ComponentLogicalId": component.logical_id,
                "InitialCopyCount": initial_copies,
                "Component": _as_in_templates(definition),
                # They update the component as well, and are rendered when all of them are known.
                "ComponentTags": component.cdk_tag_manager.rendered_tags,
            },
        )

    @property
    def copies(self) -> float:
        """The copies that there are, or the initial ones (a token)."""
        return Token.as_number(self._resource.get_att("CopyCount"))


def _as_in_templates(value: Any, key: str = "") -> Any:
    """Properties with their names in a template: ``modelName`` and ``model_name`` are ``ModelName`` there."""
    if isinstance(value, list | tuple):
        return [_as_in_templates(item, key) for item in value]
    if not isinstance(value, Mapping):
        return value
    if key in _FREE_KEYS:
        return dict(value)
    names = {name: "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_")) for name in value}
    return {names[name]: _as_in_templates(item, names[name]) for name, item in value.items()}
