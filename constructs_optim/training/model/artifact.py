"""The artifact that servers read: a folder with the heads, and their model below it.

==============================  ==============================================================================
``config.json``                 ``base_model_name_or_path``, ``medusa_num_heads``, ``medusa_num_layers``
``medusa_lm_head.safetensors``  ``{head}.{layer}.linear.weight|bias``, ``{head}.{layers}.weight``
``tokenizer.json`` ...          the model's tokenizer, which Text Generation Inference's router looks for here
``medusa_report.json``          the training's settings, metrics, versions
``base-model/``                 the fine-tuned model
==============================  ==============================================================================

Sources: Text Generation Inference, ``server/text_generation_server/models/__init__.py`` (``medusa_num_heads`` in the
top ``config.json`` makes it load ``base_model_name_or_path``, unchanged), ``layers/medusa.py`` (names of the tensors)
and ``layers/speculative.py`` (a top ``config.json`` with ``architectures`` would mean another kind of speculator).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..documents import json_object
from ..errors import UnusableHeads
from .backbone import read_configuration
from .fingerprint import fingerprint, tensor_shapes
from .heads import MedusaHeads
from .server_files import write_served_configuration, write_served_tokenizer

BASE_FOLDER = "base-model"
HEADS_FILE = "medusa_lm_head.safetensors"
REPORT_FILE = "medusa_report.json"
_FINGERPRINT = "base_model_fingerprint"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)


@dataclass(frozen=True)
class HeadsConfiguration:
    """The top ``config.json``: the number of heads, the layers of each, and their model."""

    heads: int
    layers: int
    base_model_name_or_path: str
    base_fingerprint: str | None


def write_artifact(
    folder: Path, heads: MedusaHeads, base: Path, *, served_from: str, dtype: torch.dtype, report: dict[str, Any]
) -> None:
    """Write the artifact.

    Args:
        folder: the folder to write to, created if missing.
        heads: the trained heads.
        base: the folder of the model's files, to be copied. Weights are copied byte for byte.
        served_from: the artifact's folder on the server, which finds the model by an absolute path.
        dtype: type of the saved heads.
        report: report of the training.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    copied = folder / BASE_FOLDER
    copied.mkdir(exist_ok=True)
    for file in sorted(base.iterdir()):
        if file.is_file():
            shutil.copyfile(file, copied / file.name)
    write_served_configuration(copied)
    write_served_tokenizer(copied)
    for name in _TOKENIZER_FILES:
        if (copied / name).is_file():
            shutil.copyfile(copied / name, folder / name)
    tensors = {name: tensor.to(dtype).contiguous().cpu() for name, tensor in heads.state_dict().items()}
    save_file(tensors, folder / HEADS_FILE, metadata={"format": "pt"})
    configuration = {
        "base_model_name_or_path": f"{served_from.rstrip('/')}/{BASE_FOLDER}",
        "medusa_num_heads": len(heads),
        "medusa_num_layers": heads.layers,
        _FINGERPRINT: fingerprint(copied),
    }
    _write_json(folder / "config.json", configuration)
    _write_json(folder / REPORT_FILE, report)


def read_heads_configuration(folder: Path) -> HeadsConfiguration:
    """Return the top ``config.json`` of an artifact.

    Raises:
        UnusableHeads: if it is missing or lacks required fields.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise UnusableHeads(f"{folder} has no config.json, so it is not an artifact with Medusa heads")
    content = json_object(path, UnusableHeads)
    wrong = [
        f"{name} is {content.get(name)!r}"
        for name in ("medusa_num_heads", "medusa_num_layers")
        if type(content.get(name)) is not int or content[name] < 1
    ]
    if wrong:
        raise UnusableHeads(f"{path} describes no Medusa heads: {', '.join(wrong)}; both must be 1 or more")
    return HeadsConfiguration(
        heads=content["medusa_num_heads"],
        layers=content["medusa_num_layers"],
        base_model_name_or_path=str(content.get("base_model_name_or_path", "")),
        base_fingerprint=content.get(_FINGERPRINT),
    )


def load_heads(folder: Path, base: Path, *, dtype: torch.dtype, device: torch.device) -> MedusaHeads:
    """Read heads, and check that they belong to a model.

    Args:
        folder: the artifact's folder.
        base: the folder of the heads' model.
        dtype: type of the loaded heads.
        device: the device to load to.

    Raises:
        UnusableHeads: if tensors are missing or unknown, the vocabulary or hidden size differs, or the heads were
            trained on other weights.
    """
    from safetensors.torch import load_file

    configuration = read_heads_configuration(folder)
    if not (folder / HEADS_FILE).is_file():
        raise UnusableHeads(f"{folder} has no {HEADS_FILE}")
    model = read_configuration(base)
    vocabulary_size, hidden_size = model["vocab_size"], model["hidden_size"]
    shapes = tensor_shapes_of_heads(folder)
    _check_shapes(shapes, configuration, vocabulary_size, hidden_size)
    if configuration.base_fingerprint is not None:
        actual = fingerprint(base)
        if actual != configuration.base_fingerprint:
            raise UnusableHeads(
                f"the heads in {folder} were trained on other weights than those in {base}: config.json has "
                f"{configuration.base_fingerprint[:12]}, the model has {actual[:12]}. "
                f"Use the artifact's own {BASE_FOLDER}, or train heads for this model"
            )
    heads = MedusaHeads(
        heads=configuration.heads,
        layers=configuration.layers,
        hidden_size=hidden_size,
        vocabulary_size=vocabulary_size,
    )
    heads.load_state_dict(load_file(folder / HEADS_FILE))
    return heads.to(device=device, dtype=dtype).eval()


def tensor_shapes_of_heads(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the heads' tensors, by name."""
    return tensor_shapes(folder)


def read_report(folder: Path) -> dict[str, Any]:
    """Return the artifact's report of its training; empty if it has none."""
    path = folder / REPORT_FILE
    return json_object(path, UnusableHeads) if path.is_file() else {}


def _check_shapes(
    shapes: dict[str, tuple[int, ...]], configuration: HeadsConfiguration, vocabulary_size: int, hidden_size: int
) -> None:
    with torch.device("meta"):
        like = MedusaHeads(
            heads=configuration.heads,
            layers=configuration.layers,
            hidden_size=hidden_size,
            vocabulary_size=vocabulary_size,
        )
    expected = {name: tuple(tensor.shape) for name, tensor in like.state_dict().items()}
    wrong = [
        f"{name} is {shapes.get(name, 'missing')}, not {shape}"
        for name, shape in expected.items()
        if shapes.get(name) != shape
    ]
    wrong += [f"{name} is unknown" for name in sorted(shapes.keys() - expected.keys())]
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise UnusableHeads(
            f"the heads do not fit a model with vocab_size {vocabulary_size} and hidden_size {hidden_size}: "
            f"{'; '.join(wrong[:3])}{more}"
        )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
