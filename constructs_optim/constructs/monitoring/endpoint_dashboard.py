"""An endpoint's CloudWatch dashboard, for a person on call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext, is_token, late_text
from constructs_optim.recipe import Plan, metrics, pricing
from constructs_optim.recipe.metrics import PUBLISHING_SECONDS

from . import dashboard_segments as segments
from .dashboard_evaluation import EvaluatedModel, evaluation
from .dashboard_graph import GraphContext
from .dashboard_segments import MOST_ALARMS, JobHistory, ScalingRange
from .dashboard_widget import Segment, Widget, arranged, dashboard_body
from .served_model import ServedModel

if TYPE_CHECKING:
    from constructs_optim.constructs.artifacts.recipe_artifact import RecipeArtifact

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})")


class EndpointDashboard(Construct):
    """Traffic, latency, concurrency, errors, accelerators, scaling, jobs, price and evaluations of one endpoint.

    Segments without metrics are left out: graphs of GPUs where there are none, prices where none was stated,
    evaluations until ``show_evaluation``. docs/dashboards.md shows one.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint_name: str,
        variant_name: str,
        plan: Plan | None = None,
        artifact: RecipeArtifact | None = None,
        dashboard_name: str | None = None,
        discount: float = 0,
        inference_component_name: str | None = None,
        instance_price_per_hour: float | None = None,
        instance_types: Sequence[str] | None = None,
        publishing_seconds: int = PUBLISHING_SECONDS,
    ) -> None:
        """Declare the dashboard.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            endpoint_name: the endpoint's name; may be a token.
            variant_name: the production variant's name.
            plan: the plan of the recipe. Default: that of ``artifact``.
            artifact: what is served; with it, the dashboard has the history of its jobs. Default: not known.
            dashboard_name: default: CloudFormation makes one up.
            discount: what a savings plan takes off the price, as a share. Default: 0.
            inference_component_name: the inference component that serves the model; may be a token. Default: none.
            instance_price_per_hour: what one instance costs in an hour, in US dollars. Default: no live costs, and
                the prices that an evaluation published.
            instance_types: what the endpoint runs on; all of them, where it has instance pools. Default: that of
                ``plan``.
            publishing_seconds: how often instances report their utilization (``MetricsConfig`` of the endpoint
                configuration), by which they are counted. Default: 60.

        Raises:
            ValueError: for a price that is not above zero, or a discount that is no share.
        """
        pricing.check_price(instance_price_per_hour, discount)
        super().__init__(scope, id)
        self._stack = StackContext.of(scope)
        self._plan = plan or (artifact.plan if artifact is not None else None)
        self._artifact = artifact
        self._instance_types = tuple(instance_types or ([self._plan.instance_type] if self._plan is not None else ()))
        key = artifact.artifact_key if artifact is not None and artifact.plan.jobs else None
        if key is None and self._plan is not None:
            key = self._plan.artifact_key or (None if self._plan.jobs else self._plan.container_key)
        self._served = ServedModel(
            endpoint_name,
            variant_name,
            inference_component_name,
            instance_type=metrics.like_all(self._instance_types),
            artifact_key=key,
            publishing_seconds=publishing_seconds,
        )
        self._price, self._discount = instance_price_per_hour, discount
        self._alarms: list[str] = []
        self._deployments: list[tuple[str, str]] = []
        self._scaling: ScalingRange | None = None
        self._latency_alarm_seconds: float | None = None
        self._evaluation: tuple[EvaluatedModel | None, str, tuple[int, ...]] | None = None
        self._more: list[Segment] = []
        self._components: dict[str, ServedModel] = {}
        self._segments: tuple[Segment, ...] | None = None
        # Written at synthesis: scaling, alarms, components and evaluations are declared one after the other.
        self._resource = cloudwatch.CfnDashboard(
            self, "Resource", dashboard_body=late_text(self._body), dashboard_name=dashboard_name
        )

    @property
    def dashboard_name(self) -> str:
        """The dashboard's name (a token)."""
        return self._resource.ref

    @property
    def served(self) -> ServedModel:
        """What serves the model of this dashboard."""
        return self._served

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its segments, from top to bottom."""
        if self._segments is None:
            self._segments = tuple(segment for segment in self._all_segments() if segment.widgets)
        return self._segments

    def _all_segments(self) -> list[Segment]:
        context = GraphContext(self._served, PSEUDO.region, None, tuple(self._deployments), self._price, self._discount)
        # A model that is served as it is has a key for its evaluations, and no artifact.
        has_artifact = self._artifact is not None and bool(self._artifact.plan.jobs)
        bucket = self._artifact.artifact_store.bucket_name if self._artifact is not None and has_artifact else None
        shown = [
            segments.heading(context, self._plan, self._instance_types, bucket=bucket, stack_region=self._stack.region),
            segments.alarms(self._alarms),
            segments.traffic(context, self._latency_alarm_seconds),
            segments.concurrency(context, self._scaling),
            segments.errors(context),
            segments.accelerators(context),
            segments.host(context),
            segments.scaling(context, self._scaling),
            segments.cost(context),
        ]
        for name, component in self._components.items():
            shown += segments.component(name, replace(context, served=component))
        if self._evaluation is not None:
            baseline, label, concurrencies = self._evaluation
            models = [EvaluatedModel(label, self._served, self._price)]
            shown += evaluation([baseline, *models] if baseline is not None else models, concurrencies, context)
        if self._history is not None:
            shown.append(segments.history(self._history, context.region))
        return [*shown, *self._more]

    @property
    def widgets(self) -> Mapping[str, Widget]:
        """Its widgets by name, to take singly.

        ``widgets["model_latency"].to_widget()`` is one for an ``aws_cloudwatch.Dashboard``, and ``.to_json()`` what
        the body of a ``CfnDashboard`` holds.
        """
        return MappingProxyType({widget.name: widget for segment in self.segments for widget in segment.widgets})

    def add_alarms(self, *alarm_arns: str) -> EndpointDashboard:
        """Show the state of alarms, below the heading. Names may be tokens; up to a hundred stand in one widget."""
        self._alarms += [arn for arn in alarm_arns if arn not in self._alarms]
        return self._changed(checked=len(self._alarms) > MOST_ALARMS)

    def add_segment(self, name: str, title: str, *widgets: Widget) -> EndpointDashboard:
        """Show widgets of your own, at the end.

        Args:
            name: of the segment.
            title: the heading above them.
            widgets: from left to right, in as many rows as they take.

        Raises:
            ValueError: where the dashboard has a widget of one of their names.
        """
        self._more.append(Segment(name, title, widgets))
        return self._changed(checked=True)

    def add_deployment(self, at: str, label: str = "deployment") -> EndpointDashboard:
        """Mark a time in every graph over time.

        The time comes from whoever deploys, for instance from the pipeline: it is text of the template, so a clock
        that is read at synth would change the stack each time.

        Args:
            at: when, in ISO 8601 with a time zone: ``2026-11-21T14:00:00Z``. May be a token.
            label: what is written beside it, for instance a release. Default: ``deployment``.

        Raises:
            ValueError: for what is no such time.
        """
        if not is_token(at) and not _TIME.fullmatch(at):
            raise ValueError(f"at is {at!r}, and it has to be a time with its zone: 2026-11-21T14:00:00Z (ISO 8601)")
        self._deployments.append((at, label))
        return self._changed()

    def show_component(self, name: str, served: ServedModel) -> EndpointDashboard:
        """Show one more inference component of the endpoint: its traffic, concurrency and errors.

        Args:
            name: what it is called; its widgets are taken by names that begin with it.
            served: what it serves.
        """
        self._components[name] = served
        return self._changed(checked=True)

    def show_scaling(
        self, *, min_capacity: int, max_capacity: int, targets: Mapping[str, float] | None = None
    ) -> EndpointDashboard:
        """Draw the limits of scaling into the graph of instances or copies, and targets into those of their metrics.

        Args:
            min_capacity: the fewest instances or copies.
            max_capacity: the most.
            targets: by ``concurrent_requests`` or ``invocations_per_copy``. Default: none.
        """
        self._scaling = ScalingRange(min_capacity, max_capacity, tuple((targets or {}).items()))
        return self._changed()

    def show_latency_alarm(self, seconds: float) -> EndpointDashboard:
        """Draw the latency that raises an alarm into the graph of latencies.

        Args:
            seconds: the alarm's threshold, which 99 of 100 requests are to keep.
        """
        self._latency_alarm_seconds = seconds
        return self._changed()

    def show_evaluation(
        self, *, concurrencies: Sequence[int], baseline: EvaluatedModel | None = None, label: str = "optimized"
    ) -> EndpointDashboard:
        """Show what evaluations measured of this endpoint, beside those of a baseline.

        Args:
            concurrencies: the numbers of users that were simulated.
            baseline: what to compare with: another endpoint, or another artifact on this one. Default: nothing.
            label: what this endpoint is called in the comparison. Default: ``optimized``.

        Raises:
            ValueError: without a concurrency above zero, or where an artifact's key is not known.
        """
        if not concurrencies or min(concurrencies) < 1:
            raise ValueError(
                f"concurrencies is {list(concurrencies)}: name those of the evaluation, for instance [1, 8]"
            )
        unknown = [
            name
            for name, served in ((label, self._served), *([(baseline.label, baseline.served)] if baseline else []))
            if served.artifact_key is None
        ]
        if unknown:
            raise ValueError(
                f"an evaluation's metrics are published under an artifact's key, and that of {' and '.join(unknown)} "
                "is not known: give ServedModel(..., artifact_key=...), or the dashboard its artifact"
            )
        self._evaluation = (baseline, label, tuple(sorted(set(concurrencies))))
        return self._changed(checked=True)

    def show_costs(self, *, instance_price_per_hour: float, discount: float = 0) -> EndpointDashboard:
        """Show what the running instances cost, and evaluations' prices at this price instead of what was published.

        Args:
            instance_price_per_hour: what one instance costs in an hour, in US dollars.
            discount: what a savings plan takes off, as a share. Default: 0.

        Raises:
            ValueError: for a price that is not above zero, or a discount that is no share.
        """
        pricing.check_price(instance_price_per_hour, discount)
        self._price, self._discount = instance_price_per_hour, discount
        return self._changed(checked=True)

    @cached_property
    def _history(self) -> JobHistory | None:
        return _history(self._artifact)

    def _changed(self, *, checked: bool = False) -> EndpointDashboard:
        """Forget the segments; what may be more than a dashboard holds is ``checked`` where it is added."""
        self._segments = None
        if checked:
            arranged(self.segments)
        return self

    def _body(self) -> dict[str, Any]:
        served = self._served
        names = {served.endpoint_name: "EndpointName", served.variant_name: "VariantName"}
        if served.inference_component_name is not None:
            names[served.inference_component_name] = "InferenceComponentName"
        for number, component in enumerate(self._components.values(), 1):
            if component.inference_component_name is not None:
                names[component.inference_component_name] = f"InferenceComponentName{number}"
        texts = {segments.recipe_text(self._plan, self._instance_types): "Recipe"}
        if self._history is not None:
            texts |= {key: f"ArtifactKey{number}" for number, key in enumerate(self._history.artifact_keys, 1)}
            names |= {group: f"LogGroup{number}" for number, group in enumerate(self._history.log_groups, 1)}
        if served.artifact_key is not None:
            names[served.artifact_key] = texts[served.artifact_key] = "ArtifactKey"
        if self._artifact is not None:
            names[self._artifact.artifact_store.bucket_name] = "ArtifactBucket"
        # Tokens have placeholders of their own.
        known = {text: name for text, name in texts.items() if not is_token(text)}
        return dashboard_body(self.segments, names, known)


def _history(artifact: RecipeArtifact | None) -> JobHistory | None:
    if artifact is None or not artifact.plan.jobs:
        return None
    keys = {index: artifact.plan.jobs[index].artifact_key or made.key for index, made in artifact.artifacts.items()}
    keys[len(artifact.plan.jobs) - 1] = artifact.artifact_key
    stack = StackContext.of(artifact)
    return JobHistory(
        log_groups=artifact.log_group_names,
        stack_id=PSEUDO.stack_id,
        logical_ids=tuple(stack.resolve(made.resource.logical_id) for made in artifact.artifacts.values()),
        artifact_keys=tuple(keys.values()),
    )
