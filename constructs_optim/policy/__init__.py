"""The rules of platform teams: their settings, and the findings of each rule in synthesized templates.

Pure Python over plain data; the CDK's plugin is in ``constructs``.
"""

from .rules import PolicyFinding, all_policy_rules, check, rules_table
from .settings import PlatformPolicy, PolicyError

__all__ = [
    "PlatformPolicy",
    "PolicyError",
    "PolicyFinding",
    "all_policy_rules",
    "check",
    "rules_table",
]
