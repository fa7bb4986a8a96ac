"""The rules of platform teams: their settings, and the findings of each rule in synthesized templates.

Pure Python over plain data; the CDK's plugin is in ``constructs``. Importing this package registers the rules.
"""

from . import instance_rules, operation_rules, recipe_rules, security_rules
from .registry import PolicyFinding, PolicyRule, all_policy_rules, check, rules_table
from .settings import PlatformPolicy, PolicyError, Severity

__all__ = [
    "PlatformPolicy",
    "PolicyError",
    "PolicyFinding",
    "PolicyRule",
    "Severity",
    "all_policy_rules",
    "check",
    "instance_rules",
    "operation_rules",
    "recipe_rules",
    "rules_table",
    "security_rules",
]
