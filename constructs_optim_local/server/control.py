"""The local cloud's control interface: faults, performance, calls, jobs, deployments and authorizations.

``GET/POST/DELETE /_constructs_optim/faults`` · ``GET /_constructs_optim/calls[?operation=...]`` · ``GET
/_constructs_optim/function-calls`` · ``GET /_constructs_optim/jobs`` · ``GET /_constructs_optim/deployments`` · ``GET
/_constructs_optim/authorizations[?role=...]`` · ``GET /_constructs_optim/benchmarks`` · ``GET
/_constructs_optim/trainings`` · ``GET/POST/DELETE /_constructs_optim/performances`` · ``GET/POST/DELETE
/_constructs_optim/quotas`` · ``GET/POST /_constructs_optim/clock``, which tells or advances the clock · ``DELETE
/_constructs_optim/accounts?account=...``, which deletes an account's SageMaker resources · ``POST
/_constructs_optim/engine-metrics``, a container's metrics, and ``GET ...?query=<PromQL>``
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from constructs_optim_local.access.authorization import AuthorizationLog
from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.clock import Clock
from constructs_optim_local.faults import Fault, Faults
from constructs_optim_local.sagemaker.quotas import Quotas
from constructs_optim_local.sagemaker.service import SageMaker

from .bodies import BodyTooLong, Disconnected, Receive, read_body

if TYPE_CHECKING:
    # Starting a local cloud needs no metrics parser.
    from constructs_optim_local.cloudwatch.telemetry import Telemetry

PREFIX = "/_constructs_optim/"
# An engine's metrics are hundreds of kilobytes.
_LARGEST_BODY = 1_048_576

Send = Callable[[dict[str, Any]], Awaitable[None]]
Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Control:
    """An ASGI application that responds below ``PREFIX`` and passes on everything else."""

    def __init__(
        self,
        inner: Asgi,
        *,
        sagemaker: SageMaker,
        faults: Faults,
        calls: CallLog,
        function_calls: CallLog,
        authorizations: AuthorizationLog,
        clock: Clock,
        telemetry: Telemetry,
        quotas: Quotas,
    ) -> None:
        self._inner, self._sagemaker, self._faults = inner, sagemaker, faults
        self._calls, self._function_calls, self._authorizations = calls, function_calls, authorizations
        self._clock, self._telemetry, self._quotas = clock, telemetry, quotas

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._inner(scope, receive, send)
            return
        try:
            body = await read_body(receive, _LARGEST_BODY)
            result = await asyncio.to_thread(self._respond, scope, body)
            status, content = 200, json.dumps(result, default=str).encode()
        except BodyTooLong as too_long:
            status, _, content = validation_error(str(too_long)).to_response()
        except ApiError as error:
            status, _, content = error.to_response()
        except Disconnected:
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _respond(self, scope: dict[str, Any], body: bytes) -> Any:
        query = parse_qs(scope.get("query_string", b"").decode())
        match scope["method"], scope["path"].removeprefix(PREFIX):
            case "GET", "faults":
                return [fault.to_json() for fault in self._faults.active()]
            case "POST", "faults":
                try:
                    self._faults.inject(Fault(**json.loads(body)))
                except (TypeError, ValueError) as error:
                    raise validation_error(f"invalid fault: {error}") from None
                return {}
            case "DELETE", "faults":
                self._faults.clear()
                return {}
            case "GET", "clock":
                return {"now": self._clock.now().isoformat()}
            case "POST", "clock":
                try:
                    self._clock.advance(_object(body)["seconds"])
                except (KeyError, TypeError, ValueError) as error:
                    raise validation_error(f"invalid number of seconds: {error}") from None
                return {}
            case "POST", "engine-metrics":
                self._collect(_object(body))
                return {}
            case "GET", "engine-metrics":
                return self._metrics(query)
            case "GET", "calls":
                return self._calls.to_json(next(iter(query.get("operation", [])), None))
            case "GET", "authorizations":
                return self._authorizations.to_json(next(iter(query.get("role", [])), None))
            case "GET", "function-calls":
                return self._function_calls.to_json()
            case "GET", "performances":
                return self._sagemaker.performances.to_json()
            case "POST", "performances":
                self._sagemaker.performances.set(_object(body))
                return {}
            case "DELETE", "performances":
                self._sagemaker.performances.clear()
                return {}
            case "GET", "quotas":
                return self._quotas.to_json()
            case "POST", "quotas":
                self._set_quotas(_object(body))
                return {}
            case "DELETE", "quotas":
                self._quotas.clear()
                return {}
            case "GET", "benchmarks":
                return self._sagemaker.benchmarks()
            case "GET", "trainings":
                return self._sagemaker.trainings()
            case "GET", "jobs":
                return self._sagemaker.jobs()
            case "GET", "deployments":
                return self._sagemaker.deployments()
            case "DELETE", "accounts":
                self._sagemaker.forget(next(iter(query.get("account", [])), ""))
                return {}
            case method, path:
                raise ApiError("UnknownOperationException", f"{method} {path} does not exist", 404)

    def _collect(self, request: dict[str, Any]) -> None:
        now = self._clock.now().timestamp()
        try:
            self._telemetry.collect(
                request["exposition"],
                request["labels"],
                now - request.get("seconds_ago", 0),
                account=request["account"],
                region=request["region"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise validation_error(f"invalid metrics: {error}") from None

    def _set_quotas(self, values: dict[str, Any]) -> None:
        try:
            for name, value in values.items():
                self._quotas.set(name, value)
        except (TypeError, ValueError) as error:
            raise validation_error(f"invalid quota: {error}") from None

    def _metrics(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        now = self._clock.now().timestamp()
        try:
            (promql,), (account,), (region,) = query["query"], query["account"], query["region"]
            found = self._telemetry.query(promql, now, account=account, region=region)
        except (KeyError, ValueError) as error:
            raise validation_error(f"invalid query: {error}") from None
        return [{"labels": dict(labels), "value": value} for labels, value in found.items()]


def _object(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise validation_error("the body is not a JSON object")
    return parsed
