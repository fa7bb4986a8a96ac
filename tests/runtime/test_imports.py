"""What handlers import, in Lambda and in an operator's shell."""

from __future__ import annotations

import json
import subprocess
import sys

from constructs_optim import runtime

_EVERY_MODULE = """
import importlib, json, pkgutil, sys
before = {name.partition(".")[0] for name in sys.modules}
from constructs_optim import runtime
names = [found.name for found in pkgutil.walk_packages(runtime.__path__, f"{runtime.__name__}.")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted({name.partition(".")[0] for name in sys.modules} - before)]))
"""


# Lambda's own botocore and the layer of Powertools, with what these need; requirements of the layer in pyproject.toml.
_IN_LAMBDA = {"botocore", "dateutil", "jmespath", "six", "urllib3", "certifi"}
_IN_LAYER = {
    "annotated_types", "aws_lambda_powertools", "aws_xray_sdk", "pydantic", "pydantic_core", "typing_extensions",
    "typing_inspection", "wrapt",
}  # fmt: skip


def test_runtime_modules_import_at_load_only_what_a_function_has() -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_MODULE], capture_output=True, text=True, check=True)
    names, imported = json.loads(done.stdout)
    assert "constructs_optim.runtime.handlers.job_handler" in names, runtime.__path__
    others = {
        name for name in imported if name not in sys.stdlib_module_names and not name.startswith("_sysconfigdata")
    }
    # Not boto3, which adds time to a cold start, and no type stubs.
    assert others - {"constructs_optim"} == _IN_LAMBDA | _IN_LAYER
