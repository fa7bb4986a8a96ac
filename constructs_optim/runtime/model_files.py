"""The files of a model that vLLM and SGLang read, by their names, and what a folder is that they cannot load.

A leaf of the standard library: the command line, the preflight and the job that copies a model decide by it, each with
the names alone. Its file is in the archives of the Lambda functions and of training jobs.

Sources: vLLM 0.30, ``get_config`` of ``transformers_utils/config.py`` (config.json or params.json),
``_prepare_weights`` of ``model_executor/model_loader/default_loader.py`` (weights beside the configuration, never in
folders below), ``filter_duplicate_safetensors_files`` and ``filter_files_not_needed_for_inference`` of
``weight_utils.py`` there (of safetensors files those in an index; of pickle files not those of an optimizer), and
``sharded_state_loader.py`` (``model-rank-0-part-0.safetensors``); SGLang, ``_prepare_weights`` of
``srt/model_loader/loader.py``; peft, ``utils/constants.py``; diffusers, ``pipelines/pipeline_utils.py``
(model_index.json); huggingface_hub, "Understand caching"; PyTorch, "Distributed Checkpoint" (``__0_0.distcp``);
DeepSpeed, "Model Checkpointing" (``mp_rank_00_model_states.pt``).
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
INDEX = "model.safetensors.index.json"
"""The index of the weights in the hub's layout: the names of their files by the names of the tensors."""
PICKLES = ("*.bin", "*.ckpt", "*.joblib", "*.pickle", "*.pkl", "*.pt", "*.pth")
"""Files that can run code when they are loaded."""
_LOADED_PICKLES = (".bin", ".pt")
_OF_TRAINING = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
# Weights of other frameworks.
_OTHERS = {".gguf": "GGUF", ".onnx": "ONNX", ".msgpack": "Flax", ".h5": "TensorFlow", ".nemo": "NeMo"}
# What vocabularies are called (transformers, VOCAB_FILES_NAMES of models/*/tokenization_*.py; mistral-common), or the
# code that reads another one.
_VOCABULARIES = (
    "tokenizer.*", "*tekken*.json", "*.model", "*.model.v*", "*vocab*", "merges.txt", "*.spm", "*.tiktoken", "*.bpe",
    "*.codes", "dict*.txt", "*.py",
)  # fmt: skip
_ARCHIVES = ("*.tar", "*.tar.gz", "*.tgz", "*.zip")
_ADAPTER = "adapter_config.json"
_OF_ADAPTERS = ("adapter_model*.safetensors", "adapter_model*.bin")
_MODULES, _POOLING = "modules.json", re.compile(r"\d+_Pooling/config\.json")
_PIPELINE = "model_index.json"
_CACHED = re.compile(r"(^|/)(models--[^/]+/(snapshots|blobs|refs)/|snapshots/[0-9a-f]{40}/|blobs/[0-9a-f]{40,64}$)")
_CHECKPOINT = re.compile(
    r"(^|/)(.*\.distcp|(bf16_)?zero_pp_rank_\d+.*|mp_rank_\d+.*|(iter|global_step_?)_?\d+/.*|checkpoint-\d+/.*)$"
)
# A folder of transformers' Trainer, with a whole model.
_STEP = re.compile(r"(?P<folder>checkpoint-\d+)/[^/]*\.safetensors")
_RANK = re.compile(r"model-rank-\d+-part-\d+\.safetensors")
_SHARDED = "sharded_state"
# A part of the weights, such as model-00001-of-00004.safetensors.
_PART = re.compile(r"(?P<name>.*)-(?P<number>\d{5})-of-(?P<count>\d{5,6})(?P<ending>\.safetensors|\.bin)")
_MOST_NAMED = 3


class Fault(NamedTuple):
    """What a folder is, or lacks, so that no engine loads it, and what works instead.

    ``load_format`` is the value of vLLM's ``--load-format`` that loads it nevertheless; None if there is none.
    """

    reason: str
    fix: str
    load_format: str | None = None


