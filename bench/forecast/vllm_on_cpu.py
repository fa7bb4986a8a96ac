"""Forecast and measure a real vLLM on a CPU: calibrated on 4 configurations, tested on 8 others.

    make models && bash tooling/install_engine.sh && python bench/forecast/vllm_on_cpu.py

It uses two small models with random weights, two lengths of requests, and 1, 4 and 8 users. There are no published
measurements of CPUs. Therefore, it first measures the CPU's bandwidth and operations per second, and assumes vLLM's
efficiency on accelerators.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from served_vllm import ROOT, TOKENIZER, Level, Trial, evaluated, judged, output_of, served

from constructs_optim.recipe.forecast import Copy, Figure, Server, published

_ENGINE, _MODELS = ROOT / ".venv-engine" / "bin" / "python", ROOT / ".venv-models" / "bin" / "python"
_USERS = (1, 4, 8)
_REQUESTS = 128
_OPTIONS = "--dtype bfloat16 --max-model-len 1024 --gpu-memory-utilization 0.3 --enforce-eager"
_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "2"}
_BATCH_LIMIT = 256
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
_MAKE = f"""
import sys, torch
torch.manual_seed(20)
from transformers import LlamaConfig, LlamaForCausalLM
{TOKENIZER}
folder, layers, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
save_tokenizer(folder, 512)
config = LlamaConfig(
    vocab_size=512, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
    num_attention_heads=width // 64, num_key_value_heads=width // 128, max_position_embeddings=2048,
    tie_word_embeddings=True,
)
LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
"""


class Small(NamedTuple):
    """A model with random weights."""

    name: str
    layers: int
    width: int

    def copy_on(self, flops: float, bandwidth: float) -> Copy:
        """Return its copy on this machine."""
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


_SMALL = (Small("9M", 6, 384), Small("30M", 10, 512))
_LENGTHS = (("64", "32"), ("256", "64"))


def main() -> int:
    """Measure, forecast, calibrate, test and print."""
    flops, bandwidth = map(float, output_of([str(_ENGINE), "-c", _MACHINE]).split())
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in _SMALL:
            home = Path(folder) / model.name
            output_of([str(_MODELS), "-c", _MAKE, str(home), str(model.layers), str(model.width)])
            copy = model.copy_on(flops, bandwidth)
            with served(_ENGINE, home, _OPTIONS, _VARIABLES) as target:
                for given, expected in _LENGTHS:
                    levels = evaluated(target, given, expected, _USERS, _REQUESTS, home)
                    trials += (Trial(model.name, "CPU", level, _forecast(copy, level)) for level in levels)
    return judged(f"vLLM on {flops / 1e9:.0f} GFLOPS and {bandwidth / 1e9:.0f} GB/s", trials)


def _forecast(copy: Copy, level: Level) -> Mapping[Figure, float]:
    efficiency = published().efficiency(copy, "cpu", "vllm", "16")
    server = Server(copy, efficiency, level.input_tokens, level.output_tokens, _BATCH_LIMIT)
    state = server.with_users(level.users)
    first, between = state.time_to_first_token, state.inter_token_latency
    rate = level.users / (first + (level.output_tokens - 1) * between)
    return {"time_to_first_token": first, "inter_token_latency": between, "requests_per_second": rate}


if __name__ == "__main__":
    sys.exit(main())
