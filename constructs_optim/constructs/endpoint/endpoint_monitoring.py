"""Alarms, a dashboard, scaling, evaluations and shadows for an endpoint that another construct declares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

from aws_cdk import Duration, Fn
from aws_cdk import aws_applicationautoscaling as applicationautoscaling
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.interfaces.aws_sagemaker import IEndpointRef, IInferenceComponentRef
from constructs import Construct
from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_snake

from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore
from constructs_optim.constructs.artifacts.hosted_model import HostedModel, ModelHost, ModelOptions, create_model
from constructs_optim.constructs.artifacts.planned_recipe import Pool, recipes_of
from constructs_optim.constructs.evaluation.endpoint_evaluation import EvaluatedSubject, EvaluationTarget
from constructs_optim.constructs.evaluation.shadow_run import ShadowCandidate, ShadowedEndpoint, ShadowRun
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.constructs.stack.arguments import (
    COMPONENT,
    DURATION,
    ENDPOINT,
    SERVER,
    STORE,
    refuse,
    unique_ids,
)
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.stack_context import StackContext, late_value, path_of, properties_of
from constructs_optim.recipe import metrics
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.errors import Advice, did_you_mean
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.hosting.options import UpdateSettings
from constructs_optim.recipe.hosting.scaling import HEADROOM, ScalingDefaults
from constructs_optim.recipe.hosting.shadow import SHADOW_VARIANT, AnswerCheck, Shadow
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.metrics.engines import Engine
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.servers import ServerSettings, by_name
from constructs_optim.recipe.settings import Settings, methods_suggest_keywords
from constructs_optim.recipe.tokens import is_token
from constructs_optim.runtime.shadow.sequential_test import announced_pairs

from .declared_endpoint import DeclaredEndpoint, DeclaredVariant, component_on
from .endpoint_base import IOptimizedEndpoint, ModelServer
from .endpoint_configuration import EndpointConfiguration
from .inference_component import current_copies
from .options import DataCapture, MonitoringOptions

if TYPE_CHECKING:
    from aws_cdk import aws_sns as sns

# An OptimizedEndpoint implements these by changing its endpoint configuration.
_OF_CONFIGURATIONS = ("observability", "speculation_cure")


@methods_suggest_keywords
class EndpointMonitoring(IOptimizedEndpoint, ModelServer):
    """Monitoring, scaling and evaluations for an endpoint that another construct declares. Use ``of``.

    It provides metrics, grants, alarms, a dashboard, scaling and evaluations, and only changes the endpoint for scaling
    and shadows (https://constructs-optim.dev/existing-endpoints/).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint: DeclaredEndpoint,
        variant: DeclaredVariant,
        endpoint_name: str,
        endpoint_arn: str,
        component: IInferenceComponentRef | None,
        component_arn: str | None,
        server: str | None,
        max_concurrent_requests: int | None,
        monitoring: MonitoringOptions,
        artifact_store: IArtifactStore | None,
    ) -> None:
        """Declare the alarms and the dashboard; use ``of``."""
        super().__init__(scope, id)
        self._declared, self._variant, self._store = endpoint, variant, artifact_store
        self._server, self._capacity, self._options = server, max_concurrent_requests, monitoring
        self._shadow: ShadowRun | None = None
        resource = endpoint.resource
        self.variant_name: str = str(variant.name)
        self.endpoint_arn: str = endpoint_arn
        # CloudWatch's names are case-sensitive, and the ARN has the name in lower case.
        self.endpoint_name: str = resource.attr_endpoint_name if resource is not None else endpoint_name
        self._component = component if isinstance(component, sagemaker.CfnInferenceComponent) else None
        if component_arn is not None:
            self._component_arn, self.inference_component_name = component_arn, _name_in(component_arn)
        self.is_asynchronous: bool = bool(endpoint.described.get("asyncInferenceConfig"))
        unknown = {"saturation": False} if max_concurrent_requests is None else {}
        alarms = monitoring.alarms or Alarms(**unknown)
        self.alarms: EndpointAlarms = EndpointAlarms(
            self,
            "Alarms",
            served=self.served,
            endpoint=path_of(self),
            capacity=max_concurrent_requests or 0,
            alarms=alarms,
            runs_jobs=False,
            alarm_actions=monitoring.alarm_actions,
            ok_actions=monitoring.ok_actions,
            runbook=monitoring.runbook,
        )
        self.dashboard: EndpointDashboard = EndpointDashboard(
            self, "Dashboard", served=self.served, instance_types=variant.instance_types
        )
        self.dashboard.add_alarms(*self.alarms.arns_within_stack)
        if (seconds := self.alarms.latency_threshold_seconds) is not None:
            self.dashboard.show_latency_alarm(seconds)
        if (price := monitoring.instance_price_per_hour) is not None:
            self.dashboard.show_costs(instance_price_per_hour=price, discount=monitoring.discount)

    @staticmethod
    def of(
        endpoint: IEndpointRef,
        *,
        id: str = "Monitoring",
        inference_component: IInferenceComponentRef | None = None,
        variant_name: str | None = None,
        instance_type: str | None = None,
        model_name: str | None = None,
        server: ServerSettings | None = None,
        max_concurrent_requests: int | None = None,
        monitoring: MonitoringOptions | None = None,
        artifact_store: IArtifactStore | None = None,
    ) -> EndpointMonitoring:
        """Declare alarms and a dashboard for an endpoint or an inference component, next to its construct.

        If this app declares the endpoint's ``CfnEndpointConfig`` and ``CfnModel``, their values are the defaults of the
        arguments.

        Args:
            endpoint: a ``CfnEndpoint``; an ``Endpoint`` of ``aws-cdk.aws-sagemaker-alpha``; a construct with a
                ``cfn_endpoint``, such as those of generative-ai-cdk-constructs; an
                ``IOptimizedEndpoint.from_endpoint_name(...)``; or any other construct with an ``endpoint_ref``.
            id: the suffix of this construct's ID, after the endpoint construct's ID. Default: ``Monitoring``.
            inference_component: the component on the endpoint that serves the model. Default: a variant serves it.
            variant_name: the production variant. Default: the configuration's only variant.
            instance_type: the instance type. Default: the configuration's instance type. If it is unknown, utilization
                of several GPUs adds up to more than 100%, and evaluations are not possible.
            model_name: the name of the SageMaker model; an evaluation runs again when it changes. Default: the model of
                the configuration or the component.
            server: the model server, whose metrics SageMaker collects, for instance ``Server.vllm()``. Default: the
                server of the container image, if it is one of AWS's images.
            max_concurrent_requests: the number of requests that an instance, or a copy of the component, processes at
                once. The saturation alarm and scaling targets depend on it. Default: the value in ``server``, or in the
                container's environment. If both are missing, there is no saturation alarm, and every scaling target
                must be set.
            monitoring: the alarms and their actions, and the price of an instance. Default: alarms without actions.
            artifact_store: the store of evaluation and shadow results. Default: the stack's own store.

        Raises:
            RecipeError: if an argument has another type or an unknown value, or CloudWatch does not support an alarm's
                settings.
            ValueError: if arguments are missing that cannot be read from the app; lists all of them.
        """
        owner: Any = getattr(endpoint, "cfn_endpoint", endpoint)
        # The check treats None as an argument that was left out.
        ENDPOINT.check("endpoint", owner or "None")
        given = _Arguments(
            id=id,
            inference_component=inference_component,
            variant_name=variant_name,
            instance_type=instance_type,
            model_name=model_name,
            server=server,
            max_concurrent_requests=max_concurrent_requests,
            artifact_store=artifact_store,
            **drop_none(monitoring=monitoring),
        )
        if any(hasattr(each, "dashboard") for each in (owner, owner.node.scope)):
            raise ValueError(f"{path_of(owner)} has its own alarms, dashboard and scaling: use them instead")
        component_arn: str | None = getattr(owner, "_component_arn", None)
        if inference_component is not None:
            component_arn = inference_component.inference_component_ref.inference_component_arn
        if isinstance(owner, IOptimizedEndpoint):
            variant_name = variant_name or owner.variant_name
        declared = DeclaredEndpoint(owner)
        options, found = given.monitoring, declared.variants()
        problems = [*_problems(found, variant_name, of_component=component_arn is not None)]
        variant = next((each for each in found if variant_name in (None, each.name)), DeclaredVariant(variant_name))
        if inference_component is not None:
            variant = component_on(variant, inference_component)
            problems += _problems_of_component(inference_component)
        if instance_type is not None:
            variant = replace(
                variant, described={**variant.described, "instancePools": (), "instanceType": instance_type}
            )
        if model_name is not None:
            variant = replace(variant, model_name=model_name, containers=())
        capacity = max_concurrent_requests or getattr(server, "max_concurrent_requests", None)
        capacity = capacity or variant.max_concurrent_requests
        if of_owner := [name for name in _OF_CONFIGURATIONS if getattr(options, name) is not None]:
            problems.append(
                f"monitoring.{' and monitoring.'.join(of_owner)}: this belongs to the endpoint's configuration, which "
                "another construct declares: set it there, or leave it out"
            )
        saturation = options.alarms.switched_on().get("saturation") if options.alarms is not None else None
        if saturation is not None and saturation.threshold is None and capacity is None:
            problems.append(
                "monitoring.alarms has saturation without a threshold, and the number of requests that an instance "
                "processes at once is not known: set max_concurrent_requests=32, AlarmSettings(threshold=32), or "
                "saturation=False"
            )
        if problems:
            raise ValueError("\n".join([f"EndpointMonitoring.of({path_of(owner)}):", *problems]))
        beside = (inference_component or owner).node
        with unique_ids():
            # Next to the construct, not below it: a dependency on a construct covers everything below it.
            return EndpointMonitoring(
                cast("Construct", beside.scope),
                f"{beside.id}{id}",
                endpoint=declared,
                variant=variant,
                endpoint_name=getattr(owner, "endpoint_name", None) or _name_in(owner.endpoint_ref.endpoint_arn),
                endpoint_arn=owner.endpoint_ref.endpoint_arn,
                component=inference_component,
                component_arn=component_arn,
                server=server.name if server is not None else variant.server,
                max_concurrent_requests=capacity,
                monitoring=options,
                artifact_store=artifact_store,
            )

    @property
    def served(self) -> ServedModel:
        """The variant or component that CloudWatch publishes metrics for."""
        types, reported = self._variant.instance_types, self._declared.described.get("metricsConfig", {})
        return ServedModel(
            self.endpoint_name,
            self.variant_name,
            self.inference_component_name,
            instance_type=types[0] if len(types) == 1 else None,
            artifact_key=self._key if self._variant.model_name is not None else None,
            publishing_seconds=reported.get("metricPublishFrequencyInSeconds", metrics.PUBLISHING_SECONDS),
            engine=self._engine,
            is_asynchronous=self.is_asynchronous,
        )

    @property
    def evaluation_target(self) -> EvaluationTarget:
        """The target of evaluations."""
        variant, options = self._variant, self._options
        lacking = {"model_name": variant.model_name, "instance_type": variant.instance_types}
        if missing := [f'{name}="..."' for name, value in lacking.items() if not value]:
            raise ValueError(
                f"{self.node.path}: the app does not declare what to evaluate; pass to EndpointMonitoring.of(...) "
                f"{' and '.join(missing)}, or a CfnEndpoint whose CfnEndpointConfig and CfnModel are declared in the "
                "same stack"
            )
        subjects = [
            EvaluatedSubject(
                str(variant.model_name), each, self._key, (self._key, each), self._server, store=self._store
            )
            for each in variant.instance_types
        ]
        row, taken = instances.find(variant.instance_types[0]), variant.accelerators
        return EvaluationTarget(
            label=path_of(self),
            after=None,
            endpoint_arn=self.endpoint_arn,
            # This stack cannot change the configuration of another stack's endpoint.
            endpoint_config_name=self._declared.config_name or self.endpoint_name,
            component_arn=self._component_arn,
            served=self.served,
            subjects=subjects,
            share_of_instance=taken / row.parallel_units if taken and row is not None else None,
            network=None,
            asynchronous=self.is_asynchronous,
            discount=options.discount,
            instance_price_per_hour=options.instance_price_per_hour,
            alarms=self.alarms,
            dashboard=self.dashboard,
        )

    @unique_ids()
    def shadow(
        self,
        id: str = "Shadow",
        *,
        candidate: ShadowCandidate,
        checks: Sequence[AnswerCheck],
        data_capture: DataCapture,
        sample_percent: float = 5,
        duration: Duration | None = None,
        margin: float = 0.02,
        latency_tolerance: float = 0.1,
        promote: bool = False,
        topic: sns.ITopic | None = None,
        instance_quota: int | None = None,
    ) -> ShadowRun:
        """Send copies of the requests to a candidate, as ``OptimizedEndpoint.shadow`` does.

        This declares a second configuration with the same properties, the candidate and data capture, and the
        ``CfnEndpoint`` uses it as long as this call is in the app. The original configuration does not change, and the
        endpoint returns to it when the shadow ends.

        Args:
            id: its ID in this construct.
            candidate: the candidate; its ``model`` is required.
            checks: the checks that compare the answers.
            data_capture: where the answers of both are captured; replaces the configuration's own data capture. The
                role of the endpoint's model needs permission to write there: ``bucket.grant_put(role)``.
            sample_percent: see ``OptimizedEndpoint.shadow``.
            duration: see ``OptimizedEndpoint.shadow``.
            margin: see ``OptimizedEndpoint.shadow``.
            latency_tolerance: see ``OptimizedEndpoint.shadow``.
            promote: see ``OptimizedEndpoint.shadow``.
            topic: see ``OptimizedEndpoint.shadow``.
            instance_quota: see ``OptimizedEndpoint.shadow``.

        Raises:
            RecipeError: if rules are broken; lists all of them.
            ValueError: if this app does not declare the endpoint and its configuration, or it already has a shadow.
        """
        DURATION.check("duration", duration)
        endpoint, config, production = self._declared.resource, self._declared.config, self._variant
        if endpoint is None or config is None:
            raise ValueError(
                f"{self.node.path}: a shadow is another configuration of the endpoint, and this app does not declare a "
                "CfnEndpoint with a CfnEndpointConfig to update: call shadow in the app that does"
            )
        if self._shadow is not None or "shadowProductionVariants" in self._declared.described:
            raise ValueError(
                f"{self.node.path} already has a shadow: SageMaker supports one shadow variant for each endpoint"
            )
        if len(self._declared.described["productionVariants"]) > 1:
            raise ValueError(
                f"{self.node.path}: SageMaker supports a shadow variant only with a single production variant"
            )
        if candidate.model is None:
            raise ValueError(
                f"{self.node.path}: the endpoint has no recipe with a model for the candidate: "
                'ShadowCandidate(model=Model.s3("s3://models/llama-3-8b/"), ...)'
            )
        instance_type = candidate.instance_type or production.instance_types[0]
        (recipe,) = recipes_of(
            candidate.model,
            [Pool(instance_type, candidate.techniques, candidate.artifact_key)],
            candidate.environment,
            candidate.server,
            pooled=False,
        )
        hosting = self._hosting(data_capture)
        settings = Shadow(
            hosting,
            instance_type=instance_type,
            instance_count=candidate.instance_count,
            sample_percent=sample_percent,
            duration_seconds=duration.to_seconds() if duration is not None else 7 * 86_400,
            margin=margin,
            latency_tolerance=latency_tolerance,
            checks=tuple(checks),
            announced_pairs=announced_pairs(margin, len(checks)) if 0 < margin < 1 else None,
            captures=data_capture.requests and data_capture.responses,
            promotes=promote,
            is_scaled=endpoint.retain_all_variant_properties is True,
            instance_quota=instance_quota,
        )
        refuse([*recipe.violations(self), *check(settings)])
        scope = Construct(self, id)
        advise(scope, *warnings(settings))
        hosted = create_model(scope, recipe, ModelOptions(artifact_store=self._store), host=ModelHost(is_shadow=True))
        hosted.artifact.execution_role.permit(list(data_capture.statements()))
        of_candidate = replace(
            hosting, instance_types=(instance_type,), initial_instance_count=candidate.instance_count
        )
        options = EndpointConfiguration(async_inference=None, data_capture=data_capture, encryption_key=None)
        shadowing = {
            **options.variant_property(of_candidate, [hosted]),
            "initialVariantWeight": sample_percent / 100,
            "variantName": SHADOW_VARIANT,
        }
        promoted = {
            **shadowing,
            "initialInstanceCount": hosting.initial_instance_count,
            "initialVariantWeight": 1,
            "variantName": self.variant_name,
        }
        shadow = self._config_like(config, scope, "Config", data_capture, shadowProductionVariants=[shadowing])
        configs = [shadow, config]
        if promote:
            configs.append(self._config_like(config, scope, "Promoted", data_capture, productionVariants=[promoted]))
        endpoint.endpoint_config_name = shadow.attr_endpoint_config_name
        compared = EvaluatedSubject.of(hosted)
        shadowed = ShadowedEndpoint(
            label=path_of(self),
            endpoint=endpoint,
            served=None,
            endpoint_name=self.endpoint_name,
            variant_name=self.variant_name,
            shadow=shadow,
            ended=config,
            promoted=configs[2] if promote else None,
            config_arns=[each.ref for each in configs],
            volume_key=_key_arn(self, properties_of(config).get("kmsKeyId")),
            production=self.evaluation_target.subjects[0],
            candidate=compared,
            capture_bucket=data_capture.bucket,
            capture_prefix=data_capture.prefix,
            capture_keys=data_capture.key_arns,
            store=ArtifactStore.writable_of(self, [hosted.artifact.artifact_store]),
        )
        self._shadow = ShadowRun(scope, "Run", shadowed=shadowed, settings=settings, topic=topic)
        return self._shadow

    def _hosting(self, data_capture: DataCapture) -> Hosting:
        """Return the endpoint's settings for the shadow rules."""
        described, policy = (
            self._variant.described,
            self._declared.resource and self._declared.resource.deployment_config,
        )
        return Hosting(
            self._variant.instance_types,
            pooled="instancePools" in described,
            inference_component=self.inference_component_name is not None,
            variant_name=self.variant_name,
            initial_instance_count=self._variant.instance_count,
            update=UpdateSettings("ROLLING" if getattr(policy, "rolling_update_policy", None) else "ALL_AT_ONCE"),
            capture_percentage=data_capture.sampling_percentage,
            asynchronous=self.is_asynchronous,
        )

    @staticmethod
    def _config_like(
        config: sagemaker.CfnEndpointConfig, scope: Construct, id: str, data_capture: DataCapture, **changed: Any
    ) -> sagemaker.CfnEndpointConfig:
        """Declare a configuration with the same properties except for its name and ``changed``."""
        declared = {**properties_of(config), "dataCaptureConfig": data_capture.to_property(), **changed}
        properties: Any = {
            to_snake(name): value for name, value in declared.items() if name not in ("endpointConfigName", "tags")
        }
        return sagemaker.CfnEndpointConfig(scope, id, **properties)

    def _scaled(self, min_capacity: int, max_capacity: int) -> EndpointScaling:
        if self._shadow is not None:
            refuse(check(replace(self._shadow.settings, is_scaled=True)))
        capacity, component = self._capacity, self.inference_component_name
        target = (
            ScalingTarget.component(component)
            if component is not None
            else ScalingTarget.variant(self.endpoint_name, self.variant_name, is_asynchronous=self.is_asynchronous)
        )
        stack = StackContext.of(self)
        scaled = stack.resolve(target.resource_id)
        for other in cast("Construct", self.node.scope).node.find_all():
            is_target = isinstance(other, applicationautoscaling.CfnScalableTarget)
            if is_target and stack.resolve(other.resource_id) == scaled:
                raise ValueError(
                    f"{path_of(other)} already scales this endpoint, and CloudFormation refuses a second "
                    "scalable target for the same variant or component: leave out auto_scale, or the scaling there"
                )
        scaling = EndpointScaling(
            self,
            "Scaling",
            target=target,
            min_capacity=min_capacity,
            max_capacity=max_capacity,
            defaults=ScalingDefaults(capacity, max(1.0, round(capacity * HEADROOM, 1)))
            if capacity is not None
            else None,
            alarms=self.alarms,
            served=self.served,
        )
        self.alarms.watch(scales_to_zero=scaling.scales_to_zero)
        self.dashboard.show_scaling(min_capacity=min_capacity, max_capacity=max_capacity)
        owned = self._declared.resource if component is None else self._component
        if owned is None:
            message = (
                f"{self.node.path} scales an endpoint or component that this app does not declare: an update elsewhere "
                "resets instances to the configuration's InitialInstanceCount, unless it has "
                "RetainAllVariantProperties, and a component's copies to its CopyCount"
            )
            advise(self, Advice("constructs-optim:RetainAllVariantProperties", message))
        elif isinstance(owned, sagemaker.CfnInferenceComponent):
            self._keep_copies(owned, min_capacity, max_capacity)
        elif owned.retain_all_variant_properties is None:
            owned.retain_all_variant_properties = True
        return scaling

    def _keep_copies(self, component: sagemaker.CfnInferenceComponent, fewest: int, most: int) -> None:
        """Let updates of a component keep the number of copies that scaling set."""
        initial: int = properties_of(component).get("runtimeConfig", {}).get("copyCount", 1)
        # Everything except the copies; rendered late, to include later declarations.
        definition = late_value(lambda: {**properties_of(component), "runtimeConfig": None})
        copies = current_copies(self, component, {"properties": definition}, min(most, max(fewest, initial)))
        runtime: Any = {"copyCount": copies}
        component.runtime_config = runtime

    @property
    def _key(self) -> str:
        """The key of published evaluations; changes with the model, its container and its environment."""
        name = StackContext.of(self).resolve(self._variant.model_name or "")
        return sha256(json.dumps(list(self._variant.containers) or name, sort_keys=True))

    @property
    def _engine(self) -> Engine:
        """The engine, or the reason why SageMaker does not collect its metrics: see ``EndpointConfiguration``."""
        if self.is_asynchronous:
            return Engine(unpublished="SageMaker collects engine metrics only from real-time endpoints")
        if self._declared.described.get("metricsConfig", {}).get("enableDetailedObservability") is False:
            return Engine(unpublished="its configuration has EnableDetailedObservability: false")
        kind = by_name().get(self._server or "")
        return Engine(self._server, kind.title if kind is not None else None, speculates=self._variant.speculates)

    @property
    def _first_model(self) -> HostedModel:
        raise ValueError(
            f"{self.node.path} monitors an endpoint that another construct declares, so it has no plan and no artifact"
        )


