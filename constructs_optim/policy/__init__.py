"""Policies of platform teams: their settings, and each rule's findings in synthesized templates.

This package is pure Python over plain data; the CDK plugin is in ``constructs``.
"""

from .rules import RULES, PolicyFinding, check, rules_table
from .settings import PlatformPolicy, PolicyError

__all__ = ["RULES", "PlatformPolicy", "PolicyError", "PolicyFinding", "check", "rules_table"]
