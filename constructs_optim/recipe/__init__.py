"""Pure Python that turns a declared recipe into a plan, or into all reasons why it cannot work.

Nothing here imports the AWS CDK or calls AWS. Planning takes a millisecond, and is deterministic.
"""

from .errors import RecipeError, Violation
from .plan_data import Plan
from .planning import plan
from .recipe import Model, Recipe
from .techniques import (
    Compilation,
    FineTune,
    Medusa,
    PreOptimized,
    Quantization,
    Sharding,
    SpeculativeDecoding,
    Technique,
    TrainingCompute,
)

__all__ = [
    "Compilation",
    "FineTune",
    "Medusa",
    "Model",
    "Plan",
    "PreOptimized",
    "Quantization",
    "Recipe",
    "RecipeError",
    "Sharding",
    "SpeculativeDecoding",
    "Technique",
    "TrainingCompute",
    "Violation",
    "plan",
]
