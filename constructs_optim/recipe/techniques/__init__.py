"""Techniques: what can be done to a model. A technique is one class, which says what the user chose.

``REGISTRY`` has them all by kind and name. The groups that users write, such as ``Quantization.awq``, are names of the
classes.
"""

from .base import REGISTRY, Stage, Technique, TrainingCompute
from .compilation import Compilation
from .pre_optimized import PreOptimized
from .quantization import Quantization
from .sharding import Sharding
from .speculative_decoding import SpeculativeDecoding
from .training import FineTune, Medusa, TrainedTechnique

__all__ = [
    "REGISTRY",
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
    "TrainingCompute",
]
