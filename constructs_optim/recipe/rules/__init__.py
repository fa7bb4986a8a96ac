"""Which recipes work: one small function a rule, in files by what the rules are about.

Importing this package registers them all.
"""

from importlib import import_module
from pkgutil import iter_modules

from .registry import Rule, all_rules, check, warnings

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["Rule", "all_rules", "check", "warnings"]
