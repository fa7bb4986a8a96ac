"""An endpoint's CloudWatch alarms, from ``recipe.hosting.alarms``, and their actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from aws_cdk import Names
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.constructs.artifacts.preflight import EngineMetricUses
from constructs_optim.constructs.stack.arguments import refuse
from constructs_optim.constructs.stack.findings import advise, advise_when_complete
from constructs_optim.constructs.stack.handler import NAMESPACE
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext, path_of
from constructs_optim.recipe import metrics
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.hosting.alarms import (
    Alarm,
    Alarms,
    AlarmSettings,
    Evaluated,
    Query,
    Watched,
    configured_alarm,
    endpoint_alarms,
    thresholds,
)
from constructs_optim.recipe.hosting.options import DependentOption
from constructs_optim.recipe.hosting.scaling import ConcurrencyLimit
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.metrics.engines import EngineMetricUse
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.tokens import is_known

from .served_model import ServedModel, operands

RUNBOOK = page("alarms")
"""The page with a section for each alarm."""
_MOST_ACTIONS = 5
_JOB_ALARM = "OptimizationJobAlarm"
_NEEDS: dict[str, Literal["evaluate", "job", "real-time endpoint"]] = {
    "stale_evaluation": "evaluate",
    "failed_job": "job",
    "saturation": "real-time endpoint",
}
"""What alarms need that not every endpoint has."""
# How long a PromQL alarm stays in ALARM after the query's last result.
_RECOVERY_SECONDS = 300
# It ignores the alarm it is bound to, so it is bound once, which saves a call to Node for each alarm. Derived classes
# may use the alarm.
_SNS_ACTION = "aws-cdk-lib.aws_cloudwatch_actions.SnsAction"


class AlarmAction(Protocol):
    """An alarm's action: any ``aws_cloudwatch.IAlarmAction``, with any parameter names of ``bind``."""

    def bind(self, scope: Construct, alarm: cloudwatch.IAlarm, /) -> cloudwatch.AlarmActionConfig:
        """Return the action's configuration for an alarm."""
        ...


_topic_arns: WeakKeyDictionary[AlarmAction, str] = WeakKeyDictionary()


class _ActingAlarm:
    """A CloudWatch alarm and its actions by their ``CfnAlarm`` property; each action is bound once.

    ``series`` returns a query's metric in the form of ``metricStat`` in ``AWS::CloudWatch::Alarm``; ``promql`` returns
    the query of an engine metric.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        alarm: Alarm,
        description: str,
        series: Callable[[Query], dict[str, Any]],
        alarm_name: str | None = None,
        promql: str | None = None,
    ) -> None:
        self.alarm = alarm
        self._scope = scope
        self._bound: dict[str, list[tuple[AlarmAction, str]]] = {"alarm_actions": [], "ok_actions": []}
        warm_up = alarm.warm_up_minutes
        self._series, self._promql = series, promql
        self._compared = self._properties(alarm)
        self.resource = cloudwatch.CfnAlarm(
            scope,
            id,
            actions_enabled=None if alarm.actions_enabled else False,
            alarm_description=description,
            alarm_name=alarm_name,
            warm_up_configuration={"warmUpPeriodDurationInMinutes": warm_up} if warm_up is not None else None,
            **self._compared,
        )

    def _properties(self, alarm: Alarm) -> dict[str, Any]:
        return _by_metrics(alarm, self._series) if self._promql is None else _by_promql(alarm, self._promql)

    @cached_property
    def name(self) -> str:
        """The alarm's name (a token)."""
        return self.resource.ref

    def change(self, alarm: Alarm, description: str) -> None:
        """Apply changed settings of the same alarm to the resource."""
        before, self.alarm, self._compared = self._compared, alarm, self._properties(alarm)
        self.resource.alarm_description = description
        for name, value in self._compared.items():
            if value != before[name]:
                setattr(self.resource, name, value)

    def add(self, kind: str, actions: Sequence[AlarmAction]) -> None:
        """Add actions that the alarm does not have yet."""
        bound = self._bound[kind]
        added = [action for action in actions if all(action is not known for known, _ in bound)]
        if not added:
            return
        # An action may name resources, such as a function's permission, after the alarm's ID, so it must be unique.
        alarm_id, alarm = f"{self.alarm.name}{kind}{len(bound)}", None
        for action in added:
            arn = _topic_arns.get(action)
            if arn is None:
                alarm = alarm or cloudwatch.Alarm.from_alarm_arn(
                    self._scope, f"{Names.node_unique_id(self._scope.node)[-40:]}{alarm_id}", self.resource.attr_arn
                )
                arn = action.bind(self._scope, alarm).alarm_action_arn
                if getattr(type(action), "__jsii_declared_type__", None) == _SNS_ACTION:
                    _topic_arns[action] = arn
            refuse(check(StackContext.of(self._scope).arn_use(f"monitoring.{kind}", "alarm action", arn)))
            bound.append((action, arn))
        arns = list(dict.fromkeys(arn for _, arn in bound))
        if len(arns) > _MOST_ACTIONS:
            raise ValueError(
                f"{kind} of {self._scope.node.path} has {len(arns)} different actions, and CloudWatch allows an alarm "
                f"{_MOST_ACTIONS}: send them to an SNS topic, and subscribe the others to it"
            )
        setattr(self.resource, kind, arns)


