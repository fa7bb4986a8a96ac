"""What all tests share: which of them need the local cloud is read off the folder they are in."""

from __future__ import annotations

import datetime as dt
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.loaders import Loader
from hypothesis import HealthCheck, settings

from constructs_optim.recipe import catalog
from constructs_optim.runtime import aws

from .support.telemetry import CapturedLogs, StandardOutput

_MARKERS = {
    "local": ("local",),
    "handlers": ("local",),
    "operations": ("local",),
    "faults": ("local", "e2e"),
    "e2e": ("local", "e2e"),
    "package": ("package",),
}
_LONGEST = (
    "cli/test_evaluate.py",
    *(
        f"e2e/test_{name}.py"
        for name in (
            "toolchains",
            "terraform",
            "lifecycle",
            "changes",
            "least_privilege",
            "declared_endpoints",
            "huggingface",
            "techniques",
            "standalone_template",
            "evaluation",
            "mcp",
        )
    ),
    "e2e",
    "constructs/test_template_checks.py",
    "handlers",
    "local",
    "operations",
)
_HERE = Path(__file__).parent
_shipped: dict[Any, dict[str, Any]] = {}

# The CDK's own validation of a template takes as long as its synthesis: tests/constructs/test_examples.py validates the
# examples' templates. A policy's plugins run without it.
os.environ.setdefault("CDK_VALIDATION", "false")

# How long an example takes, or Hypothesis takes to generate it, depends on how busy the machine is. A test's fixtures
# serve all of its examples. A test that passed suppress_health_check itself would replace this list.
_CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("quick", deadline=None, max_examples=25, suppress_health_check=_CHECKS)
settings.register_profile("thorough", deadline=None, max_examples=300, suppress_health_check=_CHECKS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests of some folders, before ``-m`` selects by marks, and order them when all else has.

    In a random order, too, the files that take longest come first: several processes end at about the same time.
    """
    for item in items:
        for marker in _MARKERS.get(_folder(item), ()):
            item.add_marker(marker)
    yield
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Keep the objects of imported modules out of every garbage collection of the run."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Keep all objects out of the two garbage collections with which pytest ends."""
    gc.freeze()


def _rank(item: pytest.Item) -> int:
    """The position of its file among those that take longest; the others come after them."""
    path = _path(item)
    return next((rank for rank, prefix in enumerate(_LONGEST) if path.startswith(prefix)), len(_LONGEST))


def _folder(item: pytest.Item) -> str:
    return _path(item).partition("/")[0]


def _path(item: pytest.Item) -> str:
    return item.path.relative_to(_HERE).as_posix() if _HERE in item.path.parents else ""


@pytest.fixture(scope="session", autouse=True)
def service_models_are_loaded_once() -> Iterator[None]:
    """Sessions of botocore load the service models that they use, and nearly every test has its own sessions."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("list_available_services", "load_data_with_path", "load_service_model"):
            patched.setattr(Loader, name, _once_for_the_same_folders(getattr(Loader, name)))
        yield


def _once_for_the_same_folders(load: Callable[..., Any]) -> Callable[..., Any]:
    loaded: dict[Any, Any] = {}

    @functools.wraps(load)
    def load_once(loader: Loader, *given: Any, **named: Any) -> Any:
        key = (*loader.search_paths, *given, *named.items())
        if key not in loaded:
            loaded[key] = load(loader, *given, **named)
        return loaded[key]

    return load_once


@pytest.fixture(scope="session", autouse=True)
def commands_are_built_once() -> Iterator[None]:
    """Typer builds all commands for each call of its runner, which takes a tenth of a second."""
    testing = sys.modules.get("typer.testing")
    with pytest.MonkeyPatch.context() as patched:
        if testing is not None:
            patched.setattr(testing, "_get_command", functools.cache(testing._get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def apps_of_this_process_copy_no_code() -> Iterator[None]:
    """The functions' code is copied into each assembly otherwise, which takes a fifth of a synthesis.

    An app whose assembly is deployed has the copies: it sets ``aws:cdk:disable-asset-staging`` to False.
    """
    with pytest.MonkeyPatch.context() as patched:
        if (cdk := sys.modules.get("aws_cdk")) is not None:
            create = cdk.App.__init__

            @functools.wraps(create)
            def create_without_copies(
                app: Any, *, post_cli_context: dict[str, Any] | None = None, **given: Any
            ) -> None:
                context = {"aws:cdk:disable-asset-staging": True, **(post_cli_context or {})}
                create(app, post_cli_context=context, **given)

            patched.setattr(cdk.App, "__init__", create_without_copies)
        yield


@pytest.fixture(scope="session", autouse=True)
def images_are_of_a_day_on_which_they_get_patches() -> Iterator[None]:
    """The end of an image's patches must not change what tests find."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catalog, "today", lambda: dt.date(2026, 11, 27))
        yield


@pytest.fixture(scope="session", autouse=True)
def clients_are_those_of_the_environment() -> Iterator[None]:
    """Sessions keep the credentials that they find first, and each local cloud of a process has others."""
    default = boto3._get_default_session

    def current() -> boto3.Session:
        kept, wanted = boto3.DEFAULT_SESSION, os.environ.get("AWS_SECRET_ACCESS_KEY")
        found = kept.get_credentials() if kept is not None and wanted is not None else None
        if found is not None and found.secret_key != wanted:
            boto3.DEFAULT_SESSION = None
        return default()

    cached, known = aws.session, dict[str, str]()

    @functools.wraps(cached)
    def current_of_handlers() -> botocore.session.Session:
        nonlocal known
        # A session keeps its clients, which have the credentials, the Region and the endpoint of their beginning.
        environment = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        if environment != known:
            cached.cache_clear()
            known = environment
        return cached()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(boto3, "_get_default_session", current)
        patched.setattr(aws, "session", current_of_handlers)
        yield


@pytest.fixture(autouse=True)
def catalog_of_models_is_the_shipped_one() -> Iterator[None]:
    """``models.override`` holds for the rest of a process."""
    yield
    if (models := sys.modules.get("constructs_optim.recipe.catalog.models")) is not None:
        for rows in (models.by_id, models.of_hugging_face):
            # Loading takes 15 ms, and nearly no test changes a row.
            if rows.cache_info().currsize and rows() != _shipped.get(rows):
                rows.cache_clear()
                _shipped[rows] = dict(rows())


@pytest.fixture
def logs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CapturedLogs:
    """What the handlers say in this test."""
    from constructs_optim.runtime import telemetry

    monkeypatch.setattr(telemetry._logger.registered_handler, "stream", StandardOutput())
    # What tests counted outside of an invocation would be published with the next one.
    telemetry._metrics.provider.clear_metrics()
    return CapturedLogs(capsys)