def weights(names: Collection[str]) -> list[str]:
    """Return the safetensors files that an engine loads: in the model's own folder, and in one layout.

    If a folder has both layouts and ``config.json``, they are those of the hub's layout. Adapters are not of the model.
    """
    # Engines find them by their exact ending.
    beside = [name for name in names if "/" not in name and name.endswith(_SAFETENSORS)]
    beside = [name for name in beside if not has([name], _OF_ADAPTERS)]
    hubs = [name for name in beside if not fnmatchcase(name, MISTRALS_WEIGHTS)]
    return hubs if hubs and CONFIG in names else [name for name in beside if name not in hubs] or hubs


def pickled(names: Collection[str]) -> list[str]:
    """Return the pickle files that an engine loads where there are no safetensors files: of one ending, the first of
    ``*.bin`` and ``*.pt`` that there is.
    """
    for ending in _LOADED_PICKLES:
        found = [name for name in names if "/" not in name and name.endswith(ending)]
        if found:
            return [name for name in found if not name.endswith(_OF_TRAINING) and not has([name], _OF_ADAPTERS)]
    return []


def has_tokenizer(names: Collection[str]) -> bool:
    """Return whether the files have a tokenizer, or the model's own code, which may have one."""
    own = {name for name in names if "/" not in name and not name.lower().endswith("_config.json")}
    return has(own, _VOCABULARIES)


def has_both_layouts(names: Collection[str]) -> bool:
    """Return whether vLLM loads Mistral's weights for ``config.json``, although there are those of the hub's layout.

    It takes the weights by their names, and the configuration only by ``params.json``.
    """
    layouts = {fnmatchcase(name, MISTRALS_WEIGHTS) for name in names if "/" not in name and name.endswith(_SAFETENSORS)}
    return CONFIG in names and MISTRALS_CONFIG not in names and len(layouts) > 1


def pools(names: Collection[str]) -> bool:
    """Return whether files say how outputs become embeddings: the modules of Sentence Transformers with a pooling.

    Source: vLLM, ``get_pooling_config`` of ``transformers_utils/config.py``.
    """
    return _MODULES in names and any(_POOLING.fullmatch(name) for name in names)


def fault(
    names: Collection[str], *, pickles: bool = False, all_parts: bool = True, indexed: Collection[str] = ()
) -> Fault | None:
    """Return why no engine loads the folder with these files; None if nothing speaks against it.

    Args:
        names: the names of the files, relative to the model's folder.
        pickles: whether weights in pickle files are accepted.
        all_parts: whether all parts of the weights must be there.
        indexed: the names of files in the index of the weights, if it was read.
    """
    if not names:
        return Fault("there are no files", "upload the model's files, or use another prefix")
    own = {name for name in names if "/" not in name}
    found, pickle_files = weights(names), pickled(names)
    is_adapter = _ADAPTER in own or has(own, _OF_ADAPTERS)
    if CONFIG in own:
        is_adapter &= not found and not pickle_files
    elif any(name.endswith(f"/{_ADAPTER}") for name in names):
        is_adapter = True
    if is_adapter:
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
    if (problem := _other_files(names, own)) is not None:
        return problem
    if CONFIG not in own and not (MISTRALS_CONFIG in own and has(found, [MISTRALS_WEIGHTS])):
        below = sorted({name.rpartition("/")[0] for name in names if name.endswith(f"/{CONFIG}")})
        fix = f"use the folder {below[0]}/" if below else f"upload {CONFIG} beside the weights"
        return Fault(f"there is no {CONFIG}", fix)
    if not found and not (pickles and pickle_files):
        return _without_weights(own, pickle_files)
    is_in_hubs_layout = not has(found, [MISTRALS_WEIGHTS])
    if (
        found
        and is_in_hubs_layout
        and INDEX not in own
        and (adapters := sorted(name for name in own if has([name], _OF_ADAPTERS[:1])))
    ):
        return Fault(
            f"{adapters[0]} is beside the weights, and without {INDEX} engines load all safetensors files as the model",
            f"the files without {adapters[0]}: upload them to S3, and use Model.s3(...)",
        )
    if all_parts and (missing := _missing_parts(found or pickle_files, own, indexed)):
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        reason = f"the model is incomplete: it lacks {', '.join(missing[:_MOST_NAMED])}{more}"
        return Fault(reason, "upload the missing files")
    return None


