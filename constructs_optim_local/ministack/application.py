"""Ministack's application, extended by this package's services and resource types."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

from constructs_optim_local.access.authorization import access_denied, needed_permissions, through_sagemaker
from constructs_optim_local.access.credentials import ACCOUNT, administrator
from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudformation.operations import OPERATIONS, settles
from constructs_optim_local.cloudformation.provider import ResourceProvider, Service
from constructs_optim_local.sagemaker.runtime import SageMakerRuntime
from constructs_optim_local.sagemaker.service import SageMaker, to_json

from .accounts import share_as_aws
from .cloudformation import keep_properties
from .drift import detect_drift
from .ecr import serve_registries_of_aws
from .iam import EnforcedRoles
from .imports import allow_imports
from .patches import replace, table
from .policies import limit_policies
from .resource_arns import name_resources
from .resource_limits import limit_resources
from .signatures import sign_links
from .stack_status import check_stack_status
from .workers import free_workers

_SERVED = (
    "s3,iam,sts,lambda,states,cloudformation,monitoring,logs,ssm,ecr,kms,events,dynamodb,tagging,ec2,sns,sqs,scheduler"
    ",apigateway,secretsmanager"
)

# Seconds. The machine's own work does not scale, so 120 minutes are at least 30 seconds.
_SHORTEST_MINUTE = 0.25

# A request to a model holds a thread while the model responds. asyncio's default pool is too small, and S3 needs it.
_THREADS = ThreadPoolExecutor(max_workers=256, thread_name_prefix="sagemaker")

Response = tuple[int, dict[str, str], Any]
Asgi = Callable[[dict[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]]


def prepare_environment(
    *, port: int, region: str, directory: str, time_scale: float = 1.0, enforce_iam: bool = False
) -> None:
    """Set the variables that ministack reads at import: loopback only, no Docker, no other listeners, no kept files.

    The environment already has the secret access key.
    """
    os.environ |= {
        "AUTH": str(enforce_iam).lower(),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "LAMBDA_ASYNC_RETRY_BASE_SECONDS": str(60 * time_scale),
        "LAMBDA_ASYNC_RETRY_MAX_SECONDS": str(120 * time_scale),
        "LAMBDA_EXECUTOR": "local",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL", "WARNING"),
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": region,
        "PERSIST_STATE": "0",
        # Functions have active tracing, but there is no X-Ray daemon.
        "POWERTOOLS_TRACE_DISABLED": "true",
        "S3_PERSIST": "0",
        "SERVICES": _SERVED,
        "SFN_WAIT_SCALE": str(time_scale),
        "SFTP_ENABLED": "0",
        "STATE_DIR": directory,
        "TMPDIR": directory,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        **administrator(ACCOUNT),
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
    }
    os.environ.pop("AWS_SESSION_TOKEN", None)
    os.environ.pop("DOCKER_HOST", None)


def kill_running_functions() -> None:
    """Kill the processes of running functions."""
    from ministack.core import lambda_runtime

    with lambda_runtime._lock:
        running = [worker._proc for pool in lambda_runtime._workers.values() for worker in pool if worker.in_use]
    for process in running:
        if process is not None:
            process.kill()


def application(
    services: dict[str, Service],
    roles: EnforcedRoles | None = None,
    runtime: SageMakerRuntime | None = None,
    time_scale: float = 1.0,
    clock: Clock | None = None,
) -> Asgi:
    """Return ministack's ASGI application with ``services`` and their resource types; with ``roles``, IAM is enforced.

    SageMaker's handler gets requests of ``runtime``, which are signed like SageMaker's. ``time_scale`` is the ratio of
    CloudFormation's resource handler timeouts to AWS's.
    """
    import ministack.app as ministack_app
    from ministack.core.responses import get_account_id, get_region
    from ministack.services.cloudformation import stacks

    def where() -> tuple[str, str]:
        return get_account_id(), get_region()

    patterns, handlers = table("core.router.SERVICE_PATTERNS"), table("app.SERVICE_HANDLERS")
    resource_handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")
    replacing = table("services.cloudformation.provisioners._REPLACING_PROPERTIES")
    for name, service in services.items():
        # For an unknown service, ministack searches botocore's for seconds, once for each process.
        patterns[name] = {"target_prefixes": [f"{service.model.target_prefix}."]}
        handlers[name] = _handler(name, service, where, roles, runtime if name == "sagemaker" else None)
    minute = max(60 * time_scale, _SHORTEST_MINUTE)
    providers: dict[str, ResourceProvider] = {}
    for type_name, operations in OPERATIONS.items():
        provider = ResourceProvider(type_name, services[operations.service], where, minute, clock)
        providers[type_name] = provider
        resource_handlers[type_name] = {
            "create": provider.create,
            "update": provider.update,
            "update_with_logical_id": True,
            "delete": provider.delete,
        }
        # A change of these properties replaces the resource, in change sets' reports and in updates.
        replacing[type_name] = provider.create_only

    allow_imports(providers)
    detect_drift(providers)
    check_stack_status()
    keep_properties()
    limit_policies()
    limit_resources()
    serve_registries_of_aws()
    name_resources()
    share_as_aws()
    sign_links()
    free_workers()
    if roles is not None:
        roles.install()
    blocks = stacks._runs_on_worker_thread
    # Endpoints take time to come into service, and waiting for them must not block the event loop.
    replace(
        "services.cloudformation.stacks._runs_on_worker_thread",
        lambda type_name: type_name in OPERATIONS or blocks(type_name),
    )
    sends_back = stacks._sends_back_failed_update
    # A resource whose update failed after it began may have changed, so AWS rolls it back too (an ECS service whose
    # update fails while it stabilizes returns to its old task definition).
    replace(
        "services.cloudformation.stacks._sends_back_failed_update",
        lambda type_name: settles(type_name) or sends_back(type_name),
    )
    return ministack_app.app


def _handler(
    name: str,
    service: Service,
    where: Callable[[], tuple[str, str]],
    roles: EnforcedRoles | None,
    runtime: SageMakerRuntime | None,
) -> Callable[[str, str, dict[str, str], bytes, dict[str, Any]], Awaitable[Response]]:
    async def handle(
        method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
    ) -> Response:
        account, region = where()
        target = headers.get("x-amz-target", "")
        operation = target.rpartition(".")[2]

        def respond() -> Response:
            call = runtime.invocation(method, path, headers, body) if runtime is not None else None
            if runtime is not None and call is not None:
                needed = runtime.needed(call, account=account, region=region)
                if roles is not None and (message := roles.refusal(headers, query_params, needed)):
                    return access_denied(message).to_response()
                return runtime.respond(call, account=account, region=region)
            try:
                request = _decoded(body)
                if roles is not None:
                    needed = needed_permissions(name, operation, request, account=account, region=region)
                    key = (
                        service.volume_key(operation, request, account, region)
                        if isinstance(service, SageMaker)
                        else None
                    )
                    if key is not None:
                        needed = chain(needed, [through_sagemaker(key)])
                    if message := roles.refusal(headers, query_params, needed):
                        raise access_denied(message)
                found = service.invoke(operation, request, account=account, region=region)
            except ApiError as error:
                return error.to_response()
            return 200, {"Content-Type": "application/x-amz-json-1.1"}, to_json(found)

        # In a thread, because a completing job writes its output to the S3 of this same server.
        if runtime is None:
            return await asyncio.to_thread(respond)
        status, returned, content = await _in_a_thread(respond)
        return status, returned, content if isinstance(content, bytes) else _streamed(content)

    return handle


async def _in_a_thread(run: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, contextvars.copy_context().run, run)


def _streamed(parts: Iterator[bytes]) -> Any:
    """Return the body of a streamed response."""
    from ministack.core.responses import StreamingResponse

    async def send_all(send: Callable[[dict[str, Any]], Awaitable[None]], receive: Any) -> None:
        while (part := await _in_a_thread(lambda: next(parts, None))) is not None:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return StreamingResponse(send_all)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(body or b"{}")
    except ValueError:
        raise ApiError("SerializationException", "The request is not JSON") from None
    if not isinstance(request, dict):
        raise validation_error("The request is not an object")
    return request
