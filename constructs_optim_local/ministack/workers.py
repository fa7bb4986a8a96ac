"""The processes of functions: a limited number stays warm, none outlives its function, and what one raises has a name.

AWS freezes an idle execution environment, which costs the caller nothing, and removes it after a while
(https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html). Here, each one is a process with some 56
MB, and ministack keeps the first of each function for good.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .patches import replace, table

MOST_WORKERS = 16
"""The number of warm processes of all functions together. More of them exist only while that many functions run."""


_RAISED = re.compile(r"^(?:\w+\.)*(\w+)(?::|$)", re.MULTILINE)


class Worker(Protocol):
    """One process of a function, as ministack keeps it."""

    in_use: bool
    last_used: float


def surplus(pools: Mapping[str, Sequence[Worker]], most: int = MOST_WORKERS) -> list[Worker]:
    """Return the idle workers to end so that at most ``most`` are left, the least recently used first."""
    workers = [worker for pool in pools.values() for worker in pool]
    idle = sorted((worker for worker in workers if not worker.in_use), key=lambda worker: worker.last_used)
    return idle[: max(len(workers) - most, 0)]


def with_error_type(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a function's answer with the class of what it raised, where ministack says ``Runtime.HandlerError``.

    On AWS, a state machine gets the name of the exception's class, and ``Runtime.`` begins the errors of the runtime
    itself. Source: Lambda developer guide, "Lambda function errors in Python".
    """
    body = answer.get("body")
    _, found, trace = str(answer.get("log", "")).rpartition("Traceback (most recent call last):\n")
    raised = _RAISED.search(trace) if found else None
    if raised is None or not isinstance(body, dict) or body.get("errorType") != "Runtime.HandlerError":
        return answer
    return {**answer, "body": {**body, "errorType": raised[1]}}


def free_workers() -> None:
    """End the processes that no function needs. Called once, before the first request."""
    from ministack.core import lambda_runtime
    from ministack.core.responses import get_account_id, get_region
    from ministack.services import lambda_svc
    from ministack.services.cloudformation import provisioners

    acquire, forget = lambda_runtime.acquire_worker, provisioners._lambda_delete

    def end(workers: Sequence[Any]) -> None:
        """Remove workers from their pools, which the caller has locked."""
        for key, pool in list(lambda_runtime._workers.items()):
            pool[:] = [worker for worker in pool if worker not in workers]
            if not pool:
                del lambda_runtime._workers[key]

    def acquire_worker(*arguments: Any, **more: Any) -> tuple[Any, str]:
        found = acquire(*arguments, **more)
        with lambda_runtime._lock:
            ended = surplus(lambda_runtime._workers)
            end(ended)
        lambda_runtime.kill_workers(ended)
        return found

    def release_worker(worker: Any) -> None:
        if worker is None:
            return
        with lambda_runtime._lock:
            worker.in_use, worker.last_used = False, time.time()
            pooled = any(worker in pool for pool in lambda_runtime._workers.values())
            # An asynchronous invocation is tried again even after its function was deleted.
            is_needed = pooled and worker.func_name in lambda_svc._functions
            ended = surplus(lambda_runtime._workers) if is_needed else [worker]
            end(ended)
        lambda_runtime.kill_workers(ended)

    def delete(physical_id: str, properties: Any) -> None:
        forget(physical_id, properties)
        prefix = f"{get_account_id()}:{get_region()}:{physical_id}:"
        with lambda_runtime._lock:
            idle = [
                worker
                for key, pool in lambda_runtime._workers.items()
                if key.startswith(prefix)
                for worker in pool
                # The others end with their invocation.
                if not worker.in_use
            ]
            end(idle)
        lambda_runtime.kill_workers(idle)

    replace("core.lambda_runtime.acquire_worker", acquire_worker, lambda_runtime, lambda_svc)
    replace("core.lambda_runtime.release_worker", release_worker, lambda_runtime, lambda_svc)
    replace("services.cloudformation.provisioners._lambda_delete", delete)
    table("services.cloudformation.provisioners._RESOURCE_HANDLERS")["AWS::Lambda::Function"]["delete"] = delete
