"""What handlers import, in Lambda and in an operator's shell."""

from __future__ import annotations

import json
import subprocess
import sys

from constructs_optim import runtime

_EVERY_MODULE = """
import importlib, json, pkgutil, sys
from constructs_optim import runtime
names = [found.name for found in pkgutil.iter_modules(runtime.__path__)]
for name in names:
    importlib.import_module(f"{runtime.__name__}.{name}")
print(json.dumps([names, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_no_module_imports_what_only_its_types_are_made_of() -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_MODULE], capture_output=True, text=True, check=True)
    names, imported = json.loads(done.stdout)
    assert {"job_handler", "tracing"} <= set(names), runtime.__path__
    assert "boto3" in imported
    assert not [name for name in imported if name.startswith("mypy_boto3")]
