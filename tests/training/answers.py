"""What models answer: ``python answers.py <prompts.jsonl> <answers.json> <model>...``, in ``.venv-quantization``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

_MOST_TOKENS = 64


def main() -> None:
    """Have each model answer each prompt of a file of instructions, without sampling."""
    prompts, answers, *models = (Path(argument) for argument in sys.argv[1:])
    rows = [json.loads(line) for line in prompts.read_text(encoding="utf-8").splitlines()]
    written = {model.name: _answers(model, rows) for model in models}
    answers.write_text(json.dumps(written), encoding="utf-8")


def _answers(folder: Path, rows: list[dict[str, Any]]) -> list[str]:
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    # What a checkpoint lacks is initialized at random.
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": f"{row['instruction']}\n\n{row['input']}"}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for row in rows
    ]
    batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    with torch.inference_mode():
        tokens = model.generate(**batch, max_new_tokens=_MOST_TOKENS, do_sample=False)
    return tokenizer.batch_decode(tokens[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)


if __name__ == "__main__":
    main()
