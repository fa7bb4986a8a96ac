"""Runs one model server in its own thread: its files, process and health checks.

Source: developer guide, "Use your own inference code with hosting services", "How your container should respond to
health check (ping) requests": status 200 within 2 seconds, in the 8 minutes after startup. Assumed, without a source: a
server whose process ends before it is healthy has failed. SageMaker would restart it until the time is up.
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import threading
from collections import deque
from enum import Enum, auto
from pathlib import Path

from constructs_optim_local.access.authorization import Roles
from constructs_optim_local.clock import Clock
from constructs_optim_local.ports import free_port
from constructs_optim_local.sagemaker.hosting.servers import Server
from constructs_optim_local.sagemaker.objects import ObjectsOf
from constructs_optim_local.sagemaker.processes.opt_ml import moved
from constructs_optim_local.sagemaker.processes.process import SupervisedProcess

from .model_data import NoModelData, fill
from .settings import ServingSettings

GROUP = "/aws/sagemaker/Endpoints"
"""Source, also of the streams' names: developer guide, "CloudWatch Logs for Amazon SageMaker AI"."""
COMPONENT_GROUP = "/aws/sagemaker/InferenceComponents"
_STARTUP_SECONDS = 480.0
_PING_SECONDS, _LOOK_SECONDS, _LOG_SECONDS, _AGAIN_SECONDS = 2.0, 0.1, 0.5, 1.0
_PATHS = ("/ping", "/health")
_OK = 200


class State(Enum):
    """The state of a server."""

    STARTING = auto()
    HEALTHY = auto()
    FAILED = auto()


class Container:
    """A server that runs or is starting."""

    def __init__(
        self, server: Server, settings: ServingSettings, objects: ObjectsOf, roles: Roles, clock: Clock
    ) -> None:
        self._server, self._settings, self._objects = server, settings, objects
        self._roles, self._clock, self._scale = roles, clock, settings.scale
        self.state, self.reason, self.port = State.STARTING, "", 0
        self.has_invocations = True
        self._was_healthy = False
        self._ended = threading.Event()
        self._process: SupervisedProcess | None = None
        self._lines: deque[str] = deque()
        self._thread = threading.Thread(target=self._run, name=f"server-{server.key}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Begin to end the server: SIGTERM, then SIGKILL after a time limit. Returns at once."""
        self._ended.set()

    def kill(self) -> None:
        """Kill the process at once."""
        self._ended.set()
        if (process := self._process) is not None:
            process.kill()

    def _run(self) -> None:
        folder = self._settings.folder / f"server-{id(self)}"
        try:
            if fill(folder / "ml", self._server.container, self._objects(self._server.account, self._server.region)):
                self._lines.append("This cloud does not have the endpoint's model: a tiny model stands in for it.")
            while not self._ended.is_set() and self.state is not State.FAILED:
                self._serve(folder)
        except NoModelData as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(f"{self._unhealthy} ({type(error).__name__}: {error})")
        finally:
            self._tell()
            shutil.rmtree(folder, ignore_errors=True)

    def _serve(self, folder: Path) -> None:
        """Start the process and watch it until it ends or has to end."""
        root = folder / "ml"
        variables = {name: moved(value, root) for name, value in self._server.container.get("Environment", {}).items()}
        self.state, self.port = State.STARTING, free_port()
        words = self._settings.words(variables, root / "model", self.port, self._server.container.get("Image"))
        self._lines.append(f"$ {' '.join(words)}")
        process = self._process = SupervisedProcess(
            words, self._environment(variables, root), folder, self._lines.append
        )
        began = told = collected = self._clock.monotonic()
        limit = self._server.startup_seconds or _STARTUP_SECONDS
        while not self._ended.wait(_LOOK_SECONDS):
            if process.status is not None:
                self._lines.append(f"The server ended with status {process.status}.")
                if not self._was_healthy:
                    self._fail(self._unhealthy)
                    return
                self.state = State.STARTING
                self._ended.wait(_AGAIN_SECONDS)
                return
            if self.state is State.STARTING:
                if self._is_healthy():
                    self.state, self._was_healthy = State.HEALTHY, True
                elif self._clock.monotonic() - began >= limit:
                    if not self._was_healthy:
                        self._fail(self._unhealthy)
                    break
            if self._clock.monotonic() - told >= _LOG_SECONDS:
                self._tell()
                told = self._clock.monotonic()
            often = self._server.metrics_seconds
            if often is not None and self._clock.monotonic() - collected >= max(_LOG_SECONDS, often * self._scale):
                self._collect()
                collected = self._clock.monotonic()
        self._stop(process)

    def _stop(self, process: SupervisedProcess) -> None:
        process.terminate()
        until = self._clock.monotonic() + self._settings.stop_seconds
        waiting = threading.Event()
        while process.status is None and self._clock.monotonic() < until:
            waiting.wait(_LOOK_SECONDS)
        process.kill()

    def _environment(self, variables: dict[str, str], root: Path) -> dict[str, str]:
        server = self._server
        cloud = {} if server.isolated else self._settings.cloud(server.account, server.region)
        if server.role is not None and not server.isolated:
            cloud = {**cloud, **self._roles.credentials(server.role)}
        for name in ("home", "tmp"):
            (root.parent / name).mkdir(exist_ok=True)
        own = {
            "HOME": str(root.parent / "home"),
            "TMPDIR": str(root.parent / "tmp"),
            "PYTHONUNBUFFERED": "1",
            # Marks this server's stray processes, see processes/supervisor.py.
            "SAGEMAKER_BASE_DIR": str(root),
            "SAGEMAKER_BIND_TO_PORT": str(self.port),
        }
        return {**self._settings.environment, **cloud, **variables, **own}

    def _is_healthy(self) -> bool:
        return any(self._got(path) is not None for path in _PATHS)

    def _got(self, path: str) -> bytes | None:
        """Return the content at a path; None if the status is not 200 or the request times out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PING_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.read() if response.status == _OK else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _collect(self) -> None:
        """Pass on the engine's metrics, if the server exposes any."""
        server = self._server
        if (exposed := self._got("/metrics")) is None:
            return
        component = {"aws.sagemaker.inference_component.name": server.component} if server.component else {}
        labels = {
            "aws.sagemaker.endpoint.name": server.endpoint,
            "aws.sagemaker.variant.name": server.variant,
            "@resource.host.id": self._instance,
            "aws.sagemaker.container.id": server.key.rpartition("/")[2],
            **component,
        }
        with contextlib.suppress(ValueError):
            self._settings.collect(server.account, server.region, exposed.decode(errors="replace"), labels)

    @property
    def _instance(self) -> str:
        return f"i-{self._server.instance.serial:017x}"

    def _fail(self, reason: str) -> None:
        self.reason, self.state = reason, State.FAILED

    @property
    def _unhealthy(self) -> str:
        if self._server.component is not None:
            return (
                f"The container of inference component {self._server.component} did not pass the ping health check. "
                "Please check CloudWatch logs for this inference component."
            )
        # Source of the message: https://github.com/aws/sagemaker-python-sdk/issues/787.
        return (
            f"The primary container for production variant {self._server.variant} did not pass the ping health check. "
            "Please check CloudWatch logs for this endpoint."
        )

    def _tell(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if not lines:
            return
        server = self._server
        group = f"{COMPONENT_GROUP}/{server.component}" if server.component else f"{GROUP}/{server.endpoint}"
        stream = f"{server.variant}/{self._instance}"
        self._settings.log(server.account, server.region, group, stream, lines)
