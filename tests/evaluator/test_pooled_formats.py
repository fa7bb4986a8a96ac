"""Requests for embeddings, scores and classes: their form, their detection, and what their responses say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from pydantic import JsonValue

from constructs_optim.evaluator import load as load_module
from constructs_optim.evaluator.connection import Exchange, SageMakerTarget, UrlTarget
from constructs_optim.evaluator.load import MeasuredLevel
from constructs_optim.evaluator.options import ClosedLoop, EvaluationError, FormatName, Generation, OpenLoop
from constructs_optim.evaluator.pooled_formats import (
    ClassifyFormat,
    EmbedFormat,
    PooledFormat,
    RerankFormat,
    formats_for,
)
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.streaming import ChatFormat, CompletionFormat, LmiFormat, Record
from constructs_optim.evaluator.summary import summarize_level
from constructs_optim.runtime.evaluation.pooled_outputs import PooledTask

from ..support.model_server import ModelServer, asked, sender, sent
from ..support.pooled_server import PooledServer

POOLED = (EmbedFormat, RerankFormat, ClassifyFormat)


@pytest.fixture(params=["embed", "rerank", "classify"])
def task(request: pytest.FixtureRequest) -> PooledTask:
    return request.param


@pytest.fixture
def pooling(task: PooledTask) -> Iterator[PooledServer]:
    running = PooledServer(task)
    yield running
    running.stop()


def decoded(written: type[PooledFormat], *pieces: bytes, status: int = 200) -> Record:
    exchange = Exchange(0, 3, status, {}, [(at, piece) for at, piece in enumerate(pieces, 1)])
    response = written(exchange)
    for at, piece in exchange.pieces:
        response.feed(at, piece)
    return response.finish()


def path_of(url: str, written: type[PooledFormat]) -> str:
    request = asyncio.run(UrlTarget(url).request(b"{}", written.path, streams=written.streams))
    return request.split(b" ")[1].decode()


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        (EmbedFormat, ("/v1/embeddings", "/embeddings", "/a/v1/embeddings")),
        (RerankFormat, ("/v1/rerank", "/rerank", "/a/v1/rerank")),
        (ClassifyFormat, ("/classify", "/classify", "/a/classify")),
    ],
)
def test_paths_are_those_of_vllm(written: type[PooledFormat], paths: tuple[str, ...]) -> None:
    assert tuple(path_of(f"http://host{path}", written) for path in ("/v1", "", "/a/v1")) == paths
    assert path_of(f"http://host{paths[0]}", written) == paths[0], "the URL may be the whole one"


def test_a_request_has_the_inputs_and_the_parameters_but_nothing_of_generation() -> None:
    generation = Generation(parameters={"dimensions": 8})
    body = EmbedFormat.body(Prompt(input=("a", "b")), generation, "m")
    assert body == {"model": "m", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 8}
    query = Prompt(query="q", documents=("a", "b"))
    assert RerankFormat.body(query, Generation(), None) == {"query": "q", "documents": ["a", "b"]}
    assert [written.suits(query) for written in POOLED] == [False, True, False]
    for prompt in (Prompt(prompt="a"), Prompt(inputs="a"), Prompt(input="a")):
        assert ClassifyFormat.body(prompt, Generation(), None) == {"input": ["a"]}
        assert not RerankFormat.suits(prompt)
    with pytest.raises(EvaluationError, match="a prompt for rerank needs query"):
        RerankFormat.body(Prompt(prompt="a"), Generation(), None)


def test_a_response_is_read_as_a_whole() -> None:
    rows = [{"index": 1, "label": "bad"}, {"index": 0, "label": "good"}]
    body = json.dumps({"data": rows, "usage": {"prompt_tokens": 7}}, indent=1).encode()
    record = decoded(ClassifyFormat, body[:20], body[20:])
    assert (record.error, record.text, record.server_input_tokens) == (None, '["good", "bad"]', 7)
    assert (record.first_token, record.output_tokens) == (None, None)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", ErrorKind.MALFORMED_RESPONSE),
        (b"oops", ErrorKind.MALFORMED_RESPONSE),
        (b'{"data": []}', ErrorKind.MALFORMED_RESPONSE),
        (b'{"data": [{"label": "a"}]}', ErrorKind.MALFORMED_RESPONSE),
        (b'{"data": [{"embedding": [1, NaN]}]}', ErrorKind.MALFORMED_RESPONSE),
        (b'{"error": {"message": "no memory"}}', ErrorKind.MODEL_ERROR),
    ],
)
def test_a_response_without_outputs_is_an_error(body: bytes, kind: ErrorKind) -> None:
    assert decoded(EmbedFormat, *([body] if body else [])).error is kind


@pytest.mark.parametrize(
    ("parameters", "kind"), [({}, ErrorKind.MALFORMED_RESPONSE), ({"top_n": 1}, None)], ids=["all", "the best one"]
)
def test_a_response_has_an_output_for_each_input_unless_fewer_are_asked_for(
    parameters: dict[str, JsonValue], kind: ErrorKind | None
) -> None:
    record = decoded(RerankFormat, b'{"results": [{"index": 0, "relevance_score": 0.5}]}')
    prompt = Prompt(query="q", documents=("a", "b"))
    RerankFormat.count(record, prompt, Generation(parameters=parameters))
    assert (record.error, record.inputs) == (kind, 2)


def test_the_formats_to_try_depend_on_the_prompts() -> None:
    auto, texts = FormatName.AUTO, asked("a")
    assert formats_for(auto, texts, sagemaker=True) == (ChatFormat, LmiFormat, *POOLED)
    assert formats_for(auto, texts, sagemaker=False) == (ChatFormat, *POOLED)
    as_text = [Prompt(inputs="a")]
    assert formats_for(auto, as_text, sagemaker=True) == (LmiFormat, CompletionFormat, ChatFormat, *POOLED)
    assert formats_for(auto, [Prompt(input=("a", "b"))], sagemaker=True) == POOLED
    assert formats_for(auto, [Prompt(query="a", documents=("b",))], sagemaker=True) == (RerankFormat,)
    chats = [*texts, Prompt.model_validate({"messages": [{"role": "user", "content": "a"}]})]
    assert formats_for(auto, chats, sagemaker=False) == (ChatFormat,)
    assert formats_for(FormatName.CLASSIFY, chats, sagemaker=False) == (ClassifyFormat,)
    assert formats_for(FormatName.OPENAI, texts, sagemaker=False) == (ChatFormat,)


def test_the_task_of_a_server_is_detected(pooling: PooledServer, task: PooledTask) -> None:
    to = sender(UrlTarget(pooling.url), asked("a b"))
    asyncio.run(to.choose_format(formats_for(FormatName.AUTO, to.prompts, sagemaker=False), 5))
    assert to.format.name == task
    assert len(pooling.requests) == {"embed": 2, "rerank": 3, "classify": 4}[task]


def test_the_task_of_a_sagemaker_endpoint_is_detected(
    pooling: PooledServer, task: PooledTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", f"http://127.0.0.1:{pooling.port}")
    target = SageMakerTarget(boto3.Session("AKIDEXAMPLE", "secret", region_name="us-west-2"), "search")
    to = sender(target, asked("a b"))
    asyncio.run(to.choose_format(formats_for(FormatName.AUTO, to.prompts, sagemaker=True), 5))
    assert to.format.name == task
    paths = [each["path"] for each in pooling.requests]
    assert paths[:2] == ["/endpoints/search/invocations-response-stream"] * 2
    assert {*paths[2:]} == {"/endpoints/search/invocations"}


def test_a_server_that_fails_is_not_asked_for_embeddings(server: ModelServer) -> None:
    to = sender(server, asked("fault:500"))
    with pytest.raises(EvaluationError, match="returns no completion") as refused:
        asyncio.run(to.choose_format(formats_for(FormatName.AUTO, to.prompts, sagemaker=False), 5))
    assert "embed" not in str(refused.value)
    assert server.timing.requests == 1


def prompts_of(task: PooledTask) -> list[Prompt]:
    if task == "rerank":
        return [Prompt(query=f"query {n}", documents=("a b", "c", f"d {n}")) for n in range(10)]
    return [Prompt(input=("a b", "c", f"text {n}")) for n in range(10)]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_load_has_the_metrics_of_inputs(
    pooling: PooledServer, task: PooledTask, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "_MOST_OUTPUTS", 6)
    (written,) = formats_for(FormatName(task), [], sagemaker=False)
    to = sender(UrlTarget(pooling.url), prompts_of(task), written)
    load = OpenLoop(request_rate=50, requests=40) if is_open else ClosedLoop(concurrency=2, requests=40)
    level = MeasuredLevel()
    asyncio.run(to.run(load, level))
    assert level.complete
    for record in level.counted:
        record.input_tokens = record.server_input_tokens
    kept = [record.prompt for record in level.records if record.text]
    assert len(kept) == len({*kept}) == 6, "the output of a prompt is kept once"
    metrics = summarize_level(load, level, None).metrics
    assert metrics["client_invocations"] == 40
    assert metrics["inputs_per_second"] == pytest.approx(3 * metrics["requests_per_second"])
    assert metrics["input_tokens"] == (7 if task == "rerank" else 5)
    assert metrics["client_latency_p50"] >= 5
    assert not [name for name in metrics if "output" in name or "first_token" in name or "empty" in name]


def test_unique_prompts_differ_in_each_request() -> None:
    assert Prompt(input=("a", "b")).beginning_with("1 ").texts == ("1 a", "1 b")
    assert Prompt(query="q", documents=("a",)).beginning_with("1 ").texts == ("1 q", "a")


def test_a_model_without_these_paths_has_failed_requests(server: ModelServer) -> None:
    server.timing.breaks_after = 0
    records, _ = sent(
        sender(server, [Prompt(input=("a",))], EmbedFormat), ClosedLoop(concurrency=1, requests=1, warm_up=0)
    )
    assert (records[0].error, records[0].is_measured) == (ErrorKind.SERVER_ERROR, False)
