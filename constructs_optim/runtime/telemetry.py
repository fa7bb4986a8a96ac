"""What the handlers tell of themselves: log lines, metrics and traces, by Powertools for AWS Lambda.

:func:`log` says what happened. Some of what is said is counted as well, so that a metric and its line cannot disagree.
All of it passes through :mod:`.redaction` on its way out. docs/observability.md lists fields, metrics and queries.
"""

from __future__ import annotations

import functools
import json
import os
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit

from .redaction import Redactor

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

T = TypeVar("T")
E = TypeVar("E", bound=Mapping[str, object])
Handler = Callable[[E, "LambdaContext"], T]

# What call sites name in one word, under the name by which lines are found.
_FIELDS = {
    "artifact": "artifact_key",
    "job": "job_name",
    "model": "model_name",
    "request": "request_type",
    "resource": "logical_id",
    "stack": "stack_id",
}
# Once a line has named these, the rest of the invocation's lines do.
_KEPT = frozenset({"artifact_key", "job_name", "model_name"})
_OF_EVENT = {
    "stack_id": "StackId",
    "logical_id": "LogicalResourceId",
    "request_id": "RequestId",
    "artifact_key": "ArtifactKey",
}
_FAILURES = frozenset({"DeploymentFailed", "InvocationFailed", "JobFailed"})
_UNITS = {"JobSeconds": MetricUnit.Seconds}

_redactor = Redactor()


def _serialized(line: object) -> str:
    return json.dumps(_redactor.value(line), ensure_ascii=False)


_logger = Logger(json_serializer=_serialized, use_rfc3339=True, utc=True)
_metrics = Metrics(namespace=os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or "ConstructsOptim")


class HandlerFailed(Exception):
    """Stands for an exception that a handler did not expect and that carried a secret."""


def log(message: str, **fields: object) -> None:
    """Write a line, at the level ERROR for a failure and INFO for all else; count it where it is counted.

    Args:
        message: what happened, in a few words that never change: queries and metrics go by it.
        fields: what it happened to. ``artifact``, ``job`` and ``model`` stay on the invocation's later lines.
    """
    named = {_FIELDS.get(name, name): value for name, value in fields.items()}
    _logger.append_keys(**{name: value for name, value in named.items() if name in _KEPT})
    metric = _metric(message, named)
    write = _logger.error if metric in _FAILURES else _logger.info
    # 3: the line of the caller, not this one.
    write(message, stacklevel=3, extra={name: value for name, value in named.items() if name not in _KEPT})
    if metric is not None:
        count(metric)


def count(metric: str, value: float = 1) -> None:
    """Add ``value`` to a metric, which is published when the invocation ends. ``JobSeconds`` is in seconds."""
    _metrics.add_metric(name=metric, unit=_UNITS.get(metric, MetricUnit.Count), value=value)


def redacted(text: str) -> str:
    """``text`` without secrets: those of the event at hand, and what looks like one."""
    return _redactor.text(text)


def entry_point(handler: Handler[E, T]) -> Handler[E, T]:
    """Decorate what Lambda calls: every line names what it is about, metrics are published, the work is traced.

    An exception is logged and raised again for Lambda to see. Lambda logs its text as well, so one that carries a
    secret is raised as :class:`HandlerFailed`, with the text as it was logged.
    """

    def identified(event: E, context: LambdaContext) -> T:
        _logger.append_keys(**{key: event[name] for key, name in _OF_EVENT.items() if isinstance(event.get(name), str)})
        return _traced(handler)(event, context)

    in_lambda = _logger.inject_lambda_context(identified, log_event=False, clear_state=True)

    @functools.wraps(handler)
    def invoked(event: E, context: LambdaContext) -> T:
        _redactor.learn(event)
        if not hasattr(context, "aws_request_id"):
            _logger.clear_state()
        called = in_lambda if hasattr(context, "aws_request_id") else identified
        try:
            return called(event, context)
        except Exception as error:
            failed = _reported(error)
        finally:
            _publish()
        raise failed

    return invoked


def _metric(message: str, fields: Mapping[str, object]) -> str | None:
    """What a line counts as; docs/observability.md explains each."""
    match message:
        case "reused":
            return "ArtifactReused"
        case "created":
            return "JobStarted" if "job_name" in fields else "ModelCreated"
        case "attached":
            return "JobAttached"
        case "released":
            return "JobStopped"
        case "ended":
            return "JobFailed" if fields.get("failure") else "JobCompleted"
        case "evaluated":
            return "EvaluationCompleted"
        case "gate closed":
            return "DeploymentStopped"
        case "failed":
            return "DeploymentFailed"
        case "crashed":
            return "InvocationFailed"
        case _:
            return None


def _reported(error: Exception) -> Exception:
    """Log what nobody expected; the exception to raise, which is ``error`` itself where it carries no secret."""
    text = "".join(traceback.format_exception(error))
    log("crashed", exception_name=type(error).__name__, reason=str(error), traceback=text)
    if redacted(text) == text:
        return error
    return HandlerFailed(f"{type(error).__name__}: {redacted(str(error))}")


def _publish() -> None:
    # Powertools warns of an invocation that counted nothing, which most looks at a job do not.
    if _metrics.provider.metric_set:
        _metrics.flush_metrics()


def _traced(handler: Handler[E, T]) -> Handler[E, T]:
    """``handler`` with a subsegment of its own and one for each call to AWS, where this invocation is sampled.

    X-Ray's SDK takes longer to import than all else together, so an invocation that is not sampled goes without.
    """
    sampled = "Sampled=1" in os.environ.get("_X_AMZN_TRACE_ID", "")
    if not sampled or os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("1", "true"):
        return handler
    try:
        from .tracing import tracer
    except ImportError:
        # A team's own copy of the layer may lack the SDK; Lambda's own segments remain.
        return handler
    return tracer(_redactor).capture_lambda_handler(handler, capture_response=False)
