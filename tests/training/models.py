"""Small models built in code, with a tokenizer trained on the sample corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, PreTrainedTokenizerFast

from constructs_optim.training.data.sample_corpus import examples, write_corpus

VOCABULARY = 512
PROMPTS = 450
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    # A window that is shorter than most prompts with their answers, so that it counts.
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": 48}),
}


def corpus_of(folder: Path) -> Path:
    write_corpus(folder, training=1000, validation=60, test=PROMPTS, seed=1)
    return folder


def small_tokenizer(*, chat_template: bool = True, vocabulary: int = VOCABULARY) -> PreTrainedTokenizerFast:
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    learned.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    learned.train_from_iterator(
        (text for example in examples(600, seed=7) for text in example),
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned, bos_token="<s>", eos_token="</s>")
    if chat_template:
        tokenizer.chat_template = _TEMPLATE
    return tokenizer


def small_configuration(family: str, **more: Any) -> Any:
    configuration, _, own = _KINDS[family]
    return configuration(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "rope_theta": 5000.0,
            **own,
            **more,
        }
    )


def small_model(family: str, *, seed: int = 0, **more: Any) -> Any:
    torch.manual_seed(seed)
    return _KINDS[family][1](small_configuration(family, **more)).eval()


def save_small_model(family: str, folder: Path, *, seed: int = 0, **more: Any) -> Path:
    """What a channel with a model holds."""
    small_model(family, seed=seed, **more).save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
