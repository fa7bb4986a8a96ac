"""Evaluations of an endpoint: benchmarks after deployments and on a schedule, and requirements on their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import jsii
from aws_cdk import CfnResource, Duration, ITaggableV2, TagManager, TagType
from constructs import Construct
from pydantic.alias_generators import to_pascal

from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore, store_statements
from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.artifacts.model_source import S3Location
from constructs_optim.constructs.artifacts.preflight import EngineMetricUses
from constructs_optim.constructs.artifacts.roles import running_statements
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.stack.arguments import WORKLOAD, refuse
from constructs_optim.constructs.stack.custom_resource import JobSignal, drop_none, wait_seconds
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.network import Network
from constructs_optim.constructs.stack.permissions import Arn, Statement, statements_of
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe import metrics
from constructs_optim.recipe.catalog.lock import RecordedChoice
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.evaluation import Benchmark, Requirements, Workload
from constructs_optim.recipe.evaluation.requirements import (
    POOLED_REGRESSION_METRICS,
    REGRESSION_METRICS,
    Limits,
    QualityRequirement,
    requirements_of,
)
from constructs_optim.recipe.evaluation.sample_size import ComparedVersions, limited_samples
from constructs_optim.recipe.memory import longest_request
from constructs_optim.recipe.metrics.engines import EngineMetricUse
from constructs_optim.recipe.metrics.names import EvaluationMetricName
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.tasks import GENERATE, TaskName
from constructs_optim.recipe.techniques.parsing import written
from constructs_optim.recipe.tokens import is_token

from .evaluation_service import EvaluationService, workload_config_name, workload_statements

if TYPE_CHECKING:
    from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
    from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard, EvaluatedModel

_TYPE = "Custom::EndpointEvaluation"
# Request lengths: the standard deviation as a share of the mean, and the maximum deviation in standard deviations.
_VARIATION, _FARTHEST = 0.3, 4
_DEFAULT_WAIT_SECONDS = 4 * 60 * 60
# Dimensions whose values are only known at run time.
_OF_RUNS = ("Concurrency", "ArtifactKey")


@dataclass(frozen=True)
class EvaluatedSubject:
    """A model that is evaluated, on one instance type.

    ``key``, a SHA-256, identifies its published evaluations; ``recipe`` holds the values that a measurement depends on.
    ``server`` is None if it is unknown. ``store`` is the artifact's store, or None without an artifact. ``described``
    is the recipe as data, for correcting later forecasts with measurements.
    """

    model_name: str
    instance_type: str
    key: str
    recipe: Sequence[str]
    server: str | None = None
    lossless: bool = False
    store: IArtifactStore | None = None
    described: Mapping[str, object] | None = None
    longest_varied: int | None = None
    """The maximum request length in tokens; None if it is unknown, or the model is compiled for a fixed length."""
    task: TaskName = GENERATE

    @classmethod
    def of(cls, hosted: HostedModel) -> EvaluatedSubject:
        """Return the subject of a recipe's model."""
        plan, recipe = hosted.plan, hosted.recipe.recipe_in(hosted.artifact)
        return cls(
            hosted.model_name,
            plan.instance_type,
            hosted.evaluation_key,
            (plan.deployment_hash, plan.container_key, plan.instance_type),
            plan.container.server,
            plan.lossless,
            hosted.artifact.artifact_store,
            _described(hosted),
            longest_request(recipe) if recipe.compiled_shape is None else None,
            recipe.task.name,
        )


