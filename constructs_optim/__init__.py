"""Optimized LLM endpoints on Amazon SageMaker, declared as AWS CDK constructs.

Its public names are in ``__init__.pyi``, and each is imported on first use: a program that only plans a recipe does
not load the AWS CDK.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def _public_names() -> dict[str, str]:
    """The module of each public name, as the stub imports it."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [statement for statement in stub.body if isinstance(statement, ast.ImportFrom)]
    return {name.name: f".{statement.module}" for statement in imports for name in statement.names}


_MODULES = _public_names()
_TECHNIQUES = (
    "Compilation",
    "FineTune",
    "KvCache",
    "Medusa",
    "PreOptimized",
    "Quantization",
    "Sharding",
    "SpeculativeDecoding",
)

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the stub


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        problem = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(f"{problem}{_hint(name)}", name=name, obj=sys.modules[__name__])
    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches

    if name.lower() in ("technique", "techniques"):
        return f"; the techniques are {', '.join(_TECHNIQUES)}"
    by_lower = {public.lower(): public for public in _MODULES}
    close = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.7)]
    return f"; there is {' and '.join(close)}" if close else "; dir(constructs_optim) lists all names"


def __dir__() -> list[str]:
    return __all__
