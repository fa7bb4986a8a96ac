"""Forecast and measure a real vLLM on a GPU: calibrated on 4 configurations, tested on 8 others.

    PYTHONPATH=. python bench/forecast/vllm_on_gpu.py --measure vllm_on_h100.jsonl    # with a GPU, vLLM installed
    python bench/forecast/vllm_on_gpu.py bench/forecast/vllm_on_h100.jsonl            # anywhere

It uses two models of the published measurements, with their real shapes and random weights, two lengths of requests,
and 1, 8 and 64 users. Lengths vary by half, except with --constant, which synchronizes users. The measurements have the
published ones' format, but the forecast is not fitted to them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measured import Measurement
from served_vllm import TOKENIZER, Level, Trial, evaluated, judged, output_of, served

from constructs_optim.recipe.forecast import published

# config.json of meta-llama/Llama-3.1-8B and Qwen/Qwen3-14B, by name in models.json.
_CONFIGS = {
    "llama-3-8b": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "rope_theta": 500000.0,
        "rms_norm_eps": 1e-05,
    },
    "qwen3-14b": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-06,
    },
}
_OF_ALL = {
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}
_LENGTHS = ((500, 150), (2000, 100))
_USERS = (1, 8, 64)
# Enough requests for a steady load. A single user's take the longest.
_REQUESTS = {1: 10, 8: 64, 64: 384}
_OPTIONS = "--load-format dummy --dtype bfloat16 --max-model-len 4096"
# The instance type families with these GPUs.
_FAMILIES = {"H100": "p5", "H200": "p5en", "B200": "p6-b200", "L4": "g6", "L40S": "g6e", "A10G": "g5"}
_MACHINE = "import torch, vllm; print(torch.cuda.get_device_name()); print(vllm.__version__)"


def main() -> int:
    """Measure, or forecast, calibrate, test and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, help="the measurements, as JSON Lines")
    parser.add_argument("--measure", action="store_true", help="measure, and write the file")
    parser.add_argument("--constant", action="store_true", help="use requests of constant lengths")
    options = parser.parse_args()
    if options.measure:
        with options.file.open("w", encoding="utf-8") as output:
            for each in _measured(options.constant):
                print(each.model_dump_json(exclude_none=True), file=output, flush=True)
        return 0
    lines = options.file.read_text(encoding="utf-8").splitlines()
    measured = map(Measurement.model_validate_json, lines)
    return judged(options.file.stem, [_trial(each) for each in measured if each.left_out is None])


def _measured(constant: bool) -> Iterator[Measurement]:
    gpu, version = output_of([sys.executable, "-c", _MACHINE]).splitlines()[-2:]
    family = next(family for name, family in _FAMILIES.items() if name in gpu.replace("-", " ").split())
    lengths = "constant lengths" if constant else "lengths that vary by half"
    with tempfile.TemporaryDirectory() as folder:
        for name, config in _CONFIGS.items():
            home = Path(folder) / name
            make = f"{TOKENIZER}\nsave_tokenizer({str(home)!r}, {config['vocab_size']})"
            output_of([sys.executable, "-c", make])
            (home / "config.json").write_text(json.dumps(_OF_ALL | config), encoding="utf-8")
            with served(Path(sys.executable), home, _OPTIONS, {}) as target:
                for means in _LENGTHS:
                    given, expected = (str(mean) if constant else _varied(mean) for mean in means)
                    for users in _USERS:
                        level = evaluated(target, given, expected, [users], _REQUESTS[users], home)[0]
                        yield _measurement(name, family, level, version, f"{gpu}, random weights, {lengths}")


def _varied(mean: int) -> str:
    return f"uniform:{mean // 2},{mean * 3 // 2}"


def _measurement(model: str, family: str, level: Level, version: str, where: str) -> Measurement:
    figures = level.figures
    return Measurement(
        model=model,
        family=family,
        accelerators=1,
        tensor_parallel=1,
        precision="bf16",
        engine="vllm",
        engine_version=version,
        input_tokens=level.input_tokens,
        output_tokens=level.output_tokens,
        load="users",
        at=level.users,
        time_to_first_token_ms=round(figures["time_to_first_token"] * 1000, 3),
        inter_token_latency_ms=round(figures["inter_token_latency"] * 1000, 4),
        output_tokens_per_second=round(figures["requests_per_second"] * level.output_tokens, 2),
        source="vllm_on_gpu.py",
        where=where,
    )


def _trial(each: Measurement) -> Trial:
    level = Level(each.input_tokens or 1.0, each.output_tokens or 1.0, round(each.at or 1), each.observed)
    return Trial(each.model, each.group, level, each.forecast(each.efficiency(published())))


if __name__ == "__main__":
    sys.exit(main())
