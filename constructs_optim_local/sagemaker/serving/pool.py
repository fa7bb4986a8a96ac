"""All model servers of a local cloud, and the requests to them."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from constructs_optim_local.access.authorization import Roles
from constructs_optim_local.api.error import ApiError
from constructs_optim_local.clock import Clock
from constructs_optim_local.sagemaker.hosting.deployments import NotYet
from constructs_optim_local.sagemaker.hosting.invocations import (
    Completion,
    Forwarded,
    Invocation,
    StreamFailed,
    model_error,
)
from constructs_optim_local.sagemaker.hosting.servers import Server
from constructs_optim_local.sagemaker.objects import ObjectsOf

from .container import Container, State
from .settings import ServingSettings

_PIECE = 65_536
_BAD_REQUEST, _NO_SUCH_PATH = 400, (404, 405)
# Source of the message: https://github.com/RamVegiraju/SageMaker-Deployment/issues/3.
_TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for "
    "each container in Amazon CloudWatch, resolve the issue, and try again."
)
# Source of the message: a comment on https://github.com/aws/sagemaker-python-sdk/issues/1119.
_STREAM_TIMED_OUT = "Your model primary did not complete sending the inference response in the allotted time."


class ServerPool:
    """Runs servers and distributes requests to them in turn. An implementation of ``hosting.servers.Servers``."""

    def __init__(self, settings: ServingSettings, objects: ObjectsOf, roles: Roles, clock: Clock) -> None:
        self._settings, self._objects, self._roles, self._clock = settings, objects, roles, clock
        self._containers: dict[str, Container] = {}
        self._turns = defaultdict[tuple[str, str, str | None], Iterator[int]](itertools.count)
        # By the server's key.
        self._in_flight = Counter[str]()
        self._lock, self._closed = threading.Lock(), False

    def refusal(self, servers: Sequence[Server]) -> str | None:
        """Start missing servers. Return why one of them failed, or None once all are healthy.

        Raises:
            NotYet: while servers start.
        """
        with self._lock:
            if self._closed:
                raise NotYet
            containers = [self._started(server) for server in servers]
        failed = next((each for each in containers if each.state is State.FAILED), None)
        if failed is not None:
            return failed.reason
        if any(each.state is State.STARTING for each in containers):
            raise NotYet
        return None

    def keep(self, servers: Collection[Server]) -> None:
        """End all servers except these, and start missing ones."""
        with self._lock:
            if self._closed:
                return
            wanted = {server.key for server in servers if self._started(server)}
            ended = [self._containers.pop(key) for key in set(self._containers) - wanted]
        for container in ended:
            container.end()

    def close(self) -> None:
        """End all servers at once."""
        with self._lock:
            self._closed = True
            for container in self._containers.values():
                container.kill()

    def forward(self, forwarded: Forwarded) -> Completion:
        """Send a request to one of its servers, and return the response.

        Raises:
            ApiError: the error that SageMaker would return.
        """
        invocation = forwarded.invocation
        with self._lock:
            containers = {key: self._containers[key] for key in forwarded.servers if key in self._containers}
        healthy = [key for key, container in containers.items() if container.state is State.HEALTHY]
        if not healthy:
            # The message is assumed. The code is one of the operation's.
            raise ApiError("ServiceUnavailable", "No container of the endpoint is healthy.", 503)
        turns = self._turns[invocation.endpoint, forwarded.variant, invocation.component]
        key = healthy[next(turns) % len(healthy)]
        self._add(key, 1)
        try:
            completion = self._completion(containers[key], forwarded)
        except BaseException:
            self._add(key, -1)
            raise
        if isinstance(completion.parts, tuple):
            self._add(key, -1)
            return completion
        return replace(completion, parts=_then(completion.parts, lambda: self._add(key, -1)))

    def in_flight(self, servers: Collection[Server]) -> dict[Server, int]:
        """Return the number of requests in flight of each healthy server."""
        with self._lock:
            return {
                server: self._in_flight[server.key]
                for server in servers
                if server.key in self._containers and self._containers[server.key].state is State.HEALTHY
            }

    def _add(self, key: str, count: int) -> None:
        with self._lock:
            self._in_flight[key] += count

    def _completion(self, container: Container, forwarded: Forwarded) -> Completion:
        invocation = forwarded.invocation
        paths = ("/v1/chat/completions",) if invocation.is_openai else _paths(container, invocation.body)
        for path in paths:
            connection, response = self._sent(container, path, invocation)
            if path == "/invocations" and response.status in _NO_SUCH_PATH:
                container.has_invocations = False
                connection.close()
                continue
            return self._received(connection, response, forwarded)
        raise model_error(
            _NO_SUCH_PATH[0], "the container has no path /invocations, and the request has neither messages nor prompt"
        )

    def _started(self, server: Server) -> Container:
        if server.key not in self._containers:
            made = Container(server, self._settings, self._objects, self._roles, self._clock)
            self._containers[server.key] = made
        return self._containers[server.key]

    def _sent(
        self, container: Container, path: str, invocation: Invocation
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        seconds = self._settings.stream_seconds if invocation.streams else self._settings.response_seconds
        connection = http.client.HTTPConnection("127.0.0.1", container.port, timeout=seconds)
        try:
            connection.request("POST", path, invocation.body, dict(invocation.headers))
            return connection, connection.getresponse()
        except TimeoutError:
            connection.close()
            raise model_error(0, _TIMED_OUT, has_response=False) from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            # The message is assumed.
            message = f"the connection to the container broke: {error}"
            raise model_error(500, message, has_response=False) from None

    def _received(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, forwarded: Forwarded
    ) -> Completion:
        invocation = forwarded.invocation
        kind = response.headers.get("Content-Type", "application/json")
        streams = invocation.streams or (invocation.is_openai and kind.startswith("text/event-stream"))
        until = time.monotonic() + (self._settings.stream_seconds if streams else self._settings.response_seconds)
        pieces = _pieces(connection, response, until)
        if streams and response.status < _BAD_REQUEST:
            return Completion(kind, pieces, forwarded.variant)
        try:
            content = b"".join(pieces)
        except StreamFailed as error:
            message = _TIMED_OUT if error.code == "ModelInvocationTimeExceeded" else str(error)
            raise model_error(0, message, has_response=False) from None
        if response.status >= _BAD_REQUEST and not invocation.is_openai:
            raise model_error(response.status, content.decode(errors="replace"))
        return Completion(kind, (content,), forwarded.variant, response.status)


def _then(parts: Iterator[bytes], end: Callable[[], None]) -> Iterator[bytes]:
    try:
        yield from parts
    finally:
        end()


def _paths(container: Container, body: bytes) -> tuple[str, ...]:
    """Return the paths at which a container may accept a request: not every server has SageMaker's path."""
    try:
        request = json.loads(body)
    except ValueError:
        request = {}
    known: Mapping[str, str] = {"messages": "/v1/chat/completions", "prompt": "/v1/completions"}
    own = [path for member, path in known.items() if isinstance(request, dict) and member in request][:1]
    return (*(["/invocations"] if container.has_invocations else []), *own)


def _pieces(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, until: float
) -> Iterator[bytes]:
    try:
        while piece := response.read1(_PIECE):
            yield piece
            if time.monotonic() > until:
                raise StreamFailed("ModelInvocationTimeExceeded", _STREAM_TIMED_OUT)
        if response.length:
            raise StreamFailed(
                "StreamBroken", f"The connection to the model was closed: {response.length} bytes are missing"
            )
    except TimeoutError:
        raise StreamFailed("ModelInvocationTimeExceeded", _STREAM_TIMED_OUT) from None
    except (OSError, http.client.HTTPException) as error:
        raise StreamFailed("StreamBroken", f"The connection to the model was closed: {error}") from None
    finally:
        connection.close()
