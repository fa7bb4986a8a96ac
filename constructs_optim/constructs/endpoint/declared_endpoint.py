"""Read the CloudFormation resources of an endpoint that another construct declares.

A ``CfnEndpoint`` names its ``CfnEndpointConfig``, whose variants name their ``CfnModel``: this module finds each by the
reference to it, or by its name in the same stack. Values that no resource declares are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

from aws_cdk import CfnResource, Token, Tokenization
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.interfaces.aws_sagemaker import IEndpointRef, IInferenceComponentRef

from constructs_optim.constructs.stack.stack_context import StackContext, properties_of
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.tokens import is_token

_Resource = TypeVar("_Resource", bound=CfnResource)


@dataclass(frozen=True)
class DeclaredVariant:
    """A production variant, or an inference component on one. Names may be tokens.

    ``described`` holds the variant's properties in ``AWS::SageMaker::EndpointConfig``, in camel case and without
    tokens; ``containers`` holds the model's containers in the same form. ``accelerators`` is the number for each copy
    of a component.
    """

    name: str | None = None
    described: Mapping[str, Any] = field(default_factory=dict[str, Any])
    model_name: str | None = None
    containers: tuple[Mapping[str, Any], ...] = ()
    accelerators: int | None = None

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The variant's instance types; instance pools are in order of priority."""
        pools: Any = self.described.get("instancePools", ())
        in_order: Any = sorted(pools, key=lambda pool: pool.get("priority", 0)) or [self.described]
        return tuple(each["instanceType"] for each in in_order if isinstance(each.get("instanceType"), str))

    @property
    def instance_count(self) -> int:
        """The initial number of instances; 1 if it is only known at deployment."""
        count = self.described.get("initialInstanceCount")
        return count if isinstance(count, int) else 1

    @property
    def server(self) -> str | None:
        """The model server, by the name of AWS's container."""
        return images.uncataloged(_text(self._container.get("image")).rpartition("/")[2]).server

    @property
    def max_concurrent_requests(self) -> int | None:
        """The maximum batch size that the container's environment sets."""
        kind = by_name().get(self.server or "")
        given = str(self._environment.get(kind.variable("max_num_seqs"))) if kind is not None else ""
        return int(given) if given.isdecimal() else None

    @property
    def speculates(self) -> bool:
        """Whether a variable of the container configures speculative decoding."""
        return any("SPECULATIVE" in name for name in self._environment)

    @property
    def _container(self) -> Mapping[str, Any]:
        """The model's container; empty for a pipeline, because any of its containers may serve the LLM."""
        return self.containers[0] if len(self.containers) == 1 else {}

    @property
    def _environment(self) -> Mapping[str, Any]:
        found = self._container.get("environment")
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


class DeclaredEndpoint:
    """An endpoint's ``CfnEndpoint`` and ``CfnEndpointConfig``; each is None if this app does not declare it."""

    def __init__(self, endpoint: IEndpointRef) -> None:
        """Find the resources of a ``CfnEndpoint``, or of a construct that contains one."""
        self.resource: sagemaker.CfnEndpoint | None = next(
            (each for each in (endpoint, *endpoint.node.children) if isinstance(each, sagemaker.CfnEndpoint)), None
        )
        self.config: sagemaker.CfnEndpointConfig | None = None
        self.config_name: str | None = None
        if self.resource is not None:
            # Read here, because a shadow changes it.
            self.config_name = name = self.resource.endpoint_config_name
            self.config = _declared(sagemaker.CfnEndpointConfig, "endpoint_config_name", name, self.resource)

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The configuration's properties, as they appear in its template."""
        return resolved(self.config, properties_of(self.config)) if self.config is not None else {}

    def variants(self) -> list[DeclaredVariant]:
        """Return the production variants with their models."""
        if self.config is None:
            return []
        described: Any = self.described.get("productionVariants", [])
        # Values that are not rendered yet, such as the alpha module's variants, are only available resolved.
        named: Any = properties_of(self.config).get("productionVariants")
        named = named if isinstance(named, list) else described  # pyright: ignore[reportUnknownVariableType]
        known = [(each.get("variantName"), _model(each.get("modelName"), self.config)) for each in named]
        return [DeclaredVariant(name, each, *model) for each, (name, model) in zip(described, known, strict=True)]


def component_on(variant: DeclaredVariant, component: IInferenceComponentRef) -> DeclaredVariant:
    """Return an inference component on the instances of a variant."""
    if not isinstance(component, sagemaker.CfnInferenceComponent):
        return DeclaredVariant(variant.name, variant.described)
    specification: Any = properties_of(component).get("specification", {})
    required: Any = resolved(component, specification.get("computeResourceRequirements", {}))
    model = _model(specification.get("modelName"), component)
    return DeclaredVariant(variant.name, variant.described, *model, required.get("numberOfAcceleratorDevicesRequired"))


def resolved(scope: CfnResource, value: Any) -> Any:
    """Resolve a value as it appears in the template of a resource."""
    return StackContext.of(scope).stack.resolve(value)


def _model(name: Any, scope: CfnResource) -> tuple[str | None, tuple[Mapping[str, Any], ...]]:
    """Return the name of a model, and its containers if its resource is found."""
    model = _declared(sagemaker.CfnModel, "model_name", name, scope)
    if model is None:
        # A template's own reference, such as of a parameter.
        return (name if name is None or isinstance(name, str) else Token.as_string(name)), ()
    described: Any = resolved(model, properties_of(model))
    several: Any = described.get("containers", ())
    return model.attr_model_name, (described["primaryContainer"],) if "primaryContainer" in described else tuple(
        several
    )


def _declared(kind: type[_Resource], attribute: str, name: Any, scope: CfnResource) -> _Resource | None:
    """Return the resource that a name refers to, or that has the name in the same stack."""
    if is_token(name):
        text = Tokenization.reverse_string(name)
        target: Any = getattr(text.first_token, "target", None) if text.length == 1 else None
        return target if isinstance(target, kind) else None
    match name:
        case {"Fn::GetAtt": [str(wanted), *_]} | {"Ref": str(wanted)}:
            attribute = "logical_id"
        case str(wanted):
            pass
        case _:
            return None
    declared = (each for each in StackContext.of(scope).stack.node.find_all() if isinstance(each, kind))
    return next((each for each in declared if resolved(each, getattr(each, attribute)) == wanted), None)


def _text(value: Any) -> str:
    """Return the known parts of a resolved text."""
    match value:
        case str():
            return value
        case {"Fn::Join": [str(delimiter), [*parts]]}:
            return delimiter.join(part for part in parts if isinstance(part, str))
        case {"Fn::Sub": str(template)} | {"Fn::Sub": [str(template), _]}:
            return template
        case _:
            return ""
