"""Pure Python that turns a recipe into a plan, or reports everything that is wrong with the recipe.

This package does not import the AWS CDK and does not call AWS. Planning takes a millisecond and is deterministic.
"""

from .compute import TrainingCompute
from .errors import RecipeError, Violation
from .model import Model
from .plan_data import Plan
from .planning import plan
from .recipe import Recipe
from .techniques import (
    Compilation,
    FineTune,
    KvCache,
    Medusa,
    PreOptimized,
    Quantization,
    Sharding,
    SpeculativeDecoding,
    Technique,
)

__all__ = [
    "Compilation",
    "FineTune",
    "KvCache",
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
