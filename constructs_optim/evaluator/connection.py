"""One connection to a server, and the moment at which each piece of an answer arrives.

Times are taken where the event loop hands bytes over, before anything is made of them: with 256 answers coming in at
once, a task that waits for its turn would take them tens of milliseconds late (bench/evaluator.py measures it).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from dataclasses import dataclass, field
from typing import Any

import httptools

from constructs_optim.recipe.evaluation.calculation import ErrorKind

from .proxies import Proxy

_CONNECT_SECONDS = 30.0
# Servers close a connection after seconds without a request (uvicorn, under vLLM, after 5): a connection that was in
# use a moment ago was not closed for idleness. Such a break comes with the server's reset, a round trip after sending:
# RFC 9112, section 9.3.1, "Retrying Requests".
_IDLE_SECONDS, _AT_ONCE_SECONDS = 1.0, 0.5


@dataclass(frozen=True)
class Server:
    """Where a server listens.

    Attributes:
        host: name or address.
        port: of TCP.
        tls: how its certificate is checked; None for plain HTTP.
        proxy: through which it is reached. Default: none.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None


@dataclass
class Exchange:
    """One request and what came back, with times in seconds of ``time.perf_counter``.

    Attributes:
        start: when the request was handed to the network.
        end: when the answer was complete, or when it failed.
        status: of HTTP; 0 where none came.
        headers: of the answer, names in lower case.
        pieces: of the body, each with the time of its arrival.
        error: what broke the connection; None where the answer is whole.
        message: the same in words.
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
        """All that came."""
        return b"".join(piece for _, piece in self.pieces)


class Connection:
    """A connection that is kept for one request after the other, and opened anew when the server has closed it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._wire: _Wire | None = None
        self._used = 0.0

    async def send(self, request: bytes, timeout_seconds: float) -> Exchange:
        """Send a whole HTTP/1.1 request and wait for the whole answer. Never raises for what the network does.

        Opening a connection is not part of the request's time: who calls an endpoint again and again keeps theirs. A
        request that met a connection which the server had closed while idle is sent once more, and its clock runs on.
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
            began, where = time.perf_counter(), f"no connection to {self._server.host}:{self._server.port}"
            try:
                self._wire = await asyncio.wait_for(_opened(self._server), min(timeout_seconds, _CONNECT_SECONDS))
            except TimeoutError:
                limit = min(timeout_seconds, _CONNECT_SECONDS)
                return _unsent(began, ErrorKind.TIMEOUT, f"{where} within {limit:g} s")
            except (OSError, ValueError) as error:
                told = str(error)
                if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
                    # Of an address that cannot be reached, asyncio only repeats the address.
                    told = os.strerror(error.errno or 0)
                return _unsent(began, ErrorKind.CONNECTION, f"{where}: {told}")
        wire = self._wire
        exchange = await wire.send(request, timeout_seconds)
        if not wire.is_open:
            self._wire = None
        return exchange


async def _opened(server: Server) -> _Wire:
    loop = asyncio.get_running_loop()
    if server.proxy is None:
        name = server.host if server.tls is not None else None
        _, wire = await loop.create_connection(_Wire, server.host, server.port, ssl=server.tls, server_hostname=name)
        return wire
    transport, wire = await loop.create_connection(_Wire, server.proxy.host, server.proxy.port)
    if server.tls is None:
        return wire
    answer = await wire.send(server.proxy.tunnel(server.host, server.port), _CONNECT_SECONDS, tunnel=True)
    if answer.status != 200:
        wire.close()
        told = answer.message or f"status {answer.status}"
        raise ConnectionError(
            f"the proxy {server.proxy.host}:{server.proxy.port} opens no tunnel to {server.host}: {told}"
        )
    secured = await loop.start_tls(transport, wire, server.tls, server_hostname=server.host)
    wire.connection_made(secured)
    return wire


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
            timeout_seconds, self._fail, ErrorKind.TIMEOUT, f"no whole answer in {timeout_seconds:g} s"
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
            # An answer to nothing: whatever it is, the next request must not take it for its own.
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
        told = str(exc) if exc else "the server closed the connection"
        if exchange.status and not exchange.headers.keys() & {"content-length", "transfer-encoding"}:
            # Such an answer ends with its connection.
            self._now = time.perf_counter()
            self._complete()
        else:
            self._fail(ErrorKind.CUT_STREAM if exchange.status else ErrorKind.BROKEN_CONNECTION, told)

    # What the parser calls.

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
