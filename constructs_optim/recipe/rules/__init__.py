"""Which recipes work: one small function a rule, in files by what the rules are about.

Importing this package registers them all.
"""

# pyright: reportUnusedImport=false
from . import (  # noqa: F401
    component_rules,
    container_rules,
    draft_rules,
    hosting_rules,
    instance_rules,
    job_rules,
    model_rules,
    scaling_rules,
    technique_rules,
    training_rules,
)
from .registry import Rule, all_rules, check, warnings

__all__ = ["Rule", "all_rules", "check", "warnings"]