@methods_suggest_keywords
class EndpointAlarms(Construct):
    """The CloudWatch alarms of an endpoint. Without actions, they only show their state.

    Each alarm's description explains its cause and the first step of the runbook.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        served: ServedModel,
        endpoint: str,
        capacity: float,
        alarms: Alarms | None = None,
        runs_jobs: bool = True,
        alarm_actions: Sequence[AlarmAction] = (),
        ok_actions: Sequence[AlarmAction] = (),
        name_prefix: str | None = None,
        runbook: str = RUNBOOK,
        cure: str | None = None,
    ) -> None:
        """Declare the alarms.

        Args:
            scope: the construct to create them in.
            id: its ID in that scope.
            served: the variant or component that serves the model.
            endpoint: the endpoint's name in the alarms' descriptions, for instance its path.
            capacity: requests in flight that each instance or copy is sized for.
            alarms: the alarms to create, and their settings. Default: all except the one on latency.
            runs_jobs: whether the stack runs optimization jobs, which may fail. Default: yes.
            alarm_actions: actions on the transition to ``ALARM``, 5 at most. Default: none.
            ok_actions: actions on the transition to ``OK``, 5 at most. Default: none.
            name_prefix: the prefix of the alarms' names. With a prefix, the names are known before the endpoint is
                created, so that the alarms can roll back the endpoint's updates. Default: CloudFormation generates the
                names.
            runbook: the page with a section for each alarm. Default: https://constructs-optim.dev/alarms/.
            cure: the cure that the description of the alarm on decaying drafts names. Default: none.

        Raises:
            RecipeError: if CloudWatch does not support an alarm's settings.
            ValueError: if an alarm has more actions than CloudWatch allows.
        """
        self._settings, served = alarms if alarms is not None else Alarms(), served.in_stack_of(scope)
        of_engine = [
            EngineMetricUse(f"alarms.{alarm.name}", (alarm.engine,), served.engine)
            for alarm in endpoint_alarms(self._settings, Watched(served.is_component, capacity))
            if alarm.engine is not None
        ]
        watched = Watched(served.is_component, capacity, is_asynchronous=served.is_asynchronous)
        limits = list(thresholds(self._settings, watched))
        checked = [*of_engine, *limits]
        found = [*check(self._settings), *(violation for each in checked for violation in check(each))]
        # Users pass the alarms in MonitoringOptions.
        refuse([each.model_copy(update={"location": f"monitoring.{each.location}"}) for each in found])
        super().__init__(scope, id)
        saturation = self._settings.switched_on().get("saturation")
        if saturation is not None and saturation.threshold is not None and not served.is_asynchronous:
            location = "monitoring.alarms.saturation.threshold"
            advised = warnings(ConcurrencyLimit(location, saturation.threshold, capacity))
            advise(self, *advised)
        located = [replace(limit, location=f"monitoring.{limit.location}") for limit in limits]
        advise(self, *(advice for each in (*located, self._settings) for advice in warnings(each)))
        if of_engine:
            EngineMetricUses.of(self).add(self)
        self._served, self._endpoint, self._runbook, self._cure = served, endpoint, runbook, cure
        self._concurrency: int | None = None
        self._name_prefix = name_prefix
        self._watched = watched
        self._actions = {"alarm_actions": [*alarm_actions], "ok_actions": [*ok_actions]}
        self._alarms: dict[str, _ActingAlarm] = {}
        self.watch()
        self._evaluated: list[str] = []
        if self._asked.keys() & _NEEDS.keys() or self._settings.stale_evaluation:
            advise_when_complete(self, self._advice_when_complete)
        settings = self._settings.switched_on().get("failed_job")
        if not runs_jobs or settings is None:
            return
        context = StackContext.of(scope)
        shared, job_alarm = context.once(_job_alarm, lambda: (settings, _job_alarm(context.stack, settings, runbook)))
        if shared != settings:
            raise ValueError(
                f"{path_of(self)}: failed_job is {settings}, and another endpoint of the stack has {shared}; a stack "
                "has one alarm on failed jobs: use the same settings, or False for one of them"
            )
        for kind, actions in self._actions.items():
            job_alarm.add(kind, actions)

    @property
    def _asked(self) -> dict[str, object]:
        """The settings of the alarms that the user switched on."""
        return {
            name: value
            for name, value in self._settings
            if value not in (None, False) and name in self._settings.model_fields_set
        }

    def _advice_when_complete(self) -> Sequence[Advice]:
        """Return the advice on alarms that are not created, and on evaluations that run less often than expected."""
        of_stack = StackContext.of(self).stack.node.try_find_child(_JOB_ALARM)
        lacking = [
            DependentOption(f"monitoring.alarms.{name}", self._asked[name], needs)
            for name, needs in _NEEDS.items()
            if name in self._asked and name not in self._alarms and (name != "failed_job" or of_stack is None)
        ]
        found = [advice for each in lacking for advice in warnings(each)]
        stale = self._alarms.get("stale_evaluation")
        if stale is not None:
            location = "monitoring.alarms.stale_evaluation.threshold"
            found += warnings(Evaluated(location, stale.alarm.evaluation_periods, self._evaluated))
        return found

    @property
    def alarms(self) -> dict[str, cloudwatch.CfnAlarm]:
        """The endpoint's own alarms by their names in ``Alarms``."""
        return {name: acting.resource for name, acting in self._alarms.items()}

    @property
    def latency_threshold_seconds(self) -> float | None:
        """The threshold of the latency alarm; None without one, or if it is only known at deployment."""
        settings = self._settings.switched_on().get("latency")
        threshold = settings.threshold if settings is not None else None
        return threshold if is_known(threshold) else None

    @property
    def arns_within_stack(self) -> list[str]:
        """The alarms' ARNs for a dashboard of the same stack, composed of names and pseudo parameters."""
        return [f"{_arn_prefix()}:{acting.name}" for acting in self._alarms.values()]

    @property
    def rollback_alarm_names(self) -> list[str]:
        """The names of the alarms that roll back deployments: errors, latency and lost capacity.

        They are tokens: a resource that uses one depends on the alarm.
        """
        return [acting.name for acting in self._alarms.values() if acting.alarm.rolls_back]

    @property
    def rollback_alarm_arns(self) -> list[str]:
        """The ARNs of the same alarms; with a name prefix, they are known before the alarms are created."""
        return [
            f"{_arn_prefix()}:{self._name_of(acting.alarm)}" if self._name_prefix else acting.resource.attr_arn
            for acting in self._alarms.values()
            if acting.alarm.rolls_back
        ]

    def watch(
        self,
        *,
        capacity: float | None = None,
        evaluation_concurrency: int | None = None,
        evaluation_schedule: str | None = None,
        scales_to_zero: bool | None = None,
    ) -> None:
        """Update the alarms for scaling or evaluations declared after the endpoint.

        Args:
            capacity: requests in flight that each instance or copy is sized for. Default: unchanged.
            evaluation_concurrency: the concurrent users of a published evaluation; with it, an alarm reports when
                evaluations stop running. Default: unchanged.
            evaluation_schedule: the evaluation's schedule, which is compared with the alarm. Default: none.
            scales_to_zero: whether the minimum number of copies is 0. Default: unchanged.
        """
        if evaluation_concurrency is not None:
            self._concurrency = evaluation_concurrency
        if evaluation_schedule is not None:
            self._evaluated.append(evaluation_schedule)
        self._watched = replace(
            self._watched,
            is_evaluated=self._concurrency is not None,
            capacity=self._watched.capacity if capacity is None else capacity,
            scales_to_zero=self._watched.scales_to_zero if scales_to_zero is None else scales_to_zero,
        )
        for declared in endpoint_alarms(self._settings, self._watched):
            alarm = declared.model_copy(update={"queries": tuple(self._calculated(declared.queries))})
            acting = self._alarms.get(alarm.name)
            endpoint, component = self._served.endpoint_name, self._served.inference_component_name
            kind, server = ("Endpoints", endpoint) if component is None else ("InferenceComponents", component)
            log_group = f"/aws/sagemaker/{kind}/{server}"
            description = alarm.description(self._endpoint, self._runbook, name=endpoint, log_group=log_group)
            if alarm.name == "acceptance_decay" and self._cure is not None:
                description = f"{description} {self._cure}"
            if acting is None:
                name = self._name_of(alarm)
                acting = _ActingAlarm(self, alarm.id, alarm, description, self._series, name, self._promql(alarm))
                self._alarms[alarm.name] = acting
                for kind, actions in self._actions.items():
                    acting.add(kind, actions)
            elif alarm != acting.alarm:
                acting.change(alarm, description)

    def _promql(self, alarm: Alarm) -> str | None:
        """Return the query of an alarm on an engine metric; rules have checked the metric before."""
        return self._served.engine_query(engines.find(alarm.engine)) if alarm.engine is not None else None

    def _name_of(self, alarm: Alarm) -> str | None:
        return f"{self._name_prefix}-{alarm.id}" if self._name_prefix is not None else None

    def _calculated(self, queries: Sequence[Query]) -> Iterator[Query]:
        """Yield queries in which a metric with a formula is an expression, after its operands."""
        for query in queries:
            definition = metrics.find(query.metric) if query.metric is not None else None
            if definition is None or definition.formula is None:
                yield query
                continue
            expression = self._served.expression(definition)
            for operand in operands(expression):
                yield Query(id=operand.name, metric=operand.name, statistic=operand.statistic)
            yield Query(id=query.id, expression=expression)

    def _series(self, query: Query) -> dict[str, Any]:
        series = self._served.series(metrics.find(query.metric or ""))
        dimensions = self._served.dimensions(series, concurrency=self._concurrency)
        return {
            "dimensions": [{"name": name, "value": value} for name, value in dimensions.items()],
            "metricName": series.metric_name,
            "namespace": series.namespace,
        }


