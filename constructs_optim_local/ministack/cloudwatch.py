"""CloudWatch alarms, with features that ministack lacks: dimensions, metric math, and scaling actions.

- An alarm watches a metric with its dimensions (ministack's ignore dimensions) or an expression. Sources: see
  ``constructs_optim_local.cloudwatch.evaluation`` and ``metric_math``.
- An alarm runs scaling policies when it goes into ALARM, and again with each datapoint while it stays there (CloudWatch
  user guide, "Alarm actions": an Auto Scaling action is invoked once a minute while the alarm is in its state).
  ``alarm_evaluation`` says when alarms are evaluated.
- An alarm may watch a PromQL query over the metrics of serving engines in ``Telemetry``, which need OTel enrichment.
- A service can check whether an alarm was in ALARM between two times.
- Stacks can have composite alarms.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from constructs_optim_local.access.authorization import Permission
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch import promql_alarms
from constructs_optim_local.cloudwatch.alarms import Calling, Tripped, alarm_arn
from constructs_optim_local.cloudwatch.enrichment import OPERATIONS, TAG_OPERATIONS, Enrichment, EnrichmentError
from constructs_optim_local.cloudwatch.promql_alarms import Contributors
from constructs_optim_local.cloudwatch.refusals import alarm_problems
from constructs_optim_local.cloudwatch.telemetry import PromqlError, Telemetry

from .alarm_evaluation import AlarmEvaluations, enter
from .iam import EnforcedRoles, Handler, Response
from .metrics import MinistackMetrics
from .patches import replace, table

ScalingAction = Callable[[str, dict[str, Any], float | None, Callable[[], bool]], None]
"""Called with a policy's ARN, the alarm, the breaching datapoint (if any), and a function that tells whether it holds.

