"""Repositories of models with their own configurations, and a small tokenizer in place of theirs."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from constructs_optim_local.light_server import tiny_model

from ..support.model_hub import HubModel

COMMIT = "1" * 40
CONFIGURATIONS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "model_configurations.json").read_text(encoding="utf-8")
)["configurations"]
# AutoAWQ's usual settings (examples/quantize.py), as it writes them into config.json.
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
# The sizes of BERT base, the defaults of transformers' BertConfig, which BAAI/bge-base-en-v1.5 has.
BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 2,
    "vocab_size": 30_522,
}
# Of Qwen3-VL (transformers, Qwen3VLProcessor and Qwen2VLImageProcessor).
_IMAGE_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_IDS = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
_PROCESSORS = {
    "preprocessor_config.json": {
        "size": {"shortest_edge": 65_536, "longest_edge": 16_777_216},
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
    },
    "video_preprocessor_config.json": {
        "size": {"shortest_edge": 4096, "longest_edge": 25_165_824},
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
        "video_processor_type": "Qwen3VLVideoProcessor",
    },
}


@functools.cache
def _small_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as made:
        return {path.name: path.read_bytes() for path in tiny_model.write(Path(made)).iterdir()}


def repository(config: dict[str, Any], files: dict[str, bytes] | None = None) -> HubModel:
    """A repository of a model with this configuration, and no more than a byte of weights."""
    own = {"config.json": json.dumps(config).encode(), "model.safetensors": b"0"}
    return HubModel(COMMIT, {**_small_files(), **own, **(files or {})})


def that_reads_images(config: dict[str, Any]) -> HubModel:
    """A repository of Qwen3-VL, whose tokens for images are those of the small tokenizer."""
    plain = repository(config)
    tokenizer = Tokenizer.from_str(plain.files["tokenizer.json"].decode())
    tokenizer.add_special_tokens(list(_IMAGE_TOKENS))
    ids = {name: tokenizer.token_to_id(token) for name, token in zip(_IDS, _IMAGE_TOKENS, strict=True)}
    settings = {**json.loads(plain.files["tokenizer_config.json"]), "processor_class": "Qwen3VLProcessor"}
    files = {name: json.dumps(content).encode() for name, content in _PROCESSORS.items()}
    files |= {"tokenizer.json": tokenizer.to_str().encode(), "tokenizer_config.json": json.dumps(settings).encode()}
    return repository({**config, **ids}, files)
