"""Start a local cloud, point clients and the CDK CLI at it, and end it without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from .access.credentials import (
    ACCOUNT,
    KEY_ID,
    SECRET_KEY,
    TOKEN,
    new_secret,
)
from .ministack.patches import check_ministack
from .ministack.stepfunctions import HISTORY_EVENTS
from .sagemaker.serving.settings import LIGHT_SERVER, problems
from .server.control import PREFIX

IN_THE_WAY = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", TOKEN)
"""Variables that would lead a client elsewhere."""
DEFAULT_REGION = "us-west-2"
_START_SECONDS = 60


class LocalCloudError(RuntimeError):
    """The local cloud did not start, or refused a request of its own interface."""


class LocalCloud:
    """A local cloud in a process of its own, on the loopback interface. Use it as a context manager.

    It ends with the ``with`` block, with :meth:`stop`, and with the process that started it, however that ends.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        region: str = DEFAULT_REGION,
        job_seconds: tuple[float, float] = (3.0, 5.0),
        endpoint_seconds: float = 1.0,
        time_scale: float = 0.01,
        history_events: int = HISTORY_EVENTS,
        hub_folders: Sequence[Path] = (),
        enforce_iam: bool = False,
        training_path: Path | None = None,
        training_stop_seconds: float = 120.0,
        sdk_lacks: Sequence[str] = (),
        quotas: Mapping[str, float] | None = None,
        serve: bool | str = False,
        log_file: Path | None = None,
    ) -> None:
        """Prepare a local cloud.

        Args:
            port: default: a free one.
            region: default: us-west-2, the region of the bundled JumpStart documents.
            job_seconds: how long an optimization job is STARTING and INPROGRESS. Default: 3 and 5 seconds.
            endpoint_seconds: how long the instances of an endpoint, and the copies of a component, take to launch.
                Default: 1 second.
            time_scale: how long waits take, against AWS's: those of state machines, those before Lambda repeats an
                invocation that failed, those of deployments (baking, time limits) and cooldowns and rates of scaling.
                Default: 0.01, so that ten minutes are six seconds; 1 is as on AWS.
            history_events: how many events the history of a state machine's execution may have. Default: 25,000, as on
                AWS.
            hub_folders: more documents, as ``<folder>/<model id>/<version>.json``. Default: none.
            enforce_iam: whether Lambda functions, state machines and SageMaker may do only what their roles' policies
                allow. Whoever uses :meth:`environment` stays an administrator. Default: they may do everything.
            training_path: a folder of programs that stand for those of a training job's image, the first on the job's
                PATH. A training job really runs: its ``ContainerEntrypoint`` is a process of this machine. Default: the
                folder of this Python.
            training_stop_seconds: how long the code of a training job has from SIGTERM to SIGKILL. Default: 120, as on
                AWS.
            sdk_lacks: operations of SageMaker that the SDK of functions does not have, for instance
                ``CreateAIBenchmarkJob``: the SDK of Lambda's runtimes is months behind. Default: none, it is that of
                this Python.
            quotas: as of :meth:`set_quota`, by name. Default: none is set.
            serve: whether endpoints have model servers, which are processes of this machine; or the command line of
                such a server, for instance ``vllm serve {arguments} --host 127.0.0.1 --port {port}``. ``{arguments}``
                are the options that AWS's vLLM and SGLang containers make of their variables, ``{model}`` the folder
                of the model, ``{port}`` where it is to listen. True is the light server of this package. Default:
                nothing is served, and completions are synthetic.
            log_file: where its log goes. Default: nowhere.

        Raises:
            ValueError: for a command that starts no server.
        """
        if isinstance(serve, str) and (found := list(problems(serve))):
            raise ValueError("; ".join(found))
        self.region = region
        self.port = port or _free_port()
        self._settings = {
            "port": self.port,
            "region": region,
            "starting_seconds": job_seconds[0],
            "in_progress_seconds": job_seconds[1],
            "endpoint_seconds": endpoint_seconds,
            "enforce_iam": enforce_iam,
            "time_scale": time_scale,
            "history_events": history_events,
            "hub_folders": [str(folder) for folder in hub_folders],
            # Not resolved: the link in a virtual environment is what makes Python find the environment.
            "training_path": str((training_path or Path(sys.executable).parent).absolute()),
            "training_stop_seconds": training_stop_seconds,
            "sdk_lacks": list(sdk_lacks),
            "quotas": dict(quotas or {}),
            "serve": LIGHT_SERVER if serve is True else serve or "",
        }
        self._log_file = log_file
        self._secret = new_secret()
        self._process: subprocess.Popen[bytes] | None = None
        self._session: boto3.Session | None = None
        self._session_lock = threading.Lock()

    @property
    def endpoint_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process is not None else None

    def environment(self, account: str = ACCOUNT) -> dict[str, str]:
        """The variables that point the CDK CLI and AWS clients at an account of it, 12 digits; there are all of them.

        The secret access key is that of this start: after :meth:`stop`, it is another one.
        """
        return {
            KEY_ID: account,
            SECRET_KEY: self._secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            # Path-style by default for an address like this one; without it, buckets become host names.
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
        }

    def child_environment(self, account: str = ACCOUNT) -> dict[str, str]:
        """This process's environment, pointed at an account of the local cloud and at no other."""
        kept = {name: value for name, value in os.environ.items() if name not in IN_THE_WAY}
        return {**kept, **self.environment(account)}

    def start(self) -> LocalCloud:
        """Start it and wait until it responds.

        Raises:
            LocalCloudError: when it does not, for instance because the port is taken.
            UntestedMinistack: when another ministack is installed than the one it was built on.
        """
        check_ministack()
        _check_free(self.port)
        log = self._log_file.open("ab") if self._log_file is not None else subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "constructs_optim_local.server", json.dumps(self._settings)],
                env={**os.environ, SECRET_KEY: self._secret},
                # Its end is the parent's end, see server/__main__.py.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT if self._log_file is not None else subprocess.DEVNULL,
                # Ctrl-C is the parent's to handle, and the group takes the Lambda workers along.
                start_new_session=True,
            )
        finally:
            if not isinstance(log, int):
                log.close()
        try:
            self._wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it, and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        self._secret = new_secret()
        try:
            process.terminate()
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=5)
            if process.stdin is not None:
                process.stdin.close()

    def __enter__(self) -> LocalCloud:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def client(self, service: str, account: str = ACCOUNT, **settings: Any) -> Any:
        """A boto3 client for an account of it, with further ``settings`` of botocore's ``Config``."""
        retries = {"mode": "standard", "max_attempts": 2}
        config = Config(**{"s3": {"addressing_style": "path"}, "retries": retries, **settings})
        # A session reads the services' descriptions once; it makes one client at a time.
        with self._session_lock:
            if self._session is None:
                self._session = boto3.Session(region_name=self.region)
            return self._session.client(
                service,
                endpoint_url=self.endpoint_url,
                aws_access_key_id=account,
                aws_secret_access_key=self._secret,
                config=config,
            )

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass at once, for all that this package adds to ministack.

        Jobs, deployments, cooldowns, schedules and limits of time go on as if they had passed, and alarms count the
        periods of datapoints with such times. The processes of functions and training jobs and the waits of state
        machines keep the machine's time.
        """
        self._control("POST", "clock", {"seconds": seconds})

    def forget(self, account: str) -> None:
        """Delete all that SageMaker has in an account, and end its model servers and training jobs at once."""
        self._control("DELETE", f"accounts?{urllib.parse.urlencode({'account': account})}")

    def jobs(self) -> list[dict[str, Any]]:
        """Every optimization job: ``{"name", "status", "history": [{"status", "time"}]}``."""
        return self._control("GET", "jobs")

    def benchmark_jobs(self) -> list[dict[str, Any]]:
        """Every AI benchmark job: ``{"name", "status", "history": [{"status", "time"}]}``."""
        return self._control("GET", "benchmarks")

    def training_jobs(self) -> list[dict[str, Any]]:
        """Every training job: ``{"name", "status", "history": [{"status", "time"}]}``; the history's are secondary."""
        return self._control("GET", "trainings")

    def deployments(self, resource: str | None = None) -> list[dict[str, Any]]:
        """Every creation, update and scaling of endpoints and inference components, with the stages it went through.

        Each is ``{"resource", "kind", "outcome", "reason", "history"}``: ``endpoint/<name>`` or
        ``inference-component/<name>``; Creating, Updating or Scaling; ``done``, ``rolled back``, ``rollback failed`` or
        None while it is under way; and a stage is ``{"status", "rolling_back", "new", "old", "time"}`` with the
        instances (or copies) of the new and the old fleet by variant. A stage is there whether or not anybody looked.

        Args:
            resource: those of one resource. Default: all.
        """
        found = self._control("GET", "deployments")
        return [deployment for deployment in found if resource in (None, deployment["resource"])]

    def calls(self, operation: str | None = None) -> list[dict[str, Any]]:
        """The calls of the services that are added to ministack: ``{"service", "operation", "request", "outcome"}``."""
        query = f"?{urllib.parse.urlencode({'operation': operation})}" if operation else ""
        return self._control("GET", f"calls{query}")

    def authorizations(self, role: str | None = None) -> list[dict[str, Any]]:
        """The authorizations of roles while IAM is enforced, of all roles or of one by name.

        Each is ``{"account", "role", "action", "resource", "decision", "statement", "time"}``, see
        :class:`constructs_optim_local.access.authorization.Authorization`.
        """
        query = f"?{urllib.parse.urlencode({'role': role})}" if role else ""
        return self._control("GET", f"authorizations{query}")

    def function_calls(self) -> list[dict[str, Any]]:
        """The calls that functions made: ``{"service", "operation", "request"}`` each, the last being a path."""
        return self._control("GET", "function-calls")

    def inject(
        self,
        name: str,
        *,
        operation: str | None = None,
        count: int | None = None,
        reason: str = "",
        path: str = "",
        skip: int = 0,
        instance_type: str = "",
    ) -> None:
        """Put a fault in force; :data:`constructs_optim_local.faults.NAMES` lists them.

        Args:
            name: the fault's name.
            operation: the operation it strikes. Default: all that the fault is about.
            count: how often. Default: until it is cleared.
            reason: what it says, where it says something.
            path: a part of the request's path, for calls of functions, or of a training job's name. Default: any.
            skip: how many calls it lets pass first. Default: none.
            instance_type: the instance type it is about, for ``no_capacity``. Default: every one.
        """
        fault = {
            "name": name,
            "operation": operation,
            "count": count,
            "reason": reason,
            "path": path,
            "skip": skip,
            "instance_type": instance_type,
        }
        self._control("POST", "faults", fault)

    def faults(self) -> list[dict[str, Any]]:
        """The faults in force, with how often each has struck; one that is used up is in force no more."""
        return self._control("GET", "faults")

    def clear_faults(self) -> None:
        """End all faults."""
        self._control("DELETE", "faults")

    def set_performance(
        self,
        match: str = "",
        *,
        ttft_ms: float | None = None,
        itl_ms: float | None = None,
        contention: float | None = None,
        spread: float | None = None,
        error_rate: float | None = None,
        answers_differently: float | None = None,
    ) -> None:
        """Set the speed and the outputs of served models, for benchmarks and invocations.

        It holds for whatever has ``match`` in one of its texts when somebody looks: the endpoint's, the component's or
        the model's name, an instance type, an image, the URI of model data, or a variable as ``NAME=value``. What is
        said later goes before what was said earlier, number by number; None leaves a number as it was.

        Args:
            match: a part of such a text, for instance the S3 prefix of an artifact. Default: everything.
            ttft_ms: milliseconds to the first token, with one user.
            itl_ms: milliseconds between tokens, with one user.
            contention: how much both grow with each further user of a copy, as a share. At first: 0.02.
            spread: standard deviation of both over the requests, as a share. At first: 0.1.
            error_rate: share of requests that fail. At first: 0.
            answers_differently: share of prompts whose outputs differ from all other models'. At first: 0.
        """
        numbers = {
            "ttft_ms": ttft_ms,
            "itl_ms": itl_ms,
            "contention": contention,
            "spread": spread,
            "error_rate": error_rate,
            "answers_differently": answers_differently,
        }
        self._control("POST", "performances", {"match": match, **numbers})

    def set_quota(self, name: str, value: float) -> None:
        """Set a quota of SageMaker's, which refuses what exceeds it from now on.

        Args:
            name: as Service Quotas has it: ``ml.g5.12xlarge for endpoint usage``, ``... for training job usage`` or
                ``... for spot training job usage``.
            value: how many instances an account may have in a region.
        """
        self._control("POST", "quotas", {name: value})

    def quotas(self) -> dict[str, float]:
        """The quotas that were set."""
        return self._control("GET", "quotas")

    def clear_quotas(self) -> None:
        """Let every quota be as it was at first: Service Quotas says 20, and nothing is refused."""
        self._control("DELETE", "quotas")

    def performances(self) -> list[dict[str, Any]]:
        """What was said of performance, in its order."""
        return self._control("GET", "performances")

    def clear_performances(self) -> None:
        """Go back to the numbers there are at first."""
        self._control("DELETE", "performances")

    def collect_engine_metrics(
        self,
        exposition: str,
        *,
        endpoint: str,
        variant: str = "AllTraffic",
        component: str | None = None,
        instance: str = "i-0",
        container: str = "container-0",
        seconds_ago: float = 0,
        account: str = ACCOUNT,
        region: str | None = None,
    ) -> None:
        """Collect what a container exposes of its engine, as SageMaker's detailed observability does every minute.

        Args:
            exposition: the text of its Prometheus endpoint, for instance of vLLM's ``/metrics``.
            endpoint: the endpoint's name.
            variant: the production variant. Default: ``AllTraffic``.
            component: the inference component. Default: a variant serves the model.
            instance: the instance's id. Default: one instance.
            container: the container's id. Default: one container of each instance.
            seconds_ago: how long ago it was exposed. Default: now.
            account: the endpoint's. Default: the cloud's own.
            region: the endpoint's. Default: the cloud's.
        """
        labels = {
            "aws.sagemaker.endpoint.name": endpoint,
            "aws.sagemaker.variant.name": variant,
            "@resource.host.id": instance,
            "aws.sagemaker.container.id": container,
            **({"aws.sagemaker.inference_component.name": component} if component is not None else {}),
        }
        sample = {"exposition": exposition, "labels": labels, "seconds_ago": seconds_ago}
        self._control("POST", "engine-metrics", {**sample, "account": account, "region": region or self.region})

    def engine_metrics(self, query: str, *, account: str = ACCOUNT, region: str | None = None) -> list[dict[str, Any]]:
        """The result of a PromQL query: of each series its ``labels`` and its ``value``."""
        parameters = {"query": query, "account": account, "region": region or self.region}
        return self._control(
            "GET", f"engine-metrics?{urllib.parse.urlencode(parameters, quote_via=urllib.parse.quote)}"
        )

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        signed = AWSRequest(method, f"{self.endpoint_url}{PREFIX}{path}", data=data)
        SigV4Auth(Credentials(ACCOUNT, self._secret), PREFIX.strip("/"), self.region).add_auth(signed)
        request = urllib.request.Request(str(signed.url), data, dict(signed.headers), method=method)  # noqa: S310 - always http to loopback
        try:
            with _OPENER.open(request, timeout=30) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise LocalCloudError(json.loads(error.read()).get("message", str(error))) from None

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                where = self._log_file or "pass log_file= to see why"
                raise LocalCloudError(f"the local cloud ended while it started ({where})")
            try:
                self._control("GET", "faults")
            except (OSError, LocalCloudError):
                time.sleep(0.05)
                continue
            return
        raise LocalCloudError(f"the local cloud did not answer within {_START_SECONDS} s")


# Loopback is never reached through a proxy, whatever the environment says of proxies.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _check_free(port: int) -> None:
    """Checked beforehand: the process that has the port would respond instead of the local cloud."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LocalCloudError(f"port {port} cannot be listened on: {error.strerror}; choose another") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
