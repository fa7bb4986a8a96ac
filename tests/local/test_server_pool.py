"""Requests to model servers: time limits, and whose turn it is. The servers are in this process."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim_local.access.authorization import Unchecked
from constructs_optim_local.api.error import ApiError
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.hosting.deployments import NotYet
from constructs_optim_local.sagemaker.hosting.fleets import Instance
from constructs_optim_local.sagemaker.hosting.invocations import Forwarded, Invocation
from constructs_optim_local.sagemaker.hosting.servers import Server
from constructs_optim_local.sagemaker.serving.pool import ServerPool
from constructs_optim_local.sagemaker.serving.settings import ServingSettings, problems

from ..support.in_process import MemoryObjects
from ..support.waiting import until

PROGRAM = Path(__file__).parents[1] / "support" / "served_program.py"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ServerPool]:
    settings = ServingSettings(
        command=f"{shlex.quote(sys.executable)} {PROGRAM} {{model}} {{port}}",
        folder=tmp_path,
        environment={},
        response_seconds=0.5,
        stream_seconds=0.5,
    )
    made = ServerPool(settings, lambda account, region: MemoryObjects(), Unchecked(), Clock())
    yield made
    made.close()


def server(key: str) -> Server:
    return Server(
        key=key,
        account="000000000000",
        region="us-west-2",
        endpoint="chat",
        variant="AllTraffic",
        instance=Instance("ml.g6.xlarge"),
        component=None,
        container={"Image": "vllm"},
        role=None,
        isolated=False,
        startup_seconds=None,
        metrics_seconds=None,
    )


def healthy(pool: ServerPool, *servers: Server) -> None:
    def is_healthy() -> bool:
        try:
            return pool.refusal(servers) is None
        except NotYet:
            return False

    until(is_healthy, bool)


def asked(pool: ServerPool, *keys: str, streams: bool = False, is_openai: bool = False, **request: object) -> object:
    invocation = Invocation("chat", json.dumps(request).encode(), streams=streams, is_openai=is_openai)
    return pool.forward(Forwarded(invocation, keys, "AllTraffic"))


def test_a_container_that_takes_longer_than_it_may_is_a_model_error_of_status_0(pool: ServerPool) -> None:
    healthy(pool, server("one"))
    with pytest.raises(ApiError, match="Your invocation timed out while waiting for a response") as late:
        asked(pool, "one", sleep=2)
    assert (late.value.code, late.value.status) == ("ModelError", 424)
    assert json.loads(late.value.to_response()[2])["OriginalStatusCode"] == 0


def test_a_request_without_a_healthy_server_is_refused(pool: ServerPool) -> None:
    with pytest.raises(ApiError) as refused:
        asked(pool, "one")
    assert (refused.value.code, refused.value.status) == ("ServiceUnavailable", 503)


def test_servers_that_are_not_kept_end(pool: ServerPool) -> None:
    one, two = server("one"), server("two")
    healthy(pool, one, two)
    pool.keep([two])
    with pytest.raises(ApiError, match="No container"):
        asked(pool, "one")
    assert asked(pool, "one", "two")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-server --port {port}", "there is no program 'no-such-server'"),
        ("", "there is no program ''"),
        ("python --serve", "the command has no {port}"),
        ("python '{port}", "No closing quotation"),
    ],
)
def test_a_command_that_starts_no_server_is_refused_with_the_reason(command: str, reason: str) -> None:
    assert any(reason in problem for problem in problems(command))
    if command:
        with pytest.raises(ValueError, match=re.escape(reason)):
            LocalCloud(serve=command)
        ran = CliRunner().invoke(app, ["local", "start", "--serve-with", command])
        assert ran.exit_code == 2
