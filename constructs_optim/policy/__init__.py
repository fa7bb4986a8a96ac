"""What a platform team allows, and what it finds in templates. Pure Python over plain data: no cloud, no constructs.

Importing this package registers the rules, in the order of their ids.
"""

from . import cost_rules, instance_rules, model_rules, operation_rules, security_rules, technique_rules
from .findings import PolicyFinding, check
from .registry import PolicyRule, Severity, all_policy_rules, rules_table
from .settings import PlatformPolicy, PolicyError

__all__ = [
    "PlatformPolicy",
    "PolicyError",
    "PolicyFinding",
    "PolicyRule",
    "Severity",
    "all_policy_rules",
    "check",
    "cost_rules",
    "instance_rules",
    "model_rules",
    "operation_rules",
    "rules_table",
    "security_rules",
    "technique_rules",
]
