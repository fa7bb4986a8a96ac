"""Redacted log lines, metrics, and traces of the handlers, with Powertools for AWS Lambda (docs/observability.md)."""

from __future__ import annotations

import functools
import gc
import json
import os
import traceback
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from .aws import forget_clients
from .redaction import Redactor

T = TypeVar("T")
E = TypeVar("E", bound=Mapping[str, object])
Handler = Callable[[E, LambdaContext], T]

# Fields that all later lines of an invocation repeat.
_APPENDED = frozenset({"artifact_key", "job_name", "model_name"})
_FIELDS = {
    "stack_id": "StackId",
    "logical_id": "LogicalResourceId",
    "request_id": "RequestId",
    "artifact_key": "ArtifactKey",
}
_UNITS = {"JobSeconds": MetricUnit.Seconds}

_redactor = Redactor()


def _serialized(line: object) -> str:
    return json.dumps(_redactor.value(line), ensure_ascii=False)


_logger = Logger(json_serializer=_serialized, use_rfc3339=True, utc=True)
_metrics = Metrics(namespace=os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or "ConstructsOptim")


class HandlerFailed(Exception):
    """Replaces an exception whose text contains a secret."""


class Counted(Enum):
    """Events with a metric (docs/observability.md): log message, metric name, and whether the event is a failure."""

    artifact_reused = "reused", "ArtifactReused"
    job_created = "created", "JobStarted"
    model_created = "created", "ModelCreated"
    config_created = "created", "EndpointConfigCreated"
    component_created = "created", "InferenceComponentCreated"
    job_attached = "attached", "JobAttached"
    job_released = "released", "JobStopped"
    job_completed = "ended", "JobCompleted"
    job_failed = "ended", "JobFailed", True
    watching_failed = "watches on", "JobFailed", True
    evaluated = "evaluated", "EvaluationCompleted"
    gate_closed = "gate closed", "DeploymentStopped"
    shadow_decided = "shadow decided", "ShadowDecided"
    shadow_not_decided = "shadow not decided", "ShadowNotDecided"
    scaling_suspended = "scaling suspended", "ScalingSuspended", True
    restarted = "restarted", "EndpointRestarted"
    restart_failed = "restart failed", "RestartFailed", True
    deployment_failed = "failed", "DeploymentFailed", True
    crashed = "crashed", "InvocationFailed", True

    def __init__(self, message: str, metric: str, is_failure: bool = False) -> None:
        self.message, self.metric, self.is_failure = message, metric, is_failure


def log(event: str | Counted, **fields: object) -> None:
    """Write a line, and count a counted event. Queries match ``message``, so its words never change."""
    _logger.append_keys(**{name: value for name, value in fields.items() if name in _APPENDED})
    details = {name: value for name, value in fields.items() if name not in _APPENDED}
    # 3: the location of the caller.
    if isinstance(event, str):
        _logger.info(event, stacklevel=3, extra=details)
    else:
        (_logger.error if event.is_failure else _logger.info)(event.message, stacklevel=3, extra=details)
        count(event.metric)


def count(metric: str, value: float = 1) -> None:
    """Add ``value`` to a metric, published when the invocation ends. ``JobSeconds`` is in seconds."""
    _metrics.add_metric(name=metric, unit=_UNITS.get(metric, MetricUnit.Count), value=value)


def redacted(text: str) -> str:
    """Return ``text`` without the event's secrets and without any text that looks like a secret."""
    return _redactor.text(text)


def entry_point(handler: Handler[E, T]) -> Handler[E, T]:
    """Decorate a Lambda handler. Lambda logs exceptions, so one with a secret becomes ``HandlerFailed``."""

    def identified(event: E, context: LambdaContext) -> T:
        _logger.append_keys(**{key: event[name] for key, name in _FIELDS.items() if isinstance(event.get(name), str)})
        return _traced(handler)(event, context)

    in_lambda = _logger.inject_lambda_context(identified, log_event=False, clear_state=True)

    @functools.wraps(handler)
    def invoked(event: E, context: LambdaContext) -> T:
        _redactor.learn(event)
        try:
            return in_lambda(event, context)
        except Exception as error:
            forget_clients()
            text = "".join(traceback.format_exception(error))
            log(Counted.crashed, exception_name=type(error).__name__, reason=str(error), traceback=text)
            if redacted(text) == text:
                raise
            failed = HandlerFailed(f"{type(error).__name__}: {redacted(str(error))}")
        finally:
            # Powertools warns about an invocation without metrics, such as most polls.
            if _metrics.provider.metric_set:
                _metrics.flush_metrics()
            # handlers/__init__.py turned it off for the cold start.
            gc.enable()
        raise failed

    return invoked


def _traced(handler: Handler[E, T]) -> Handler[E, T]:
    """Add X-Ray subsegments for ``handler`` and its calls to AWS, if the invocation is sampled."""
    # X-Ray's SDK takes longer to import than everything else together.
    sampled = "Sampled=1" in os.environ.get("_X_AMZN_TRACE_ID", "")
    if not sampled or os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("1", "true"):
        return handler
    try:
        from .tracing import tracer
    except ImportError:
        # A custom layer may lack the SDK; Lambda's own segments remain.
        return handler
    return tracer(_redactor).capture_lambda_handler(handler, capture_response=False)
