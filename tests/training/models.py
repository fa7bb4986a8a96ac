"""Small models built in code, with a tokenizer trained on the sample corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
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


def save_small_heads(folder: Path, target: Path, *, seed: int = 3) -> Path:
    """EAGLE-3 heads of random weights for a model of four layers, in the format of vLLM's speculators."""
    configuration = json.loads((target / "config.json").read_text())
    size, inner, words = (configuration[name] for name in ("hidden_size", "intermediate_size", "vocab_size"))
    keys = configuration["num_key_value_heads"] * size // configuration["num_attention_heads"]
    drafted = words // 2
    layer, attention = "layers.0", "layers.0.self_attn"
    shapes = {
        # Of the hidden states of three layers.
        "fc": (size, 3 * size),
        f"{attention}.q_proj": (size, 2 * size),
        f"{attention}.k_proj": (keys, 2 * size),
        f"{attention}.v_proj": (keys, 2 * size),
        f"{attention}.o_proj": (size, size),
        f"{layer}.mlp.gate_proj": (inner, size),
        f"{layer}.mlp.up_proj": (inner, size),
        f"{layer}.mlp.down_proj": (size, inner),
        "lm_head": (drafted, size),
    }
    norms = ("norm", *(f"{layer}.{name}" for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")))
    random = torch.Generator().manual_seed(seed)
    tensors = {
        f"{name}.weight": (torch.randn(shape, generator=random) * 0.02).bfloat16() for name, shape in shapes.items()
    }
    tensors |= {f"{name}.weight": torch.ones(size, dtype=torch.bfloat16) for name in norms}
    # The heads know the first half of the vocabulary.
    tensors |= {"d2t": torch.zeros(drafted, dtype=torch.long), "t2d": torch.arange(words) < drafted}
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    proposal = {"proposal_type": "greedy", "speculative_tokens": 1, "accept_tolerance": 0.0, "verifier_accept_k": 1}
    own = {name: value for name, value in configuration.items() if name != "architectures"}
    described = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": drafted,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
        "norm_before_residual": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformer_layer_config": {**own, "num_hidden_layers": 1},
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": "small", "architectures": configuration["architectures"]},
        },
    }
    (folder / "config.json").write_text(json.dumps(described))
    return folder