@dataclass(frozen=True)
class EvaluationTarget:
    """An endpoint or component to evaluate, with a subject for each instance type.

    The evaluation runs ``after`` the check of the served configuration. ``component_arn`` is None if a variant serves
    the model. ``share_of_instance`` is the part of an instance that a copy of the component uses, ``network`` the VPC
    of the benchmark job, and ``discount`` a share. ``alarms`` monitor the schedule, and ``dashboard`` shows the
    results. Results are compared with the forecast of ``choice``, the choice for the endpoint's objectives;
    ``is_resized`` is true if the endpoint starts with another number of instances.
    """

    label: str
    after: CfnResource | None
    endpoint_arn: str
    endpoint_config_name: str
    component_arn: str | None
    served: ServedModel
    subjects: Sequence[EvaluatedSubject]
    share_of_instance: float | None
    network: Network | None
    asynchronous: bool
    discount: float
    instance_price_per_hour: float | None
    alarms: EndpointAlarms | None
    dashboard: EndpointDashboard | None
    choice: RecordedChoice | None = None
    is_resized: bool = False


class EvaluationOptions(TypedDict, total=False):
    """The options of ``evaluate``.

    Attributes:
        workload: the load to send. Default: synthetic prompts of 622 tokens, from 1, 8 and 32 users; for an endpoint
            with objectives, prompts of their lengths, from one user and from the expected number of users.
        after_deployment: whether a deployment that changes what the endpoint serves runs the evaluation. Default: yes.
        schedule: an additional schedule: ``rate(1 day)``, or ``cron(0 6 ? * MON-FRI *)`` in UTC. Default: none.
        baseline: an evaluation that the dashboard shows for comparison, for instance of the same model without
            techniques. Default: none.
        instance_price_per_hour: the price of an instance in US dollars. Default: the endpoint's price, otherwise the
            price in the AWS Price List at run time.
        discount: the discount of a savings plan, as a share. Default: the endpoint's discount.
        timeout: the maximum wait of a deployment with requirements, up to 12 hours. Default: 4 hours.
    """

    workload: Workload
    after_deployment: bool
    schedule: str | None
    baseline: EvaluatedModel | None
    instance_price_per_hour: float | None
    discount: float | None
    timeout: Duration | None


