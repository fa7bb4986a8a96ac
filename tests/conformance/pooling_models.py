"""Write small models that embed, rerank and classify, with random weights.

``python -m tests.conformance.pooling_models FOLDER``, in the engine's environment, whose transformers writes them as
their publishers do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789?.,"
_VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
_SHAPE = {
    "vocab_size": len(_VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
}


def write(folder: Path) -> None:
    """Write ``embedder``, ``reranker`` and ``classifier``, and the same with other weights: ``other-embedder`` etc."""
    for seed, prefix in enumerate(("", "other-")):
        torch.manual_seed(seed)
        _save(BertModel(BertConfig(**_SHAPE)), folder / f"{prefix}embedder", pools=True)
        _save(BertForSequenceClassification(BertConfig(**_SHAPE, num_labels=1)), folder / f"{prefix}reranker")
        _save(BertForSequenceClassification(BertConfig(**_SHAPE, num_labels=3)), folder / f"{prefix}classifier")


def _save(model: torch.nn.Module, folder: Path, *, pools: bool = False) -> None:
    folder.mkdir(parents=True)
    # Random weights of the usual size hardly tell one text from another.
    for parameter in model.parameters():
        parameter.data *= 8
    model.save_pretrained(folder)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(_VOCABULARY), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(vocabulary)).save_pretrained(folder)
    if not pools:
        return
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": _SHAPE["hidden_size"], "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