def _known_type(name: str) -> str:
    known = {*instances.by_name(), *instances.other_names()}
    if not is_token(name) and name not in known:
        hint = did_you_mean(name, sorted(known), "a type such as ml.g5.12xlarge")
        raise ValueError(f"SageMaker has no such type for endpoints: {hint}")
    return name


class _Arguments(Settings):
    """The arguments of ``EndpointMonitoring.of``."""

    id: str
    inference_component: Annotated[IInferenceComponentRef, COMPONENT] | None
    variant_name: str | None
    instance_type: Annotated[str, AfterValidator(_known_type)] | None
    model_name: str | None
    server: Annotated[ServerSettings, SERVER] | None
    max_concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] | None
    artifact_store: Annotated[IArtifactStore, STORE] | None
    monitoring: MonitoringOptions = Field(default_factory=MonitoringOptions)

    @classmethod
    def display_name(cls) -> str:
        """Return the method that takes these arguments."""
        return "EndpointMonitoring.of"


def _problems(found: Sequence[DeclaredVariant], variant_name: str | None, *, of_component: bool) -> Iterator[str]:
    """Yield the reasons why the monitored variant is not known."""
    chosen = [each for each in found if variant_name in (None, each.name)]
    names = ", ".join(str(each.name) for each in found)
    if not found and variant_name is None:
        yield (
            "its configuration is not declared in this app, or not in the endpoint's stack, so the variant is not "
            'known: set variant_name="AllTraffic", for instance, and instance_type="ml.g5.12xlarge"'
        )
    elif variant_name is None and len(found) > 1:
        yield f"its configuration has the variants {names}: set variant_name= to one of them, each with its own ID"
    elif found and not chosen:
        yield f"its configuration has no variant {variant_name!r}: it has {names}"
    if any("serverlessConfig" in each.described for each in chosen):
        yield "its variant is serverless, without instances to scale and without accelerators"
    elif any(each.model_name is None for each in chosen) and not of_component:
        yield (
            "its variant has no model, and SageMaker publishes metrics by the inference components on it: set "
            "inference_component= to one of them; each has its own monitoring"
        )


