"""``constructs-optim evaluate`` for models that compute embeddings, scores or classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.runtime.evaluation.pooled_outputs import PooledTask
from constructs_optim_local.cloud import LocalCloud

from ..support.model_server import ModelServer
from ..support.operator_endpoints import Served
from ..support.pooled_server import PooledServer
from ..support.tokenizers import model as tokenizer_of_words

pytestmark = pytest.mark.e2e

Serve = Callable[..., PooledServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers, and stops them in the end."""
    running: list[PooledServer] = []

    def start(task: PooledTask, **settings: Any) -> PooledServer:
        running.append(PooledServer(task, **settings))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def said(ran: Result) -> str:
    return " ".join(ran.output.split())


def result_of(folder: Path, side: str = "endpoint") -> EvaluationResult:
    return EvaluationResult.model_validate_json((folder / f"{side}.json").read_text())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("task", "path"), [("embed", "/v1/embeddings"), ("rerank", "/v1/rerank"), ("classify", "/classify")]
)
def test_what_a_server_does_is_detected_and_measured(serve: Serve, tmp_path: Path, task: PooledTask, path: str) -> None:
    out, server = tmp_path / "out", serve(task)
    target = f"{server.url},model=small,instance-price-per-hour=1.5"
    load = ("--concurrency", "1,2", "--requests", 40, "--input-tokens", "20", "--inputs-per-request", 3)
    ran = run(target, *load, "--output", out)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert (result.workload.format, result.workload.parameters) == (task, {})
    for level in result.levels:
        metrics = level.metrics
        assert metrics["inputs_per_second"] == pytest.approx(3 * metrics["requests_per_second"], rel=1e-3)
        assert metrics["input_tokens"] == (92 if task == "rerank" else 60)
        per_hour = metrics["price_per_million_input_tokens"] * metrics["input_tokens_per_second"] * 3600 / 1e6
        assert per_hour == pytest.approx(1.5, rel=1e-3)
        assert metrics["price_per_thousand_requests"] > 0
        assert level.intervals["client_latency_p50"][0] >= 5
        assert not {"output_tokens", "empty_inference_response", "tokenizer_failed"} & metrics.keys()
        assert not [name for name in metrics if name.startswith(("time_to_first", "inter_", "output_", "blended"))]
    body = server.requests[-1]
    assert (body["path"], body["body"]["model"]) == (path, "small")
    assert {"max_tokens", "temperature", "stream"}.isdisjoint(body["body"])
    assert "Inputs/s" in ran.output
    assert "TTFT" not in ran.output
    assert "no usable token counts" not in said(ran)
    summary = (out / "report.md").read_text()
    assert "| Inputs/s |" in summary
    assert "first token" not in summary
    page = (out / "report.html").read_text()
    assert 'alt="Client latency over time"' in page
    assert 'alt="Inputs"' in page
    assert "first token" not in page


def test_a_server_that_generates_text_is_still_measured_by_its_completions(tmp_path: Path) -> None:
    server = ModelServer()
    try:
        ran = run(server.url, "--concurrency", 1, "--requests", 2, "--output", tmp_path / "out")
        refused = run(server.url, "--inputs-per-request", 2, "--output", tmp_path / "other")
    finally:
        server.stop()
    assert ran.exit_code == 0, ran.output
    assert result_of(tmp_path / "out").workload.format == "openai"
    assert refused.exit_code == 2
    assert "returns no response that can be measured" in said(refused)


