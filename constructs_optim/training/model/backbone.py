"""The model that is fine-tuned, and that heads are trained on: loading it, and what it must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from ..errors import UnusableModel

# Text Generation Inference's loader puts heads on these (server/text_generation_server/models/custom_modeling,
# flash_llama_modeling.py and flash_mistral_modeling.py), and this code's decoding is tested with them.
FAMILIES = ("llama", "mistral")
_TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def device_for_inference() -> torch.device:
    """The first accelerator, or the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def precision_of(name: str) -> torch.dtype:
    """A precision by its name; ``auto`` is bfloat16 on GPUs that have it, else float32."""
    if name == "auto":
        has_it = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if has_it else torch.float32
    return _TYPES[name]


def read_configuration(folder: Path) -> dict[str, Any]:
    """A model's ``config.json``.

    Args:
        folder: what ``save_pretrained`` wrote.

    Raises:
        UnusableModel: no such file, or of another family than Llama and Mistral.
    """
    path = folder / "config.json"
    if not path.is_file():
        if (folder / "model.tar.gz").is_file():
            raise UnusableModel(
                f"{folder.name} holds model.tar.gz: use the model's uncompressed files "
                "(CompressionType NONE in the job's OutputDataConfig)"
            )
        raise UnusableModel(f"{folder.name} holds no config.json: it is to hold a model's files, not below a folder")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UnusableModel(f"{folder.name}/config.json is no JSON: {error}") from None
    family = content.get("model_type")
    if family not in FAMILIES:
        raise UnusableModel(f"model_type is {family!r}; Medusa heads are trained for {' and '.join(FAMILIES)} models")
    return content


def say_nothing_while_loading() -> None:
    """Leave out transformers' progress bars and warnings, where a person reads what is printed."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def load_tokenizer(folder: Path) -> Any:
    """A model's tokenizer.

    Raises:
        UnusableModel: none in the folder, or one with more tokens than the model has.
    """
    from transformers import AutoTokenizer

    configuration = read_configuration(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise UnusableModel(f"{folder.name} holds no tokenizer that can be read: {_first_line(error)}") from None
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= configuration["vocab_size"]:
        raise UnusableModel(
            f"the vocabulary does not match: the tokenizer has tokens up to {largest}, the model's vocab_size is "
            f"{configuration['vocab_size']}. Use the tokenizer that the model was trained with"
        )
    return tokenizer


def load_backbone(folder: Path, *, dtype: torch.dtype, device: torch.device | None = None, **more: Any) -> Any:
    """A model with its weights.

    Args:
        folder: what ``save_pretrained`` wrote.
        dtype: of the loaded weights.
        device: where to. Default: left to ``more``, or the CPU.
        more: for ``from_pretrained``.

    Raises:
        UnusableModel: the weights are missing, cut off, or of another shape than the configuration says.
    """
    from transformers import AutoModelForCausalLM

    read_configuration(folder)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype=dtype, output_loading_info=True, **more
        )
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" in str(error):
            raise
        raise UnusableModel(f"the model in {folder.name} cannot be loaded: {_first_line(error)}") from None
    except Exception as error:
        if type(error).__name__ != "SafetensorError":
            raise
        raise UnusableModel(f"the model's weights in {folder.name} cannot be read: {_first_line(error)}") from None
    model, loading = loaded
    missing = sorted(loading["missing_keys"])
    if missing:
        raise UnusableModel(
            f"the model in {folder.name} lacks {len(missing)} of its weights, for instance {missing[0]}: "
            "its files are not all there, or belong to another model"
        )
    return model if device is None else model.to(device)


def vocabulary_projection(model: Any) -> torch.Tensor:
    """The weight that makes logits of hidden states, ``[vocabulary, hidden]``."""
    return model.get_output_embeddings().weight


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
