"""Reads the tensors of a model's safetensors files, converted to 32 bits.

For quantized layers, it reads compressed-tensors' formats that llm-compressor writes for FP8, W4A16, NVFP4 and MXFP4.
Sources: compressed-tensors, ``compressors/`` (names and layouts of the tensors of each format); OCP Microscaling
Formats specification, "E8M0" and "E2M1".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors import deserialize

Array = NDArray[np.float32]
Raw = Mapping[str, NDArray[Any]]

_TYPES: Mapping[str, Any] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
}
_WEIGHT, _PACKED, _SCALE, _SHAPE = ".weight", ".weight_packed", ".weight_scale", ".weight_shape"
_GLOBAL_SCALE = ".weight_global_scale"
_FORMATS = ("float-quantized", "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized")
_FOUR_BITS, _PACKED_VALUES, _EXPONENT_BIAS = 4, 8, 127


class UnreadableModel(ValueError):
    """A model that cannot be served. The text is the reason."""


def read(folder: Path, quantization: Mapping[str, Any] | None) -> dict[str, Array]:
    """Return the tensors by name.

    Args:
        folder: the folder of ``*.safetensors``.
        quantization: ``quantization_config`` of the model's configuration, or None.

    Raises:
        UnreadableModel: if there are none, or their format is not supported.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UnreadableModel(f"{folder} has no *.safetensors")
    kind = None
    if quantization is not None:
        method, kind = quantization.get("quant_method"), quantization.get("format")
        if method != "compressed-tensors" or kind not in _FORMATS:
            raise UnreadableModel(
                f"the weights are quantized by {method} in the format {kind}; this server reads compressed-tensors: "
                + ", ".join(_FORMATS)
            )
    raw = dict(_raw(files))
    return dict(_dequantized(raw, kind)) if kind else {name: each.astype(np.float32) for name, each in raw.items()}


def _raw(files: list[Path]) -> Iterator[tuple[str, NDArray[Any]]]:
    for file in files:
        for name, tensor in deserialize(file.read_bytes()):
            if tensor["dtype"] not in _TYPES:
                raise UnreadableModel(f"{name} of {file.name} has the type {tensor['dtype']}")
            yield name, np.frombuffer(tensor["data"], _TYPES[tensor["dtype"]]).reshape(tensor["shape"])


def _dequantized(raw: Raw, kind: str) -> Iterator[tuple[str, Array]]:
    layers = {name.removesuffix(_SCALE) for name in raw if name.endswith(_SCALE)}
    for layer in layers:
        yield f"{layer}{_WEIGHT}", _layer(raw, layer, kind)
    for name, tensor in raw.items():
        if name.rpartition(".")[0] not in layers:
            yield name, tensor.astype(np.float32)


def _layer(raw: Raw, layer: str, kind: str) -> Array:
    scale = raw[f"{layer}{_SCALE}"]
    if kind == "float-quantized":
        values = raw[f"{layer}{_WEIGHT}"].astype(np.float32)
    elif kind == "pack-quantized":
        values = _integers(raw[f"{layer}{_PACKED}"], raw[f"{layer}{_SHAPE}"])
    else:
        values = _floats(raw[f"{layer}{_PACKED}"])
    if kind == "mxfp4-pack-quantized":
        scale = np.exp2(scale.astype(np.float32) - _EXPONENT_BIAS)
    scaled = values * _spread(scale.astype(np.float32), values.shape)
    return scaled / raw[f"{layer}{_GLOBAL_SCALE}"].astype(np.float32) if kind.startswith("nvfp4") else scaled


def _integers(packed: NDArray[Any], shape: NDArray[Any]) -> Array:
    """Unpack 4-bit integers, eight to a 32-bit word from the lowest bits up, and subtract 8."""
    shifts = np.arange(_PACKED_VALUES, dtype=np.uint32) * _FOUR_BITS
    values = (packed.view(np.uint32)[..., None] >> shifts) & 0xF
    rows, columns = (int(size) for size in shape)
    return (values.reshape(rows, -1)[:, :columns].astype(np.float32) - 8).astype(np.float32)


def _floats(packed: NDArray[Any]) -> Array:
    """Unpack 4-bit floats, two to a byte, the lower bits first."""
    values = np.stack([packed & 0xF, packed >> _FOUR_BITS], axis=-1)
    return values.reshape(len(packed), -1).astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def _spread(scale: Array, shape: tuple[int, ...]) -> Array:
    """Return the scale of each value. A scale applies to a row, a group in a row, or a block."""
    for axis, size in enumerate(shape):
        times = -(-size // scale.shape[axis])
        scale = np.repeat(scale, times, axis=axis)[(slice(None),) * axis + (slice(size),)]
    return scale