@methods_suggest_keywords
@jsii.implements(ITaggableV2)
class EndpointEvaluation(Construct):
    """A benchmark of an endpoint's model. With ``require``, deployments depend on its results.

    Tags of this construct are applied to the benchmark jobs.
    """

    def __init__(self, scope: Construct, id: str, *, target: EvaluationTarget, options: EvaluationOptions) -> None:
        """Declare the evaluation; use ``OptimizedEndpoint.evaluate``.

        The dashboard shows the results, and the alarms monitor the schedule. Results go to the first writable store of
        the models.
        """
        WORKLOAD.check("evaluate.workload", options.get("workload"))
        price, discount = options.get("instance_price_per_hour"), options.get("discount")
        self.workload: Workload = options.get("workload") or _workload(target)
        self.task: TaskName = target.subjects[0].task if target.subjects else GENERATE
        self._benchmark = Benchmark(
            self.workload,
            task=self.task,
            longest_input=_longest_input(target),
            after_deployment=options.get("after_deployment", True),
            schedule=options.get("schedule"),
            asynchronous=target.asynchronous,
            instance_price_per_hour=target.instance_price_per_hour if price is None else price,
            discount=target.discount if discount is None else discount,
            region=StackContext.of(scope).known_region,
        )
        refuse(check(self._benchmark))
        self._wait_seconds = wait_seconds(
            options.get("timeout"),
            _DEFAULT_WAIT_SECONDS,
            instead="measure at fewer numbers of users, or evaluate on a schedule",
        )
        super().__init__(scope, id)
        advise(self, *warnings(self._benchmark))
        self.target: EvaluationTarget = target
        self._served = target.served.in_stack_of(self)
        self._advise_on_acceptance()
        self._store = ArtifactStore.writable_of(self, (subject.store for subject in target.subjects if subject.store))
        self._requirements: Requirements | None = None
        self._tag_manager = TagManager(TagType.KEY_VALUE, _TYPE)
        self._tags = self._tag_manager.rendered_tags
        self._stack = StackContext.of(scope).stack
        self._service = service = EvaluationService.of(scope)
        self._config_name: str | None = None
        if self._generates:
            config = service.workload_config(self.workload)
            self._config_name = workload_config_name(config)
            self._permit(config.attr_ai_workload_config_arn)
        else:
            self._permit(None)
        self._resource: CfnResource | None = None
        if self._benchmark.after_deployment:
            properties = {**service.jobs.properties, "Request": self._request()}
            self._resource = CfnResource(self, "Resource", type=_TYPE, properties=properties)
            if target.after is not None:
                self._resource.add_resource_dependency(target.after)
        schedule = self._benchmark.schedule
        self._schedule = self._scheduled(schedule) if schedule is not None else None
        if target.dashboard is not None:
            target.dashboard.show_evaluation(concurrencies=self.workload.concurrency, baseline=options.get("baseline"))
        if target.alarms is not None and schedule is not None:
            target.alarms.watch(evaluation_concurrency=self.workload.concurrency[0], evaluation_schedule=schedule)

    @property
    def cdk_tag_manager(self) -> TagManager:
        """The CDK's tag manager."""
        return self._tag_manager

    @property
    def evaluation_key(self) -> str:
        """The evaluation's key in the store, ``evaluations/<key>/`` (a token).

        Raises:
            ValueError: if the evaluation only runs on a schedule.
        """
        return self._deployed.ref

    @property
    def result_uri(self) -> str:
        """The S3 URI of the result, a JSON document (a token).

        Raises:
            ValueError: if the evaluation only runs on a schedule.
        """
        return self._deployed.get_att("ResultUri").to_string()

    def require(
        self,
        *,
        at_concurrency: int | None = None,
        max_regression: float | None = None,
        regression_metrics: Sequence[EvaluationMetricName] | None = None,
        quality: QualityRequirement | None = None,
        forecast: bool = False,
        **limits: Unpack[Limits],
    ) -> EndpointEvaluation:
        """Fail the deployment, so that the stack rolls back, unless its evaluation meets these requirements.

        The new model already serves requests during the evaluation; the rollback restores the previous one. If a
        deployment does not change what the endpoint serves, it is not measured again. If chance may explain what is
        missed, the deployment measures again, up to three times in all, and continues if that decides nothing.

        Args:
            at_concurrency: the number of concurrent users at which limits and comparisons apply. Default: each measured
                number.
            max_regression: how much worse than before the deployment each of ``regression_metrics`` may be, as a share:
                0.05 for 5%. The first evaluation has no comparison. Default: no comparison.
            regression_metrics: metric names from https://constructs-optim.dev/metrics/. Default: median time to first
                token and inter-token latency, client latency at its 90th percentile, and output tokens a second; for a
                model that generates no text, client latency at its 90th percentile and inputs a second.
            quality: requirements on the answers. Default: none.
            forecast: for an endpoint with objectives, whether latencies must stay within the forecast's intervals.
                Default: the report lists latencies outside the intervals.
            limits: see ``constructs_optim.recipe.evaluation.Limits``; without ``max_error_rate``, 1% of the
                requests may fail.

        Raises:
            RecipeError: if rules are broken; lists all of them.
            ValueError: if ``require`` was called before, or a name is not known.
        """
        if self._requirements is not None:
            raise ValueError(f"{self.node.path} already has requirements: call require once, with all of them")
        choice = self.target.choice
        if forecast and not _forecasts(choice, self.workload):
            users = " or ".join(map(str, sorted(choice.forecast.with_users))) if choice is not None else "some"
            raise ValueError(
                f"{self.node.path} has no forecast: only an endpoint with objectives has one, for the default workload "
                f"of synthetic prompts with their lengths and {users} users"
            )
        if forecast and choice is not None and self.target.is_resized:
            raise ValueError(
                f"the forecast of {self.node.path} is for {choice.instances} instances, and the endpoint has another "
                "number: leave variant.initial_instance_count out, or forecast=True"
            )
        required = requirements_of(
            limits,
            max_regression=max_regression,
            regression_metrics=regression_metrics
            or (REGRESSION_METRICS if self._generates else POOLED_REGRESSION_METRICS),
            at_concurrency=at_concurrency,
            quality=quality,
            forecast=forecast,
        )
        judged = replace(self._benchmark, requirements=required)
        violations = check(judged)
        known = {violation.location for violation in violations}
        limited = [each.threshold for each in required.limits if f"require.{each.name}" not in known]
        thresholds = [each for each in limited if each is not None]
        violations += [violation for each in thresholds for violation in check(each)]
        if "min_acceptance_length" in limits:
            use = EngineMetricUse("require.min_acceptance_length", ("acceptance_length",), self._served.engine)
            violations += check(use)
        refuse(violations)
        # The default limit on failures is nobody's choice, and docs/evaluation.md has what it finds.
        chosen = (each for each in limited_samples(judged) if each.limit.name in limits)
        subjects = (*thresholds, *chosen, ComparedVersions(max_regression, self._benchmark.schedule))
        advise(self, *(advice for each in subjects for advice in warnings(each)))
        if "min_acceptance_length" in limits:
            EngineMetricUses.of(self).add(self, required=True)
        self._requirements = required
        if quality is not None:
            read = S3Location(quality.prompts).object_arn
            self._service.jobs.watcher.permit(statements_of("send prompts", Targets=self._targets, Prompts=read))
        resource, gate, seconds = self._deployed, _gate(required, generates=self._generates), self._wait_seconds
        # Changes with the measurement, the models, the requirements and the timeout.
        served = [list(subject.recipe) for subject in self.target.subjects]
        sent = self._stack.resolve([self.workload.spec if self._generates else self.workload.pooled, gate])
        waits = [seconds] if seconds != _DEFAULT_WAIT_SECONDS else []
        text = json.dumps([served, sent, *waits], sort_keys=True)
        signal = JobSignal(self, job=text, seconds=seconds, name="Passed")
        for name, value in {"Request.Gate": gate, **signal.properties}.items():
            resource.add_property_override(name, value)
        signal.await_from(resource)
        if self._schedule is not None:
            self._schedule.add_property_override("Target.Input", self._input())
        return self

    @property
    def _generates(self) -> bool:
        """Whether the model generates text, so that a benchmark job measures it; otherwise the function does."""
        return self.task == GENERATE

    @property
    def _targets(self) -> tuple[Arn, ...]:
        arn, component_arn = self.target.endpoint_arn, self.target.component_arn
        return (arn, component_arn) if component_arn is not None else (arn,)

    def _permit(self, workload_config_arn: Arn | None) -> None:
        """Let benchmarks send the workload to the endpoint, and the handler and watcher store their results.

        Without a workload configuration, the watcher sends it.
        """
        service, target, store = self._service, self.target, self._store
        describe = statements_of("describe endpoint", Endpoint=target.endpoint_arn, Component=target.component_arn)
        results = store_statements(store, "keep evaluations")
        service.jobs.handler.permit(results)
        if workload_config_arn is None:
            prompts = self.workload.prompts
            read = S3Location(prompts).object_arn if prompts is not None else None
            service.jobs.watcher.permit(
                [*results, *describe, *statements_of("send prompts", Targets=self._targets, Prompts=read)]
            )
            service.jobs.watcher.send_requests()
            return
        service.role.permit(
            [
                *statements_of("send requests", Targets=self._targets),
                *describe,
                *statements_of("run benchmarks"),
                *workload_statements(self.workload),
                *store_statements(store, "upload evaluations"),
                *running_statements(in_vpc=target.network is not None),
            ]
        )
        use = Statement("UseWorkloads", ("sagemaker:CreateAIBenchmarkJob",), (workload_config_arn,))
        asked = statements_of("query engine metrics") if self._acceptance is not None else []
        service.jobs.watcher.permit([*results, *describe, use, *asked])

    @property
    def _deployed(self) -> CfnResource:
        if self._resource is None:
            raise ValueError(
                f"{self.node.path} only runs on a schedule: set after_deployment=True to run it after deployments"
            )
        return self._resource

    def _request(self) -> dict[str, Any]:
        target, served = self.target, self.target.served
        series = served.series(metrics.find("concurrency"))
        known = served.dimensions(series, concurrency=1)
        return drop_none(
            Label=target.label,
            EndpointName=served.endpoint_name,
            EndpointConfigName=target.endpoint_config_name,
            InferenceComponentName=served.inference_component_name,
            VariantName=None if served.is_component else served.variant_name,
            ModelNames=[subject.model_name for subject in target.subjects],
            Subjects=[
                drop_none(
                    InstanceType=subject.instance_type,
                    ArtifactKey=subject.key,
                    PricePerHour=self._benchmark.instance_price_per_hour,
                    Server=subject.server,
                    Recipe=subject.described,
                )
                for subject in target.subjects
            ],
            ShareOfInstance=target.share_of_instance,
            Lossless=all(subject.lossless for subject in target.subjects),
            WorkloadConfigName=self._config_name,
            Workload=self.workload.spec if self._generates else None,
            Task=self.task if not self._generates else None,
            Load={to_pascal(name): value for name, value in self.workload.pooled.items()}
            if not self._generates
            else None,
            Concurrencies=list(self.workload.concurrency),
            Discount=self._benchmark.discount,
            Dimensions={name: known[name] for name in series.dimensions if name not in _OF_RUNS},
            RoleArn=self._service.role.role_arn,
            VpcConfig=target.network.to_property("SecurityGroupIds") if target.network is not None else None,
            Bucket=self._store.bucket_name,
            KmsKeyArn=self._store.encryption_key_arn,
            Acceptance=self._acceptance,
            Forecasts=_forecasts(target.choice, self.workload) or None,
            Gate=_gate(self._requirements, generates=self._generates) if self._requirements is not None else None,
            Tags=self._tags,
        )

    @property
    def _acceptance(self) -> dict[str, str] | None:
        """The query for the acceptance length, if the recipe uses speculative decoding and the engine publishes it."""
        length = self._served.windowed_engine_query("acceptance_length")
        if length is None:
            return None
        return drop_none(Length=length, Drafts=self._served.windowed_engine_query("drafts_per_second"))

    def _advise_on_acceptance(self) -> None:
        """Say that the acceptance length is not measured for the lack of PromQL; its preflight says so otherwise."""
        engine = self._served.engine
        if engine.speculates and engine.lacks_promql:
            message = (
                f"{self.node.path} does not measure the acceptance length of speculative decoding, because CloudWatch "
                f"has no PromQL in {engine.region}"
            )
            advise(self, Advice("constructs-optim:OPT240", message))
        elif self._acceptance is not None:
            EngineMetricUses.of(self).add(self)

    def _scheduled(self, schedule: str) -> CfnResource:
        # Not aws_scheduler.CfnSchedule: its module is slow to import, and most stacks have no schedule.
        scheduled = CfnResource(
            self,
            "Schedule",
            type="AWS::Scheduler::Schedule",
            properties={
                "Description": f"Evaluates {self.target.label}",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "ScheduleExpression": schedule,
                "Target": {
                    "Arn": self._service.jobs.state_machine.ref,
                    "Input": self._input(),
                    "RoleArn": self._service.schedule_role_arn,
                },
            },
        )
        if self._resource is not None:
            # The schedule is deleted first, so that deleting the evaluation stops every run that it started.
            scheduled.add_resource_dependency(self._resource)
        return scheduled

    def _input(self) -> str:
        return self._stack.to_json_string(
            {
                "Request": self._request(),
                "Run": "<aws.scheduler.execution-id>",
                "Issued": "<aws.scheduler.scheduled-time>",
            }
        )


