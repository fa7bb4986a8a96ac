"""The output of an optimization job: small files with the right names and formats, not a real model.

Source of the names and settings: the output of djl-serving's partition scripts for each kind of job.
"""

from __future__ import annotations

import json
import struct
from typing import Any

FAST_LOADING = "sagemaker_fast_model_loader"
"""The load format of sharded models."""
_SERVING = {
    "ModelQuantizationConfig": {"awq": "awq", "fp8": "compressed-tensors"},
    "ModelShardingConfig": f"option.load_format={FAST_LOADING}\n",
    "ModelCompilationConfig": "engine=MPI\n",
}


def files(job: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of a job's output, by name relative to its output location."""
    if any("ModelSpeculativeDecodingConfig" in config for config in job["OptimizationConfigs"]):
        return {
            "draft/config.json": _json({"architectures": ["LlamaForCausalLMEagle3"]}),
            "draft/model.safetensors": safetensors({"fc.weight": [4, 12]}),
            **{f"results/benchmark_trained_eagle_conc{n}.json": _json({"concurrency": n}) for n in (1, 2, 4, 8, 16)},
        }
    settings = "".join(
        _settings(member, config) for entry in job["OptimizationConfigs"] for member, config in entry.items()
    )
    return {**stand_in_model(), "serving.properties": settings.encode()}


def stand_in_model() -> dict[str, bytes]:
    """Return the files of a model without a use, by name. ``config.json`` says that a local cloud made it."""
    return {
        "config.json": _json({"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "made_by": "a local cloud"}),
        "model.safetensors": safetensors({"model.embed_tokens.weight": [16, 8]}),
        "tokenizer.json": _json({"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}),
        "tokenizer_config.json": _json({"tokenizer_class": "LlamaTokenizer"}),
    }


def setting(properties: bytes, name: str) -> str:
    """Return the value of a setting in a ``serving.properties``; empty if it is not set."""
    for line in properties.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == name:
            return value.strip()
    return ""


def safetensors(shapes: dict[str, list[int]]) -> bytes:
    """Return a valid safetensors file of zeros in half precision."""
    header: dict[str, Any] = {}
    offset = 0
    for name, shape in shapes.items():
        size = 2
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset)


def _settings(member: str, config: dict[str, Any]) -> str:
    environment = config.get("OverrideEnvironment", {})
    known = _SERVING.get(member, "")
    if isinstance(known, dict):
        known = f"option.quantize={known.get(environment.get('OPTION_QUANTIZE', 'awq'), 'awq')}\n"
    degree = environment.get("OPTION_TENSOR_PARALLEL_DEGREE")
    return known + (f"option.tensor_parallel_degree={degree}\n" if degree else "")


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()
