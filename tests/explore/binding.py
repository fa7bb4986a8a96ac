"""The real handlers and the real pruner, bound to a world in memory instead of AWS."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sys
import time as real_time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from constructs_optim.operations import artifacts, pruning, stacks
from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.handlers import artifact_handler, job_handler, job_watcher

from .world import STORE, World

HANDLERS: dict[str, Callable[..., Any]] = {
    "job": job_handler.handler.__wrapped__,
    "reference": artifact_handler.handler.__wrapped__,
}
poll_job: Callable[..., dict[str, Any]] = job_watcher.handler.__wrapped__


class Bound:
    """The world that the modules see at the moment."""

    def __init__(self) -> None:
        self.world: World | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)


class _Time:
    """Stands for the module ``time``: the world's clock."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def time(self) -> float:
        return self._bound.scheduler.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self._bound.scheduler.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(real_time, name)


class _Pool:
    """Stands for a pool of threads, of which there is one: interleavings within one process are not looked for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, act: Callable[..., Any], *of: Iterable[Any], **_: Any) -> Iterator[Any]:
        return iter([act(*each) for each in zip(*of, strict=False)])

    def submit(self, act: Callable[..., Any], *given: Any, **named: Any) -> Any:
        result = act(*given, **named)
        return SimpleNamespace(result=lambda: result, cancel=lambda: False)

    def shutdown(self, **_: Any) -> None:
        pass


class Context:
    """What Lambda gives a handler."""

    def get_remaining_time_in_millis(self) -> int:
        return 180_000


@contextlib.contextmanager
def bound() -> Iterator[Bound]:
    """Bind the modules for as long as this lasts."""
    binding = Bound()
    instead: dict[str, Any] = {
        "client": lambda service: binding.client(service),
        "time": _Time(binding),
        "ThreadPoolExecutor": _Pool,
        "random": SimpleNamespace(uniform=lambda low, high: binding.scheduler.rng.uniform(low, high)),
        "log": _nothing,
        "count": _nothing,
        "_count_contention": _nothing,
    }
    with contextlib.ExitStack() as patches:
        for module in _modules():
            for name, other in instead.items():
                if name in vars(module):
                    patches.enter_context(mock.patch.object(module, name, other))
        # Permissions are there from the start.
        patches.enter_context(mock.patch.object(custom_resource, "_may_be_too_early", return_value=False))
        patches.enter_context(mock.patch.object(urllib.request, "urlopen", lambda request, **_: _put(binding, request)))
        yield binding


def pruner(world: World, account: str) -> pruning.Pruner:
    """Prune as the account that has the bucket runs it, for all that nothing refers to at the moment."""
    inventory = artifacts.ArtifactInventory(world.s3, world.sagemaker, STORE, account=account)
    now = dt.datetime.fromtimestamp(world.scheduler.now, dt.UTC)
    there = stacks.Stacks(account, lambda region: world)
    return pruning.Pruner(world.s3, inventory, there, older_than=dt.timedelta(0), now=now)


def _modules() -> list[ModuleType]:
    parts = ("constructs_optim.runtime.", "constructs_optim.operations.")
    # What tells of the handlers keeps its own names: nothing calls it.
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(parts) and not name.endswith((".telemetry", ".tracing", ".redaction"))
    ]


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _put(binding: Bound, request: urllib.request.Request) -> Any:
    assert isinstance(request.data, bytes)
    binding.put_answer(request.full_url, json.loads(request.data))
    return contextlib.nullcontext()
