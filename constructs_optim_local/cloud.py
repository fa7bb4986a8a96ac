"""Start a local cloud, point clients and the CDK CLI at it, and end it with all its state."""

from __future__ import annotations

import contextlib
import datetime as dt
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
from .ports import free_port
from .sagemaker.serving.settings import LIGHT_SERVER, problems
from .server.control import PREFIX

IN_THE_WAY = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", TOKEN)
"""Variables that would point a client elsewhere."""
DEFAULT_REGION = "us-west-2"
_START_SECONDS = 60


def _inherited() -> dict[str, str]:
    """Return the environment without variables that point clients elsewhere, for example to an earlier local cloud."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in IN_THE_WAY and not name.startswith("AWS_ENDPOINT_URL")
    }


class LocalCloudError(RuntimeError):
    """The local cloud did not start, or refused a request to its control interface."""


class LocalCloud:
    """A local cloud in its own process, on the loopback interface. Use it as a context manager.

    It ends with the ``with`` block, with ``stop``, or with the process that started it.
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
        simulate_training: bool = False,
        training_stop_seconds: float = 120.0,
        sdk_lacks: Sequence[str] = (),
        quotas: Mapping[str, float] | None = None,
        otel_enrichment: bool = False,
        serve: bool | str = False,
        response_seconds: float = 60.0,
        log_file: Path | None = None,
    ) -> None:
        """Prepare a local cloud.

        Args:
            port: the port on which it listens. Default: a free port.
            region: the default Region. Default: us-west-2, the Region of the bundled JumpStart documents.
            job_seconds: seconds that an optimization job is STARTING and INPROGRESS. Default: 3 and 5.
            endpoint_seconds: seconds that an endpoint's instances and a component's copies take to launch. Default: 1.
            time_scale: ratio of waits to AWS's: waits of state machines, waits before Lambda retries a failed
                invocation, baking and time limits of deployments, and cool-downs and rates of scaling. Default: 0.01,
                so that ten minutes take six seconds; 1 is as on AWS.
            history_events: maximum number of events in a state machine execution's history. Default: 25,000, as on AWS.
            hub_folders: folders of further JumpStart documents, ``<folder>/<model ID>/<version>.json``. Default: none.
            enforce_iam: whether Lambda functions, state machines and SageMaker are limited to their roles' policies.
                Users of ``environment`` are always administrators. SageMaker always needs the trust of a role that this
                cloud has. Default: False.
            training_path: a folder of programs to run instead of those of a training job's image. It is the first on
                the job's PATH. A training job really runs: its ``ContainerEntrypoint`` is a process of this machine.
                Default: the folder of this Python.
            simulate_training: whether jobs that copy or quantize a model run no code and write small files with the
                right names, as optimization jobs do. Other training jobs run. Default: False.
            training_stop_seconds: seconds from SIGTERM to SIGKILL for a training job's code. Default: 120, as on AWS.
            sdk_lacks: SageMaker operations that the functions' SDK lacks, for example ``CreateAIBenchmarkJob``, because
                the SDK of Lambda's runtimes is months old. Default: none, as in this Python's SDK.
            quotas: quotas by name, see ``set_quota``. Default: none.
            otel_enrichment: whether every account and Region has OTel enrichment, without which PromQL finds no engine
                metrics. Default: False, as on AWS; ``aws cloudwatch start-otel-enrichment`` starts it.
            serve: whether endpoints have model servers, which are processes of this machine; or the command line of
                such a server, for example ``vllm serve {arguments} --host 127.0.0.1 --port {port}``. ``{arguments}``
                are the options that AWS's vLLM and SGLang containers derive from their variables, ``{model}`` is the
                model's folder, ``{port}`` the port to listen on. True selects this package's light server. Default:
                False, for synthetic completions.
            response_seconds: seconds that a model server has for a response, and eight times as many for a stream.
                Default: 60, as on AWS.
            log_file: the file for its log. Default: no log.

        Raises:
            ValueError: if the command cannot start a server.
        """
        if isinstance(serve, str) and (found := list(problems(serve))):
            raise ValueError("; ".join(found))
        self.region = region
        self.port = port or free_port()
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
            # Not resolved, because Python finds a virtual environment by the link in it.
            "training_path": str((training_path or Path(sys.executable).parent).absolute()),
            "simulate_training": simulate_training,
            "training_stop_seconds": training_stop_seconds,
            "sdk_lacks": list(sdk_lacks),
            "quotas": dict(quotas or {}),
            "otel_enrichment": otel_enrichment,
            "serve": LIGHT_SERVER if serve is True else serve or "",
            "response_seconds": response_seconds,
        }
        self._log_file = log_file
        self._secret = new_secret()
        self._process: subprocess.Popen[bytes] | None = None
        self._session: boto3.Session | None = None
        self._session_lock = threading.Lock()

    @property
    def endpoint_url(self) -> str:
        """The URL at which it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process ID; None while it does not run."""
        return self._process.pid if self._process is not None else None

    def environment(self, account: str = ACCOUNT) -> dict[str, str]:
        """Return the variables that point the CDK CLI and AWS clients at any account of 12 digits.

        Each start has a new secret access key.
        """
        return {
            KEY_ID: account,
            SECRET_KEY: self._secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            # Path-style is the default for an IP address only; otherwise, buckets become host names.
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
        }

    def child_environment(self, account: str = ACCOUNT) -> dict[str, str]:
        """Return this process's environment, pointed at an account of the local cloud only."""
        return {**_inherited(), **self.environment(account)}

    def start(self) -> LocalCloud:
        """Start the local cloud and wait until it responds.

        Raises:
            LocalCloudError: if it does not respond, for example because the port is taken.
            UntestedMinistack: if the installed ministack is not the tested release.
        """
        check_ministack()
        _check_free(self.port)
        log = self._log_file.open("ab") if self._log_file is not None else subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "constructs_optim_local.server", json.dumps(self._settings)],
                env={**_inherited(), SECRET_KEY: self._secret},
                # The end of standard input ends it, see server/__main__.py.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT if self._log_file is not None else subprocess.DEVNULL,
                # The parent handles Ctrl-C, and the group includes the Lambda workers.
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
        """End the local cloud and all processes that it started."""
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
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def __enter__(self) -> LocalCloud:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def client(self, service: str, account: str = ACCOUNT, **settings: Any) -> Any:
        """Return a boto3 client for an account, with further ``settings`` of botocore's ``Config``."""
        retries = {"mode": "standard", "max_attempts": 2}
        config = Config(**{"s3": {"addressing_style": "path"}, "retries": retries, **settings})
        # One session, which reads the services' descriptions once, but can make only one client at a time.
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

    def now(self) -> dt.datetime:
        """Return the time of the clock that ``advance`` advances, in UTC, for example to stamp metric data."""
        return dt.datetime.fromisoformat(self._control("GET", "clock")["now"])

    def advance(self, seconds: float) -> None:
        """Advance the clock of the services that this package adds to ministack.

        Jobs, deployments, cool-downs, schedules and time limits proceed as if the time had passed, and alarms count the
        periods of datapoints with such times. Functions, training jobs' processes and waits of state machines use the
        machine's time.
        """
        self._control("POST", "clock", {"seconds": seconds})

    def forget(self, account: str) -> None:
        """Delete all SageMaker resources of an account, and end its model servers and training jobs at once."""
        self._control("DELETE", f"accounts?{urllib.parse.urlencode({'account': account})}")

    def jobs(self) -> list[dict[str, Any]]:
        """Return every optimization job: ``{"name", "status", "history": [{"status", "time"}]}``."""
        return self._control("GET", "jobs")

    def benchmark_jobs(self) -> list[dict[str, Any]]:
        """Return every AI benchmark job: ``{"name", "status", "history": [{"status", "time"}]}``."""
        return self._control("GET", "benchmarks")

    def training_jobs(self) -> list[dict[str, Any]]:
        """Return every training job: ``{"name", "status", "history": [{"status": <secondary>, "time"}]}``."""
        return self._control("GET", "trainings")

    def deployments(self, resource: str | None = None) -> list[dict[str, Any]]:
        """Return every creation, update and scaling of endpoints and inference components, with its stages.

        Each is ``{"resource", "kind", "outcome", "reason", "history"}``. The resource is ``endpoint/<name>`` or
        ``inference-component/<name>``; the kind is Creating, Updating or Scaling; the outcome is ``done``, ``rolled
        back``, ``rollback failed``, or None while in progress. A stage in the history is ``{"status", "rolling_back",
        "new", "old", "time"}`` with the instances (or copies) of the new and the old fleet by variant. The history has
        every stage, even if no call observed it.

        Args:
            resource: the resource whose changes to return. Default: all.
        """
        found = self._control("GET", "deployments")
        return [deployment for deployment in found if resource in (None, deployment["resource"])]

    def calls(self, operation: str | None = None) -> list[dict[str, Any]]:
        """Return the calls of the services added to ministack: ``{"service", "operation", "request", "outcome"}``."""
        query = f"?{urllib.parse.urlencode({'operation': operation})}" if operation else ""
        return self._control("GET", f"calls{query}")

    def authorizations(self, role: str | None = None) -> list[dict[str, Any]]:
        """Return the authorizations while IAM is enforced, of all roles or of one by name.

        Each is ``{"account", "role", "action", "resource", "decision", "statement", "time"}``, see
        ``constructs_optim_local.access.authorization.Authorization``.
        """
        query = f"?{urllib.parse.urlencode({'role': role})}" if role else ""
        return self._control("GET", f"authorizations{query}")

    def function_calls(self) -> list[dict[str, Any]]:
        """Return the calls of functions: ``{"service", "operation", "request"}``, where ``request`` is a path."""
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
        """Inject a fault. ``constructs_optim_local.faults.NAMES`` lists them.

        Args:
            name: the fault's name.
            operation: the operation that it affects. Default: all operations of the fault.
            count: number of calls or jobs that it affects. Default: all until it is cleared.
            reason: text of the fault's message, if it has one.
            path: part of the request's path (for calls of functions) or of a training job's name. Default: any.
            skip: number of calls that succeed first. Default: 0.
            instance_type: the instance type without capacity, for ``no_capacity``. Default: every type.
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
        """Return the active faults, each with the number of times it took effect. Used-up faults are omitted."""
        return self._control("GET", "faults")

    def clear_faults(self) -> None:
        """Remove all faults."""
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

        The setting applies to every model that has ``match`` in one of its texts at the time of a request: the name of
        the endpoint, component or model, an instance type, an image, the URI of model data, or a variable as
        ``NAME=value``. For each number, later settings override earlier ones; None leaves a number unchanged.

        Args:
            match: part of such a text, for example the S3 prefix of an artifact. Default: all models.
            ttft_ms: time to first token with one user, in milliseconds.
            itl_ms: inter-token latency with one user, in milliseconds.
            contention: relative growth of both latencies for each further user of a copy. Initially 0.02.
            spread: relative standard deviation of both latencies over the requests. Initially 0.1.
            error_rate: share of requests that fail. Initially 0.
            answers_differently: share of prompts whose outputs differ from all other models'. Initially 0.
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
        """Set a SageMaker quota. SageMaker then refuses requests that exceed it.

        Args:
            name: the quota's name in Service Quotas: ``ml.g5.12xlarge for endpoint usage``, ``... for training job
                usage`` or ``... for spot training job usage``.
            value: number of instances that an account may have in a Region.
        """
        self._control("POST", "quotas", {name: value})

    def quotas(self) -> dict[str, float]:
        """Return the quotas that are set."""
        return self._control("GET", "quotas")

    def clear_quotas(self) -> None:
        """Remove all quotas: Service Quotas shows 20, and SageMaker refuses nothing."""
        self._control("DELETE", "quotas")

    def performances(self) -> list[dict[str, Any]]:
        """Return the performance settings in the order of their creation."""
        return self._control("GET", "performances")

    def clear_performances(self) -> None:
        """Remove all performance settings."""
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
        """Collect a container's engine metrics, as SageMaker's detailed observability does every minute.

        Args:
            exposition: the text of its Prometheus endpoint, for example vLLM's ``/metrics``.
            endpoint: the endpoint's name.
            variant: the production variant. Default: ``AllTraffic``.
            component: the inference component. Default: none, because a variant serves the model.
            instance: the instance's ID. Default: one instance.
            container: the container's ID. Default: one container of each instance.
            seconds_ago: age of the metrics. Default: 0.
            account: the endpoint's account. Default: the cloud's own.
            region: the endpoint's Region. Default: the cloud's.
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
        """Return the result of a PromQL query: ``labels`` and ``value`` of each series.

        There are none while OTel enrichment is stopped.
        """
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


# Loopback needs no proxy, so ignore the environment's proxies.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _check_free(port: int) -> None:
    """Check beforehand, because another process at the port would respond instead of the local cloud."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LocalCloudError(f"cannot listen on port {port}: {error.strerror}; choose another") from None
