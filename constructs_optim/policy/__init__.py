"""The rules of platform teams: their settings, and the findings of each rule in synthesized templates.

Pure Python over plain data; the CDK's plugin is in ``constructs``. Importing this package registers the rules.
"""

from . import cost_rules, instance_rules, model_rules, operation_rules, security_rules, technique_rules
from .findings import PolicyFinding, check
from .registry import PolicyRule, all_policy_rules, rules_table
from .setting_checks import Severity
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
