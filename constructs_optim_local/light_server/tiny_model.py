"""A language model of 1.4 million weights, generated in a second without a download.

    python -m constructs_optim_local.light_server.tiny_model FOLDER

It is a Llama with a tokenizer and a chat template, in files that every engine and quantizer reads. It writes nonsense
in English words, because it knows only which words follow each other in a page of text.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from .weights import Array

_VOCABULARY, _HIDDEN, _INNER, _LAYERS, _HEADS, _GROUPS = 512, 256, 512, 2, 4, 2
_LENGTH = 2048
# Small enough that the last word alone decides the next one, but not zero.
_LAYERS_SCALE = 0.005
_SMOOTHING = 1e-3
_BEGIN, _END = "<s>", "</s>"
_SPECIAL = (_BEGIN, _END, "<|system|>", "<|user|>", "<|assistant|>")
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_ANSWERS = (
    "A model answers one token at a time, and each token depends on all tokens before it.",
    "The weights of a model are numbers, and a quantized model keeps them in fewer bits.",
    "An endpoint serves a model on one instance or on several, and each instance takes its share of the requests.",
    "A small model is fast, and a large model knows more.",
    "When a request comes, the server reads the prompt first and then writes the answer.",
    "The time to the first token depends on the length of the prompt.",
    "The time between tokens depends on the size of the weights and on the memory of the instance.",
    "Every instance of an endpoint passes its health check before it takes a request.",
    "A deployment starts new instances, waits until they are healthy, and then moves the traffic to them.",
    "If the new model is slow or wrong, the deployment goes back to the old model.",
    "This model was made in a second from a page of text, so its words are English and its sentences are nonsense.",
    "An answer ends when the model says so, or when it has as many tokens as the request allows.",
)


def write(folder: Path, *, seed: int = 0) -> Path:
    """Write the model's files into a folder, creating it if needed.

    Args:
        folder: the folder to write to.
        seed: seed of the random weights. Default: a fixed seed.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(_tensors(tokenizer, np.random.default_rng(seed)), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "chat_template.jinja").write_text(_TEMPLATE, encoding="utf-8")
    for name, content in _settings().items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return folder


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_ANSWERS * 2, trainer)
    return tokenizer


def _tensors(tokenizer: Tokenizer, random: np.random.Generator) -> dict[str, Any]:
    def weights(*shape: int, scale: float = _LAYERS_SCALE) -> Array:
        return random.normal(0.0, scale, shape).astype(np.float32)

    following = _following(tokenizer)
    # The text has fewer tokens than there are dimensions, so their embeddings can be orthogonal. The head then
    # recognizes each token in the layers' output.
    seen = np.flatnonzero(following.any(axis=1))
    directions, _ = np.linalg.qr(random.normal(size=(_HIDDEN, _HIDDEN)))
    embeddings = weights(_VOCABULARY, _HIDDEN, scale=1.0)
    embeddings[seen] = directions[: len(seen)] * np.sqrt(_HIDDEN)
    tensors: dict[str, Array] = {
        "model.embed_tokens.weight": embeddings,
        "model.norm.weight": np.ones(_HIDDEN, np.float32),
        "lm_head.weight": (following[seen].T @ embeddings[seen] / _HIDDEN).astype(np.float32),
    }
    narrow = _HIDDEN * _GROUPS // _HEADS
    for index in range(_LAYERS):
        layer = f"model.layers.{index}"
        tensors |= {f"{layer}.self_attn.{name}_proj.weight": weights(_HIDDEN, _HIDDEN) for name in ("q", "o")}
        tensors |= {f"{layer}.self_attn.{name}_proj.weight": weights(narrow, _HIDDEN) for name in ("k", "v")}
        tensors |= {f"{layer}.mlp.{name}_proj.weight": weights(_INNER, _HIDDEN) for name in ("gate", "up")}
        tensors[f"{layer}.mlp.down_proj.weight"] = weights(_HIDDEN, _INNER)
        norms = ("input_layernorm", "post_attention_layernorm")
        tensors |= {f"{layer}.{name}.weight": np.ones(_HIDDEN, np.float32) for name in norms}
    return {name: np.ascontiguousarray(tensor).astype(ml_dtypes.bfloat16) for name, tensor in tensors.items()}


def _following(tokenizer: Tokenizer) -> Array:
    """Return how likely each token follows each other one, as log-odds over tokens that never do."""
    counts = np.zeros((_VOCABULARY, _VOCABULARY), np.float32)
    starts, ends = tokenizer.token_to_id("<|assistant|>"), tokenizer.token_to_id(_END)
    for answer in _ANSWERS:
        tokens = [starts, *tokenizer.encode(answer).ids, ends]
        for token, following in itertools.pairwise(tokens):
            counts[token, following] += 1
    return np.log1p(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * _VOCABULARY / _SMOOTHING)


def _settings() -> dict[str, Any]:
    ends = {"bos_token_id": _SPECIAL.index(_BEGIN), "eos_token_id": _SPECIAL.index(_END)}
    return {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "bfloat16",
            "vocab_size": _VOCABULARY,
            "hidden_size": _HIDDEN,
            "intermediate_size": _INNER,
            "num_hidden_layers": _LAYERS,
            "num_attention_heads": _HEADS,
            "num_key_value_heads": _GROUPS,
            "max_position_embeddings": _LENGTH,
            "rope_theta": 10_000.0,
            "rms_norm_eps": 1e-6,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            **ends,
        },
        "generation_config.json": ends,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": _BEGIN,
            "eos_token": _END,
            "model_max_length": _LENGTH,
        },
    }


if __name__ == "__main__":
    write(Path(sys.argv[1]))