def _job_alarm(stack: Construct, settings: AlarmSettings, runbook: str) -> _ActingAlarm:
    """Declare the stack's alarm on failed jobs, whose metric has no dimension for the endpoint."""
    alarm = configured_alarm("failed_job", settings, Watched(serves_components=False, capacity=0))
    job_watcher = [{"name": "service", "value": "job_watcher"}]
    return _ActingAlarm(
        Construct(stack, _JOB_ALARM),
        "Resource",
        alarm,
        alarm.description("", runbook),
        lambda query: {"dimensions": job_watcher, "metricName": query.metric, "namespace": NAMESPACE},
    )


def _by_metrics(alarm: Alarm, series: Callable[[Query], dict[str, Any]]) -> dict[str, Any]:
    """Return the metric properties of a ``CfnAlarm`` on metrics."""
    compared: dict[str, Any] = {
        "comparison_operator": alarm.comparison,
        "datapoints_to_alarm": alarm.datapoints_to_alarm,
        "evaluation_periods": alarm.evaluation_periods,
        "threshold": alarm.threshold,
        "treat_missing_data": alarm.missing,
    }
    if len(alarm.queries) != 1:
        return {**compared, "metrics": [_data_query(alarm, query, series) for query in alarm.queries]}
    (query,) = alarm.queries
    metric, is_percentile = series(query), query.statistic.startswith("p")
    return {
        **compared,
        "dimensions": metric["dimensions"],
        "metric_name": metric["metricName"],
        "namespace": metric["namespace"],
        "period": alarm.period_seconds,
        "extended_statistic" if is_percentile else "statistic": query.statistic,
    }


def _by_promql(alarm: Alarm, promql: str) -> dict[str, Any]:
    """Return the metric properties of a ``CfnAlarm`` on an engine metric."""
    criteria = {
        "pendingPeriod": alarm.period_seconds * alarm.evaluation_periods,
        "query": f"{promql} {'<' if alarm.comparison.startswith('Less') else '>'} {alarm.threshold:g}",
        "recoveryPeriod": _RECOVERY_SECONDS,
    }
    return {"evaluation_criteria": {"promQlCriteria": criteria}, "evaluation_interval": alarm.period_seconds}


def _data_query(alarm: Alarm, query: Query, series: Callable[[Query], dict[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {"expression": query.expression}
    if query.expression is None:
        data = {"metricStat": {"metric": series(query), "period": alarm.period_seconds, "stat": query.statistic}}
    return {"id": query.id, **data, "returnData": query is alarm.queries[-1]}


def _arn_prefix() -> str:
    return f"arn:{PSEUDO.partition}:cloudwatch:{PSEUDO.region}:{PSEUDO.account}:alarm"
