"""Loads and checks the model to fine-tune or to train heads on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ..documents import json_object
from ..errors import UnusableModel

# The families for which Text Generation Inference loads heads (server/text_generation_server/models/custom_modeling,
# flash_llama_modeling.py and flash_mistral_modeling.py), and with which this code's decoding is tested.
FAMILIES = ("llama", "mistral")
_TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def device_for_inference() -> torch.device:
    """Return the first accelerator, or the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def precision_of(name: str) -> torch.dtype:
    """Return a precision by name; ``auto`` is bfloat16 on GPUs that support it, else float32."""
    if name == "auto":
        has_it = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if has_it else torch.float32
    return _TYPES[name]


def read_configuration(folder: Path) -> dict[str, Any]:
    """Return a model's ``config.json``.

    Args:
        folder: the model's folder, as ``save_pretrained`` writes it.

    Raises:
        UnusableModel: if there is no such file, or the model is neither a Llama nor a Mistral.
    """
    path = folder / "config.json"
    if not path.is_file():
        if (folder / "model.tar.gz").is_file():
            raise UnusableModel(
                f"{folder.name} has model.tar.gz: use the model's uncompressed files "
                "(CompressionType NONE in the job's OutputDataConfig)"
            )
        raise UnusableModel(f"{folder.name} has no config.json: it must hold a model's files, not in a subfolder")
    content = json_object(path, UnusableModel)
    family = content.get("model_type")
    if family not in FAMILIES:
        raise UnusableModel(f"model_type is {family!r}; Medusa heads support {' and '.join(FAMILIES)} models")
    return content


def say_nothing_while_loading() -> None:
    """Turn off transformers' progress bars and warnings, for output that a person reads."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def load_tokenizer(folder: Path) -> Any:
    """Return a model's tokenizer.

    Raises:
        UnusableModel: if the folder has no tokenizer, or one with more tokens than the model.
    """
    from transformers import AutoTokenizer

    configuration = read_configuration(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise UnusableModel(f"{folder.name} has no readable tokenizer: {_first_line(error)}") from None
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= configuration["vocab_size"]:
        raise UnusableModel(
            f"the vocabulary does not match: the tokenizer has tokens up to {largest}, the model's vocab_size is "
            f"{configuration['vocab_size']}. Use the tokenizer that the model was trained with"
        )
    return tokenizer


def load_backbone(folder: Path, *, dtype: torch.dtype, device: torch.device | None = None, **more: Any) -> Any:
    """Return a model with its weights.

    Args:
        folder: the model's folder, as ``save_pretrained`` writes it.
        dtype: type of the loaded weights.
        device: the device to load to. Default: as in ``more``, or the CPU.
        more: further arguments of ``from_pretrained``.

    Raises:
        UnusableModel: if weights are missing, truncated, or have another shape than in the configuration.
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
            f"the model in {folder.name} lacks {len(missing)} of its weights, for example {missing[0]}: "
            "its files are incomplete or belong to another model"
        )
    return model if device is None else model.to(device)


def vocabulary_projection(model: Any) -> torch.Tensor:
    """Return the weight that projects hidden states to logits, ``[vocabulary, hidden]``."""
    return model.get_output_embeddings().weight


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
