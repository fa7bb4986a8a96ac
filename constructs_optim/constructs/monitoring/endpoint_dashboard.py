"""An endpoint's CloudWatch dashboard, for a person on call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from constructs import Construct

from constructs_optim.constructs.artifacts.preflight import EngineMetricUses
from constructs_optim.constructs.stack.arguments import suggests_keywords
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext
from constructs_optim.recipe import metrics, pricing
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.tokens import is_known, is_token

from .graphs import COLORS, GraphContext, Line, dashboards, graph_properties
from .served_model import ServedModel
from .widgets import GRID_COLUMNS, Dashboard, Segment, Widget, arranged, dashboard_body, text

if TYPE_CHECKING:
    from constructs_optim.constructs.artifacts.recipe_artifact import RecipeArtifact

_TARGETS = {"concurrent_requests": "scaling target", "invocations_per_copy": "scaling target a minute"}
_CONSOLE = "console.aws.amazon.com"
_CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})")


@suggests_keywords
@dataclass(frozen=True)
class EvaluatedModel:
    """One side of a comparison.

    Attributes:
        label: its name, for instance ``baseline``.
        served: the evaluated variant or component, with the ``artifact_key`` of its published metrics.
        instance_price_per_hour: the price of its instance an hour. Default: the price that the evaluation published.
    """

    label: str
    served: ServedModel
    instance_price_per_hour: float | None = None


@methods_suggest_keywords
class EndpointDashboard(Dashboard):
    """A dashboard of an endpoint's traffic, latency, errors, accelerators, scaling, jobs, costs and evaluations.

    It omits segments without metrics: GPUs if the instances have none, costs without a price, evaluations before
    ``show_evaluation``. https://constructs-optim.dev/dashboards/ shows an example.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        served: ServedModel,
        artifact: RecipeArtifact | None = None,
        dashboard_name: str | None = None,
        instance_types: Sequence[str] = (),
    ) -> None:
        """Declare the dashboard.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            served: the variant or component that serves the model. Its ``publishing_seconds`` is used to count
                instances.
            artifact: the served artifact; with it, the dashboard shows the recipe and the history of its jobs. Default:
                not known.
            dashboard_name: the dashboard's name. Default: CloudFormation generates one.
            instance_types: the types of all instance pools. Default: the type in ``served``.
        """
        super().__init__(scope, id, dashboard_name)
        self._stack = StackContext.of(scope)
        self._artifact = artifact
        # A model served without optimization has no jobs; its key only identifies evaluations.
        self._jobs = artifact if artifact is not None and artifact.plan.jobs else None
        if instance_types:
            served = replace(served, instance_type=metrics.like_all(instance_types))
        served = self._reading(served)
        self._instance_types = instance_types or [name for name in [served.instance_type] if name]
        self.served: ServedModel = served
        self._price: float | None = None
        self._discount: float = 0
        self._alarms: list[str] = []
        self._deployments: list[tuple[str, str]] = []
        self._thresholds: dict[str, list[tuple[float, str]]] = {}
        self._evaluation: tuple[EvaluatedModel | None, str, tuple[int, ...]] | None = None
        self._more: list[Segment] = []
        self._components: dict[str, ServedModel] = {}

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The dashboard's segments, from top to bottom."""
        context = GraphContext(self.served, PSEUDO.region, None, tuple(self._deployments), self._price, self._discount)
        shown = [self._heading(), *context.segments(self._thresholds)]
        if self._alarms:
            states = {"title": "Alarms", "alarms": list(self._alarms)}
            widget = Widget("alarms", "alarm", states, GRID_COLUMNS, min(2 + len(self._alarms) // 4, 8))
            shown.insert(1, Segment("alarms_heading", "Alarms", (widget,)))
        for name, component in self._components.items():
            shown += replace(context, served=component).segments({}, of_component=name)
        if self._evaluation is not None:
            shown += self._evaluations(context, *self._evaluation)
        if self._jobs is not None and self._jobs.log_group_names:
            shown.append(self._history(self._jobs))
        return tuple(segment for segment in [*shown, *self._more] if segment.widgets)

    def _heading(self) -> Segment:
        """Model and instances, and links to the console."""
        served = self.served
        component = f" / {served.inference_component_name}" if served.is_component else ""
        lines = [f"# {served.endpoint_name}{component}", self._recipe_text]
        if self._jobs is not None:
            lines.append(f"artifact `{served.artifact_key}`")
        lines.append(" · ".join(f"[{label}]({link})" for label, link in self._links().items()))
        return Segment("heading", None, (text("heading", "\n\n".join(line for line in lines if line), height=3),))

    @property
    def _recipe_text(self) -> str:
        """Model, techniques and instance types in one line."""
        described = self._artifact.plan.description if self._artifact is not None else {}
        parts = [described.get("Model"), ", ".join(described.get("Techniques", ())), ", ".join(self._instance_types)]
        return " · ".join(str(part) for part in parts if part)

    def _links(self) -> dict[str, str]:
        served, region, known_region = self.served, PSEUDO.region, self._stack.known_region or ""
        console = next((host for start, host in _CONSOLES.items() if known_region.startswith(start)), _CONSOLE)
        log_group = (
            f"InferenceComponents$252F{served.inference_component_name}"
            if served.is_component
            else f"Endpoints$252F{served.endpoint_name}"
        )
        links = {
            "endpoint": f"https://{console}/sagemaker/home?region={region}#/endpoints/{served.endpoint_name}",
            "container logs": f"https://{console}/cloudwatch/home?region={region}#logsV2:log-groups/log-group/"
            f"$252Faws$252Fsagemaker$252F{log_group}",
        }
        if self._jobs is not None:
            bucket, prefix = self._jobs.artifact_store.bucket_name, f"artifacts/{served.artifact_key}/"
            links["artifact"] = f"https://{console}/s3/buckets/{bucket}?region={region}&prefix={prefix}"
        return links

    def _evaluations(
        self, context: GraphContext, baseline: EvaluatedModel | None, label: str, concurrencies: tuple[int, ...]
    ) -> list[Segment]:
        """Yield a bar chart for each metric of an evaluation, with a bar for each model and concurrency."""
        models = [model for model in [baseline, EvaluatedModel(label, self.served, self._price)] if model is not None]
        bars = [
            (
                replace(context, served=model.served, price=model.instance_price_per_hour),
                Line(
                    "",
                    label=f"{model.label}, {concurrency} user{'s' if concurrency > 1 else ''}",
                    color=[*COLORS][number],
                    suffix=f"_{concurrency}_{number + 1}",
                    concurrency=concurrency,
                ),
            )
            for concurrency in concurrencies
            for number, model in enumerate(models)
        ]
        hidden = {"instance_price_per_hour"} if all(model.instance_price_per_hour for model in models) else set[str]()

        def graph(name: str) -> Widget:
            lines = [(of_model, replace(bar, metric=name)) for of_model, bar in bars]
            properties = graph_properties(metrics.find(name).title, lines, context.region)
            return Widget(f"evaluation_{name}", "metric", properties, 6, 6)

        return [
            Segment(
                f"evaluation_{segment.name}",
                f"Evaluation: {segment.title}",
                tuple(
                    graph(name)
                    for name in segment.metrics
                    if name not in hidden and self.served.publishes(metrics.find(name))
                ),
            )
            for segment in dashboards().evaluation
        ]

    def add_alarms(self, *alarm_arns: str) -> EndpointDashboard:
        """Show the state of alarms, below the heading. Names may be tokens."""
        self._alarms += [arn for arn in alarm_arns if arn not in self._alarms]
        return self

    def add_segment(self, name: str, title: str, *widgets: Widget) -> EndpointDashboard:
        """Add custom widgets at the end.

        Args:
            name: the segment's name.
            title: the heading above them.
            widgets: the widgets, from left to right, in as many rows as needed.

        Raises:
            ValueError: if the dashboard already has a widget with one of their names.
        """
        self._more.append(Segment(name, title, widgets))
        return self._checked()

    def add_deployment(self, at: str, label: str = "deployment") -> EndpointDashboard:
        """Mark a time in every time series graph.

        Pass the time from outside, for instance from the pipeline. It is part of the template, so reading the clock at
        synthesis would change the stack every time.

        Args:
            at: the time, in ISO 8601 with a time zone: ``2026-11-21T14:00:00Z``. May be a token.
            label: the text next to the mark, for instance a release. Default: ``deployment``.

        Raises:
            ValueError: if ``at`` has another form.
        """
        if not is_token(at) and not _TIME.fullmatch(at):
            raise ValueError(f"at is {at!r}, and must be a time with a time zone: 2026-11-21T14:00:00Z (ISO 8601)")
        self._deployments.append((at, label))
        return self

    def show_component(self, name: str, served: ServedModel) -> EndpointDashboard:
        """Show the traffic, concurrency and errors of one more inference component.

        Args:
            name: the component's name on the dashboard, and the prefix of its widgets' names.
            served: the component.
        """
        self._components[name] = self._reading(served)
        return self._checked()

    def show_scaling(
        self, *, min_capacity: int, max_capacity: int, targets: Mapping[str, float] | None = None
    ) -> EndpointDashboard:
        """Draw the scaling limits and targets in the graphs of their metrics.

        Args:
            min_capacity: the minimum number of instances or copies.
            max_capacity: the maximum number.
            targets: the scaling targets by metric, ``concurrent_requests`` or ``invocations_per_copy``. Default: none.
        """
        scaled = "copies" if self.served.is_component else "instances"
        limits = [(min_capacity, "scaling minimum"), (max_capacity, "scaling maximum")]
        # A limit that is only known at deployment cannot be drawn: text cannot contain a number token.
        self._thresholds[scaled] = [(limit, label) for limit, label in limits if is_known(limit)]
        for name, label in _TARGETS.items():
            target = (targets or {}).get(name)
            self._thresholds[name] = [(target, label)] if is_known(target) else []
        return self

    def show_latency_alarm(self, seconds: float) -> EndpointDashboard:
        """Draw the latency alarm's threshold in the latency graph.

        Args:
            seconds: the alarm's threshold for the 99th percentile.
        """
        self._thresholds["model_latency"] = [(seconds * 1000, "alarm on p99")]
        return self

    def show_evaluation(
        self, *, concurrencies: Sequence[int], baseline: EvaluatedModel | None = None, label: str = "optimized"
    ) -> EndpointDashboard:
        """Show the results of this endpoint's evaluations, next to those of a baseline.

        Args:
            concurrencies: the numbers of simulated users.
            baseline: another endpoint, or another artifact on this one, to compare with. Default: none.
            label: the name of this endpoint in the comparison. Default: ``optimized``.

        Raises:
            ValueError: if there is no concurrency above zero, or an artifact's key is not known.
        """
        if not concurrencies or min(concurrencies) < 1:
            raise ValueError(
                f"concurrencies is {list(concurrencies)}: use those of the evaluation, for instance [1, 8]"
            )
        self._evaluation = (baseline, label, tuple(sorted(set(concurrencies))))
        return self._checked()

    def show_costs(self, *, instance_price_per_hour: float, discount: float = 0) -> EndpointDashboard:
        """Show the cost of the running instances, and calculate evaluations' costs with this price.

        Args:
            instance_price_per_hour: the price of one instance in US dollars an hour.
            discount: the discount of a savings plan, as a share. Default: 0.

        Raises:
            ValueError: if the price is not above zero, or the discount is not at least 0 and below 1.
        """
        pricing.check_price(instance_price_per_hour, discount)
        self._price, self._discount = instance_price_per_hour, discount
        return self._checked()

    def _reading(self, served: ServedModel) -> ServedModel:
        """Return it for this stack's Region; its charts of engine metrics need OTel enrichment."""
        here = served.in_stack_of(self)
        if any(map(here.engine.has, engines.by_name().values())):
            EngineMetricUses.of(self).add(self)
        return here

    def _history(self, jobs: RecipeArtifact) -> Segment:
        """Return the history of jobs and artifacts, from the handlers' logs (https://constructs-optim.dev/observability/)."""
        sources = " | ".join(f"SOURCE '{group}'" for group in jobs.log_group_names)
        logical_ids = [self._stack.resolve(artifact.resource.logical_id) for artifact in jobs.artifacts.values()]
        ids = ", ".join(f'"{logical_id}"' for logical_id in logical_ids)
        keys = ", ".join(f'"{key}"' for key in _artifact_keys(jobs))
        of_resources = f'(stack_id = "{PSEUDO.stack_id}" and logical_id in [{ids}])'
        events = (
            "fields @timestamp, service, message, status, job_name, coalesce(reason, failure) as why",
            f"filter {of_resources} or artifact_key in [{keys}]",
            "sort @timestamp desc",
            "limit 100",
        )
        requests = (
            f'filter message = "received" and request_type != "Delete" and {of_resources}',
            "stats count(*) as deployments by bin(1h)",
        )

        def log(name: str, title: str, lines: Sequence[str], view: str, width: int) -> Widget:
            query = f"{sources} | " + "\n| ".join(lines)
            return Widget(name, "log", {"title": title, "region": PSEUDO.region, "query": query, "view": view}, width)

        return Segment(
            "history",
            "Jobs, artifacts and deployments",
            (
                log("job_history", "Job and artifact history", events, "table", 16),
                log("deployments", "Deployments that changed the recipe", requests, "bar", 8),
            ),
        )

    def _checked(self) -> EndpointDashboard:
        """Refuse more than a dashboard can hold when it is added, not only at synthesis."""
        arranged(self.segments)
        return self

    def _body(self) -> dict[str, Any]:
        served = self.served
        names = {served.endpoint_name: "EndpointName", served.variant_name: "VariantName"}
        if served.inference_component_name is not None:
            names[served.inference_component_name] = "InferenceComponentName"
        for number, component in enumerate(self._components.values(), 1):
            if component.inference_component_name is not None:
                names[component.inference_component_name] = f"InferenceComponentName{number}"
        texts = {self._recipe_text: "Recipe"}
        if self._jobs is not None:
            texts |= {key: f"ArtifactKey{number}" for number, key in enumerate(_artifact_keys(self._jobs), 1)}
            names |= {group: f"LogGroup{number}" for number, group in enumerate(self._jobs.log_group_names, 1)}
        if served.artifact_key is not None:
            names[served.artifact_key] = texts[served.artifact_key] = "ArtifactKey"
        if self._artifact is not None:
            names[self._artifact.artifact_store.bucket_name] = "ArtifactBucket"
        # Tokens get placeholders in any case.
        known = {text: name for text, name in texts.items() if not is_token(text)}
        return dashboard_body(self.segments, names, known)


def _artifact_keys(jobs: RecipeArtifact) -> list[str]:
    """Return the keys of all jobs' artifacts, which the handlers log."""
    plans = jobs.plan.jobs
    keys = {index: plans[index].artifact_key or artifact.key for index, artifact in jobs.artifacts.items()}
    return [*(keys | {len(plans) - 1: jobs.artifact_key}).values()]
