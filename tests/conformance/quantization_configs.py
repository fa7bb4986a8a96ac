"""The ``quantization_config`` of weights that jobs of quantization write.

Sources: AutoAWQ, ``quantization_config`` of a quantized model; compressed-tensors, ``quant_scheme.py``, whose presets
``quantize.py`` applies.
"""

from __future__ import annotations

from typing import Any

_INTEGERS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128, "dynamic": False}
_FP8 = {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False}
_FP4 = {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False}
_IGNORED = ["lm_head", "re:.*embed.*", "re:.*(gate|router)$", "re:.*(linear_attn|mamba|conv).*"]
_ENCODERS = "re:.*(visual|vision|audio|projector).*"

# AutoAWQ quantizes the layers of text alone, of models that read more (awq/models, get_model_layers).
NOT_OF_TEXT = ["visual", "vision_tower", "vision_model", "multi_modal_projector", "audio_tower"]
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


def _compressed(name: str, weights: dict[str, Any], activations: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": name,
        "quantization_status": "compressed",
        "ignore": [*_IGNORED, _ENCODERS],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}},
    }


COMPRESSED = {
    "w4a16": _compressed("pack-quantized", _INTEGERS),
    "fp8_dynamic": _compressed(
        "float-quantized", _FP8 | {"strategy": "channel"}, _FP8 | {"strategy": "token", "dynamic": True}
    ),
    "fp8_block": _compressed(
        "float-quantized",
        _FP8 | {"strategy": "block", "block_structure": [128, 128]},
        _FP8 | {"strategy": "group", "group_size": 128, "dynamic": True},
    ),
    "nvfp4": _compressed(
        "nvfp4-pack-quantized",
        _FP4 | {"strategy": "tensor_group", "group_size": 16},
        _FP4 | {"strategy": "tensor_group", "group_size": 16, "dynamic": "local"},
    ),
    "mxfp4": _compressed(
        "mxfp4-pack-quantized", _FP4 | {"strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}
    ),
}
