"""The fingerprint of a model's weights: a hash of its tensors. Standard library only.

Source: the safetensors format (its README): eight bytes with the header's length, little-endian, a JSON header with
each tensor's type, shape and place, then the bytes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from ..documents import json_value
from ..errors import UnusableModel

_CHUNK = 1 << 24
_LONGEST_HEADER = 100_000_000


class _Tensor(NamedTuple):
    file: Path
    start: int
    length: int
    kind: str
    shape: tuple[int, ...]


def fingerprint(folder: Path) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of all tensors below ``folder``, in hexadecimal.

    It does not depend on the tensors' distribution over files, or on other files in the folder.

    Args:
        folder: the folder of ``*.safetensors``.

    Raises:
        UnusableModel: if there is no such file, or one is truncated.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(_tensors(folder).items()):
        digest.update(json.dumps([name, tensor.kind, tensor.shape, tensor.length]).encode())
        with tensor.file.open("rb") as file:
            file.seek(tensor.start)
            left = tensor.length
            while left:
                chunk = file.read(min(_CHUNK, left))
                if not chunk:
                    raise UnusableModel(f"{tensor.file.name} is truncated: tensor {name} ends {left} bytes early")
                digest.update(chunk)
                left -= len(chunk)
    return digest.hexdigest()


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors below ``folder``, by name."""
    return {name: tensor.shape for name, tensor in _tensors(folder).items()}


def _tensors(folder: Path) -> dict[str, _Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UnusableModel(f"{folder.name} has no *.safetensors file: save the model with safetensors")
    tensors: dict[str, _Tensor] = {}
    for file in files:
        header, data = _header(file)
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            if name in tensors:
                raise UnusableModel(f"tensor {name} is in {tensors[name].file.name} and in {file.name}")
            start, end = entry["data_offsets"]
            tensors[name] = _Tensor(file, data + start, end - start, entry["dtype"], tuple(entry["shape"]))
    return tensors


def _header(file: Path) -> tuple[dict[str, Any], int]:
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if not 0 < length <= min(_LONGEST_HEADER, file.stat().st_size):
            raise UnusableModel(f"{file.name} is not a safetensors file")
        try:
            header = json_value(opened.read(length))
        except ValueError:
            header = None
    if not isinstance(header, dict):
        raise UnusableModel(f"{file.name} is not a safetensors file: its header is not a JSON object")
    return header, 8 + length
