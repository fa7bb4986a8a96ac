"""What handlers import, in Lambda and in an operator's shell."""

from __future__ import annotations

import json
import subprocess
import sys

from constructs_optim import runtime

_EVERY_MODULE = """
import importlib, json, pkgutil, sys
from constructs_optim import runtime
names = [found.name for found in pkgutil.walk_packages(runtime.__path__, f"{runtime.__name__}.")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_no_runtime_module_imports_boto3_or_type_stubs_at_load() -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_MODULE], capture_output=True, text=True, check=True)
    names, imported = json.loads(done.stdout)
    assert "constructs_optim.runtime.handlers.job_handler" in names, runtime.__path__
    assert "botocore" in imported
    assert "boto3" not in imported, "it takes its time in a cold start"
    assert not [name for name in imported if name.startswith("mypy_boto3")]