The alarm holds until it leaves its state or invokes its actions again."""

_ACTIONS = {"ALARM": "AlarmActions", "OK": "OKActions", "INSUFFICIENT_DATA": "InsufficientDataActions"}
_OF_COMPARISONS = ("ComparisonOperator", "Threshold", "EvaluationPeriods", "DatapointsToAlarm", "TreatMissingData")
_QUERYING = ("GetMetricData", "ListMetrics", "QueryMetrics")
_PROMQL_TICK_SECONDS = 0.1
_OF_ONE_METRIC = ("MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Period", "Dimensions", "Unit")


class MinistackAlarms:
    """An implementation of ``alarms.Alarms``."""

    def __init__(self, clock: Clock, scale: float, metrics: MinistackMetrics, *, otel_enrichment: bool = False) -> None:
        """Start without alarms; ``scale`` is the real seconds for each second of pending and recovery periods.

        ``otel_enrichment`` tells whether it is running in every account and Region. On AWS, it is stopped at first.
        """
        self._clock, self._lock, self._scale = clock, threading.Lock(), scale
        self.telemetry = Telemetry(Enrichment(clock, everywhere=otel_enrichment))
        # By account, Region and name.
        self._on_promql: dict[tuple[str, str, str], Contributors] = {}
        # By account, Region and name: the alarm's states since its creation.
        self._history: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
        self._evaluations = AlarmEvaluations(clock, scale, metrics)
        # A mark of the last invocation, by the alarm's ARN.
        self._invocations: dict[str, object] = {}

    def install(self, scale: ScalingAction, roles: EnforcedRoles | None = None) -> None:
        """Patch alarms and serve PromQL. Called once, before the first request. With ``roles``, IAM is enforced."""
        self._answer_promql(roles)
        self._remember_states()
        self._evaluations.install()
        self._keep_metrics()
        self._carry_out_scaling(scale)
        self._provision_composite_alarms()
        threading.Thread(target=self._watch_promql, daemon=True).start()

    def _answer_promql(self, roles: EnforcedRoles | None) -> None:
        """Serve OTel enrichment, and instant queries at ``/api/v1/query``.

        The actions that a query needs: CloudWatch user guide, "QueryMetrics" (GetMetricData and ListMetrics), and
        SageMaker developer guide, "Connect to your observability tool" (QueryMetrics, too).
        Assumed, without a source: errors in the format of Prometheus' HTTP API.
        """
        from ministack.core.responses import get_account_id, get_region

        handlers = table("app.SERVICE_HANDLERS")
        others: Handler = handlers["monitoring"]

        async def monitoring(
            method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
        ) -> Response:
            if path != "/api/v1/query":
                operation = _operation(headers, body, query_params)
                if operation not in OPERATIONS:
                    return await others(method, path, headers, body, query_params)
                return self._enrichment(operation, headers, body, account=get_account_id(), region=get_region())
            needed = (Permission(f"cloudwatch:{action}", "*") for action in _QUERYING)
            if roles is not None and (message := roles.refusal(headers, query_params, needed)):
                return _answered(403, {"status": "error", "errorType": "AccessDenied", "error": message})
            asked = {**{name: str(values[0]) for name, values in parse_qs(body.decode()).items()}}
            asked |= {name: str(value[0] if isinstance(value, list) else value) for name, value in query_params.items()}
            try:
                at = float(asked.get("time", self._clock.now().timestamp()))
                found = self.telemetry.query(asked["query"], at, account=get_account_id(), region=get_region())
            except (KeyError, ValueError) as error:
                return _answered(400, {"status": "error", "errorType": "bad_data", "error": str(error)})
            result = [{"metric": dict(labels), "value": [at, f"{value:.17g}"]} for labels, value in found.items()]
            return _answered(200, {"status": "success", "data": {"resultType": "vector", "result": result}})

        async def observability_admin(
            method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
        ) -> Response:
            if path not in TAG_OPERATIONS:
                return _answered(400, {"message": f"{path} is not an operation of the local cloud"})
            return _answered(*self.telemetry.enrichment.tags(path, account=get_account_id(), region=get_region()))

        handlers["monitoring"] = monitoring
        table("core.router.SERVICE_PATTERNS")["observabilityadmin"] = {}
        handlers["observabilityadmin"] = observability_admin

    def _enrichment(
        self, operation: str, headers: Mapping[str, str], body: bytes, *, account: str, region: str
    ) -> Response:
        from ministack.services import cloudwatch

        is_json = bool(headers.get("x-amz-target"))
        try:
            request = json.loads(body or b"{}") if is_json else _without_filters(body)
            found = self.telemetry.enrichment.invoke(operation, request, account=account, region=region)
        except EnrichmentError as error:
            return cloudwatch._error(error.code, str(error), 400, use_json=is_json, use_cbor=False)
        return cloudwatch._json_ok(found) if is_json else _as_xml(operation, found)

    def evaluate(self) -> None:
        """Evaluate the alarms on metrics at the clock's time."""
        self._evaluations.evaluate()

    def missing(self, names: Sequence[str], *, account: str, region: str) -> list[str]:
        """Return the names for which there is no metric alarm or composite alarm."""
        return [name for name in names if self._find(name, account, region) is None]

    def tripped(
        self, names: Sequence[str], start: dt.datetime, end: dt.datetime, *, account: str, region: str
    ) -> Tripped | None:
        """Return the first alarm that was in ALARM between two times, and when."""
        first, last = start.timestamp(), end.timestamp()
        found = [
            (dt.datetime.fromtimestamp(at, dt.UTC), name)
            for name in names
            if self._find(name, account, region) is not None
            and (at := self._first_alarm((account, region, name), first, last)) is not None
        ]
        return min(found, default=None)

    def calling(self, action: str, *, account: str, region: str) -> list[Calling]:
        """Return the alarms whose datapoints put them into ALARM now, and that run an action."""
        from ministack.core.responses import request_scope
        from ministack.services import cloudwatch

        found = list[Calling]()
        with request_scope(account, region):
            for alarm in cloudwatch._alarms.values_scoped(account, region):
                if not alarm.get("ActionsEnabled", True) or action not in (alarm.get("AlarmActions") or []):
                    continue
                seen = self._evaluations.now(alarm)
                if seen is not None and seen.value is not None and seen.state == "ALARM":
                    found.append(({**copy.deepcopy(alarm), "StateValue": "ALARM"}, seen.value))
        return found

    def scope(self, name: str, *, account: str, region: str) -> str:
        """Return the resource of a permission to describe an alarm: its ARN, or ``*`` for a composite alarm.

        Source: Amazon CloudWatch API reference, DescribeAlarms.
        """
        from ministack.services import cloudwatch

        is_composite = cloudwatch._composite_alarms.get_scoped(account, region, name) is not None
        return "*" if is_composite else alarm_arn(name, account, region)

    def put(self, alarm: dict[str, Any], *, account: str, region: str) -> str:
        """Create or change an alarm, as PutMetricAlarm does."""
        from ministack.core.responses import request_scope
        from ministack.services import cloudwatch
        from ministack.services.cloudformation import provisioners

        with request_scope(account, region):
            record = provisioners._cw_metric_alarm_record(alarm["AlarmName"], alarm)
            cloudwatch.cloudformation_put_metric_alarm(record)
            return record["AlarmArn"]

    def delete(self, name: str, *, account: str, region: str) -> None:
        """Delete an alarm, if it exists."""
        from ministack.core.responses import request_scope
        from ministack.services import cloudwatch

        with request_scope(account, region):
            cloudwatch.cloudformation_delete_metric_alarm(name)

    def _find(self, name: str, account: str, region: str) -> dict[str, Any] | None:
        from ministack.services import cloudwatch

        stores = (cloudwatch._alarms, cloudwatch._composite_alarms)
        return next(filter(None, (store.get_scoped(account, region, name) for store in stores)), None)

    def _first_alarm(self, alarm: tuple[str, str, str], start: float, end: float) -> float | None:
        with self._lock:
            states = list(self._history.get(alarm, ()))
        before = [state for at, state in states if at <= start]
        if before and before[-1] == "ALARM":
            return start
        return next((at for at, state in states if start < at <= end and state == "ALARM"), None)

    def _remember_states(self) -> None:
        from ministack.core.responses import get_account_id, get_region
        from ministack.services import cloudwatch

        record = cloudwatch._record_history

        def record_history(alarm_name: str, old_state: str, new_state: str, *rest: Any, **named: Any) -> None:
            location = (get_account_id(), get_region(), alarm_name)
            with self._lock:
                if old_state == new_state:
                    # Forget the history of an earlier alarm of the same name.
                    self._history.pop(location, None)
                self._history.setdefault(location, []).append((self._clock.now().timestamp(), new_state))
            record(alarm_name, old_state, new_state, *rest, **named)

        replace("services.cloudwatch._record_history", record_history)

    def _keep_metrics(self) -> None:
        from ministack.core.responses import get_account_id, get_region
        from ministack.services import cloudwatch
        from ministack.services.cloudformation import provisioners

        put, record = cloudwatch._put_metric_alarm, provisioners._cw_metric_alarm_record

        def put_metric_alarm(params: Any, request: dict[str, Any], is_cbor: bool, is_json: bool = False) -> Any:
            if request.get("EvaluationCriteria"):
                if found := self._problems(request):
                    return cloudwatch._error(
                        "ValidationError", "; ".join(found), 400, use_json=is_json, use_cbor=is_cbor
                    )
                cloudwatch.cloudformation_put_metric_alarm(metric_alarm_record(request["AlarmName"], request))
                return put_nothing(is_cbor, is_json)
            metrics = request.get("Metrics")
            # A call in the query protocol has no request.
            if request and (found := alarm_problems(request)):
                return cloudwatch._error("ValidationError", "; ".join(found), 400, use_json=is_json, use_cbor=is_cbor)
            name = request.get("AlarmName") or cloudwatch._p(params, "AlarmName")
            begin(name, request)
            response = put(params, {**request, "MetricName": None} if metrics else request, is_cbor, is_json)
            alarm = cloudwatch._alarms.get(name)
            if metrics and response[0] == 200 and alarm is not None:
                _about_metrics(alarm, metrics)
                cloudwatch._evaluate_alarm(alarm)
            return response

        def begin(name: str, request: Mapping[str, Any]) -> None:
            if name not in cloudwatch._alarms:
                arn = alarm_arn(name, get_account_id(), get_region())
                self._evaluations.begin(arn, request.get("WarmUpConfiguration"))

        def put_nothing(is_cbor: bool, is_json: bool) -> Any:
            if is_cbor:
                return cloudwatch._cbor_ok({})
            return cloudwatch._json_ok({}) if is_json else cloudwatch._xml(200, "PutMetricAlarmResponse", "")

        def metric_alarm_record(name: str, properties: dict[str, Any]) -> dict[str, Any]:
            if properties.get("EvaluationCriteria"):
                return self._promql_record(name, properties, record)
            metrics = properties.get("Metrics")
            if found := alarm_problems(properties):
                raise ValueError(f"AWS::CloudWatch::Alarm Properties: {'; '.join(found)}")
            begin(name, properties)
            if not metrics:
                return record(name, properties)
            rest = {key: value for key, value in properties.items() if key not in ("Metrics", *_OF_ONE_METRIC)}
            return _about_metrics(record(name, {**rest, "MetricName": "-", "Namespace": "-"}), metrics)

        replace("services.cloudwatch._put_metric_alarm", put_metric_alarm)
        replace("services.cloudformation.provisioners._cw_metric_alarm_record", metric_alarm_record)

    def _problems(self, alarm: Mapping[str, Any]) -> list[str]:
        found = promql_alarms.problems(alarm)
        try:
            self.telemetry.check(alarm["EvaluationCriteria"]["PromQLCriteria"]["Query"])
        except (PromqlError, KeyError) as error:
            found.append(f"the query is invalid: {error}")
        return found

    def _promql_record(
        self, name: str, properties: dict[str, Any], record: Callable[[str, dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the record of an alarm on PromQL. A new alarm is OK at once."""
        if found := self._problems(properties):
            raise ValueError(f"AWS::CloudWatch::Alarm Properties.EvaluationCriteria: {'; '.join(found)}")
        filler = {"ComparisonOperator": "GreaterThanThreshold", "Threshold": 0, "MetricName": "-", "Namespace": "-"}
        alarm = record(name, {**properties, **filler})
        for key in (*_OF_ONE_METRIC, *_OF_COMPARISONS):
            alarm.pop(key, None)
        criteria = properties["EvaluationCriteria"]["PromQLCriteria"]
        periods = {key: int(criteria.get(key) or 0) for key in ("PendingPeriod", "RecoveryPeriod")}
        if alarm["StateValue"] == "INSUFFICIENT_DATA":
            alarm["StateValue"] = "OK"
        alarm["EvaluationCriteria"] = {"PromQLCriteria": {"Query": criteria["Query"], **periods}}
        alarm["EvaluationInterval"] = int(properties["EvaluationInterval"])
        account, region = alarm["AlarmArn"].split(":")[4], alarm["AlarmArn"].split(":")[3]
        pending, recovery = (period * self._scale for period in periods.values())
        self._on_promql[(account, region, name)] = Contributors(pending, recovery)
        return alarm

    def _watch_promql(self) -> None:
        """Evaluate the alarms on PromQL in each minute of scaled time, until the cloud ends."""
        while True:
            self._clock.sleep(max(_PROMQL_TICK_SECONDS, 60 * self._scale))
            for location, contributors in list(self._on_promql.items()):
                try:
                    self._evaluate_promql(location, contributors)
                except Exception:
                    # A failure of one alarm must not stop the evaluation of the others.
                    logging.getLogger(__name__).exception("the alarm %s was not evaluated", location[2])

    def _evaluate_promql(self, location: tuple[str, str, str], contributors: Contributors) -> None:
        from ministack.core.responses import request_scope
        from ministack.services import cloudwatch

        account, region, name = location
        alarm = self._find(name, account, region)
        if alarm is None or "EvaluationCriteria" not in alarm:
            self._on_promql.pop(location, None)
            return
        now = self._clock.now().timestamp()
        query = alarm["EvaluationCriteria"]["PromQLCriteria"]["Query"]
        state = contributors.evaluated(self.telemetry.query(query, now, account=account, region=region), now)
        reason = f"the query {'returned' if state == 'ALARM' else 'returns no'} series that breach: {query}"
        with request_scope(account, region):
            old = alarm["StateValue"]
            if old != state:
                enter(alarm, state, reason, self._clock)
            if old != state or state == "ALARM":
                cloudwatch._dispatch_alarm_actions(alarm, old, state, reason)

    def _carry_out_scaling(self, scale: ScalingAction) -> None:
        from ministack.services import cloudwatch

        dispatch = cloudwatch._dispatch_alarm_actions

        def dispatch_alarm_actions(alarm: dict[str, Any], old_state: str, new_state: str, reason: str) -> None:
            if old_state != new_state:
                dispatch(alarm, old_state, new_state, reason)
                _publish(alarm, old_state, new_state, reason)
            arn, invocation = alarm["AlarmArn"], object()
            self._invocations[arn] = invocation
            if not alarm.get("ActionsEnabled", True):
                return
            # SetAlarmState has no datapoint, and an earlier evaluation's would mislead.
            value = self._evaluations.value_behind(alarm, reason)
            for action in alarm.get(_ACTIONS.get(new_state, "")) or []:
                if ":scalingPolicy:" in action:
                    # In a thread, because scaling calls services, which would block the event loop.
                    arguments = (action, copy.deepcopy(alarm), value, lambda: self._invocations[arn] is invocation)
                    threading.Thread(target=scale, args=arguments, daemon=True).start()

        replace("services.cloudwatch._dispatch_alarm_actions", dispatch_alarm_actions)

    def _provision_composite_alarms(self) -> None:
        from ministack.services import cloudwatch
        from ministack.services.cloudformation import provisioners

        def put(name: str, properties: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            status, _, body = cloudwatch._put_composite_alarm({}, {**properties, "AlarmName": name}, False, True)
            if status != 200:
                raise ValueError(f"AWS::CloudWatch::CompositeAlarm: {body.decode()}")
            return name, {"Arn": cloudwatch._composite_alarms[name]["AlarmArn"]}

        def create(logical_id: str, properties: dict[str, Any], stack_name: str) -> tuple[str, dict[str, Any]]:
            name = properties.get("AlarmName") or provisioners._physical_name(stack_name, logical_id, max_len=255)
            return put(name, properties)

        def update(
            physical_id: str, old: dict[str, Any], new: dict[str, Any], stack_name: str
        ) -> tuple[str, dict[str, Any]]:
            # A new name makes a new alarm. CloudFormation deletes the old one afterwards.
            return put(new.get("AlarmName") or physical_id, new)

        def delete(physical_id: str, properties: dict[str, Any]) -> None:
            cloudwatch._composite_alarms.pop(physical_id, None)

        handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")
        handlers["AWS::CloudWatch::CompositeAlarm"] = {"create": create, "update": update, "delete": delete}


def _operation(headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]) -> str:
    """Return the operation of a request in JSON or in the query protocol."""
    if target := headers.get("x-amz-target", ""):
        return target.rpartition(".")[2]
    stated = {**parse_qs(body.decode(errors="replace")), **query}.get("Action", "")
    return str(stated[0] if isinstance(stated, list) else stated)


def _without_filters(body: bytes) -> dict[str, Any]:
    """Refuse filters in the query protocol, which botocore does not use for CloudWatch."""
    if any("Filters" in name for name in parse_qs(body.decode(errors="replace"))):
        raise EnrichmentError("ValidationException", "the local cloud reads filters only in JSON")
    return {}


def _as_xml(operation: str, found: Mapping[str, Any]) -> Response:
    """Return a response without filters in the query protocol."""
    from ministack.services import cloudwatch

    content = ""
    for name, value in found.items():
        written = dt.datetime.fromtimestamp(value, dt.UTC).isoformat() if name.endswith("At") else value
        content += f"<{name}>{written}</{name}>" if not name.endswith("Filters") else ""
    return cloudwatch._xml(200, f"{operation}Response", f"<{operation}Result>{content}</{operation}Result>")


def _answered(status: int, document: dict[str, Any]) -> Response:
    return status, {"Content-Type": "application/json"}, json.dumps(document).encode()


def _publish(alarm: dict[str, Any], old_state: str, new_state: str, reason: str) -> None:
    """Send EventBridge an alarm's change of state, whether or not its actions are enabled.

    Source: CloudWatch user guide, "Alarm events and EventBridge".
    """
    from ministack.services import eventbridge

    detail = {
        "alarmName": alarm["AlarmName"],
        "configuration": {"description": alarm.get("AlarmDescription") or ""},
        "previousState": {"value": old_state},
        "state": {"value": new_state, "reason": reason},
    }
    entry = {
        "Source": "aws.cloudwatch",
        "DetailType": "CloudWatch Alarm State Change",
        "Resources": [alarm["AlarmArn"]],
        "Detail": json.dumps(detail),
    }
    eventbridge._put_events({"Entries": [entry]}, allow_aws_source=True)


def _about_metrics(alarm: dict[str, Any], metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Convert a record of an alarm on one metric to several metrics. Templates have numbers as strings."""
    for name in _OF_ONE_METRIC:
        alarm.pop(name, None)
    alarm["Metrics"] = []
    for query in metrics:
        metric = copy.deepcopy(query)
        if "ReturnData" in metric:
            metric["ReturnData"] = str(metric["ReturnData"]).lower() == "true"
        for holder in (metric, metric.get("MetricStat", {})):
            if "Period" in holder:
                holder["Period"] = int(holder["Period"])
        alarm["Metrics"].append(metric)
    return alarm
