"""Metrics and grants of any endpoint; scaling and evaluations of endpoints of this app."""

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
from constructs_optim.recipe.tokens import is_token

if TYPE_CHECKING:
    from constructs_optim.constructs.artifacts.recipe_artifact import RecipeArtifact

_OPENAI_SERVERS = (VllmServer.name, SglangServer.name)


@jsii.implements(IEndpointRef)
class IOptimizedEndpoint(MeasuredResource):
    """An endpoint of this app or an existing one: its metrics and grants."""

    variant_name: str
    """The production variant's name."""

    endpoint_name: str
    """The endpoint's name; may be a token."""
    endpoint_arn: str
    """The endpoint's ARN; may be a token."""
    inference_component_name: str | None = None
    """The inference component that requests name; may be a token. None where a variant serves the model."""
    _component_arn: str | None = None
    is_asynchronous: bool = False
    """Whether requests wait in a queue (``async_inference``), and answers in S3."""

    @property
    def endpoint_ref(self) -> EndpointReference:
        """What the CDK's other constructs take it by (``aws_cdk.interfaces.aws_sagemaker.IEndpointRef``)."""
        return EndpointReference(endpoint_arn=self.endpoint_arn)

    def grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        """Let ``grantee`` do ``actions`` with this endpoint, for instance ``sagemaker:UpdateEndpoint``.

        Raises:
            ValueError: for a principal that no policy can be attached to.
        """
        return _grant(self, grantee, actions, [self.endpoint_arn])

    @property
    def invoked_arns(self) -> list[str]:
        """The ARNs that a request needs permissions for: the endpoint's, and its own inference component's."""
        return [self.endpoint_arn, *([self._component_arn] if self._component_arn is not None else [])]

    @property
    def openai_base_url(self) -> str:
        """The ``base_url`` of OpenAI's clients: the URL of the path ``/openai/v1`` (docs/hosting.md); holds tokens.

        Requests have a bearer token. AWS lists the containers of vLLM and SGLang; a warning says so of others.

        Raises:
            ValueError: for an asynchronous endpoint, and for one without a model, whose components have their URLs.
        """
        if self.is_asynchronous:
            raise ValueError(
                f"{self.node.path} is asynchronous, and OpenAI's clients wait for their answer: such an endpoint takes "
                "InvokeEndpointAsync alone (grant_invoke_async). Leave async_inference out, or use two endpoints"
            )
        return openai_base_url(self, self.endpoint_name, self.inference_component_name)

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` invoke this endpoint and its own inference component, also with bearer tokens.

        Raises:
            ValueError: for a principal of another account, whose requests cannot name this endpoint, or one that no
                policy can be attached to; and for an asynchronous endpoint, which has ``grant_invoke_async``.
        """
        if self.is_asynchronous:
            raise ValueError(
                f"{self.node.path} is asynchronous, and SageMaker refuses InvokeEndpoint of such an endpoint, so a "
                "permission has no effect: grant_invoke_async(...) is what its callers need"
            )
        return grant_invocations(self, grantee, self.invoked_arns)

    def grant_invoke_async(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` queue requests for this endpoint (``async_inference``): signed ones, no bearer tokens."""
        return grant_by_name(self, grantee, ["sagemaker:InvokeEndpointAsync"], [self.endpoint_arn])

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` see the endpoint's state."""
        return grant_by_name(self, grantee, ["sagemaker:DescribeEndpoint"], [self.endpoint_arn])

    @staticmethod
    def from_endpoint_name(scope: Construct, id: str, endpoint_name: str) -> IOptimizedEndpoint:
        """An endpoint that exists in this account and region, by its name."""
        return IOptimizedEndpoint.from_endpoint_attributes(scope, id, endpoint_name=endpoint_name)

    @staticmethod
    def from_endpoint_arn(scope: Construct, id: str, endpoint_arn: str) -> IOptimizedEndpoint:
        """An endpoint that exists, by its ARN; it may be of another account or region."""
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
        """An existing endpoint, by its name or its ARN, with its known attributes.

        Args:
            scope: the construct to refer to it in.
            id: its id in that scope.
            endpoint_name: its name, of this account and region.
            endpoint_arn: its ARN, of any.
            variant_name: its production variant. Default: ``AllTraffic``.
            inference_component_name: the inference component that requests name. Default: a variant serves the model.

        Raises:
            ValueError: when neither or both of name and ARN are set, or the ARN is not that of an endpoint.
        """
        return _ImportedEndpoint(scope, id, endpoint_name, endpoint_arn, variant_name, inference_component_name)