def _gate(required: Requirements, *, generates: bool) -> dict[str, Any]:
    quality = required.quality
    settings = {*QualityRequirement.model_fields} - ({"min_agreement"} if generates else set[str]())
    return drop_none(
        Limits=[
            drop_none(
                Formula=limit.formula,
                Title=limit.title,
                Unit=limit.unit or None,
                AtMost=limit.at_most,
                AtLeast=limit.at_least if limit.at_most is None else None,
            )
            for limit in required.limits
        ],
        MaxRegression=required.max_regression,
        Compared=[
            {"Metric": name, "Title": metrics.find(name).title, "Better": "higher" if higher else "lower"}
            for name, higher in required.compared
        ]
        if required.max_regression is not None
        else None,
        AtConcurrency=required.at_concurrency,
        Quality={to_pascal(name): value for name, value in quality if name in settings}
        if quality is not None
        else None,
        Forecast=required.forecast or None,
    )


def _described(hosted: HostedModel) -> dict[str, object] | None:
    """Return a model's recipe as on the command line; None if the model is only known at deployment."""
    recipe, image = hosted.recipe, hosted.plan.container.image
    if is_token(recipe.model.name):
        return None
    return drop_none(
        Model=recipe.model.name,
        Techniques=[written(technique) for technique in recipe.techniques],
        Server=hosted.plan.container.server,
        Image=image.rpartition("/")[2] if image is not None else None,
    )


