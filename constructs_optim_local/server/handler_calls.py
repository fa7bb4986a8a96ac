"""The calls of deployed functions, recorded and open to fault injection.

A fault can kill a function's process in the middle of a call, before or after the service acts. The function's caller
then gets the response that Lambda would send.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.faults import Fault, Faults

from .bodies import LONGEST_OBJECT, Disconnected, Receive, read_body

Message = dict[str, Any]
Scope = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

MARK = "AWS_Lambda_local"
"""The mark of a function's calls: ``AWS_EXECUTION_ENV``, which every AWS SDK puts into its User-Agent."""
RESPOND, SIGNAL = "Respond", "Signal"
_CALLBACKS = {"/_ministack/cfn-response/": RESPOND, "/_ministack/cfn-signal/": SIGNAL}
_JSON_ERRORS = {
    "throttled": (400, "ThrottlingException", "Rate exceeded"),
    "server_error": (500, "InternalFailure", "We encountered an internal error. Please try again."),
    "access_denied": (400, "AccessDeniedException", "User is not authorized to perform: {operation}"),
}
_XML_ERRORS = {
    "throttled": (503, "SlowDown", "Please reduce your request rate."),
    "server_error": (500, "InternalError", "We encountered an internal error. Please try again."),
    "access_denied": (403, "AccessDenied", "User is not authorized to perform: {operation}"),
    "key_disabled": (400, "KMS.DisabledException", "The key is disabled."),
}
_LONGEST_HANG = 600


class HandlerCalls:
    """An ASGI application between the functions and the services."""

    def __init__(self, inner: Asgi, *, faults: Faults, calls: CallLog, kill: Callable[[], None]) -> None:
        """Wrap ``inner``; ``kill`` ends the processes of the running functions."""
        self._inner, self._faults, self._calls, self._kill = inner, faults, calls, kill

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not _is_of_a_function(scope):
            await self._inner(scope, receive, send)
            return
        try:
            body = await read_body(receive, LONGEST_OBJECT)
        except Disconnected:
            return
        service, operation = _named(scope, body)
        path: str = scope["path"]
        self._calls.add(service, operation, path, "")
        await self._serve(scope, body, send, service, operation, path)

    async def _serve(self, scope: Scope, body: bytes, send: Send, service: str, operation: str, path: str) -> None:
        def struck(name: str) -> Fault | None:
            return self._faults.strikes(name, operation, path)

        async def passed_on(to: Send) -> None:
            await self._inner(scope, _replay(body), to)

        if struck("function_dies_before"):
            await asyncio.to_thread(self._kill)
            return
        if struck("function_hangs"):
            await asyncio.sleep(_LONGEST_HANG)
            return
        if struck("function_dies_after"):
            await passed_on(_nowhere)
            await asyncio.to_thread(self._kill)
            return
        if struck("message_lost"):
            await _respond(send, 200, b"", "text/plain")
            return
        if struck("message_twice"):
            await passed_on(_nowhere)
        if service not in ("sagemaker", "application-autoscaling", "pricing", "servicequotas"):
            # This package's services inject faults themselves, for all callers.
            errors = _XML_ERRORS if service in ("s3", "cloudformation", "ec2", "iam") else _JSON_ERRORS
            for name, (status, code, message) in errors.items():
                if struck(name):
                    content, kind = _error(service, code, message.format(operation=f"{service}:{operation}"))
                    await _respond(send, status, content, kind)
                    return
        await passed_on(send)


def _is_of_a_function(scope: Scope) -> bool:
    if any(scope["path"].startswith(prefix) for prefix in _CALLBACKS):
        return True
    return any(name == b"user-agent" and MARK.encode() in value for name, value in scope["headers"])


def _named(scope: Scope, body: bytes) -> tuple[str, str]:
    """Return the service and the operation of a request."""
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    path, query = scope["path"], parse_qs(scope.get("query_string", b"").decode(), keep_blank_values=True)
    for prefix, name in _CALLBACKS.items():
        if path.startswith(prefix):
            return "cloudformation", name
    scoped = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", headers.get("authorization", ""))
    service = scoped[1] if scoped else "unknown"
    if target := headers.get("x-amz-target"):
        return service, target.rpartition(".")[2]
    if service == "s3":
        return service, _s3_operation(scope["method"], path, query)
    if service == "sagemaker":
        # SageMaker Runtime signs as ``sagemaker`` too, but its requests have no target.
        streams = path.endswith("-response-stream")
        return service, "InvokeEndpointWithResponseStream" if streams else "InvokeEndpoint"
    action = parse_qs(body.decode(errors="replace")).get("Action", ["unknown"])[0]
    return service, action


def _s3_operation(method: str, path: str, query: dict[str, list[str]]) -> str:
    has_key = len(path.strip("/").split("/", 1)) > 1
    if method == "GET" and not has_key:
        return "GetBucketLocation" if "location" in query else "ListObjectsV2"
    return f"{method.title()}{'Object' if has_key else 'Bucket'}"


def _error(service: str, code: str, message: str) -> tuple[bytes, str]:
    if service == "s3":
        return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode(), "application/xml"
    if service == "ec2":
        error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        return f"<Response><Errors>{error}</Errors></Response>".encode(), "text/xml"
    if service in ("cloudformation", "iam"):
        text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        return text.encode(), "text/xml"
    return json.dumps({"__type": code, "message": message}).encode(), "application/x-amz-json-1.1"


async def _respond(send: Send, status: int, content: bytes, kind: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _nowhere(_: Message) -> None:
    pass


def _replay(body: bytes) -> Receive:
    """Replay the request's body for the service."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    return receive