class _ImportedEndpoint(IOptimizedEndpoint):
    """An endpoint that exists already."""

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
                f"endpoint_name is {endpoint_name!r} and endpoint_arn {endpoint_arn!r}: an endpoint that exists is "
                "named by exactly one of the two"
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


class ModelServer(MeasuredResource):
    """An endpoint of this app, or an inference component on one: its scaling and its evaluations."""

    models: tuple[HostedModel, ...] = ()
    """The models that it serves, one for each instance type."""
    _scaling: EndpointScaling | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the recipe: jobs, container and artifact key; of the first pool, where there are several.

        Raises:
            ValueError: for an endpoint without a model of its own.
        """
        return self._first_model.plan

    @property
    def artifact(self) -> RecipeArtifact:
        """The artifact that is served, from a job of this stack or not; of several pools, the first one's.

        Raises:
            ValueError: for an endpoint without a model of its own.
        """
        return self._first_model.artifact

    @property
    def _first_model(self) -> HostedModel:
        if not self.models:
            raise ValueError(
                f"{self.node.path} has no model of its own: each component that add_component(...) returns has its "
                "artifact and its plan"
            )
        return self.models[0]

    def auto_scale(self, *, max_capacity: int | None = None, min_capacity: int = 1) -> EndpointScaling:
        """Let Application Auto Scaling choose the number of instances, or of an inference component's copies.

        From then on an update keeps the number that scaling has set. Instances follow the copies.

        Args:
            max_capacity: the maximum number of instances or copies. Default: what the requests of the endpoint's
                objectives take; without objectives, it is needed.
            min_capacity: the minimum. It may be 0 for copies: without requests the last one is removed, and the next
                request starts one again. A variant keeps at least one instance. Default: 1.

        Raises:
            RecipeError: if the range cannot work, for instance ``max_capacity < min_capacity``, or the copies do not
                fit the instances that there may be.
            ValueError: if it is scaled already.
        """
        if self._scaling is not None:
            raise ValueError(f"{self.node.path} is scaled already: call auto_scale once and add policies to its result")
        most = self._objective_capacity if max_capacity is None else max_capacity
        if most is None:
            raise ValueError(f"{self.node.path} has no objectives: auto_scale needs max_capacity=4, for instance")
        self._scaling = self._scaled(min_capacity, most)
        return self._scaling

    @property
    def _objective_capacity(self) -> int | None:
        """The instances or copies that the requests of the objectives take; None without objectives."""
        return None

    @unique_ids()
    def evaluate(self, id: str = "Evaluation", **options: Unpack[EvaluationOptions]) -> EndpointEvaluation:
        """Benchmark the endpoint: after each deployment that changes it, on a schedule, or both.

        The service's own benchmark job sends the requests. What it measures is published as CloudWatch metrics
        (docs/metrics.md) by endpoint or component, concurrency and artifact, shown on the dashboard, and kept in the
        artifact store with a report.

        Args:
            id: its id in this construct.
            options: the workload, when it runs, and its prices: see :class:`EvaluationOptions`.

        Raises:
            RecipeError: with every rule that is broken.
            ValueError: for a timeout that CloudFormation cannot wait for.
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
    """A name as ARNs have it, in lower case (Amazon SageMaker API reference, CreateEndpoint); tokens as they are."""
    return name if is_token(name) else name.lower()


def openai_base_url(of: Resource, endpoint_name: str, component_name: str | None) -> str:
    """The URL below which an endpoint or a component has ``/chat/completions``.

    Source: developer guide, "Invoke endpoints with OpenAI-compatible APIs".
    """
    component = f"/inference-components/{component_name}" if component_name is not None else ""
    region, stack = of.env.region, Stack.of(of)
    # An endpoint that is referred to may be of another partition than the stack.
    is_elsewhere = not is_token(region) and region != stack.region
    suffix = (RegionInfo.get(region).domain_suffix if is_elsewhere else None) or stack.url_suffix
    return f"https://runtime.sagemaker.{region}.{suffix}/endpoints/{endpoint_name}{component}/openai/v1"


