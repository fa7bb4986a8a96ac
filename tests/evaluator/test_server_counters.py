"""What a server counts at /metrics."""

from __future__ import annotations

import asyncio

import pytest

from constructs_optim.evaluator.server_counters import ServerCounters, read_counters

from ..support.model_server import ModelServer, answering


def test_a_server_that_speculates_is_asked_for_its_counters(server: ModelServer) -> None:
    server.timing.accepted, server.timing.requests = 2.0, 7
    assert asyncio.run(read_counters(server.url)) == ServerCounters(70, 140, 7)


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9/v1"])
def test_the_counters_of_an_endpoint_without_a_metrics_page_are_unknown(url: str | None) -> None:
    assert asyncio.run(read_counters(url)) is None


def test_a_page_without_counters_counts_nothing(server: ModelServer) -> None:
    assert asyncio.run(read_counters(server.url)) == ServerCounters()


@pytest.mark.parametrize(
    "answered", [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nvllm", b"no HTTP\r\n\r\n"]
)
def test_the_counters_of_a_malformed_page_are_unknown(answered: bytes) -> None:
    async def asked() -> ServerCounters | None:
        async with answering(answered) as url:
            return await read_counters(url)

    assert asyncio.run(asked()) is None


def test_a_server_that_began_anew_counts_from_zero() -> None:
    assert ServerCounters(110, 200).since(ServerCounters(100, 180)) == ServerCounters(10, 20)
    assert ServerCounters(5, 9).since(ServerCounters(100, 180)) == ServerCounters(5, 9)
    assert ServerCounters(requests=9).since(ServerCounters(requests=4)) == ServerCounters(requests=5)
    assert ServerCounters(requests=3).since(ServerCounters(requests=4)) == ServerCounters(requests=3)
