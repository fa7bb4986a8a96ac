"""The rules of platform teams: their settings, and the findings of each rule in synthesized templates.

Pure Python over plain data; the CDK's plugin is in ``constructs``.
"""

from .rules import RULES, PolicyFinding, check, rules_table
from .settings import PlatformPolicy, PolicyError

__all__ = ["RULES", "PlatformPolicy", "PolicyError", "PolicyFinding", "check", "rules_table"]
