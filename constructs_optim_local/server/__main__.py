"""The local cloud's process: ``python -m constructs_optim_local.server``, started by ``LocalCloud``.

It ends when its standard input does, so that it never outlives its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from constructs_optim_local.access.authorization import AuthorizationLog
from constructs_optim_local.access.credentials import OwnClients, administrator
from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.api.model import write_model_without
from constructs_optim_local.autoscaling.service import ApplicationAutoScaling
from constructs_optim_local.clock import Clock
from constructs_optim_local.faults import Faults
from constructs_optim_local.ministack.application import application, kill_running_functions, prepare_environment
from constructs_optim_local.ministack.cloudformation import behave_like_aws
from constructs_optim_local.ministack.cloudwatch import MinistackAlarms
from constructs_optim_local.ministack.endpoint_events import send_endpoint_events
from constructs_optim_local.ministack.iam import EnforcedRoles, TrustedRoles
from constructs_optim_local.ministack.metrics import MinistackMetrics
from constructs_optim_local.ministack.patches import check_ministack
from constructs_optim_local.ministack.scheduler import Scheduler
from constructs_optim_local.ministack.signatures import needs_body, refusal, signed_for_owner
from constructs_optim_local.ministack.stepfunctions import limit_history
from constructs_optim_local.price_list import PriceList, hourly_price
from constructs_optim_local.sagemaker.context import Context, Timing
from constructs_optim_local.sagemaker.hub import Hub
from constructs_optim_local.sagemaker.objects import S3Objects
from constructs_optim_local.sagemaker.optimization.jobs import JobDurations
from constructs_optim_local.sagemaker.quotas import Quotas
from constructs_optim_local.sagemaker.runtime import SageMakerRuntime
from constructs_optim_local.sagemaker.service import SageMaker
from constructs_optim_local.sagemaker.serving.pool import ServerPool
from constructs_optim_local.sagemaker.serving.settings import ServingSettings
from constructs_optim_local.sagemaker.training.telemetry import CloudWatchTelemetry, TrainingSettings
from constructs_optim_local.service_quotas import ServiceQuotas

from .authentication import Authentication
from .control import Control
from .handler_calls import MARK, HandlerCalls
from .process_folder import process_folder

_WORKERS_SECONDS = 1.5
_KEEP_SECONDS = 0.2
# An alarm is evaluated each minute of scaled time, and at most so often.
_LEAST_EVALUATION_SECONDS = 5.0


def main() -> None:
    """Serve until standard input ends or a signal comes."""
    settings = json.loads(sys.argv[1])
    check_ministack()
    # The environment before any change, which model servers inherit.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with process_folder() as directory:
        prepare_environment(
            port=settings["port"],
            region=settings["region"],
            directory=directory,
            enforce_iam=settings["enforce_iam"],
            time_scale=settings["time_scale"],
        )
        # ministack's Lambda workers keep their unpacked code below the temporary directory.
        tempfile.tempdir = directory
        asyncio.run(_serve(settings, inherited))


async def _serve(settings: dict[str, Any], inherited: dict[str, str]) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    faults, calls, function_calls, authorizations = Faults(), CallLog(), CallLog(), AuthorizationLog()
    clock = Clock()
    roles = EnforcedRoles(authorizations) if settings["enforce_iam"] else None
    timing = Timing(
        JobDurations(settings["starting_seconds"], settings["in_progress_seconds"]),
        settings["endpoint_seconds"],
        settings["time_scale"],
    )
    hub = Hub(*(Path(folder) for folder in settings["hub_folders"]))
    metrics = MinistackMetrics(clock)
    alarms = MinistackAlarms(clock, settings["time_scale"], metrics, otel_enrichment=settings["otel_enrichment"])
    clients = OwnClients()
    quotas = Quotas()
    for name, value in settings["quotas"].items():
        quotas.set(name, value)

    def objects(account: str, region: str) -> S3Objects:
        return S3Objects(clients, account, region)

    def training(account: str, region: str) -> TrainingSettings:
        return TrainingSettings(
            path=Path(settings["training_path"]),
            starting=settings["starting_seconds"],
            simulates=settings["simulate_training"],
            running=settings["in_progress_seconds"],
            stop_seconds=settings["training_stop_seconds"],
            keep_alive_scale=settings["time_scale"],
            cloud=_variables(account, region),
            telemetry=CloudWatchTelemetry(clients, account, region),
        )

    def log(account: str, region: str, group: str, stream: str, lines: Sequence[str]) -> None:
        at = clock.now()
        CloudWatchTelemetry(clients, account, region).log(group, stream, [(at, line) for line in lines])

    def collect(account: str, region: str, exposition: str, labels: Mapping[str, str]) -> None:
        at = clock.now().timestamp()
        alarms.telemetry.collect(exposition, labels, at, account=account, region=region)

    servers = None
    if settings["serve"]:
        serving = ServingSettings(
            command=settings["serve"],
            folder=Path(tempfile.gettempdir()),
            environment=inherited,
            cloud=_variables,
            log=log,
            collect=collect,
            scale=settings["time_scale"],
            response_seconds=settings["response_seconds"],
            stream_seconds=8 * settings["response_seconds"],
        )
        servers = ServerPool(serving, objects, roles or TrustedRoles(), clock)
    sagemaker = SageMaker(
        Context(
            objects=objects,
            hub=hub,
            faults=faults,
            calls=calls,
            timing=timing,
            roles=roles or TrustedRoles(),
            alarms=alarms,
            metrics=metrics,
            price=hourly_price,
            training=training,
            clock=clock,
            quotas=quotas,
            servers=servers,
        )
    )
    scaling = ApplicationAutoScaling(faults, calls, sagemaker, alarms, settings["time_scale"], clock)
    # Every process started from here on is a function, whose SDK says so in each call.
    os.environ["AWS_EXECUTION_ENV"] = MARK
    if settings["sdk_lacks"]:
        models = Path(tempfile.gettempdir()) / "sdk"
        write_model_without(settings["sdk_lacks"], models)
        os.environ["AWS_DATA_PATH"] = str(models)
    added = {
        "sagemaker": sagemaker,
        "application-autoscaling": scaling,
        "pricing": PriceList(faults, calls),
        "servicequotas": ServiceQuotas(quotas, faults, calls),
    }
    services = application(added, roles, SageMakerRuntime(sagemaker), settings["time_scale"], clock)
    behave_like_aws(faults)
    limit_history(settings["history_events"])
    Scheduler(settings["time_scale"], roles, clock).install()
    alarms.install(scaling.alarm_fired, roles)
    metrics.install()
    _evaluate_alarms(sagemaker, alarms, clock, settings["time_scale"])
    send_endpoint_events(sagemaker, clock)
    if servers is not None:
        threading.Thread(target=_keep_servers, args=(sagemaker,), daemon=True).start()
    inner = HandlerCalls(services, faults=faults, calls=function_calls, kill=kill_running_functions)
    config = Config()
    config.bind = [f"127.0.0.1:{settings['port']}"]
    config.loglevel = os.environ["LOG_LEVEL"]
    config.keep_alive_timeout = 75
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sign, stop.set)
    threading.Thread(target=_until_parent_ends, args=(loop, stop), daemon=True).start()
    control = Control(
        inner,
        sagemaker=sagemaker,
        faults=faults,
        calls=calls,
        function_calls=function_calls,
        authorizations=authorizations,
        clock=clock,
        telemetry=alarms.telemetry,
        quotas=quotas,
    )
    app: Any = Authentication(
        control, port=settings["port"], verify=refusal, needs_body=needs_body, sign=signed_for_owner
    )
    serving = asyncio.ensure_future(serve(app, config, shutdown_trigger=stop.wait))
    await stop.wait()
    sagemaker.close()
    # A stack that waits for a condition may hold a worker thread for hours. Do not wait for it.
    threading.Timer(2.0, _end_group).start()
    await serving
    _end_group()


def _variables(account: str, region: str) -> dict[str, str]:
    """Return the variables that point a training job's SDK at an account and Region of this cloud."""
    address = os.environ["AWS_ENDPOINT_URL"]
    return {
        **administrator(account),
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
        "AWS_ENDPOINT_URL": address,
        # Path-style is the default for an IP address only; otherwise, buckets become host names.
        "AWS_ENDPOINT_URL_S3": address,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _evaluate_alarms(sagemaker: SageMaker, alarms: MinistackAlarms, clock: Clock, scale: float) -> None:
    """Publish metrics and evaluate alarms by the clock: in each minute, and when the clock is advanced."""

    def evaluate() -> None:
        try:
            sagemaker.publish_metrics()
            alarms.evaluate()
        except Exception:
            # One failure must not end the evaluation of alarms.
            logging.getLogger(__name__).exception("alarms were not evaluated")

    def watch() -> None:
        while True:
            time.sleep(max(_LEAST_EVALUATION_SECONDS, 60 * scale))
            evaluate()

    clock.subscribe(evaluate)
    threading.Thread(target=watch, daemon=True).start()


def _keep_servers(sagemaker: SageMaker) -> None:
    while True:
        time.sleep(_KEEP_SECONDS)
        try:
            sagemaker.keep_servers()
        except Exception:
            # One failure must not keep the other servers from being updated.
            logging.getLogger(__name__).exception("model servers were not brought in line")


def _until_parent_ends(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    sys.stdin.buffer.read()
    loop.call_soon_threadsafe(stop.set)


def _end_group() -> None:
    """End this process and the Lambda workers it started, which share its process group.

    It waits for the workers, so that process 1 does not have to reap them.
    """
    import shutil

    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(os.getpgid(0), signal.SIGTERM)
    deadline = time.monotonic() + _WORKERS_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
