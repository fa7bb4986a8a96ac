"""``constructs-optim endpoint`` against the local cloud."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.operations.capacity import EndpointCapacity

from ..support.operator_endpoints import Served
from ..support.operator_stores import Store

pytestmark = pytest.mark.local


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["endpoint", *arguments], input=answer)


@pytest.fixture
def served(store: Store) -> Served:
    """An endpoint with a component that scales; the store's environment leads the commands to its cloud."""
    made = Served.by_components(store.cloud)
    name = made.component(copies=2)
    made.scale(name, 1, 4)
    return made


def test_an_endpoint_is_stopped_shown_and_started(served: Served) -> None:
    stopped = run("stop", served.name, answer="y\n")
    assert stopped.exit_code == 0, stopped.output
    assert "has 2 copies. Requests will fail" in stopped.stdout
    assert "Its instances keep running" not in stopped.stdout
    component = f"{served.name}-llama"
    assert served.copies(component) == 0
    shown = json.loads(run("show", served.name, "--json").stdout)
    assert shown["stopped"] is True
    assert shown["components"][0]["scaling"]["suspended"] is True
    again = run("stop", served.name)
    assert (again.exit_code, "already stopped" in again.stdout) == (0, True)
    started = run("start", served.name)
    assert started.exit_code == 0, started.output
    assert f"{component} gets 1 copy." in started.stdout
    assert served.copies(component) == 1


def test_an_endpoint_is_stopped_only_after_confirmation(served: Served) -> None:
    refused = run("stop", served.name, answer="n\n")
    assert (refused.exit_code, "Nothing was stopped" in refused.stdout) == (1, True)
    assert served.copies(f"{served.name}-llama") == 2


def test_an_interrupted_stop_says_that_scaling_is_as_before(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EndpointCapacity, "_set_copies", interrupted)
    result = run("stop", served.name, "--yes")
    assert result.exit_code != 0
    assert f"Scaling of {served.name}-llama is as before the command." in " ".join(result.stderr.split())
    shown = json.loads(run("show", served.name, "--json").stdout)
    assert shown["components"][0]["scaling"]["suspended"] is False


def test_an_endpoint_is_shown_in_tables(served: Served) -> None:
    served.schedule(f"{served.name}-llama", "Start", 1, 4)
    result = run("show", served.name)
    assert result.exit_code == 0, result.output
    row = next(line for line in result.stdout.splitlines() if f"{served.name}-llama" in line)
    assert "2 of 2" in row
    assert "1 to 4" in row
    assert "Start: cron(0 7 ? * MON-FRI *) Europe/Berlin → 1 to 4" in row
    assert "managed by SageMaker: 0 to 4" in result.stdout


def test_stopping_an_endpoint_warns_that_its_minimum_instances_keep_running(store: Store) -> None:
    served = Served.by_components(store.cloud, least_instances=1)
    served.component(copies=1)
    result = run("stop", served.name, "--yes")
    assert result.exit_code == 0, result.output
    assert "Its instances keep running" in result.stdout


def test_stopping_an_endpoint_without_components_is_refused_with_the_reason(store: Store) -> None:
    result = run("stop", Served.by_a_variant(store.cloud).name, "--yes")
    assert result.exit_code == 2
    assert "inference component" in result.stderr
    assert "the artifact stays in its store" in result.stderr


@pytest.mark.parametrize("command", ["show", "stop", "start"])
def test_an_unknown_endpoint_is_an_error_that_suggests_list_endpoints(store: Store, command: str) -> None:
    result = run(command, "nobody")
    assert result.exit_code == 2
    assert "list-endpoints" in result.stderr
