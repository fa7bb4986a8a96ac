"""Which recipes work. One small function a rule; each file holds the rules about one part of a recipe.

Importing this package registers them all, in the order of their ids.
"""

from . import (
    alarm_rules,
    benchmark_rules,
    component_rules,
    container_rules,
    hosting_rules,
    instance_rules,
    memory_rules,
    model_rules,
    recommendation_rules,
    scaling_rules,
    secret_rules,
    source_rules,
    stacking_rules,
    technique_rules,
    training_rules,
    update_rules,
)
from .registry import Rule, all_rules, check, warnings

__all__ = [
    "Rule",
    "alarm_rules",
    "all_rules",
    "benchmark_rules",
    "check",
    "component_rules",
    "container_rules",
    "hosting_rules",
    "instance_rules",
    "memory_rules",
    "model_rules",
    "recommendation_rules",
    "scaling_rules",
    "secret_rules",
    "source_rules",
    "stacking_rules",
    "technique_rules",
    "training_rules",
    "update_rules",
    "warnings",
]
