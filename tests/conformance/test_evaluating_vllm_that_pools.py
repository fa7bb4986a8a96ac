"""vLLM itself, on the CPU, embeds, reranks and classifies, and ``constructs-optim evaluate`` finds out which."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.recipe.evaluation.result import EvaluationResult

from .test_vllm_serves import CHECKOUT, ENGINE, ON_THE_CPU, _is_healthy

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
PATIENCE = 600


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    written = [str(ENGINE / "python"), "-m", "tests.conformance.pooling_models", str(folder)]
    subprocess.run(written, cwd=CHECKOUT, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=True)
    return folder


@pytest.fixture
def url(models: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of vLLM's API, with the model that the test names."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(ENGINE / "python"), "-m", "vllm.entrypoints.cli.main", "serve", str(models / request.param)]
    command += ["--runner", "pooling", "--served-model-name", "small", *ON_THE_CPU]
    log = models / f"{request.param}.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **VARIABLES},
            cwd=models,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _is_healthy(f"http://127.0.0.1:{port}"):
            assert server.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


@pytest.mark.parametrize(
    ("url", "task"), [("embedder", "embed"), ("reranker", "rerank"), ("classifier", "classify")], indirect=["url"]
)
def test_the_task_is_detected_and_measured(url: str, models: Path, tmp_path: Path, task: str) -> None:
    out = tmp_path / "out"
    target = f"{url},model=small,tokenizer={models / 'embedder'}"
    load = ("--concurrency", 2, "--requests", 20, "--inputs-per-request", 3, "--input-tokens", "5")
    ran = run(f"{target},label=a", "--compare", f"{target},label=b", *load, "--output", out)
    assert ran.exit_code == 0, ran.output
    result = EvaluationResult.model_validate_json((out / "optimized.json").read_text())
    assert result.workload.format == task
    (level,) = result.levels
    assert level.metrics["client_invocation_errors"] == 0
    assert level.metrics["inputs_per_second"] == pytest.approx(3 * level.metrics["requests_per_second"], rel=1e-3)
    # All models have the same tokenizer, which also counts the tokens around texts, and around pairs of a query.
    assert result.workload.token_counts["input"].difference == pytest.approx(0, abs=0.001)
    outputs = json.loads((out / "comparison.json").read_text())["outputs"]
    assert (outputs["task"], outputs["compared"]) == (task, 20)
    # In bfloat16, sums depend on what else is in the batch, which changes the order of documents with similar scores.
    assert outputs["agreement"] > (0.6 if task == "rerank" else 0.95)
