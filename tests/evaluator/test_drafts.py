"""Drafts that a server counts at /metrics."""

from __future__ import annotations

import asyncio

import pytest

from constructs_optim.evaluator.drafts import Drafts, count_drafts

from ..support.model_server import ModelServer, answering


def test_a_server_that_speculates_is_asked_for_its_counters(server: ModelServer) -> None:
    server.timing.accepted, server.timing.requests = 2.0, 7
    assert asyncio.run(count_drafts(server.url)) == Drafts(70, 140)


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9/v1"])
def test_an_endpoint_without_a_metrics_page_has_no_draft_figures(url: str | None) -> None:
    assert asyncio.run(count_drafts(url)) == Drafts()


def test_a_page_without_counters_has_no_draft_figures(server: ModelServer) -> None:
    assert asyncio.run(count_drafts(server.url)) == Drafts()


@pytest.mark.parametrize(
    "answered", [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nvllm", b"no HTTP\r\n\r\n"]
)
def test_a_malformed_page_has_no_draft_figures(answered: bytes) -> None:
    async def asked() -> Drafts:
        async with answering(answered) as url:
            return await count_drafts(url)

    assert asyncio.run(asked()) == Drafts()


def test_a_server_that_began_anew_counts_from_zero() -> None:
    assert Drafts(110, 200).since(Drafts(100, 180)) == Drafts(10, 20)
    assert Drafts(5, 9).since(Drafts(100, 180)) == Drafts(5, 9)
