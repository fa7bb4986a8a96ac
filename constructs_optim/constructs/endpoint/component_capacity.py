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
    definition for a property, so what changes the one asks the other first.
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
        """Declare the look-up. Give :attr:`copies` to the component as ``copyCount``.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            component: the component. It is named by its logical id, not referred to: it needs the answer. Its own name
                has to be in lower case, as its ARN has it, which is what it is looked up by.
            definition: its properties as the component has them, without ``runtimeConfig``.
            initial_copies: how many copies a component starts with that is not there yet.
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
    """Properties with the names that they have in a template: ``modelName`` is ``ModelName`` there."""
    if isinstance(value, list | tuple):
        return [_as_in_templates(item, key) for item in value]
    if not isinstance(value, Mapping):
        return value
    if key in _FREE_KEYS:
        return dict(value)
    named = {f"{name[:1].upper()}{name[1:]}": item for name, item in value.items()}
    return {name: _as_in_templates(item, name) for name, item in named.items()}
