"""The rules that a recipe must follow: one function per rule, grouped into modules by subject.

Importing this package registers all rules.
"""

from importlib import import_module
from pkgutil import iter_modules

from .registry import Rule, all_rules, check, warnings

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["Rule", "all_rules", "check", "warnings"]
