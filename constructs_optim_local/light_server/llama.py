"""Decoders with Llama's architecture in numpy: Llama, Mistral without a sliding window, Qwen2 and Qwen3.

Source: transformers, ``models/llama/modeling_llama.py`` and ``models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .weights import Array, UnreadableModel, read

_ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


@dataclass(frozen=True)
class Sampling:
    """How to sample a token.

    Attributes:
        temperature: the temperature; 0 for the likeliest token.
        top_p: the probability of the smallest set of tokens to sample from.
        seed: the random seed; None for a new one each time.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None


class Llama:
    """A model in memory. Safe to use from several threads.

    Args:
        folder: the folder of ``config.json`` and ``*.safetensors``.

    Raises:
        UnreadableModel: if the model has another architecture or its weights are not readable.
    """

    def __init__(self, folder: Path) -> None:
        try:
            config: Mapping[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UnreadableModel(f"config.json of {folder} cannot be read: {error}") from None
        architecture = (config.get("architectures") or ["none"])[0]
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if architecture not in _ARCHITECTURES or kind != "default":
            raise UnreadableModel(
                f"the model is {architecture} with {kind} rotary embeddings; this server supports "
                f"{', '.join(_ARCHITECTURES)} with default rotary embeddings"
            )
        self.length: int = config["max_position_embeddings"]
        self._config, self._tensors = config, read(folder, config.get("quantization_config"))
        heads = config["num_attention_heads"]
        self._heads, self._groups = heads, config.get("num_key_value_heads") or heads
        self._size: int = config.get("head_dim") or config["hidden_size"] // heads
        theta = rope.get("rope_theta", config.get("rope_theta", 10_000.0))
        frequencies = 1.0 / theta ** (np.arange(0, self._size, 2, dtype=np.float32) / self._size)
        angles = np.outer(np.arange(self.length, dtype=np.float32), frequencies)
        both = np.concatenate([angles, angles], axis=-1)
        self._cosines, self._sines = np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)
        self._head = self._tensors.get("lm_head.weight", self._tensors["model.embed_tokens.weight"])

    def tokens(self, prompt: Sequence[int], sampling: Sampling) -> Iterator[int]:
        """Yield the tokens after a prompt, until the context is full."""
        random, cache = np.random.default_rng(sampling.seed), [_empty()] * self._config["num_hidden_layers"]
        given = list(prompt)
        for _ in range(self.length - len(prompt)):
            chosen = _choose(self._next(given, cache), sampling, random)
            yield chosen
            given = [chosen]

    def logits(self, prompt: Sequence[int]) -> Array:
        """Return the logits of the token after a prompt."""
        return self._next(list(prompt), [_empty()] * self._config["num_hidden_layers"])

    def _next(self, tokens: list[int], cache: list[tuple[Array, Array]]) -> Array:
        hidden = self._tensors["model.embed_tokens.weight"][tokens]
        for index in range(len(cache)):
            layer = f"model.layers.{index}"
            normed = self._norm(hidden, f"{layer}.input_layernorm")
            attended, cache[index] = self._attend(normed, f"{layer}.self_attn", cache[index])
            hidden = hidden + attended
            normed = self._norm(hidden, f"{layer}.post_attention_layernorm")
            gate, up = (self._linear(normed, f"{layer}.mlp.{name}_proj") for name in ("gate", "up"))
            hidden = hidden + self._linear(_silu(gate) * up, f"{layer}.mlp.down_proj")
        return self._head @ self._norm(hidden[-1], "model.norm")

    def _attend(self, hidden: Array, layer: str, cache: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        past, count = cache[0].shape[1] if cache[0].size else 0, len(hidden)
        queries = self._heads_of(hidden, f"{layer}.q", self._heads, past)
        keys = self._heads_of(hidden, f"{layer}.k", self._groups, past)
        values = self._linear(hidden, f"{layer}.v_proj").reshape(count, self._groups, self._size).swapaxes(0, 1)
        if past:
            keys, values = (np.concatenate(pair, axis=1) for pair in zip(cache, (keys, values), strict=True))
        shared = self._heads // self._groups
        scores = queries @ np.repeat(keys, shared, axis=0).swapaxes(1, 2) / np.float32(np.sqrt(self._size))
        scores = np.where(np.tri(count, past + count, past, dtype=bool), scores, np.float32(-np.inf))
        mixed = _softmax(scores) @ np.repeat(values, shared, axis=0)
        return self._linear(mixed.swapaxes(0, 1).reshape(count, -1), f"{layer}.o_proj"), (keys, values)

    def _heads_of(self, hidden: Array, projection: str, count: int, past: int) -> Array:
        """Return the queries or keys of each head, with rotary position embeddings."""
        heads = self._linear(hidden, f"{projection}_proj").reshape(len(hidden), count, self._size).swapaxes(0, 1)
        if f"{projection}_norm.weight" in self._tensors:
            heads = self._norm(heads, f"{projection}_norm")
        half = self._size // 2
        turned = np.concatenate([-heads[..., half:], heads[..., :half]], axis=-1)
        at = slice(past, past + len(hidden))
        return (heads * self._cosines[at] + turned * self._sines[at]).astype(np.float32, copy=False)

    def _linear(self, hidden: Array, name: str) -> Array:
        product = hidden @ self._tensors[f"{name}.weight"].T
        bias = self._tensors.get(f"{name}.bias")
        return product if bias is None else product + bias

    def _norm(self, hidden: Array, name: str) -> Array:
        squares = np.mean(hidden * hidden, axis=-1, keepdims=True)
        epsilon = self._config.get("rms_norm_eps", 1e-6)
        normed = hidden / np.sqrt(squares + np.float32(epsilon)) * self._tensors[f"{name}.weight"]
        return normed.astype(np.float32, copy=False)


def _empty() -> tuple[Array, Array]:
    nothing = np.zeros(0, np.float32)
    return nothing, nothing


def _silu(values: Array) -> Array:
    return (values / (1 + np.exp(-values))).astype(np.float32)


def _softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _choose(logits: Array, sampling: Sampling, random: np.random.Generator) -> int:
    if sampling.temperature <= 0:
        return int(logits.argmax())
    likely = _softmax(logits / np.float32(sampling.temperature)).astype(np.float64)
    order = np.argsort(-likely)
    # The token that reaches the probability is part of the set.
    kept = order[: int(np.searchsorted(np.cumsum(likely[order]), sampling.top_p)) + 1]
    return int(random.choice(kept, p=likely[kept] / likely[kept].sum()))
