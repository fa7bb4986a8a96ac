"""Access control of a local cloud. Because the cloud runs code, it requires signatures and rejects web pages' requests.

Every user of the machine, and every web page in a browser on it, can reach the loopback interface. ``Origin`` and
``Sec-Fetch-Site`` identify the requests of web pages, and ``Host`` a domain that an attacker resolves to 127.0.0.1.
Other users do not know the secret, which changes at each start.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from constructs_optim_local.cloudformation.limits import LONGEST_MESSAGE

from . import bearer_tokens
from .bodies import (
    LONGEST_BODY,
    LONGEST_OBJECT,
    BodyTooLong,
    Disconnected,
    Receive,
    TooManyBytes,
    UnverifiedBodies,
    read_body,
)

Message = dict[str, Any]
Scope = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Response = tuple[int, dict[str, str], bytes]
Verify = Callable[[str, str, Mapping[str, list[str]], Mapping[str, str], bytes | None], Response | None]
NeedsBody = Callable[[Mapping[str, list[str]], Mapping[str, str]], bool]
Sign = Callable[[Mapping[str, list[str]], str, str, bytes], Mapping[str, str]]

_CAPABILITIES = ("/_ministack/cfn-response/", "/_ministack/cfn-signal/")
"""The paths for PUT requests that respond for custom resources and signal wait conditions. As with CloudFormation's
presigned URLs, the URL is the permission: it contains a random UUID.
"""
_LARGE = 1_000_000
# Assumed: the documentation has no example of a refused token.
_INVALID_TOKEN: Response = (
    403,
    {"Content-Type": "application/json"},
    b'{"message": "The bearer token included in the request is invalid."}',
)


class Authentication:
    """An ASGI application that forwards only authenticated requests, and no requests of web pages.

    Args:
        inner: the application that serves authenticated requests.
        port: the port on which this cloud listens.
        verify: returns the refusal of a request whose signature is missing or wrong, otherwise None. It is asked before
            the body is read, without it, and again with the body.
        needs_body: returns whether a signature can be verified only with the body.
        sign: returns signed headers for a request by the owner of a signed query.
    """

    def __init__(self, inner: Asgi, *, port: int, verify: Verify, needs_body: NeedsBody, sign: Sign) -> None:
        self._inner, self._verify, self._needs_body, self._sign = inner, verify, needs_body, sign
        self._unverified = UnverifiedBodies()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = _headers(scope)
        if reason := self._foreign(scope, headers):
            await _respond(send, (403, {"Content-Type": "text/plain"}, reason.encode()))
            return
        send = _without_cors(send)
        with contextlib.suppress(Disconnected):
            await self._serve(scope, headers, receive, send)

    async def _serve(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        if method == "PUT" and scope["path"].startswith(_CAPABILITIES):
            try:
                body = await read_body(receive, LONGEST_MESSAGE)
            except BodyTooLong as too_long:
                # Only its length matters: CloudFormation refuses it, and a custom resource fails.
                body = too_long.start
                scope = {**scope, "headers": _with(scope, {"Content-Length": str(len(body))})}
            await self._inner(scope, _replay(body, receive), send)
            return
        query = parse_qs(scope.get("query_string", b"").decode(errors="replace"), keep_blank_values=True)
        path = scope["raw_path"].decode("latin-1")
        signed_query = None
        if bearer_tokens.is_openai(path) and "authorization" in headers:
            # Verify the request in the token, and sign this one for the token's owner.
            signed_query = bearer_tokens.signed_query(headers)
            if signed_query is None:
                await _respond(send, _INVALID_TOKEN)
                return
            refusal = self._verify("POST", "/", signed_query, {"host": bearer_tokens.HOST}, b"")
        else:
            refusal = self._verify(method, path, query, headers, None)
        if refusal is not None:
            await _respond(send, refusal)
            return
        try:
            if signed_query is not None:
                body = await _declared_body(headers, LONGEST_BODY, receive)
                signed = self._sign(signed_query, method, f"http://{headers['host']}{path}", body)
                scope = {**scope, "headers": _with(scope, signed)}
            elif self._needs_body(query, headers):
                with self._unverified.counted(receive) as counted:
                    body = await _declared_body(headers, LONGEST_BODY, counted)
                    refusal = await self._checked(method, path, query, headers, body)
            else:
                body = await _declared_body(headers, LONGEST_OBJECT, receive)
                refusal = await self._checked(method, path, query, headers, body)
        except BodyTooLong as too_long:
            await _respond(send, (413, {"Content-Type": "text/plain"}, f"{too_long}\n".encode()))
            return
        except TooManyBytes:
            # SDKs repeat a request after this status, and parse no body.
            await _respond(send, (503, {}, b""))
            return
        if refusal is not None:
            await _respond(send, refusal)
            return
        await self._inner(scope, _replay(body, receive), send)

    async def _checked(
        self, method: str, path: str, query: Mapping[str, list[str]], headers: Mapping[str, str], body: bytes
    ) -> Response | None:
        check = (method, path, query, headers, body)
        return await asyncio.to_thread(self._verify, *check) if len(body) > _LARGE else self._verify(*check)

    def _foreign(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """Return why the request's origin is not allowed; empty if it is."""
        if headers.get("host", "").lower() not in self._hosts:
            return f"This local cloud answers as {min(self._hosts)} only.\n"
        # SDKs and command-line tools send neither header; "none" marks a URL that a person typed or opened.
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none" or scope["method"] == "OPTIONS":
            return "This local cloud accepts no requests from web pages.\n"
        return ""


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name. SigV4 joins the values of a repeated header by commas."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        text = value.decode(errors="replace")
        found[name] = f"{found[name]},{text}" if name in found else text
    return found


def _with(scope: Scope, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the request's headers, with these replaced or added."""
    replaced = {name.lower().encode(): value.encode() for name, value in headers.items()}
    return [*(item for item in scope["headers"] if item[0].lower() not in replaced), *replaced.items()]


def _without_cors(send: Send) -> Send:
    """Remove ``Access-Control-*`` from responses: no web page may read them."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [item for item in message["headers"] if not item[0].lower().startswith(b"access-control-")]
            message = {**message, "headers": kept}
        await send(message)

    return sent


async def _respond(send: Send, response: Response) -> None:
    status, headers, content = response
    sent = {**headers, "Content-Length": str(len(content)), "Connection": "close"}
    listed = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": content})


async def _declared_body(headers: Mapping[str, str], limit: int, receive: Receive) -> bytes:
    """Return the body of a request, unless its declared or its real length exceeds the limit."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise BodyTooLong(limit)
    return await read_body(receive, limit)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Replay the body, then pass on later messages, such as the client's disconnect."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        message = next(messages, None)
        return await receive() if message is None else message

    return replayed
