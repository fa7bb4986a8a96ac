"""Where requests go, the connections to it, and the moment at which each piece of a response arrives.

Times are taken where the event loop hands bytes over, before anything is made of them: with 256 responses arriving at
once, a task that waits for its turn would take them tens of milliseconds late (bench/evaluator.py measures it).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httptools

from constructs_optim.recipe.evaluation.calculation import ErrorKind

from .options import EvaluationError

if TYPE_CHECKING:
    from boto3 import Session

_CONNECT_SECONDS = 30.0
# Servers close a connection after seconds without a request (uvicorn, under vLLM, after 5): a connection that was in
# use a moment ago was not closed for idleness. Such a break comes with the server's reset, a round trip after sending:
# RFC 9112, section 9.3.1, "Retrying Requests".
_IDLE_SECONDS, _AT_ONCE_SECONDS = 1.0, 0.5
_CREDENTIALS_LAST_SECONDS = 120


def proxy_for(scheme: str, host: str) -> SplitResult | None:
    """The proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, or the system's settings, name for a server."""
    url = getproxies().get(scheme)
    if not url or proxy_bypass(host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise EvaluationError(
            f"{scheme.upper()}_PROXY names a proxy that is reached by {parts.scheme!r}: only http:// proxies are "
            f"supported; NO_PROXY={host} goes around it"
        )
    return parts


@dataclass(frozen=True)
class Server:
    """Where a server listens: its certificate is checked by ``tls``, and it is reached through ``proxy``."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: SplitResult | None = None

    @classmethod
    def of(cls, url: SplitResult) -> Server:
        """The server of a URL."""
        host = url.hostname or ""
        if url.scheme == "http":
            return cls(host, url.port or 80)
        # The variables that botocore and curl heed.
        bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
        try:
            tls = ssl.create_default_context(cafile=bundle)
        except OSError as error:
            raise EvaluationError(f"the certificates of {bundle} cannot be read: {error}") from None
        return cls(host, url.port or 443, tls, proxy_for("https", host))


class UrlTarget:
    """A server that speaks HTTP, such as vLLM, llama.cpp, ``transformers serve`` or an LMI container on its own."""

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        """Choose a server by the URL of its API, such as ``http://127.0.0.1:8000/v1``; the format adds its path."""
        parts = urlsplit(url)
        try:
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # of a port that is no number
            valid = False
        if not valid:
            raise EvaluationError(f"{url!r} is no URL of a server: use one such as http://127.0.0.1:8000/v1")
        if parts.username or parts.query:
            raise EvaluationError("the URL has credentials or a query in it; give a key with --api-key-variable")
        self.model = model
        self.server: Server = Server.of(parts)
        self._path = parts.path.rstrip("/")
        self._headers = {
            "Host": parts.netloc,
            "User-Agent": "constructs-optim",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        }

    async def request(self, body: bytes, path: str) -> bytes:
        """A whole HTTP/1.1 request; ``path`` is the format's, for instance ``/chat/completions``."""
        whole_path = self._path if self._path.endswith((path, "/generate_stream")) else f"{self._path}{path}"
        return _request("POST", whole_path, self._headers, body)


class SageMakerTarget:
    """A SageMaker endpoint, invoked with ``InvokeEndpointWithResponseStream``.

    boto3's client waits for a whole frame in a thread of its own for each request. Here the request is signed by
    botocore and sent by the event loop, so that hundreds of streams can be timed at once.
    """

    model: str | None = None

    def __init__(
        self,
        session: Session,
        endpoint_name: str,
        *,
        variant_name: str | None = None,
        inference_component_name: str | None = None,
    ) -> None:
        """Choose an endpoint, and one of its variants or components."""
        client: Any = session.client("sagemaker-runtime")
        self._credentials: Any = session.get_credentials()
        if self._credentials is None:
            raise EvaluationError(
                "there are no AWS credentials: sign in (`aws sso login`), or name a profile with --profile"
            )
        self._region: str = client.meta.region_name
        self._url = urlsplit(
            f"{client.meta.endpoint_url.rstrip('/')}/endpoints/{endpoint_name}/invocations-response-stream"
        )
        self._headers = {
            "Content-Type": "application/json",
            **({"X-Amzn-SageMaker-Target-Variant": variant_name} if variant_name else {}),
            **({"X-Amzn-SageMaker-Inference-Component": inference_component_name} if inference_component_name else {}),
        }
        self.server: Server = Server.of(self._url)

    async def request(self, body: bytes, path: str) -> bytes:
        """A whole, signed HTTP/1.1 request; every format has the same path."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        refresh_needed = getattr(self._credentials, "refresh_needed", None)
        try:
            if refresh_needed is not None and refresh_needed(_CREDENTIALS_LAST_SECONDS):
                # Renewing asks a service and waits for it: not on the loop that takes the times.
                frozen = await asyncio.to_thread(self._credentials.get_frozen_credentials)
            else:
                frozen = self._credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise EvaluationError(f"the AWS credentials cannot be renewed: {error}") from None
        signed = AWSRequest("POST", self._url.geturl(), data=body, headers=dict(self._headers))
        SigV4Auth(frozen, "sagemaker", self._region).add_auth(signed)
        return _request("POST", self._url.path, {"Host": self._url.netloc, **dict(signed.headers.items())}, body)


Target = UrlTarget | SageMakerTarget


@dataclass
class Exchange:
    """One request and what came back, with times in seconds of ``time.perf_counter``.

    Attributes:
        start: when the request was handed to the network.
        end: when the response was complete, or when it failed.
        status: of HTTP; 0 where none came.
        headers: of the response, names in lower case.
        pieces: of the body, each with the time of its arrival.
        error: what broke the connection; None where the response is whole.
        message: of the error.
        retried: whether it was sent a second time, on a new connection; ``start`` is that of the first time.
    """

    start: float
    end: float = 0.0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    error: ErrorKind | None = None
    message: str = ""
    retried: bool = False

    @property
    def body(self) -> bytes:
        """The body so far."""
        return b"".join(piece for _, piece in self.pieces)


class Connection:
    """A connection that is kept for one request after the other, and opened anew when the server has closed it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._wire: _Wire | None = None
        self._used = 0.0

    async def send(self, request: bytes, timeout_seconds: float) -> Exchange:
        """Send a whole HTTP/1.1 request and wait for the whole response. Never raises for a network error.

        Opening a connection is not part of the request's time: a client that calls an endpoint again and again keeps
        its own. A request that met a connection which the server had closed while idle is sent once more, and its
        clock runs on.
        """
        kept = self._wire is not None and self._wire.is_open
        idle = time.perf_counter() - self._used
        exchange = await self._send(request, timeout_seconds)
        if (
            kept
            and idle >= _IDLE_SECONDS
            and exchange.error is ErrorKind.BROKEN_CONNECTION
            and exchange.end - exchange.start <= _AT_ONCE_SECONDS
        ):
            started = exchange.start
            exchange = await self._send(request, timeout_seconds)
            exchange.start, exchange.retried = started, True
        self._used = time.perf_counter()
        return exchange

    def close(self) -> None:
        """Give the connection up; a request on its way is forgotten."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def _send(self, request: bytes, timeout_seconds: float) -> Exchange:
        if self._wire is None or not self._wire.is_open:
            began, failure = time.perf_counter(), f"no connection to {self._server.host}:{self._server.port}"
            limit = min(timeout_seconds, _CONNECT_SECONDS)
            try:
                self._wire = await asyncio.wait_for(_opened(self._server), limit)
            except TimeoutError:
                return _unsent(began, ErrorKind.TIMEOUT, f"{failure} within {limit:g} s")
            except (OSError, ValueError) as error:
                reason = str(error)
                if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
                    # Of an address that cannot be reached, asyncio only repeats the address.
                    reason = os.strerror(error.errno or 0)
                return _unsent(began, ErrorKind.CONNECTION, f"{failure}: {reason}")
        wire = self._wire
        exchange = await wire.send(request, timeout_seconds)
        if not wire.is_open:
            self._wire = None
        return exchange


async def _opened(server: Server) -> _Wire:
    loop = asyncio.get_running_loop()
    if server.proxy is None or server.tls is None:
        name = server.host if server.tls is not None else None
        _, wire = await loop.create_connection(_Wire, server.host, server.port, ssl=server.tls, server_hostname=name)
        return wire
    host, port = server.proxy.hostname or "", server.proxy.port or 80
    transport, wire = await loop.create_connection(_Wire, host, port)
    headers = {"Host": f"{server.host}:{server.port}"}
    if server.proxy.username:
        credentials = f"{unquote(server.proxy.username)}:{unquote(server.proxy.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
    tunnel = _request("CONNECT", headers["Host"], headers)
    response = await wire.send(tunnel, _CONNECT_SECONDS, tunnel=True)
    if response.status != 200:
        wire.close()
        reason = response.message or f"status {response.status}"
        raise ConnectionError(f"the proxy {host}:{port} opens no tunnel to {server.host}: {reason}")
    secured = await loop.start_tls(transport, wire, server.tls, server_hostname=server.host)
    wire.connection_made(secured)
    return wire


def _request(method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """A whole HTTP/1.1 request."""
    length = {} if body is None else {"Content-Length": str(len(body))}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in {**headers, **length}.items())]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def _unsent(began: float, error: ErrorKind, message: str) -> Exchange:
    return Exchange(start=began, end=time.perf_counter(), error=error, message=message)


class _Wire(asyncio.Protocol):
    """The bytes of one TCP connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._now = 0.0
        self._tunnel = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def send(self, request: bytes, timeout_seconds: float, *, tunnel: bool = False) -> Exchange:
        loop = asyncio.get_running_loop()
        self._parser, self._tunnel = httptools.HttpResponseParser(self), tunnel
        self._done = loop.create_future()
        timer = loop.call_later(
            timeout_seconds, self._fail, ErrorKind.TIMEOUT, f"no whole response in {timeout_seconds:g} s"
        )
        self._exchange = exchange = Exchange(start=time.perf_counter())
        self._transport.write(request)
        try:
            await self._done
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            timer.cancel()
            self._exchange = None
        return exchange

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._now = time.perf_counter()
        if self._exchange is None or self._parser is None:
            # A response to no request: the next request must not take it for its own.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._complete()
        except httptools.HttpParserError as error:
            self._fail(ErrorKind.MALFORMED_RESPONSE, f"no HTTP: {error}")

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.status and not exchange.headers.keys() & {"content-length", "transfer-encoding"}:
            # Such a response ends with its connection.
            self._now = time.perf_counter()
            self._complete()
        else:
            error = ErrorKind.CUT_STREAM if exchange.status else ErrorKind.BROKEN_CONNECTION
            self._fail(error, str(exc) if exc else "the server closed the connection")

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None:
            self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._exchange is not None and self._parser is not None:
            self._exchange.status = self._parser.get_status_code()
            if self._tunnel and self._exchange.status == 200:
                self._complete()

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None:
            self._exchange.pieces.append((self._now, body))

    def on_message_complete(self) -> None:
        keep = self._parser is not None and self._parser.should_keep_alive()
        self._complete()
        if not keep:
            self.close()

    def _complete(self) -> None:
        if self._exchange is not None and self._done is not None and not self._done.done():
            self._exchange.end = self._now
            self._done.set_result(None)

    def _fail(self, error: ErrorKind, message: str) -> None:
        if self._exchange is not None and self._done is not None and not self._done.done():
            self._exchange.end = time.perf_counter()
            self._exchange.error, self._exchange.message = error, message
            self._done.set_result(None)
        with contextlib.suppress(OSError):
            self.close()
