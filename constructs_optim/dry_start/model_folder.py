"""The folders of a dry start: a model's own small files, and a copy of them with few layers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from pydantic_core import from_json

from constructs_optim.recipe.plan_data import HuggingFaceSource, S3Source
from constructs_optim.runtime.documents import is_object
from constructs_optim.runtime.model_files import CONFIG, MISTRALS_CONFIG

from .few_layers import FewLayers, weights_bytes, with_few_layers, with_fewer_experts
from .planned_engine import DryStartError

_QUANTIZATIONS = ("quantization_config", "compression_config")
# ModelOpt's, beside the configuration.
_OF_MODELOPT = "hf_quant_config.json"

Fetch = Callable[[HuggingFaceSource | S3Source, Path, Callable[[str, int], bool]], None]
"""Downloads those files of a model into a folder that the third argument wants, given their names and sizes."""

_WANTED = (".json", ".jinja", ".txt", ".model", ".tiktoken")
_CODE = ".py"
# Lists of every weight, which nothing here reads.
_UNWANTED = (".index.json", "README.txt", "LICENSE.txt")
# The largest tokenizers have 35 MB (Gemma 3); repositories can have anything.
_MOST_BYTES, _MOST_BYTES_TOGETHER, _MOST_FILES = 64_000_000, 200_000_000, 200
_DEEPEST = 2


def wanted(*, code: bool) -> Callable[[str, int], bool]:
    """Return which files of a model a dry start reads: small ones that are no weights, and code only on request."""
    endings = (*_WANTED, _CODE) if code else _WANTED
    taken = {"bytes": 0, "files": 0}

    def is_wanted(name: str, size: int) -> bool:
        path = PurePosixPath(name)
        is_plain = not path.is_absolute() and ".." not in path.parts and "\\" not in name
        if not is_plain or len(path.parts) > _DEEPEST or not name.endswith(endings) or name.endswith(_UNWANTED):
            return False
        if not 0 <= size <= _MOST_BYTES:
            return False
        taken["bytes"] += size
        taken["files"] += 1
        return taken["bytes"] <= _MOST_BYTES_TOGETHER and taken["files"] <= _MOST_FILES

    return is_wanted


def configurations(folder: Path) -> dict[str, dict[str, object]]:
    """Return the model's configurations by their files' names: that of the hub, and Mistral's.

    Raises:
        DryStartError: if there is none, or one is no JSON object.
    """
    found: dict[str, dict[str, object]] = {}
    for name in (CONFIG, MISTRALS_CONFIG):
        if not (folder / name).is_file():
            continue
        try:
            # The time_step_limit of Mamba 2 has Infinity.
            content: object = from_json((folder / name).read_bytes().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise DryStartError(f"{name} of the model is not JSON ({error}), which no engine reads") from None
        if not is_object(content):
            raise DryStartError(f"{name} of the model is no JSON object, which no engine reads")
        found[name] = content
    if not found:
        raise DryStartError(f"the model has no {CONFIG} that this machine may read, and no engine starts without it")
    return found


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer's files have a chat template."""
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    try:
        content: object = from_json((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return is_object(content) and bool(content.get("chat_template"))


def few_layers(configs: Mapping[str, dict[str, object]], most_bytes: int) -> dict[str, FewLayers]:
    """Return the configurations with few layers, and with as many experts as ``most_bytes`` of weights allow."""
    cut: dict[str, FewLayers] = {}
    for name, config in configs.items():
        few = with_few_layers(config)
        while weights_bytes(few.config) > most_bytes and (fewer := with_fewer_experts(few)) is not None:
            few = fewer
        cut[name] = few
    return cut


def is_quantized(config: Mapping[str, object]) -> bool:
    """Return whether a configuration says that its weights are quantized."""
    return any(name in config for name in _QUANTIZATIONS) or any(
        is_object(part) and is_quantized(part) for part in config.values()
    )


def unquantized(few: FewLayers) -> FewLayers:
    """Return a configuration whose weights have 16 bits."""
    return few._replace(config=_without_quantization(few.config))


def _without_quantization(config: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _without_quantization(value) if is_object(value) else value
        for name, value in config.items()
        if name not in _QUANTIZATIONS
    }


def copy_with(folder: Path, configs: Mapping[str, FewLayers], to: Path) -> None:
    """Copy a model's folder with other configurations."""
    shutil.copytree(folder, to)
    if not any(is_quantized(few.config) for few in configs.values()):
        (to / _OF_MODELOPT).unlink(missing_ok=True)
    for name, few in configs.items():
        (to / name).write_text(json.dumps(few.config), encoding="utf-8")
