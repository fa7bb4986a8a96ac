"""The techniques that optimize a model: one class for each, whose fields are its settings.

``REGISTRY`` has all classes by kind and name. In code, they are members of groups, such as ``Quantization.awq``.
"""

from .base import REGISTRY, Stage, Technique
from .compilation import Compilation
from .kv_cache import KvCache
from .pre_optimized import PreOptimized
from .quantization import CompressorQuantization, Quantization
from .sharding import Sharding
from .speculative_decoding import SpeculativeDecoding
from .training import FineTune, Medusa
from .training_job import TrainedTechnique

__all__ = [
    "REGISTRY",
    "Compilation",
    "CompressorQuantization",
    "FineTune",
    "KvCache",
    "Medusa",
    "PreOptimized",
    "Quantization",
    "Sharding",
    "SpeculativeDecoding",
    "Stage",
    "Technique",
    "TrainedTechnique",
]
