"""A real vLLM on a CPU, forecast and measured: calibrated on 4 configurations, tested on 8 others.

    make models && bash tooling/install_engine.sh && python bench/forecast/vllm_on_cpu.py

Two small models of random weights, each with two lengths of requests and 1, 4 and 8 users. No published measurement is
of a CPU: its bandwidth and its operations a second are measured first, the efficiency is that of vLLM on accelerators.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from targets import Target, target_table

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.forecast import FIGURES, Calibration, Copy, Figure, Measured, Server, about, published

ROOT = Path(__file__).resolve().parents[2]
_ENGINE, _MODELS = ROOT / ".venv-engine" / "bin" / "python", ROOT / ".venv-models" / "bin" / "python"
_USERS = (1, 4, 8)
_GOAL = 0.2
_MACHINE = """
import time, torch
torch.set_num_threads(2)
a, b = torch.randn(1024, 1024).bfloat16(), torch.randn(1024, 1024).bfloat16()
values = torch.ones(64 * 2**20)
def timed(action):
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
flops = 2 * 1024**3 / min(timed(lambda: a @ b) for _ in range(10))
print(flops, values.nbytes / min(timed(values.sum) for _ in range(10)))
"""
_MAKE = """
import sys, torch
torch.manual_seed(20)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
folder, layers, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# A token a word: a response has as many tokens by its text as were generated.
words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(509))]
tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
fast.save_pretrained(folder)
config = LlamaConfig(
    vocab_size=len(fast), hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
    num_attention_heads=width // 64, num_key_value_heads=width // 128, max_position_embeddings=2048,
    tie_word_embeddings=True,
)
LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
"""


class Small(NamedTuple):
    """A model of random weights."""

    name: str
    layers: int
    width: int

    def copy_on(self, flops: float, bandwidth: float) -> Copy:
        """Its copy on this machine."""
        attention = self.width * self.width * 3
        parameters = self.layers * (attention + 9 * self.width * self.width) + 512 * self.width
        return Copy(
            parameters=parameters,
            active_parameters=parameters,
            prompt_parameters=parameters - 512 * self.width,
            weight_bytes=2 * parameters,
            layers=self.layers,
            hidden_size=self.width,
            cache_bytes=2 * 2 * self.layers * self.width / 2,
            flops=flops,
            bandwidth=bandwidth,
            link=math.inf,
        )


class Configuration(NamedTuple):
    """A model, the lengths of its requests, and its users."""

    model: Small
    input_tokens: int
    output_tokens: int
    users: int


_SMALL = (Small("9M", 6, 384), Small("30M", 10, 512))
_LENGTHS = ((64, 32), (256, 64))


def main() -> int:
    """Measure, forecast, calibrate, test and print."""
    flops, bandwidth = map(float, _output([str(_ENGINE), "-c", _MACHINE]).split())
    measured: dict[Configuration, dict[Figure, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in _SMALL:
            home = Path(folder) / model.name
            _output([str(_MODELS), "-c", _MAKE, str(home), str(model.layers), str(model.width)])
            with _served(home) as url:
                for lengths in _LENGTHS:
                    measured |= _evaluated(url, model, lengths, Path(folder))
    calibration = published()
    forecast = {each: _forecast(each, flops, bandwidth, calibration) for each in measured}
    # Of each model, the shortest requests from one user and the longest from most.
    extremes = [min, max]
    known = [
        extreme((each for each in measured if each.model == model), key=lambda each: each.input_tokens * each.users)
        for model in _SMALL
        for extreme in extremes
    ]
    learnt = calibration.learning(
        Measured(figure, "CPU", _recipe(each), measured[each][figure], forecast[each][figure])
        for each in known
        for figure in FIGURES
    )
    table = Table(title=f"vLLM on {flops / 1e9:.0f} GFLOPS and {bandwidth / 1e9:.0f} GB/s; * calibrated on")
    for heading in ("configuration", *FIGURES):
        table.add_column(heading)
    errors: dict[Figure, list[float]] = {figure: [] for figure in FIGURES}
    held: list[bool] = []
    for each in measured:
        cells: list[str] = []
        for figure in FIGURES:
            of_figure = learnt.errors[figure]
            shared, deviation = of_figure.of("CPU", _recipe(each))
            value = forecast[each][figure] * math.exp(shared)
            error = value / measured[each][figure] - 1
            cells.append(f"{measured[each][figure]:.3g}, forecast {value:.3g} ({error:+.0%})")
            if each not in known:
                errors[figure].append(abs(error))
                held.append(abs(math.log1p(error)) <= of_figure.quantile * deviation)
        mark = "*" if each in known else ""
        table.add_row(f"{each.model.name}, {each.input_tokens}+{each.output_tokens}, {each.users} users{mark}", *cells)
    console = Console(width=150)
    console.print(table)
    tested = [each for each in measured if each not in known]
    raw = {f: statistics.median(abs(forecast[e][f] / measured[e][f] - 1) for e in tested) for f in FIGURES}
    console.print("median error before: " + ", ".join(f"{figure} {error:.0%}" for figure, error in raw.items()))
    targets = [
        Target(f"median error of {figure}", f"{statistics.median(found):.1%}", f"at most {_GOAL:.0%}", holds)
        for figure, found in errors.items()
        for holds in (statistics.median(found) <= _GOAL,)
    ]
    targets.append(Target("intervals that hold", f"{sum(held)} of {len(held)}", "90 %", sum(held) >= 0.85 * len(held)))
    console.print(target_table(targets))
    return 0 if all(target.holds for target in targets) else 1


def _recipe(each: Configuration) -> str:
    return f"{each.model.name} for {about(each.input_tokens)} + {about(each.output_tokens)}"


def _forecast(each: Configuration, flops: float, bandwidth: float, calibration: Calibration) -> dict[Figure, float]:
    copy = each.model.copy_on(flops, bandwidth)
    efficiency = calibration.efficiency(copy, "cpu", "vllm", "16")
    state = Server(copy, efficiency, each.input_tokens, each.output_tokens, 256).with_users(each.users)
    first, between = state.time_to_first_token, state.inter_token_latency
    rate = each.users / (first + (each.output_tokens - 1) * between)
    return {"time_to_first_token": first, "inter_token_latency": between, "requests_per_second": rate}


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = "--served-model-name small --dtype bfloat16 --max-model-len 1024 --gpu-memory-utilization 0.3"
    command = [str(_ENGINE), "-m", "vllm.entrypoints.cli.main", "serve", str(folder), *options.split()]
    command += ["--enforce-eager", "--no-enable-prefix-caching", "--host", "127.0.0.1", "--port", str(port)]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    log = folder.with_suffix(".log")
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 240
        while not _is_healthy(f"http://127.0.0.1:{port}/health"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(log.read_text(encoding="utf-8")[-3000:])
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1,model=small,tokenizer={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


def _is_healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=10) as response:
            return response.status == 200
    except OSError:
        return False


def _evaluated(
    url: str, model: Small, lengths: tuple[int, int], folder: Path
) -> dict[Configuration, dict[Figure, float]]:
    """What this library's evaluation measures, as it does of an endpoint."""
    output = folder / f"{model.name}-{lengths[0]}"
    options = f"--input-tokens {lengths[0]} --output-tokens {lengths[1]} --unique-prompts"
    # Of weights like these, the most likely token is always the same, and may be one without text.
    options += " --parameter ignore_eos=true --parameter temperature=1 --parameter skip_special_tokens=false"
    users = ",".join(map(str, _USERS))
    command = [sys.executable, "-m", "constructs_optim", "evaluate", url, *options.split(), "--concurrency", users]
    _output([*command, "--requests", "128", "--output", str(output)])
    result = EvaluationResult.model_validate_json((output / "endpoint.json").read_bytes())
    found: dict[Configuration, dict[Figure, float]] = {}
    for level in result.levels:
        metrics = level.metrics
        given, expected = round(metrics["input_tokens"]), round(metrics["output_tokens"])
        found[Configuration(model, given, expected, level.concurrency or 1)] = {
            "time_to_first_token": metrics["time_to_first_token"] / 1000,
            "inter_token_latency": metrics["inter_token_latency"] / 1000,
            "requests_per_second": metrics["requests_per_second"],
        }
    return found


def _output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[:4]}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
