"""Resources for endpoint updates: a check of the served configuration, and suspension of scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from aws_cdk import CfnResource
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.scaling.policies import DeclaredScaling, ScalingTarget
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS, drop_none
from constructs_optim.constructs.stack.handler import Handler, JobRunner
from constructs_optim.constructs.stack.permissions import Arn, Statement, statements_of, sub
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext
from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.resource_types import SERVED_CONFIGURATION, VARIANT_SCALING

from .endpoint_base import name_in_arn


class EndpointUpdateService(Construct):
    """The Lambda functions of a stack for endpoint updates. Use ``of``."""

    @staticmethod
    def of(scope: Construct) -> EndpointUpdateService:
        """Return the service of ``scope``'s stack, created on first use."""
        context = StackContext.of(scope)
        return context.once(
            EndpointUpdateService, lambda: EndpointUpdateService(context.stack, "EndpointUpdateService")
        )

    @cached_property
    def serving(self) -> Handler:
        """The handler that checks which configuration an endpoint serves."""
        description = "Checks that endpoints serve what was deployed"
        code = OptimizationService.of(self).code
        return Handler(
            Construct(self, "Serving"), "Handler", code=code, module="serving_handler", description=description
        )

    @cached_property
    def scaling(self) -> JobRunner:
        """The handlers that deregister a variant from scaling and register it again."""
        return JobRunner(
            Construct(self, "Scaling"),
            "scaling",
            code=OptimizationService.of(self).code,
            job="scaling change",
            handler=("Suspends and resumes the scaling of variants whose instance type changes", []),
            watcher=("Resumes scaling after abandoned deployments", []),
        )


def check_served(
    scope: Construct,
    endpoint: sagemaker.CfnEndpoint,
    *,
    name: str,
    config_name: str,
) -> CfnResource:
    """Declare the check that the endpoint ``name`` serves the configuration ``config_name``."""
    handler = EndpointUpdateService.of(scope).serving
    handler.permit(_see(name))
    properties = {
        "ServiceToken": handler.arn,
        "ServiceTimeout": RESPONSE_SECONDS,
        "EndpointName": name,
        "EndpointConfigName": config_name,
    }
    served = CfnResource(scope, "Served", type=SERVED_CONFIGURATION, properties=properties)
    served.add_resource_dependency(endpoint)
    return served


def name_in_failure(scope: Construct, alarm_arns: Sequence[str], *, composite: bool = False) -> None:
    """Let the check name the rollback alarm that went into ALARM; ``composite`` if some are composite alarms."""
    statements = statements_of("see alarms", Alarms=tuple(alarm_arns) or None)
    if composite:
        statements += statements_of("see composite alarms")
    EndpointUpdateService.of(scope).serving.permit(statements)


def changing(
    scope: Construct,
    target: ScalingTarget,
    endpoint: sagemaker.CfnEndpoint,
    served: CfnResource,
    *,
    endpoint_name: str,
    variant_name: str,
    instance_types: Sequence[str],
    store: IArtifactStore,
) -> ScalingTarget:
    """Suspend a variant's scaling before its endpoint's update, and let ``served`` resume it afterward.

    ``store`` keeps the registration in the meantime.

    CloudFormation invokes both resources when the variant's name or its instance types change, and ``served`` also when
    the stack's own target or policies change.
    """
    service = EndpointUpdateService.of(scope)
    runner = service.scaling
    tracked = _arn("cloudwatch", f"alarm:TargetTracking-endpoint/{endpoint_name}/variant/*")
    endpoint_arn = _endpoint_arn(endpoint_name)
    keep = statements_of("keep scaling", Endpoint=endpoint_arn, Stack=PSEUDO.stack_id, TrackedAlarms=tracked)
    keep += statements_of(
        "keep suspended scaling",
        Store=store.bucket_arn,
        Key=store.encryption_key_arn,
        Record=f"{store.bucket_arn}/scaling/{PSEUDO.account}/{PSEUDO.region}/{endpoint_name}.json",
    )
    for handler in (runner.handler, runner.watcher, service.serving):
        handler.permit([*_see(endpoint_name), *keep])
    service.serving.permit(runner.starting)
    changing = {"VariantName": variant_name, "InstanceTypes": list(instance_types)}
    kept = drop_none(Bucket=store.bucket_name, KmsKeyArn=store.encryption_key_arn)
    properties = {**runner.properties, "EndpointName": endpoint_name, **changing, **kept}
    before = CfnResource(scope, "ScalingSuspended", type=VARIANT_SCALING, properties=properties)
    endpoint.add_resource_dependency(before)
    declared = DeclaredScaling(scope)
    machine = runner.properties["StateMachineArn"]
    of_target = {"PoliciesHash": declared.hash, "Target": declared.target}
    for name, value in {"StateMachineArn": machine, **changing, **of_target, **kept}.items():
        served.add_property_override(name, value)
    return replace(target, after=served, declared=declared)


def _see(endpoint_name: str) -> list[Statement]:
    return statements_of("see what serves", Endpoint=_endpoint_arn(endpoint_name), Stack=PSEUDO.stack_id)


def _endpoint_arn(endpoint_name: str) -> Arn:
    return _arn("sagemaker", f"endpoint/{name_in_arn(endpoint_name)}")


def _arn(service: str, resource: str) -> Arn:
    if is_token(resource):
        return f"arn:{PSEUDO.partition}:{service}:{PSEUDO.region}:{PSEUDO.account}:{resource}"
    return sub(f"arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{resource}")