def _other_files(names: Collection[str], own: Collection[str]) -> Fault | None:
    """Return what the files are if their weights are in a form that is not a model's own."""
    found = weights(names)
    if found and all(map(_RANK.fullmatch, found)):
        return Fault(
            "its weights are in the parts of accelerators that vLLM saved (sharded_state)",
            "the model's own safetensors files; or load_format sharded_state, with the same tensor parallel degree",
            _SHARDED,
        )
    if not found and (step := next(filter(None, map(_STEP.match, sorted(names))), None)) is not None:
        return Fault(
            f"its weights are in {step['folder']}/, a checkpoint of training, and engines read those beside {CONFIG}",
            f"the files of {step['folder']}/ and the tokenizer's in one folder: upload them to S3, and use "
            "Model.s3(...)",
        )
    if not found and any(map(_CHECKPOINT.search, names)):
        return Fault(
            "this is a checkpoint of training, in parts for its workers",
            "save the whole model as safetensors: model.save_pretrained(...), or DeepSpeed's zero_to_fp32.py",
        )
    others = sorted(f".{name.rpartition('.')[2].lower()}" for name in names)
    if not found and not pickled(names) and (kind := next(filter(None, map(_OTHERS.get, others)), None)) is not None:
        return Fault(f"its weights are {kind} files, which vLLM and SGLang do not serve", "its safetensors files")
    if not found and has(own, _ARCHIVES) and not has(own, PICKLES):
        return Fault("this is an archive, and engines read uncompressed files", "unpack it, and upload the files")
    return None


def _without_weights(own: Collection[str], pickle_files: Collection[str]) -> Fault:
    """Return why a folder with these files has no weights that an engine loads."""
    if pickle_files:
        return Fault("its weights are pickle files only, which can run code when they are loaded", "safetensors")
    others = sorted(name for name in own if has([name], PICKLES) and not name.endswith(_OF_TRAINING))
    if others:
        reason = f"there are no weights, only {others[0]}: engines read *.safetensors, *.bin and *.pt"
        return Fault(reason, "save the model as safetensors: model.save_pretrained(...)")
    return Fault("there are no weights", f"upload the safetensors files beside {CONFIG}")


def _missing_parts(names: Collection[str], own: Collection[str], indexed: Collection[str]) -> list[str]:
    """Return the missing parts of weights, by the names of the other parts, and by an index.

    Parts are numbered from 1, and in some repositories from 0 (openai/gpt-oss-20b). Of weights that are saved twice, in
    different numbers of parts or in one file, one complete set is enough.
    """
    found = [each for each in map(_PART.fullmatch, names) if each is not None]
    parts = [part for part in found if f"{part['name']}{part['ending']}" not in names]
    lacking = dict[str, list[str]]()
    for name, count, ending in dict.fromkeys((part["name"], part["count"], part["ending"]) for part in parts):
        for first in (1, 0):
            numbers = range(first, first + int(count))
            missing = [each for n in numbers if (each := f"{name}-{n:05}-of-{count}{ending}") not in names]
            lacking[name] = min(lacking.get(name, missing), missing, key=len)
    of_parts = [each for missing in lacking.values() for each in missing]
    return list(dict.fromkeys([*of_parts, *sorted(set(indexed) - set(own))]))


def has(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names matches one of the patterns, regardless of case."""
    return any(fnmatchcase(name.lower(), pattern) for name in names for pattern in patterns)
