"""Time Medusa-1 from end to end at any size: fine-tuning, heads, and decoding with and without heads.

Without --model, it builds a random Llama of the given size and trains it on the sample corpus, so that it needs no
download. With --model, it starts with that model. On a GPU, it computes in bfloat16.

    .venv-models/bin/python bench/medusa.py --size 1b            # a GPU with 40 GB or more
    .venv-models/bin/python bench/medusa.py --size tiny          # the CPU, minutes
    .venv-models/bin/python bench/medusa.py --model /models/llama-3-8b --method lora

The target is the published speed-up of 1.8: from 950 to 530 ms on average for 450 prompts, batch 1, compared with plain
decoding with a KV cache. It exits with 1 if it misses the target on a GPU, or if float32 outputs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
TRAINING = CHECKOUT / "constructs_optim" / "training"
MARK = 1.8
PROMPTS = 450

# Llama's own shapes from 1b on. The vocabulary is padded, because the corpus has few words.
SIZES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 96, "intermediate_size": 256, "layers": 2, "attention": 4, "vocabulary": 512},
    "100m": {"hidden_size": 768, "intermediate_size": 2048, "layers": 12, "attention": 12, "vocabulary": 8000},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "layers": 16, "attention": 32, "vocabulary": 32000},
    "3b": {"hidden_size": 3072, "intermediate_size": 8192, "layers": 28, "attention": 24, "vocabulary": 32000},
    "7b": {"hidden_size": 4096, "intermediate_size": 14336, "layers": 32, "attention": 32, "vocabulary": 32000},
}
LEARNING_RATES = {"tiny": 3e-3, "100m": 6e-4, "1b": 2e-4, "3b": 1e-4, "7b": 5e-5}
# The published 1e-4 suits heads of a pretrained 7B model. On a random model, they have more to learn.
HEADS_LEARNING_RATES = {"tiny": 3e-3, "100m": 1e-3, "1b": 1e-3, "3b": 5e-4, "7b": 3e-4}


def build(size: str, folder: Path, texts: list[str]) -> int:
    """Build a Llama with random weights and a tokenizer of the corpus, and return its number of weights."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    shape = SIZES[size]
    learned: Any = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    learned.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=512,
            special_tokens=["<s>", "</s>", "<|user|>", "<|assistant|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = (
        "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    torch.manual_seed(0)
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=shape["vocabulary"],
            hidden_size=shape["hidden_size"],
            intermediate_size=shape["intermediate_size"],
            num_hidden_layers=shape["layers"],
            num_attention_heads=shape["attention"],
            num_key_value_heads=max(1, shape["attention"] // 4),
            bos_token_id=0,
            eos_token_id=1,
            max_position_embeddings=2048,
        )
    ).to(dtype)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.num_parameters()


def run_job(root: Path, script: str, hyperparameters: dict[str, Any], **channels: Path) -> float:
    """Run a training as SageMaker starts it, and return its seconds."""
    (root / "input" / "config").mkdir(parents=True)
    text = json.dumps({name: str(value) for name, value in hyperparameters.items()})
    (root / "input" / "config" / "hyperparameters.json").write_text(text)
    for name, source in channels.items():
        channel = root / "input" / "data" / name
        channel.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            channel.symlink_to(source.resolve())
        else:
            channel.mkdir()
            shutil.copy(source, channel)
    begun = time.perf_counter()
    environment = {**os.environ, "SAGEMAKER_BASE_DIR": str(root), "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, str(TRAINING / f"{script}.py")], check=True, env=environment)
    return time.perf_counter() - begun


def main() -> int:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--model", type=Path, help="a model's folder, instead of a random model")
    parser.add_argument(
        "--data", type=Path, help="training.jsonl, validation.jsonl, test.jsonl; else the sample corpus"
    )
    parser.add_argument("--method", choices=("full", "lora", "qlora"), default="full")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--tree-nodes", type=int, default=24)
    parser.add_argument("--work", type=Path, help="folder to keep the results in; else a temporary folder")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        return measure(given, given.work or Path(temporary))


def measure(given: argparse.Namespace, work: Path) -> int:
    """Train, decode and print."""
    import torch

    from constructs_optim.training.data.sample_corpus import examples, write_corpus
    from constructs_optim.training.decoding.verification import Verification, verify_artifact
    from constructs_optim.training.model.backbone import say_nothing_while_loading

    data = given.data or work / "data"
    if given.data is None:
        write_corpus(data, training=3000, validation=200, test=PROMPTS, seed=1)
    base, weights = given.model, None
    if base is None:
        base = work / "base"
        weights = build(given.size, base, [text for example in examples(600, seed=7) for text in example])
    channels = {"training": data / "training.jsonl", "validation": data / "validation.jsonl"}
    shared = {"epochs": given.epochs, "batch_size": 16, "gradient_accumulation_steps": 1, "logging_steps": 50}
    rate = LEARNING_RATES[given.size] if given.model is None else 2e-4
    tuning = {**shared, "method": given.method, "learning_rate": rate, "gradient_clipping": 1, "warmup_ratio": 0.05}
    tuning |= {"learning_rate_schedule": "cosine"}
    tuned = run_job(work / "fine-tuning", "fine_tune", tuning, model=base, **channels)
    heads = {**shared, **({} if given.model else {"learning_rate": HEADS_LEARNING_RATES[given.size]})}
    headed = run_job(work / "heads", "train_heads", heads, finetuned=work / "fine-tuning" / "model", **channels)
    say_nothing_while_loading()
    artifact = work / "heads" / "model"
    has_gpu = torch.cuda.is_available()
    runs: list[Verification] = [
        verify_artifact(
            artifact / "base-model",
            artifact,
            data / "test.jsonl",
            limit=given.prompts,
            precision=precision,
            tree_nodes=nodes,
        )
        for precision in ("bfloat16", "float32")
        for nodes in (0, given.tree_nodes)
    ]
    size = f"{weights / 1e6:,.1f} million weights" if weights else str(given.model)
    table = Table(title=f"Medusa-1 on {size}, {runs[0].machine}; trained in {tuned:.0f} s and {headed:.0f} s")
    for column in ("computed in", "checked", "identical", "tokens a pass", "plain ms", "ms", "times as fast"):
        table.add_column(column, justify="right")
    for run in runs:
        milliseconds = 1000 * run.plain_seconds / run.prompts, 1000 * run.seconds / run.prompts
        figures = (f"{run.identical:.2%}", f"{run.tokens_per_pass:.2f}", f"{milliseconds[0]:.0f}")
        table.add_row(run.dtype, run.verified, *figures, f"{milliseconds[1]:.0f}", f"{run.speed_up:.2f}")
    Console(width=140).print(table)
    if given.json:
        given.json.write_text(json.dumps([run.to_json() for run in runs], indent=2))
    differing = any(run.differences for run in runs if run.dtype == "float32")
    best = max(run.speed_up for run in runs if run.dtype == "bfloat16")
    return 1 if differing or (has_gpu and best < MARK) else 0


if __name__ == "__main__":
    sys.exit(main())
