"""vLLM itself, on the CPU, serves what quantization jobs make, with the environments of plans and with speculators."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from openai import OpenAI

from constructs_optim.recipe import Model, Quantization, Recipe, SpeculativeDecoding, plan
from constructs_optim.recipe.techniques import Technique

from .arguments_of_engines import options

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

CHECKOUT = Path(__file__).parents[2]
ENGINE, MODELS = CHECKOUT / ".venv-engine" / "bin", CHECKOUT / ".venv-models" / "bin"
# What a container with a GPU needs no word of: the CPU's types and sizes.
ON_THE_CPU = ("--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "256", "--gpu-memory-utilization", "0.3")
PROMPT = "Which tables have a column that is named city?"
# EAGLE-3 heads propose one token: vLLM 0.30's CPU backend lacks the kernel of the steps after the first.
HEADS = SpeculativeDecoding.speculator(model=Model.s3("s3://models/eagle3-heads/"), speculative_tokens=1)
SPECULATIONS = {"eagle3": HEADS, "ngram": SpeculativeDecoding.ngram()}
QUANTIZATIONS = {
    "fp8_dynamic": Quantization.fp8_dynamic(),
    "w4a16": Quantization.w4a16(calibration_data="s3://models/samples/"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, made by the job's own code."""
    made = tmp_path_factory.mktemp("models")
    command = [str(MODELS / "python"), "-m", "tests.conformance.quantized_models", str(made)]
    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-4000:]
    print(result.stdout)  # noqa: T201 - for those who run it with -s
    plugin = made / "plugins" / "cpu_kernels-1.dist-info"
    plugin.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "vllm_cpu_kernels.py", plugin.parent)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: cpu-kernels\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text("[vllm.general_plugins]\ncpu_kernels = vllm_cpu_kernels:register\n")
    return made


@contextmanager
def served(folder: Path, quantization: str, speculation: Technique | None, *more: str) -> Iterator[str]:
    """The URL of vLLM with the plan's environment and ``more`` arguments; the container's folders are in ``folder``."""
    techniques = [QUANTIZATIONS[quantization], *([speculation] if speculation is not None else [])]
    planned = plan(Recipe(Model.s3("s3://models/small/"), techniques, "ml.g5.xlarge", "us-west-2"))
    environment = {
        name: value.replace("/opt/ml/additional-model-data-sources/speculator", str(folder / "eagle3-heads")).replace(
            "/opt/ml/model", str(folder / quantization / "model")
        )
        for name, value in planned.container.environment.items()
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(ENGINE / "python"), "-m", "vllm.entrypoints.cli.main", "serve", *options(environment)]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    variables |= {"PYTHONPATH": str(folder / "plugins")}
    log = folder / f"{quantization}-{speculation.name if speculation is not None else 'alone'}.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, *ON_THE_CPU, *more, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **variables},
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 240
        while not _is_healthy(url):
            assert server.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(1)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


def _is_healthy(url: str) -> bool:
    try:
        return fetched(f"{url}/health") == ""
    except OSError:
        return False


def fetched(url: str) -> str:
    with urlopen(url, timeout=10) as response:
        return response.read().decode()


def completion(url: str) -> str:
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    response = client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": PROMPT}], max_tokens=24, temperature=0
    )
    assert response.usage is not None
    assert response.usage.completion_tokens == 24
    return response.choices[0].message.content or ""


def drafted(url: str) -> float:
    """How many tokens the speculator has proposed."""
    lines = fetched(f"{url}/metrics").splitlines()
    name = "vllm:spec_decode_num_draft_tokens_total"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


# vLLM 0.30's build for CPUs with AVX2 alone (_C_AVX2) lacks cpu_gemm_wna16, the kernel of four-bit weights.
_HAS_AVX512 = "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
_FOUR_BITS = pytest.mark.skipif(not _HAS_AVX512, reason="vLLM multiplies four-bit weights on CPUs with AVX-512 alone")


@pytest.mark.parametrize("quantization", ["fp8_dynamic", pytest.param("w4a16", marks=_FOUR_BITS)])
def test_a_quantized_model_is_served_and_a_speculator_changes_no_completion(folder: Path, quantization: str) -> None:
    with served(folder, quantization, None) as url:
        alone = completion(url)
        assert drafted(url) == 0
    for speculation in SPECULATIONS.values():
        with served(folder, quantization, speculation) as url:
            assert completion(url) == alone
            assert drafted(url) > 0
