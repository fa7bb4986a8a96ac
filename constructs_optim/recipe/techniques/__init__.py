"""What can be done to a model: one module for each kind of technique.

A technique says what the user chose. ``REGISTRY`` names the factories, for the command line and the docs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from .base import Channel, Stage, Technique, settings
from .compilation import Compilation, NeuronCompilation, TensorRtLlmCompilation
from .medusa_heads import Medusa, MedusaHeads
from .pre_optimized import PreOptimized, PreOptimizedConfiguration
from .quantization import AwqQuantization, Fp8Quantization, Quantization, SmoothQuantization
from .sharding import FastLoadSharding, Sharding
from .speculative_decoding import CustomDraft, EagleHeads, JumpStartDraft, SageMakerDraft, SpeculativeDecoding
from .training import FineTune, FineTuning, TrainedTechnique, Training, TrainingCompute

REGISTRY: MappingProxyType[str, MappingProxyType[str, Callable[..., Technique]]] = MappingProxyType(
    {
        "quantization": MappingProxyType(
            {"awq": Quantization.awq, "fp8": Quantization.fp8, "smoothquant": Quantization.smoothquant}
        ),
        "speculative_decoding": MappingProxyType(
            {
                "sagemaker_draft": SpeculativeDecoding.sagemaker_draft,
                "jumpstart_draft": SpeculativeDecoding.jumpstart_draft,
                "custom_draft": SpeculativeDecoding.custom_draft,
                "eagle": SpeculativeDecoding.eagle,
                "medusa": Medusa,
            }
        ),
        "compilation": MappingProxyType({"neuron": Compilation.neuron, "tensorrt_llm": Compilation.tensorrt_llm}),
        "sharding": MappingProxyType({"fast_load": Sharding.fast_load}),
        "fine_tuning": MappingProxyType({"fine_tune": FineTune}),
        "pre_optimized": MappingProxyType({"pre_optimized": PreOptimized}),
    }
)

CATALOG_COLUMNS: MappingProxyType[str, str] = MappingProxyType(
    {
        technique.method: technique.catalog_column
        for technique in (
            AwqQuantization,
            CustomDraft,
            EagleHeads,
            FastLoadSharding,
            FineTuning,
            Fp8Quantization,
            JumpStartDraft,
            MedusaHeads,
            NeuronCompilation,
            PreOptimizedConfiguration,
            SageMakerDraft,
            SmoothQuantization,
            TensorRtLlmCompilation,
        )
    }
)
"""The column of the model catalog that each technique looks at, by its method."""

__all__ = [
    "CATALOG_COLUMNS",
    "REGISTRY",
    "Channel",
    "Compilation",
    "FineTune",
    "Medusa",
    "PreOptimized",
    "Quantization",
    "Sharding",
    "SpeculativeDecoding",
    "Stage",
    "Technique",
    "TrainedTechnique",
    "Training",
    "TrainingCompute",
    "settings",
]