def _problems_of_component(component: IInferenceComponentRef) -> Iterator[str]:
    """Yield why a component cannot be monitored: CloudFormation only returns its name in lower case, in the ARN."""
    name = getattr(component, "inference_component_name", None)
    if isinstance(component, sagemaker.CfnInferenceComponent) and (
        name is None or not (is_token(name) or name.islower())
    ):
        yield (
            f"the inference component's name is {name!r}, and CloudFormation returns only its ARN, with the name in "
            'lower case, while CloudWatch\'s names are case-sensitive: inference_component_name="chat-llama", for '
            "instance"
        )


def _key_arn(scope: Construct, key: str | None) -> str | None:
    """Return the ARN of a KMS key given by ID or ARN; refuse aliases, which SageMaker also accepts."""
    if key is None or is_token(key) or ":key/" in key:
        return key
    if "alias/" in key:
        raise ValueError(
            f"{path_of(scope)}: the configuration's KmsKeyId is {key!r}, and permissions cannot refer to an alias: set "
            "the key's ARN"
        )
    return StackContext.of(scope).stack.format_arn(service="kms", resource="key", resource_name=key)


def _name_in(arn: str) -> str:
    """Return the name at the end of an ARN."""
    return arn.rpartition("/")[2] if not is_token(arn) else Fn.select(1, Fn.split("/", arn))
