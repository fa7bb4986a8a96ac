from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe.evaluation.result import EvaluationResult

from .model_server import ENVIRONMENT, FaultyProxy, make_model, model_server

TOKENS = 12

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        not (ENVIRONMENT / "bin" / "transformers").exists(),
        reason="`make models` sets the model server's environment up",
    ),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def url(model: Path) -> Iterator[str]:
    with model_server(model, model.parent / "serve.log") as served:
        yield served


@pytest.fixture
def proxy(url: str) -> Iterator[FaultyProxy]:
    standing = FaultyProxy(urlsplit(url).port or 0)
    yield standing
    standing.stop()


def evaluated(out: Path, url: str, model: Path, prompts: list[str], *arguments: str) -> list[EvaluationResult]:
    (out / "prompts.jsonl").write_text("\n".join(json.dumps({"prompt": prompt}) for prompt in prompts))
    command = ["evaluate", f"{url},model={model},tokenizer={model}", "--prompts", str(out / "prompts.jsonl")]
    command += ["--output", str(out / "results"), "--max-tokens", str(TOKENS), *arguments]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    sides = ("baseline", "optimized") if "--compare" in arguments else ("endpoint",)
    return [EvaluationResult.model_validate_json((out / "results" / f"{side}.json").read_text()) for side in sides]


def records(out: Path) -> list[dict]:
    lines = (out / "results" / "endpoint" / "requests-2.jsonl").read_text().splitlines()
    return [record for line in lines if "segment_end" not in (record := json.loads(line))]


def test_a_real_server_and_the_tokenizer_count_the_same_tokens(url: str, model: Path, tmp_path: Path) -> None:
    limits = ("--concurrency", "2", "--requests", "6")
    (result,) = evaluated(tmp_path, url, model, ["Hello there!", "What is a token?", "Why?"], *limits)
    (level,) = result.levels
    assert (level.metrics["client_invocations"], level.errors) == (6, {})
    assert level.metrics["output_tokens"] == TOKENS
    assert result.workload.tokens_counted_by == "tokenizer"
    for record in records(tmp_path):
        # With the chat template, and with every token of the answer.
        assert record["input_tokens"] == record["server_input_tokens"]
        assert record["output_tokens"] == record["server_output_tokens"] == TOKENS
        assert record["start"] < record["first_token"] < record["last_token"] <= record["end"]


def test_a_model_compared_with_itself_gives_identical_completions(url: str, model: Path, tmp_path: Path) -> None:
    limits = ("--concurrency", "1", "--requests", "3", "--compare", url)
    evaluated(tmp_path, url, model, ["Hello there!", "What is a token?", "Why?"], *limits)
    answers = json.loads((tmp_path / "results" / "comparison.json").read_text())["completions"]
    assert (answers["compared"], answers["identical"]) == (3, 3)


def test_faults_between_client_and_real_server_are_counted_by_kind(
    proxy: FaultyProxy, model: Path, tmp_path: Path
) -> None:
    prompts = ["Hello!", *(f"fault:{name}" for name in ("503", "hang", "empty", "malformed", "cut"))]
    limits = ("--concurrency", "2", "--requests", "12", "--timeout", "15", "--warm-up", "0")
    (result,) = evaluated(tmp_path, f"http://127.0.0.1:{proxy.port}/v1", model, prompts, *limits)
    (level,) = result.levels
    assert level.errors == {"timeout": 2, "server_error": 2, "cut_stream": 2, "malformed_response": 2}
    assert level.metrics["client_invocations"] == 12
    assert level.metrics["client_invocation_errors"] == 8
    assert level.metrics["empty_inference_response"] == 2
    assert Counter(record.get("error") for record in records(tmp_path))[None] == 4
