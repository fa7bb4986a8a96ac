"""The files of a model that vLLM and SGLang read, by their names, and what a folder is that they cannot load.

A leaf of the standard library: the command line, the preflight and the job that copies a model decide by it, each with
the names alone. Its file is in the archives of the Lambda functions and of training jobs.

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
"""The configuration of a model in Mistral's layout."""
MISTRALS_WEIGHTS = "consolidated*"
"""The weights in Mistral's layout, in safetensors files, and their index."""
_SAFETENSORS = ".safetensors"
PICKLES = ("*.bin", "*.ckpt", "*.joblib", "*.pickle", "*.pkl", "*.pt", "*.pth")
"""Weights that can run code when they are loaded."""
_ARCHIVES = ("*.tar", "*.tar.gz", "*.tgz", "*.zip")
_ADAPTER = "adapter_config.json"
_MODULES, _POOLING = "modules.json", re.compile(r"\d+_Pooling/config\.json")
_PIPELINE = "model_index.json"
_CACHED = re.compile(r"(^|/)(models--[^/]+/(snapshots|blobs|refs)/|snapshots/[0-9a-f]{40}/|blobs/[0-9a-f]{40,64}$)")
_CHECKPOINT = re.compile(
    r"(^|/)(.*\.distcp|(bf16_)?zero_pp_rank_\d+.*|mp_rank_\d+.*|(iter|global_step_?)_?\d+/.*|checkpoint-\d+/.*)$"
)
# A part of the weights, such as model-00001-of-00004.safetensors.
_PART = re.compile(r"(?P<name>.*)-(?P<number>\d{5})-of-(?P<count>\d{5,6})\.safetensors")
_MOST_NAMED = 3


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
    hubs = [name for name in beside if not fnmatchcase(name, MISTRALS_WEIGHTS)]
    return hubs if hubs and CONFIG in names else [name for name in beside if name not in hubs] or hubs


def pools(names: Collection[str]) -> bool:
    """Return whether files say how outputs become embeddings: the modules of Sentence Transformers with a pooling.

    Source: vLLM, ``get_pooling_config`` of ``transformers_utils/config.py``.
    """
    return _MODULES in names and any(_POOLING.fullmatch(name) for name in names)


def fault(names: Collection[str], *, pickles: bool = False, all_parts: bool = True) -> Fault | None:
    """Return why no engine loads the folder with these files; None if nothing speaks against it.

    Args:
        names: the names of the files, relative to the model's folder.
        pickles: whether weights in pickle files are accepted.
        all_parts: whether all parts of the weights must be there.
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
            "this is the cache of huggingface_hub, which has a model's files in a folder of its snapshots",
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
    if not found and has(own, _ARCHIVES) and not has(own, PICKLES):
        return Fault("this is an archive, and engines read uncompressed files", "unpack it, and upload the files")
    if CONFIG not in own and not (MISTRALS_CONFIG in own and has(found, [MISTRALS_WEIGHTS])):
        below = sorted({name.rpartition("/")[0] for name in names if name.endswith(f"/{CONFIG}")})
        fix = f"use the folder {below[0]}/" if below else f"upload {CONFIG} beside the weights"
        return Fault(f"there is no {CONFIG}", fix)
    if not found and not (pickles and has(own, PICKLES)):
        if has(own, PICKLES):
            return Fault("its weights are pickle files only, which can run code when they are loaded", "safetensors")
        return Fault("there are no weights", "upload the safetensors files beside config.json")
    if all_parts and (missing := _missing_parts(found)):
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        reason = f"the model is incomplete: it lacks {', '.join(missing[:_MOST_NAMED])}{more}"
        return Fault(reason, "upload the missing files")
    return None


def _missing_parts(names: Collection[str]) -> list[str]:
    """Return the missing parts of weights, by the names of the other parts.

    Parts are numbered from 1, and in some repositories from 0 (openai/gpt-oss-20b). Of weights that are saved twice, in
    different numbers of parts, one complete set is enough.
    """
    parts = [found for found in map(_PART.fullmatch, names) if found is not None]
    lacking = dict[str, list[str]]()
    for name, count in dict.fromkeys((part["name"], part["count"]) for part in parts):
        for first in (1, 0):
            numbers = range(first, first + int(count))
            missing = [each for n in numbers if (each := f"{name}-{n:05}-of-{count}.safetensors") not in names]
            lacking[name] = min(lacking.get(name, missing), missing, key=len)
    return [each for missing in lacking.values() for each in missing]


def has(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names matches one of the patterns, regardless of case."""
    return any(fnmatchcase(name.lower(), pattern) for name in names for pattern in patterns)
