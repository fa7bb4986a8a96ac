"""The files of a model that vLLM and SGLang read, by their names, and what a folder is that they cannot load.

A leaf of the standard library.

Sources: vLLM, ``get_config`` of ``transformers_utils/config.py`` (config.json or params.json) and ``_prepare_weights``
of ``model_executor/model_loader/default_loader.py`` (weights beside the configuration, never in folders below);
SGLang, ``_prepare_weights`` of ``srt/model_loader/loader.py``; peft, ``utils/constants.py``; diffusers,
``pipelines/pipeline_utils.py`` (model_index.json); huggingface_hub, "Understand caching"; PyTorch, "Distributed
Checkpoint" (``__0_0.distcp``); DeepSpeed, "Model Checkpointing" (``mp_rank_00_model_states.pt``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

CONFIG = "config.json"
"""The configuration of a model in the hub's layout."""
MISTRALS_CONFIG = "params.json"
"""The configuration of a model in Mistral's layout, whose weights are ``consolidated*.safetensors``."""
_SAFETENSORS = ".safetensors"
PICKLES = ("*.bin", "*.ckpt", "*.joblib", "*.pickle", "*.pkl", "*.pt", "*.pth")
"""Weights that can run code when they are loaded."""
ARCHIVES = ("*.tar", "*.tar.gz", "*.tgz", "*.zip")
_OF_MISTRAL = "consolidated*.safetensors"
_ADAPTER = "adapter_config.json"
_MODULES, _POOLING = "modules.json", re.compile(r"\d+_Pooling/config\.json")
_PIPELINE = "model_index.json"
_CACHED = re.compile(r"(^|/)(models--[^/]+/)?(snapshots/[0-9a-f]{40}/|blobs/[0-9a-f]{40,64}$)")
_CHECKPOINT = re.compile(
    r"(^|/)(.*\.distcp|(bf16_)?zero_pp_rank_\d+.*|mp_rank_\d+.*|(iter|global_step_?)_?\d+/.*|checkpoint-\d+/.*)$"
)


class Fault(NamedTuple):
    """What a folder is, or lacks, so that no engine loads it, and what works instead."""

    reason: str
    fix: str


def weights(names: Collection[str]) -> list[str]:
    """Return the safetensors files that an engine loads: in the model's own folder, and in one layout.

    If a folder has both layouts and ``config.json``, they are those of the hub's layout.
    """
    # Engines find them by their exact ending.
    beside = [name for name in names if "/" not in name and name.endswith(_SAFETENSORS)]
    hubs = [name for name in beside if not fnmatchcase(name, _OF_MISTRAL)]
    return hubs if hubs and CONFIG in names else [name for name in beside if name not in hubs] or hubs


def pools(names: Collection[str]) -> bool:
    """Return whether files say how outputs become embeddings: the modules of Sentence Transformers with a pooling.

    Source: vLLM, ``get_pooling_config`` of ``transformers_utils/config.py``.
    """
    return _MODULES in names and any(_POOLING.fullmatch(name) for name in names)


def fault(names: Collection[str], *, pickles: bool = False) -> Fault | None:
    """Return why no engine loads the folder with these files; None if nothing speaks against it.

    Args:
        names: the names of the files, relative to the model's folder.
        pickles: whether weights in pickle files are accepted.
    """
    if not names:
        return Fault("there are no files", "upload the model's files, or use another prefix")
    own = {name for name in names if "/" not in name}
    if CONFIG not in own and (_ADAPTER in own or any(name.endswith(f"/{_ADAPTER}") for name in names)):
        return Fault("this is a LoRA adapter, not a model", "serve its base model, and add it with add_adapter(...)")
    if _PIPELINE in own:
        return Fault(
            "this is a pipeline of diffusers, which no LLM server loads",
            "a container for diffusion models, such as SageMaker JumpStart's Stable Diffusion",
        )
    if CONFIG not in own and any(map(_CACHED.search, names)):
        return Fault(
            "this is the cache of huggingface_hub, whose snapshots are links",
            "upload the files of a snapshot: hf download <model> --local-dir <folder>",
        )
    found = weights(names)
    if not found and any(map(_CHECKPOINT.search, names)):
        return Fault(
            "this is a checkpoint of training, in parts for its workers",
            "save the whole model as safetensors: model.save_pretrained(...), or DeepSpeed's zero_to_fp32.py",
        )
    if not found and has(own, ["*.gguf"]):
        return Fault("its weights are GGUF files, which vLLM and SGLang do not serve", "its safetensors files")
    if not found and CONFIG not in own and has(own, ARCHIVES):
        return Fault("this is an archive, and engines read uncompressed files", "unpack it, and upload the files")
    if CONFIG not in own and not (MISTRALS_CONFIG in own and has(own, [_OF_MISTRAL])):
        below = sorted({name.rpartition("/")[0] for name in names if name.endswith(f"/{CONFIG}")})
        fix = f"use the folder {below[0]}/" if below else f"upload {CONFIG} beside the weights"
        return Fault(f"there is no {CONFIG}", fix)
    if not found and not (pickles and has(own, PICKLES)):
        if has(own, PICKLES):
            return Fault("its weights are pickle files only, which can run code when they are loaded", "safetensors")
        return Fault("there are no weights", "upload the safetensors files beside config.json")
    return None


def has(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names matches one of the patterns, regardless of case."""
    return any(fnmatchcase(name.lower(), pattern) for name in names for pattern in patterns)