def _workload(target: EvaluationTarget) -> Workload:
    """Return the default workload: the requests of the objectives, with the forecast's number of users.

    Lengths vary, like those of real requests, as far as the context allows. With equal lengths, requests that start
    together end together, and then wait for each other's prompts: with 64 users on an H200, time to first token was 4.5
    times as long (bench/forecast/vllm_on_h200.jsonl).
    """
    choice = target.choice
    if choice is None:
        longest = _longest_input(target)
        # A word of the random texts is more than a token for some tokenizers, and a reranking adds its query.
        return (
            Workload() if longest is None else Workload(input_tokens=min(Workload().input_tokens, max(1, longest // 3)))
        )
    given, expected = (int(choice.objectives[name]) for name in ("input_tokens", "output_tokens"))
    longest = [each.longest_varied for each in target.subjects]
    room = min((each - given - expected if each is not None else 0 for each in longest), default=0)
    most = max(0, room) // (2 * _FARTHEST)
    return Workload(
        concurrency=sorted(choice.forecast.with_users),
        input_tokens=given,
        input_tokens_stddev=min(round(_VARIATION * given), most),
        output_tokens=expected,
        output_tokens_stddev=min(round(_VARIATION * expected), most),
    )


def _longest_input(target: EvaluationTarget) -> int | None:
    """Return the longest input of models that generate no text, in tokens; None if it is unknown."""
    known = [each.longest_varied for each in target.subjects if each.task != GENERATE]
    return min((each for each in known if each is not None), default=None)


def _forecasts(choice: RecordedChoice | None, workload: Workload) -> list[dict[str, object]]:
    """Return the choice's forecast of a workload's metrics, if it has the lengths of the objectives."""
    if choice is None or workload.prompts is not None:
        return []
    if any(choice.objectives[name] != getattr(workload, name) for name in ("input_tokens", "output_tokens")):
        return []
    return [
        {
            "InstanceType": choice.pools[0].instance_type,
            "Copies": choice.copies,
            "Concurrency": users,
            "Metric": metric.name,
            "Title": metric.title,
            "Unit": "ms",
            "Value": value,
            "Low": low,
            "High": high,
        }
        for users, latencies in sorted(choice.forecast.with_users.items())
        if users in workload.concurrency
        for metric, (value, low, high) in (
            (metrics.find("time_to_first_token"), latencies.time_to_first_token_ms),
            (metrics.find("inter_token_latency"), latencies.inter_token_latency_ms),
        )
    ]
