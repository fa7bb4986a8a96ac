"""Metrics and grants of any endpoint, and scaling and evaluations of this app's endpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import jsii
from aws_cdk import ArnFormat, Resource, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk.interfaces.aws_sagemaker import EndpointReference, IEndpointRef
from aws_cdk.region_info import RegionInfo
from constructs import Construct

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.evaluation.endpoint_evaluation import (
    EndpointEvaluation,
    EvaluationOptions,
    EvaluationTarget,
)
from constructs_optim.constructs.monitoring.endpoint_metrics import MeasuredResource
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.stack.arguments import GRANTEE, unique_ids
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.permissions import BEARER_ACTION, INVOKE_ACTIONS
from constructs_optim.recipe import Plan
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.servers import SglangServer, VllmServer, by_name
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.tokens import is_token

if TYPE_CHECKING:
    from constructs_optim.constructs.artifacts.recipe_artifact import RecipeArtifact

_OPENAI_SERVERS = (VllmServer.name, SglangServer.name)


@methods_suggest_keywords
@jsii.implements(IEndpointRef)
class IOptimizedEndpoint(MeasuredResource):
    """Metrics and grants of an endpoint, of this app or an existing one."""

    variant_name: str
    """The production variant's name."""

    endpoint_name: str
    """The endpoint's name; may be a token."""
    endpoint_arn: str
    """The endpoint's ARN; may be a token."""
    inference_component_name: str | None = None
    """The inference component that requests name; may be a token. None if a variant serves the model."""
    _component_arn: str | None = None
    is_asynchronous: bool = False
    """Whether the endpoint queues requests and writes responses to S3 (``async_inference``)."""

    @property
    def endpoint_ref(self) -> EndpointReference:
        """The reference for other CDK constructs (``aws_cdk.interfaces.aws_sagemaker.IEndpointRef``)."""
        return EndpointReference(endpoint_arn=self.endpoint_arn)

    def grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        """Grant ``grantee`` ``actions`` on this endpoint, for instance ``sagemaker:UpdateEndpoint``.

        Raises:
            ValueError: if no policy can be attached to the principal.
        """
        return _grant(self, grantee, actions, [self.endpoint_arn])

    @property
    def invoked_arns(self) -> list[str]:
        """The ARNs that a request needs permissions for: the endpoint's, and its own inference component's."""
        return [self.endpoint_arn, *([self._component_arn] if self._component_arn is not None else [])]

    @property
    def openai_base_url(self) -> str:
        """The ``base_url`` for OpenAI clients, with the path ``/openai/v1``; contains tokens.

        Source: https://constructs-optim.dev/hosting/.

        Requests need a bearer token. AWS lists the vLLM and SGLang containers for this path; other containers cause a
        warning.

        Raises:
            ValueError: if the endpoint is asynchronous, or has no model of its own; its components then have URLs.
        """
        if self.is_asynchronous:
            raise ValueError(
                f"{self.node.path} is asynchronous, and OpenAI clients wait for the response: such an endpoint only "
                "supports InvokeEndpointAsync (grant_invoke_async). Leave async_inference out, or use two endpoints"
            )
        return openai_base_url(self, self.endpoint_name, self.inference_component_name)

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke this endpoint and its own inference component, also with bearer tokens.

        Raises:
            ValueError: if the principal is of another account, because its requests cannot name this endpoint; if no
                policy can be attached to it; or if the endpoint is asynchronous: use ``grant_invoke_async``.
        """
        if self.is_asynchronous:
            raise ValueError(
                f"{self.node.path} is asynchronous, and SageMaker refuses InvokeEndpoint on such an endpoint, so a "
                "permission has no effect: use grant_invoke_async(...)"
            )
        return grant_invocations(self, grantee, self.invoked_arns)

    def grant_invoke_async(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` queue signed requests for this endpoint (``async_inference``); bearer tokens do not work."""
        return grant_by_name(self, grantee, ["sagemaker:InvokeEndpointAsync"], [self.endpoint_arn])

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` read the endpoint's state."""
        return grant_by_name(self, grantee, ["sagemaker:DescribeEndpoint"], [self.endpoint_arn])

    @staticmethod
    def from_endpoint_name(scope: Construct, id: str, endpoint_name: str) -> IOptimizedEndpoint:
        """Refer to an existing endpoint in this account and Region by its name."""
        return IOptimizedEndpoint.from_endpoint_attributes(scope, id, endpoint_name=endpoint_name)

    @staticmethod
    def from_endpoint_arn(scope: Construct, id: str, endpoint_arn: str) -> IOptimizedEndpoint:
        """Refer to an existing endpoint by its ARN, also in another account or Region."""
        return IOptimizedEndpoint.from_endpoint_attributes(scope, id, endpoint_arn=endpoint_arn)

    @staticmethod
    def from_endpoint_attributes(
        scope: Construct,
        id: str,
        *,
        endpoint_name: str | None = None,
        endpoint_arn: str | None = None,
        variant_name: str = "AllTraffic",
        inference_component_name: str | None = None,
    ) -> IOptimizedEndpoint:
        """Refer to an existing endpoint by its name or ARN, with its known attributes.

        Args:
            scope: the construct to refer to it in.
            id: its ID in that scope.
            endpoint_name: the endpoint's name, in this account and Region.
            endpoint_arn: the endpoint's ARN, in any account and Region.
            variant_name: the production variant's name. Default: ``AllTraffic``.
            inference_component_name: the inference component that requests name. Default: a variant serves the model.

        Raises:
            ValueError: if neither or both of name and ARN are set, or the ARN is not an endpoint's ARN.
        """
        return _ImportedEndpoint(scope, id, endpoint_name, endpoint_arn, variant_name, inference_component_name)


class _ImportedEndpoint(IOptimizedEndpoint):
    """An existing endpoint."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        endpoint_name: str | None,
        endpoint_arn: str | None,
        variant_name: str,
        inference_component_name: str | None,
    ) -> None:
        if (endpoint_name is None) == (endpoint_arn is None):
            raise ValueError(
                f"endpoint_name is {endpoint_name!r} and endpoint_arn {endpoint_arn!r}: set exactly one of the two for "
                "an existing endpoint"
            )
        if endpoint_arn is not None and not Token.is_unresolved(endpoint_arn) and ":endpoint/" not in endpoint_arn:
            raise ValueError(
                f"endpoint_arn is {endpoint_arn!r}, and an endpoint's ARN looks like "
                "arn:aws:sagemaker:us-west-2:111122223333:endpoint/chat"
            )
        super().__init__(scope, id, environment_from_arn=endpoint_arn)
        stack = Stack.of(self)
        if endpoint_arn is None:
            named = name_in_arn(str(endpoint_name))
            endpoint_arn = stack.format_arn(service="sagemaker", resource="endpoint", resource_name=named)
        elif Token.is_unresolved(endpoint_arn):
            endpoint_name = stack.split_arn(endpoint_arn, ArnFormat.SLASH_RESOURCE_NAME).resource_name
        else:
            endpoint_name = endpoint_arn.rpartition("/")[2]
        self.endpoint_name, self.endpoint_arn, self.variant_name = str(endpoint_name), endpoint_arn, variant_name
        if inference_component_name is not None:
            self.inference_component_name = inference_component_name
            parts = stack.split_arn(endpoint_arn, ArnFormat.SLASH_RESOURCE_NAME)
            self._component_arn = stack.format_arn(
                service="sagemaker",
                resource="inference-component",
                resource_name=name_in_arn(inference_component_name),
                account=parts.account,
                region=parts.region,
            )

    @property
    def served(self) -> ServedModel:
        return ServedModel(self.endpoint_name, self.variant_name, self.inference_component_name)


@methods_suggest_keywords
class ModelServer(MeasuredResource):
    """Scaling and evaluations of this app's endpoints and inference components."""

    models: tuple[HostedModel, ...] = ()
    """The served models, one for each instance type."""
    _scaling: EndpointScaling | None = None

    @property
    def plan(self) -> Plan:
        """The recipe's plan: jobs, container and artifact key; with several pools, the first pool's plan.

        Raises:
            ValueError: if the endpoint has no model of its own.
        """
        return self._first_model.plan

    @property
    def artifact(self) -> RecipeArtifact:
        """The served artifact, from a job of this stack or not; with several pools, the first pool's artifact.

        Raises:
            ValueError: if the endpoint has no model of its own.
        """
        return self._first_model.artifact

    @property
    def _first_model(self) -> HostedModel:
        if not self.models:
            raise ValueError(f"{self.node.path} has no model of its own: use one of its components")
        return self.models[0]

    def auto_scale(self, *, max_capacity: int | None = None, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of instances, or of an inference component's copies.

        Updates keep the number that scaling set. With copies, SageMaker scales the instances to fit them.

        Args:
            max_capacity: the maximum number of instances or copies. Default: the capacity for the requests of the
                endpoint's objectives; required without objectives.
            min_capacity: the minimum number. For copies it may be 0: the last copy is removed when there are no
                requests, and the next request starts one. A variant keeps at least one instance. Default: 1.

        Raises:
            RecipeError: if the range is invalid, for instance ``max_capacity < min_capacity``, or the copies do not fit
                the maximum number of instances.
            ValueError: if ``auto_scale`` was called before.
        """
        if self._scaling is not None:
            raise ValueError(
                f"{self.node.path} already has auto scaling: call auto_scale once and add policies to its result"
            )
        most = self._objective_capacity if max_capacity is None else max_capacity
        if most is None:
            raise ValueError(f"{self.node.path} has no objectives: auto_scale needs max_capacity=4, for instance")
        self._scaling = self._scaled(min_capacity, most)
        self._scaling.follows_objectives = max_capacity is None
        return self._scaling

    @property
    def _objective_capacity(self) -> int | None:
        """The instances or copies that the requests of the objectives need; None without objectives."""
        return None

    @unique_ids()
    def evaluate(self, id: str = "Evaluation", **options: Unpack[EvaluationOptions]) -> EndpointEvaluation:
        """Benchmark the endpoint after each deployment that changes it, on a schedule, or both.

        A SageMaker benchmark job sends the requests. The results are published as CloudWatch metrics by endpoint or
        component, concurrency and artifact (https://constructs-optim.dev/metrics/), shown on the dashboard, and stored
        in the artifact store with a report.

        Args:
            id: its ID in this construct.
            options: the workload, when it runs, and its prices: see ``EvaluationOptions``.

        Raises:
            RecipeError: if rules are broken; lists all of them.
            ValueError: if the timeout is longer than CloudFormation can wait.
        """
        return EndpointEvaluation(self, id, target=self.evaluation_target, options=options)

    @abstractmethod
    def _scaled(self, min_capacity: int, max_capacity: int) -> EndpointScaling:
        """Declare the scaling."""

    @property
    @abstractmethod
    def evaluation_target(self) -> EvaluationTarget:
        """The target of evaluations."""


def name_in_arn(name: str) -> str:
    """Return a name as it appears in ARNs, in lower case (SageMaker API reference, CreateEndpoint); tokens stay."""
    return name if is_token(name) else name.lower()


def openai_base_url(of: Resource, endpoint_name: str, component_name: str | None) -> str:
    """Return the URL below which an endpoint or a component has ``/chat/completions``.

    Source: developer guide, "Invoke endpoints with OpenAI-compatible APIs".
    """
    component = f"/inference-components/{component_name}" if component_name is not None else ""
    region, stack = of.env.region, Stack.of(of)
    # An imported endpoint may be in another partition than the stack.
    is_elsewhere = not is_token(region) and region != stack.region
    suffix = (RegionInfo.get(region).domain_suffix if is_elsewhere else None) or stack.url_suffix
    return f"https://runtime.sagemaker.{region}.{suffix}/endpoints/{endpoint_name}{component}/openai/v1"


def warn_of_openai(of: Resource, models: Sequence[HostedModel]) -> None:
    """Warn if AWS does not list a model's container for the OpenAI-compatible path.

    Source: the same page, "Supported containers": vLLM, SGLang, and containers that implement ``/v1/chat/completions``
    and stream server-sent events. djl-serving (``output_formatter.py``) streams JSON lines.
    """
    servers = dict.fromkeys(hosted.plan.container.server for hosted in models)
    for server in servers:
        if server not in _OPENAI_SERVERS:
            container = f"the container of {by_name()[server].title}" if server is not None else "JumpStart's container"
            advice = Advice(
                "constructs-optim:OpenAiPath",
                f"{of.node.path} uses openai_base_url, but AWS does not list {container} for this path: it may not "
                "respond, or not stream in the form that OpenAI clients expect. Use server=Server.vllm(), or invoke "
                "the endpoint without the path",
            )
            advise(of, advice)


def serves_openai(models: Sequence[HostedModel]) -> bool:
    """Return whether AWS lists the models' containers for the OpenAI-compatible path; see ``warn_of_openai``."""
    return all(hosted.plan.container.server in _OPENAI_SERVERS for hosted in models)


def grant_invocations(of: Resource, grantee: iam.IGrantable, arns: Sequence[str]) -> iam.Grant:
    """Grant signed requests and requests with bearer tokens to an endpoint or a component."""
    signed = grant_by_name(of, grantee, INVOKE_ACTIONS, arns)
    return signed.combine(_grant(of, grantee, [BEARER_ACTION], ["*"]))


def grant_by_name(of: Resource, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]) -> iam.Grant:
    """Grant actions on an endpoint to a principal of its own account; refuse other accounts' principals.

    An endpoint's policy allows other accounts' requests only "through an inference router" (SageMaker API reference,
    PutEndpointPolicy). If only the grantee's account is known, this function adds a warning.
    """
    GRANTEE.check("grantee", grantee)
    account, caller = of.env.account, _account_of(grantee.grant_principal)
    if caller is not None and caller != account and not is_token(account):
        raise ValueError(
            f"{of.node.path} is in account {account}, and the principal in account {caller}: a request names an "
            "endpoint of the caller's own account, so a permission there has no effect. Grant it to a role of account "
            f'{account} that the caller assumes: iam.Role(endpoint_stack, "Invoker", '
            f'assumed_by=iam.AccountPrincipal("{caller}")). Or send requests through an inference router of the '
            "caller's account (https://constructs-optim.dev/hosting/#other-accounts)"
        )
    grant = _grant(of, grantee, actions, arns)
    if caller is not None and is_token(account):
        advice = Advice(
            "constructs-optim:GrantedAccount",
            f"{of.node.path} is granted to a principal of account {caller}, and its environment-agnostic stack may be "
            "deployed to any account: the permission only has an effect in that account, because a request names an "
            f"endpoint of the caller's own account. Set the stack's account, env=Environment(account=\"{caller}\", "
            "region=...), or grant it to a role that the caller assumes (https://constructs-optim.dev/hosting/#other-accounts)",
        )
        advise(of, advice)
    return grant


def _grant(of: Resource, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]) -> iam.Grant:
    GRANTEE.check("grantee", grantee)
    grant = iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=list(arns))
    if not grant.success:
        kind = type(grantee.grant_principal).__name__
        raise ValueError(
            f"no policy can be attached to {kind}, so {of.node.path} cannot grant it {', '.join(actions)}: an endpoint "
            "has no policy of its own that names principals. Grant it to a role, user or group of this app, or to an "
            'existing one: iam.Role.from_role_arn(stack, "Caller", "arn:aws:iam::111122223333:role/chat")'
        )
    return grant


def _account_of(principal: iam.IPrincipal) -> str | None:
    """Return a principal's account, if it is known."""
    # iam.UnknownPrincipal, of an imported construct without a role, has no account.
    account: str | None = getattr(principal, "principal_account", None)
    if account is None and isinstance(principal, iam.ArnPrincipal) and not is_token(principal.arn):
        # An ArnPrincipal has no principal_account: read it from arn:aws:iam::111122223333:role/chat.
        parts = principal.arn.split(":")
        account = parts[4] if len(parts) > 5 and parts[4] else None
    return None if is_token(account) else account