def warn_of_openai(of: Resource, models: Sequence[HostedModel]) -> None:
    """Warn where AWS does not list the container of a model for the OpenAI-compatible path.

    Source: as above, "Supported containers": vLLM, SGLang, and what implements ``/v1/chat/completions`` and streams
    server-sent events. djl-serving (``output_formatter.py``) streams JSON lines.
    """
    servers = dict.fromkeys(hosted.plan.container.server for hosted in models)
    for server in servers:
        if server not in _OPENAI_SERVERS:
            container = f"the container of {by_name()[server].title}" if server is not None else "JumpStart's container"
            advice = Advice(
                "constructs-optim:OpenAiPath",
                f"{of.node.path} has openai_base_url, and {container} is not among those that AWS lists for the path: "
                "nobody vouches that it answers, or that it streams as OpenAI's clients read it. server=Server.vllm() "
                "does, or invoke the endpoint without the path",
            )
            advise(of, advice)


def serves_openai(models: Sequence[HostedModel]) -> bool:
    """Whether AWS lists the containers of models for the OpenAI-compatible path; see :func:`warn_of_openai`."""
    return all(hosted.plan.container.server in _OPENAI_SERVERS for hosted in models)


def grant_invocations(of: Resource, grantee: iam.IGrantable, arns: Sequence[str]) -> iam.Grant:
    """Grant requests to an endpoint or a component, signed or with bearer tokens."""
    signed = grant_by_name(of, grantee, INVOKE_ACTIONS, arns)
    return signed.combine(_grant(of, grantee, [BEARER_ACTION], ["*"]))


def grant_by_name(of: Resource, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]) -> iam.Grant:
    """Grant actions on an endpoint to principals of its own account; those of other accounts are refused.

    The policies of endpoints allow other accounts' requests "through an inference router" alone (SageMaker API
    reference, PutEndpointPolicy). A warning says so where only the grantee's account is known.
    """
    GRANTEE.check("grantee", grantee)
    account, caller = of.env.account, _account_of(grantee.grant_principal)
    if caller is not None and caller != account and not is_token(account):
        raise ValueError(
            f"{of.node.path} is in account {account}, and the principal in account {caller}: a request names an "
            "endpoint of the caller's own account, so a permission there has no effect. Grant it to a role of account "
            f'{account} that the caller assumes: iam.Role(endpoint_stack, "Invoker", '
            f'assumed_by=iam.AccountPrincipal("{caller}")). Or send requests through an inference router of the '
            "caller's account (docs/hosting.md, Other accounts)"
        )
    grant = _grant(of, grantee, actions, arns)
    if caller is not None and is_token(account):
        advice = Advice(
            "constructs-optim:GrantedAccount",
            f"{of.node.path} is granted to a principal of account {caller}, and may be deployed to any account, as its "
            "stack has none: the permission has an effect in that account only, because a request names an endpoint of "
            f'the caller\'s own account. Give the stack its account, env=Environment(account="{caller}", '
            "region=...), or grant it to a role that the caller assumes (docs/hosting.md, Other accounts)",
        )
        advise(of, advice)
    return grant


def _grant(of: Resource, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]) -> iam.Grant:
    GRANTEE.check("grantee", grantee)
    grant = iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=list(arns))
    if not grant.success:
        kind = type(grantee.grant_principal).__name__
        raise ValueError(
            f"no policy can be attached to {kind}, so {of.node.path} cannot let it do {', '.join(actions)}: an "
            "endpoint has no policy of its own that names principals. Grant it to a role, "
            'user or group: one of this app, or one that exists, iam.Role.from_role_arn(stack, "Caller", '
            '"arn:aws:iam::111122223333:role/chat")'
        )
    return grant


def _account_of(principal: iam.IPrincipal) -> str | None:
    """The account that a principal is known to be of."""
    # An imported construct without a role has none: iam.UnknownPrincipal.
    account: str | None = getattr(principal, "principal_account", None)
    if account is None and isinstance(principal, iam.ArnPrincipal) and not is_token(principal.arn):
        # A principal by its ARN has no such attribute: arn:aws:iam::111122223333:role/chat.
        parts = principal.arn.split(":")
        account = parts[4] if len(parts) > 5 and parts[4] else None
    return None if is_token(account) else account