def test_a_file_s_texts_are_embedded(serve: Serve, tmp_path: Path) -> None:
    prompts, server = tmp_path / "prompts.jsonl", serve("embed")
    texts = [{"text": "a b"}, {"text": ["c", "d e"]}, {"input": "f"}, {"prompt": "g"}, {"input": ["h", "i", "j"]}]
    prompts.write_text("\n".join(map(json.dumps, texts)))
    load = ("--concurrency", 1, "--requests", 10, "--parameter", "dimensions=4")
    ran = run(server.url, "--prompts", prompts, *load, "--output", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    asked = {tuple(each["body"]["input"]) for each in server.requests if "input" in each["body"]}
    assert asked == {("a b",), ("c", "d e"), ("f",), ("g",), ("h", "i", "j")}
    assert server.requests[-1]["body"]["dimensions"] == 4
    records = [each for each in lines_of(tmp_path / "out" / "endpoint" / "requests-1.jsonl") if "start" in each]
    assert {each["inputs"] for each in records} == {1, 2, 3}


def test_documents_of_a_file_are_reranked_and_searched_for_the_limit(serve: Serve, tmp_path: Path) -> None:
    prompts, out, server = tmp_path / "prompts.jsonl", tmp_path / "out", serve("rerank", seconds=0.02)
    prompts.write_text('{"query": "a city", "documents": ["Rome", "a river", "Bern"], "reference": [0.9, 0.1, 0.8]}\n')
    search = ("--find-limit", "--rate", 8, "--latency", "1ms", "--requests", 60)
    ran = run(server.url, "--prompts", prompts, *search, "--output", out)
    assert ran.exit_code == 0, ran.output
    assert "have the whole response within 1 ms" in said(ran)
    result = result_of(out)
    assert (result.workload.format, result.limit is not None and result.limit.misses) == ("rerank", 8)
    assert result.levels[0].metrics["goodput"] == 0
    asked = len(server.requests)
    assert run("--resume", out).exit_code == 0
    assert len(server.requests) == asked + 1, "nothing is measured twice"


def test_random_documents_for_a_detected_reranker_are_kept_for_a_resumed_evaluation(
    serve: Serve, tmp_path: Path
) -> None:
    out, server = tmp_path / "out", serve("rerank")
    ran = run(server.url, "--concurrency", 1, "--requests", 4, "--input-tokens", "10", "--output", out)
    assert ran.exit_code == 0, ran.output
    prompts = lines_of(out / "prompts.jsonl")
    assert [(len(each["query"].split()), len(each["documents"])) for each in prompts] == [(32, 1)] * len(prompts)
    assert json.loads((out / "run.json").read_text())["format"] == "rerank"
    assert run("--resume", out).exit_code == 0


@pytest.mark.parametrize(
    ("task", "least", "told"),
    [
        ("embed", -1, "The cosine similarity of embeddings to the baseline's is "),
        ("rerank", 0, "The share of document pairs in the order of the baseline's is "),
        ("classify", 0, "The share of the same classes as the baseline's is "),
    ],
)
def test_a_comparison_says_how_much_the_outputs_agree(
    serve: Serve, tmp_path: Path, task: PooledTask, least: float, told: str
) -> None:
    out, server, other = tmp_path / "out", serve(task), serve(task, salt="other")
    sides = (f"{server.url},label=after", "--compare", f"{other.url},label=before", "--request-format", task)
    load = ("--concurrency", 1, "--requests", 30, "--inputs-per-request", 4, "--input-tokens", "8")
    ran = run(*sides, *load, "--output", out)
    assert ran.exit_code == 0, ran.output
    assert told in said(ran)
    compared = json.loads((out / "comparison.json").read_text())
    outputs = compared["outputs"]
    assert compared["completions"] is None
    assert (outputs["task"], outputs["compared"]) == (task, 30)
    assert least <= outputs["low"] <= outputs["agreement"] <= outputs["high"] < 1
    assert len(outputs["differences"]) == 5
    verdicts = {each["name"]: each["verdict"] for each in compared["levels"][0]["differences"]}
    assert {"inputs_per_second", "client_latency_p50", "input_tokens_per_second"} <= verdicts.keys()
    assert not [name for name in verdicts if "output" in name]
    for page in ("report.html", "report.md"):
        assert told in (out / page).read_text().replace("&#39;", "'")
    # A server agrees with itself.
    again = run(f"{server.url},label=a", "--compare", f"{server.url},label=b", *load, "--output", tmp_path / "self")
    assert again.exit_code == 0, again.output
    assert "is 1.0000 on average of 30 prompts (95% interval 1.0000 to 1.0000)" in said(again)


def test_references_are_compared_with_the_outputs_of_each_side(serve: Serve, tmp_path: Path) -> None:
    prompts, out, server = tmp_path / "prompts.jsonl", tmp_path / "out", serve("classify")
    texts = [f"text {number}" for number in range(20)]
    prompts.write_text("\n".join(json.dumps({"text": [text], "reference": ["neutral"]}) for text in texts))
    sides = (f"{server.url},label=a", "--compare", f"{server.url},label=b")
    ran = run(*sides, "--prompts", prompts, "--concurrency", 1, "--requests", 20, "--output", out)
    assert ran.exit_code == 0, ran.output
    _, found = server.answer("/classify", {"input": texts})
    share = sum(row["label"] == "neutral" for row in found["data"]) / len(texts)
    outputs = json.loads((out / "comparison.json").read_text())["outputs"]
    assert outputs["reference"] == {"baseline": pytest.approx(share), "optimized": pytest.approx(share)}
    assert "mean agreement with the references" in (out / "report.html").read_text()


def test_failed_requests_have_no_inputs_and_keep_the_status(serve: Serve, tmp_path: Path) -> None:
    prompts, out, server = tmp_path / "prompts.jsonl", tmp_path / "out", serve("embed")
    prompts.write_text('{"text": "fine"}\n{"text": "fault:500"}\n{"text": "good"}\n{"text": "well"}\n')
    asked = (server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 8)
    ran = run(*asked, "--max-error-rate", 0.1, "--output", out)
    assert ran.exit_code == 5, ran.output
    (level,) = result_of(out).levels
    assert level.errors == {"server_error": 2}
    prompts.write_text('{"text": "fine"}\n{"text": "fault:500"}\n')
    ran = run(*asked, "--request-format", "embed", "--output", tmp_path / "other")
    assert ran.exit_code == 0, ran.output


def test_a_tokenizer_checks_and_replaces_the_server_s_counts(serve: Serve, tmp_path: Path) -> None:
    out, server = tmp_path / "out", serve("embed")
    (tmp_path / "model").mkdir()
    target = f"{server.url},tokenizer={tokenizer_of_words(tmp_path / 'model')}"
    load = ("--concurrency", 1, "--requests", 20, "--inputs-per-request", 2, "--input-tokens", "10")
    ran = run(target, *load, "--output", out)
    assert ran.exit_code == 0, ran.output
    counts = result_of(out).workload.token_counts
    assert (counts.keys(), counts["input"].by_server) == ({"input"}, 20)
    # The server counts words, and the tokenizer also the token that begins each text.
    assert counts["input"].difference == pytest.approx(20 / 22 - 1)
    assert "Rates and prices use the server's count." in said(ran)
    server.counts_tokens = False
    assert run(target, *load, "--output", tmp_path / "other").exit_code == 0
    result = result_of(tmp_path / "other")
    assert (result.workload.tokens_counted_by, result.levels[0].metrics["input_tokens"]) == ("tokenizer", 22)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--max-tokens", 5), "has no output tokens (embeddings): leave out --max-tokens"),
        (("--ttft", "1s", "--itl", "1s"), "has no output tokens (embeddings): leave out --ttft and --itl"),
        (("--turns", 2), "leave out --turns"),
        (("--temperature", 1), "leave out --temperature"),
        (("--output-tokens", "9"), "leave out --output-tokens"),
        (("--prefix-tokens", 9), "leave out --prefix-tokens"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_options_of_generated_text_are_refused(
    serve: Serve, tmp_path: Path, arguments: tuple[Any, ...], told: str, named: bool
) -> None:
    server = serve("embed")
    ran = run(server.url, *arguments, *(("--request-format", "embed") * named), "--output", tmp_path / "out")
    if not named and arguments[0] in ("--turns", "--prefix-tokens"):
        # Conversations and system prompts are for models that generate text.
        told = "returns no completion that can be measured"
    assert ran.exit_code == 2, ran.output
    assert told in said(ran)
    assert not [*tmp_path.glob("out/*/requests-*")]


def test_other_combinations_are_refused_with_the_reason(serve: Serve, tmp_path: Path) -> None:
    texts, chats = tmp_path / "texts.jsonl", tmp_path / "chats.jsonl"
    texts.write_text('{"text": "a"}\n')
    chats.write_text('{"prompt": "a"}\n{"messages": [{"role": "user", "content": "b"}]}\n')
    embedding, reranking = serve("embed"), serve("rerank")

    def refused(*arguments: Any) -> str:
        ran = run(*arguments, "--output", tmp_path / "out")
        assert ran.exit_code == 2, ran.output
        return said(ran)

    needs = "Each needs query (a text) and documents (a list of texts"
    assert needs in refused(reranking.url, "--prompts", texts)
    told = refused(embedding.url, "--prompts", chats, "--request-format", "embed")
    assert "1 of 2 prompts (2) cannot be sent as embed. Each needs text (or a list of texts)" in told
    told = refused(embedding.url, "--compare", reranking.url)
    assert "the endpoints respond to different requests" in told
    told = refused(embedding.url, "--request-format", "openai", "--inputs-per-request", 2)
    assert "generates text for one prompt in each request (text generation): leave out --inputs-per-request" in told
    told = refused(embedding.url, "--prompts", texts, "--inputs-per-request", 2)
    assert "--inputs-per-request are for random words: leave out --prompts" in told


@pytest.mark.parametrize(
    ("model", "task"),
    [("org/bge-base", "embed"), ("org/bge-reranker", "rerank"), ("org/sentiment-classifier", "classify")],
)
def test_an_endpoint_s_name_is_measured_without_a_stream(
    cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, task: PooledTask
) -> None:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    endpoint = Served.by_a_variant(cloud, SM_VLLM_RUNNER="pooling", SM_VLLM_MODEL=model)
    out = tmp_path / "out"
    load = ("--rate", 20, "--requests", 20, "--inputs-per-request", 2, "--input-tokens", "10", "--unique-prompts")
    ran = run(f"{endpoint.name},instance-price-per-hour=7.09", *load, "--output", out)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert result.workload.format == task
    assert result.subject.instance_type == "ml.g5.12xlarge"
    (level,) = result.levels
    assert (level.metrics["client_invocations"], level.metrics["client_invocation_errors"]) == (20, 0)
    refused = run(f"{endpoint.name},api=openai", "--request-format", "rerank", "--output", tmp_path / "other")
    assert refused.exit_code == 2
    assert "takes only chats, but not embeddings" in said(refused)
