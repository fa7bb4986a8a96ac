"""Outputs of a template, with stable names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import CfnOutput, Fn, Stack

from constructs_optim.constructs.endpoint.endpoint_base import serves_openai
from constructs_optim.constructs.endpoint.inference_component import InferenceComponent, LoraAdapter
from constructs_optim.constructs.endpoint.optimized_endpoint import OptimizedEndpoint
from constructs_optim.constructs.stack.permissions import (
    BEARER_ACTION,
    INVOKE_ACTIONS,
    NO_RESOURCES,
    Statement,
    document,
)

OUTPUTS: Mapping[str, str] = {
    "EndpointName": "The endpoint's name in requests",
    "EndpointArn": "The endpoint's ARN",
    "VariantName": "The production variant, a dimension of the endpoint's metrics",
    "InferenceComponentName": "The inference component's name in requests",
    "InferenceComponentArn": "The inference component's ARN",
    "OpenAiBaseUrl": "The base URL for OpenAI clients",
    "InvokePolicy": "An IAM policy document that allows requests",
    "DashboardName": "The CloudWatch dashboard",
    "AlarmNames": "The CloudWatch alarms, separated by commas",
    "ArtifactKeys": "The keys of the served artifacts, one for each instance type, separated by commas",
    "ArtifactStoreBucket": "The bucket with the artifacts",
}
"""The descriptions of all outputs by the suffixes of their names."""


def add_outputs(name: str, served: OptimizedEndpoint | InferenceComponent | LoraAdapter) -> None:
    """Add the outputs of an endpoint, a component or an adapter to its stack: ``<name>EndpointName`` and so on.

    Only applicable outputs of ``OUTPUTS`` are added. Declare scaling and evaluations before.
    """
    stack, values = Stack.of(served), dict(_values(served))
    for output, description in OUTPUTS.items():
        if output in values:
            CfnOutput(stack, f"{name}{output}", value=values[output], description=description)


def _values(served: OptimizedEndpoint | InferenceComponent | LoraAdapter) -> Iterator[tuple[str, str]]:
    if isinstance(served, OptimizedEndpoint):
        yield "EndpointName", served.endpoint_name
        yield "EndpointArn", served.endpoint_arn
        yield "VariantName", served.variant_name
        yield "DashboardName", served.dashboard.dashboard_name
    component = served.component if isinstance(served, OptimizedEndpoint) else served
    if component is not None:
        yield "InferenceComponentName", component.inference_component_name
        yield "InferenceComponentArn", component.inference_component_arn
    if isinstance(served, LoraAdapter):
        yield "InvokePolicy", _policy(served, INVOKE_ACTIONS, BEARER_ACTION)
    elif served.models:
        yield from _values_of_models(served)


def _values_of_models(served: OptimizedEndpoint | InferenceComponent) -> Iterator[tuple[str, str]]:
    if isinstance(served, OptimizedEndpoint) and served.is_asynchronous:
        yield "InvokePolicy", _policy(served, ["sagemaker:InvokeEndpointAsync"])
    else:
        yield "InvokePolicy", _policy(served, INVOKE_ACTIONS, BEARER_ACTION)
        if serves_openai(served.models):
            yield "OpenAiBaseUrl", served.openai_base_url
    if names := [alarm.ref for alarm in served.alarms.alarms.values()]:
        yield "AlarmNames", Fn.join(",", names)
    if keys := [hosted.artifact_key for hosted in served.models if hosted.artifact_key is not None]:
        yield "ArtifactKeys", Fn.join(",", keys)
        yield "ArtifactStoreBucket", served.artifact.artifact_store.bucket_name


def _policy(
    served: OptimizedEndpoint | InferenceComponent | LoraAdapter, actions: Sequence[str], *unrestricted: str
) -> str:
    statements = [Statement("Invoke", tuple(actions), tuple(served.invoked_arns))]
    if unrestricted:
        statements.append(Statement("CallWithBearerTokens", unrestricted, ("*",), wildcard=NO_RESOURCES))
    return Stack.of(served).to_json_string(document(statements))
