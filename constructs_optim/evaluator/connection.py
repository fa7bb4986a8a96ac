"""Targets of requests, connections to them, and the arrival time of each piece of a response.

The event loop's callbacks record times before decoding bytes: with 256 concurrent responses, a task that is scheduled
later would record them tens of milliseconds late (bench/evaluator.py measures it).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httptools
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError

from constructs_optim.runtime.documents import json_value
from constructs_optim.runtime.evaluation.pooled_outputs import PATHS

from .bearer_token import bearer_token
from .options import EvaluationError, public_url
from .requests import ErrorKind

if TYPE_CHECKING:
    from boto3 import Session

_CONNECT_SECONDS = 30.0
# Servers close idle connections after seconds (uvicorn, which vLLM uses, after 5), but not one that was just in use. A
# request on a closed connection fails with the server's reset, a round trip after sending: RFC 9112, section 9.3.1,
# "Retrying Requests".
_IDLE_SECONDS, _AT_ONCE_SECONDS = 1.0, 0.5
# Interim responses have lower statuses, and come before the response: RFC 9110, section 15.2.
_FINAL = 200
_CREDENTIALS_LAST_SECONDS = 120
_LONGEST_MESSAGE = 300
_TOKEN_SECONDS = 900
# vLLM has this path beside those of its API, not below /v1 (0.30, entrypoints/pooling/classify/api_router.py).
_BESIDE_API, _API = PATHS["classify"], "/v1"


def proxy_for(scheme: str, host: str) -> SplitResult | None:
    """Return the proxy for a server from ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, or the system's settings."""
    url = getproxies().get(scheme)
    if not url or proxy_bypass(host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise EvaluationError(
            f"{scheme.upper()}_PROXY is {url!r}: only http:// proxies are supported; NO_PROXY={host} bypasses it"
        )
    return parts


@dataclass(frozen=True)
class Server:
    """The address of a server, the TLS settings that check its certificate, and the proxy in front of it."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: SplitResult | None = None

    @classmethod
    def of(cls, url: SplitResult) -> Server:
        """Return the server of a URL. Raises ValueError for a URL without a server or with an invalid port."""
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("not the URL of a server")
        if url.scheme == "http":
            return cls(url.hostname, url.port or 80)
        # These are the variables of botocore and curl.
        bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
        try:
            tls = ssl.create_default_context(cafile=bundle)
        except OSError as error:
            raise EvaluationError(f"the certificates of {bundle} cannot be read: {error}") from None
        return cls(url.hostname, url.port or 443, tls, proxy_for("https", url.hostname))


class UrlTarget:
    """An HTTP server such as vLLM, llama.cpp, ``transformers serve`` or a stand-alone LMI container."""

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        """Choose a server by the URL of its API, such as ``http://127.0.0.1:8000/v1``; the format adds its path."""
        try:
            parts = urlsplit(public_url(url))
        except ValueError as error:
            raise EvaluationError(str(error)) from None
        try:
            self.server: Server = Server.of(parts)
        except ValueError:
            raise EvaluationError(
                f"{url!r} is not the URL of a server: use a URL such as http://127.0.0.1:8000/v1"
            ) from None
        self.model = model
        self._path = parts.path.rstrip("/")
        self._headers = {
            "Host": parts.netloc,
            "User-Agent": "constructs-optim",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        }

    async def request(
        self, body: bytes, path: str, headers: Mapping[str, str] = MappingProxyType({}), *, streams: bool = True
    ) -> bytes:
        """Return a whole HTTP/1.1 request; ``path`` is the format's, for example ``/chat/completions``."""
        api = self._path.removesuffix(_API) if path == _BESIDE_API else self._path
        whole_path = self._path if self._path.endswith((path, "/generate_stream")) else f"{api}{path}"
        accepted = {"Accept": "text/event-stream" if streams else "application/json"}
        return _request("POST", whole_path, {**self._headers, **accepted, **headers}, body)


class SageMakerTarget:
    """A SageMaker endpoint, invoked with ``InvokeEndpointWithResponseStream``, or ``InvokeEndpoint`` without a stream.

    boto3's client blocks a thread per request until a whole frame has arrived. Here the request is signed by botocore
    and sent by the event loop, so that hundreds of streams can be timed at once.
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
            raise NoCredentialsError
        self._region: str = client.meta.region_name
        self._url = urlsplit(f"{client.meta.endpoint_url.rstrip('/')}/endpoints/{endpoint_name}/invocations")
        self._headers = {
            "Content-Type": "application/json",
            **({"X-Amzn-SageMaker-Target-Variant": variant_name} if variant_name else {}),
            **({"X-Amzn-SageMaker-Inference-Component": inference_component_name} if inference_component_name else {}),
        }
        self.server: Server = Server.of(self._url)

    async def request(self, body: bytes, path: str, *, streams: bool = True) -> bytes:
        """Return a whole, signed HTTP/1.1 request. Every format has the same path, in one of two actions."""
        refresh_needed = getattr(self._credentials, "refresh_needed", None)
        if refresh_needed is not None and refresh_needed(_CREDENTIALS_LAST_SECONDS):
            # Renewing credentials blocks on a service, so it must not run in the event loop that takes the times.
            frozen = await asyncio.to_thread(self._credentials.get_frozen_credentials)
        else:
            frozen = self._credentials.get_frozen_credentials()
        url = self._url._replace(path=f"{self._url.path}-response-stream") if streams else self._url
        signed = AWSRequest("POST", url.geturl(), data=body, headers=dict(self._headers))
        SigV4Auth(frozen, "sagemaker", self._region).add_auth(signed)
        return _request("POST", url.path, {"Host": self._url.netloc, **dict(signed.headers.items())}, body)


class OpenAITarget:
    """A SageMaker endpoint at its OpenAI-compatible path, with bearer tokens from the session's credentials."""

    def __init__(
        self,
        session: Session,
        endpoint_name: str,
        *,
        inference_component_name: str | None = None,
        model: str | None = None,
    ) -> None:
        """Choose an endpoint, and one of its components."""
        client: Any = session.client("sagemaker-runtime")
        self._credentials: Any = session.get_credentials()
        if self._credentials is None:
            raise NoCredentialsError
        self._region: str = client.meta.region_name
        component = f"/inference-components/{inference_component_name}" if inference_component_name else ""
        url = f"{client.meta.endpoint_url.rstrip('/')}/endpoints/{endpoint_name}{component}/openai/v1"
        self._target = UrlTarget(url, model=model)
        self.model, self.server = model, self._target.server
        self._token, self._renewed = "", 0.0

    async def request(self, body: bytes, path: str, *, streams: bool = True) -> bytes:
        """Return a whole HTTP/1.1 request. A token serves all requests for a few minutes."""
        if not self._token or time.monotonic() - self._renewed > _TOKEN_SECONDS / 2:
            # Renewing credentials blocks on a service, so it must not run in the event loop that takes the times.
            frozen = await asyncio.to_thread(self._credentials.get_frozen_credentials)
            self._token, self._renewed = bearer_token(frozen, self._region, _TOKEN_SECONDS), time.monotonic()
        return await self._target.request(body, path, {"Authorization": f"Bearer {self._token}"}, streams=streams)


Target = UrlTarget | SageMakerTarget | OpenAITarget


@dataclass
class Exchange:
    """One request and its response, with times in seconds of ``time.perf_counter``.

    ``end`` is when the response was complete or the request failed. Without a response, ``status`` is 0 and ``error``
    is set. Names of ``headers`` are in lower case. ``retried`` is whether the request was sent again on a new
    connection; ``start`` is the first attempt's.
    """

    start: float
    end: float = 0.0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    error: ErrorKind | None = None
    message: str = ""
    retried: bool = False

    def fail(self, error: ErrorKind, message: str) -> Exchange:
        """End the exchange with an error."""
        self.end, self.error, self.message = time.perf_counter(), error, message
        return self


class Connection:
    """A persistent connection, which reopens after the server has closed it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._wire: _Wire | None = None
        self._used = 0.0

    async def send(self, request: bytes, timeout_seconds: float) -> Exchange:
        """Send a whole HTTP/1.1 request and wait for the whole response; errors are in the exchange, never raised.

        Opening a connection is not part of the request's time, because clients reuse connections. A request on a
        connection that the server had closed while it was idle is sent once more, and its time includes both attempts.
        """
        idle = time.perf_counter() - self._used if self.is_open else 0.0
        exchange = await self._send(request, timeout_seconds)
        broken = exchange.error is ErrorKind.BROKEN_CONNECTION
        if broken and idle >= _IDLE_SECONDS and exchange.end - exchange.start <= _AT_ONCE_SECONDS:
            started = exchange.start
            exchange = await self._send(request, timeout_seconds)
            exchange.start, exchange.retried = started, True
        self._used = time.perf_counter()
        if exchange.status not in (0, 200):
            exchange.error, exchange.message = refusal(exchange)
        return exchange

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent at once."""
        return self._wire is not None and self._wire.is_open

    async def open(self) -> None:
        """Open the connection ahead of a request, which reports a failure."""
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(_CONNECT_SECONDS):
                self._wire = await _opened(self._server)

    def close(self) -> None:
        """Close the connection, and abandon a request in progress."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def _send(self, request: bytes, timeout_seconds: float) -> Exchange:
        if self._wire is None or not self.is_open:
            unsent, limit = Exchange(time.perf_counter()), min(timeout_seconds, _CONNECT_SECONDS)
            failure = f"no connection to {self._server.host}:{self._server.port}"
            try:
                # wait_for may lose a cancellation before Python 3.12.
                async with asyncio.timeout(limit):
                    self._wire = await _opened(self._server)
            except TimeoutError:
                return unsent.fail(ErrorKind.TIMEOUT, f"{failure} within {limit:g} s")
            except (OSError, ValueError) as error:
                reason = str(error)
                if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
                    # asyncio's message for an unreachable address is only the address.
                    reason = os.strerror(error.errno or 0)
                return unsent.fail(ErrorKind.CONNECTION, f"{failure}: {reason}")
        return await self._wire.send(request, timeout_seconds)


def refusal(exchange: Exchange) -> tuple[ErrorKind, str]:
    """Return the kind and message of an HTTP status other than 200."""
    message = b"".join(piece for _, piece in exchange.pieces).decode(errors="replace").strip()
    code = exchange.headers.get("x-amzn-errortype", "").partition(":")[0]
    status = exchange.status
    try:
        data = json_value(message)
    except ValueError:
        data = None
    if isinstance(data, dict):
        message = error_message(data)
        # The runtime's ModelError (424) carries the status of the container's response.
        original = data.get("OriginalStatusCode")
        status = original if isinstance(original, int) and 400 <= original <= 599 else status
    described = " ".join(filter(None, [f"status {exchange.status}", code, message[:_LONGEST_MESSAGE]]))
    if status == 429 or "Throttl" in code:
        return ErrorKind.THROTTLED, described
    # 424: the model failed for a reason unknown to the runtime.
    return (ErrorKind.SERVER_ERROR if status >= 500 or status == 424 else ErrorKind.CLIENT_ERROR), described


def error_message(data: dict[str, Any]) -> str:
    """Return the message in an error of a server or SageMaker."""
    error = data.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error
    message = error or data.get("OriginalMessage") or data.get("message") or data.get("Message") or data
    return well_formed(message) if isinstance(message, str) else json.dumps(message)


def well_formed(text: str) -> str:
    """Return encodable text: join surrogate pairs and replace lone halves, which JSON may contain."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    response = await wire.send(_request("CONNECT", headers["Host"], headers), _CONNECT_SECONDS, tunnel=True)
    if response.status != 200:
        wire.close()
        reason = response.message or f"status {response.status}"
        raise ConnectionError(f"the proxy {host}:{port} did not open a tunnel to {server.host}: {reason}")
    secured = await loop.start_tls(transport, wire, server.tls, server_hostname=server.host)
    wire.connection_made(secured)
    return wire


def _request(method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """Return a whole HTTP/1.1 request."""
    length = {} if body is None else {"Content-Length": str(len(body))}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in {**headers, **length}.items())]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class _Wire(asyncio.Protocol):
    """The bytes of one TCP connection, with one request at a time. Its end completes ``_done``."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._exchange = Exchange(start=0.0)
        self._done: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)
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
            timeout_seconds, self._fail, ErrorKind.TIMEOUT, f"no complete response in {timeout_seconds:g} s"
        )
        self._exchange = Exchange(start=time.perf_counter())
        self._transport.write(request)
        try:
            await self._done
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            timer.cancel()
            self._done = None
        return self._exchange

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._now = time.perf_counter()
        if self._done is None:
            # A response without a request must not be read as the next request's.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ErrorKind.MALFORMED_RESPONSE, f"not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        exchange = self._exchange
        if exchange.status and not exchange.headers.keys() & {"content-length", "transfer-encoding"}:
            # Such a response ends with its connection.
            self._now = time.perf_counter()
            self._complete()
        else:
            error = ErrorKind.CUT_STREAM if exchange.status else ErrorKind.BROKEN_CONNECTION
            self._fail(error, str(exc) if exc else "the server closed the connection")

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _FINAL:
            self._exchange.headers.clear()
            return
        self._exchange.status = status
        if self._tunnel and self._exchange.status == 200:
            self._complete()

    def on_body(self, body: bytes) -> None:
        self._exchange.pieces.append((self._now, body))

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < _FINAL:
            return
        self._complete()
        if not self._parser.should_keep_alive():
            self.close()

    def _complete(self) -> None:
        if self._done is not None and not self._done.done():
            self._exchange.end = self._now
            self._done.set_result(None)

    def _fail(self, error: ErrorKind, message: str) -> None:
        if self._done is not None and not self._done.done():
            self._exchange.fail(error, message)
            self._done.set_result(None)
        self.close()
