"""Prints the default configurations of the models that vLLM has: ``default_configurations.py``, in the engines'
environment (``make conformance``).

The output is one JSON object: for each architecture, the ``config.json`` that the configuration's class makes without
arguments. The classes are vLLM's own, or else those of transformers.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

# Architectures of model types whose configuration is vLLM's, and does not name them.
OWN = {
    "bagel": "BagelForConditionalGeneration",
    "bailing_moe_v3_vl": "BailingMoeV3VLForConditionalGeneration",
    "colpali": "ColPaliForRetrieval",
    "cosmos3_omni": "Cosmos3ForConditionalGeneration",
    "deepseek_vl_v2": "DeepseekVLV2ForCausalLM",
    "funaudiochat": "FunAudioChatForConditionalGeneration",
    "isaac": "IsaacForConditionalGeneration",
    "kimi_k25": "KimiK25ForConditionalGeneration",
    "kimi_k3": "KimiK3ForConditionalGeneration",
    "kimi_vl": "KimiVLForConditionalGeneration",
    "midashenglm": "MiDashengLMModel",
    "modernvbert": "ColModernVBertForRetrieval",
    "moondream3": "Moondream3ForCausalLM",
    "step3_vl": "Step3VLForConditionalGeneration",
    "ultravox": "UltravoxModel",
    "unlimited-ocr": "UnlimitedOCRForCausalLM",
}


def main() -> None:
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "CRITICAL"}
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto
    from vllm.model_executor.models.registry import ModelRegistry
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    types = {name: model_type for model_type, name in OWN.items()}
    for mapping in (getattr(modeling_auto, name) for name in dir(modeling_auto) if name.endswith("MAPPING_NAMES")):
        for model_type, named in mapping.items():
            for name in (named,) if isinstance(named, str) else named:
                types.setdefault(name, model_type)
    found: dict[str, Any] = {}
    for name in ModelRegistry.get_supported_archs():
        model_type = types.get(name)
        classes = _CONFIG_REGISTRY if model_type in dict.keys(_CONFIG_REGISTRY) else CONFIG_MAPPING
        if model_type in classes:
            found[name] = classes[model_type]().to_dict()
    sys.stdout.write(f"\n{json.dumps(found, default=str)}\n")


if __name__ == "__main__":
    main()
