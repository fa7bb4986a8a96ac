"""The engine as a process of its own: started, asked, and ended with everything that it has started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import IO

from pydantic_core import from_json

from constructs_optim.runtime.documents import nested

_HOST = "127.0.0.1"
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
_POLL_SECONDS, _END_SECONDS = 0.5, 10
_MOST_BYTES = 2_000_000
# RFC 9110, 15.6: the server has failed.
_OF_THE_SERVER = 500


class EngineEndedError(Exception):
    """The engine does not answer; the message is its own, or empty if its log has it."""


class EngineRefusesError(EngineEndedError):
    """The engine runs, and refuses a question with a status of the client's errors."""


class OutOfTimeError(Exception):
    """The time is over."""


def variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an engine's process: no credentials, no downloads, no reports of usage."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return {**kept, **own, **quiet, "TRANSFORMERS_VERBOSITY": "error", "NO_COLOR": "1"}


@contextmanager
def process(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command as the head of a process group, which ends with the block in every case."""
    running = subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield running
    finally:
        _end(running)


def _end(running: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        running.wait(timeout=_END_SECONDS)
    # Its workers may outlive it, and a dry start keeps nothing of them.
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


class Engine:
    """A started engine's API on loopback, until a deadline on the monotonic clock."""

    def __init__(self, running: subprocess.Popen[bytes], port: int, deadline: float) -> None:
        self._running, self._port, self._deadline = running, port, deadline

    def wait(self) -> None:
        """Wait until it is healthy."""
        while True:
            if self._running.poll() is not None:
                raise EngineEndedError
            with suppress(OSError):
                if self._request("GET", "/health", None)[0] == 200:
                    return
            if time.monotonic() > self._deadline:
                raise OutOfTimeError
            time.sleep(_POLL_SECONDS)

    def ask(self, path: str, body: object) -> object:
        """Return the answer to a request; raises EngineEndedError if there is none."""
        try:
            status, content = self._request("POST", path, json.dumps(body))
        except TimeoutError:
            raise OutOfTimeError from None
        except OSError:
            raise EngineEndedError from None
        try:
            answer: object = from_json(content)
        except ValueError:
            answer = None
        if status != 200:
            message = nested(answer, "error", "message") or nested(answer, "message")
            text = message if isinstance(message, str) else f"{path} answers with status {status}"
            raise EngineRefusesError(text) if status < _OF_THE_SERVER else EngineEndedError(text)
        return answer

    def served_name(self) -> str:
        """Return the first name under which it serves its model."""
        models = nested(from_json(self._request("GET", "/v1/models", None)[1]), "data")
        first = models[0] if isinstance(models, list) and models else None
        return str(nested(first, "id"))

    def _request(self, method: str, path: str, body: str | None) -> tuple[int, bytes]:
        left = max(self._deadline - time.monotonic(), 1)
        connection = HTTPConnection(_HOST, self._port, timeout=left)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read(_MOST_BYTES)
        finally:
            connection.close()
