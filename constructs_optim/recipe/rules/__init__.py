"""Which recipes work: one small function a rule, in files by what the rules are about.

Importing this package registers them all.
"""

from .endpoint import alarm_rules, component_rules, hosting_rules, scaling_rules, update_rules
from .jobs import benchmark_rules, recommendation_rules
from .recipe import (
    container_rules,
    instance_rules,
    memory_rules,
    model_rules,
    secret_rules,
    source_rules,
    stacking_rules,
    technique_rules,
    training_rules,
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
