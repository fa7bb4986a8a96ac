"""Measure the Lambda handlers' cold starts in processor time, part by part, and the size of their archive.

A cold start is everything until a handler can make its first call to AWS: the interpreter, botocore, Powertools,
pydantic, the handler's own modules, its properties read once, and its clients. ``python bench/handlers.py`` prints it,
and fails if a target is missed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from targets import Target

_PACKAGE = Path(__file__).resolve().parent.parent / "constructs_optim"
_HANDLERS = (
    "artifact_handler",
    "capacity_handler",
    "component_handler",
    "component_watcher",
    "evaluation_handler",
    "job_handler",
    "job_watcher",
    "model_handler",
    "recommendation_handler",
)
# A handler's imports from the Powertools layer. The runtime has botocore and its dependencies.
_LAYER = (
    "annotated_types",
    "aws_lambda_powertools",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
)
_PARTS = ("botocore", "Powertools", "pydantic", "own modules", "properties", "clients", "all")

# The job handler's cold start took 427 ms with properties read by hand (the median of six, without bytecode, on a busy
# machine with two cores); pydantic may make it 1.3 times that.
_MOST_COLD_START_MS = 555.0
_MOST_OWN_MS = 50.0
# 10% above the 184 KB of 2026-11-27. Lambda accepts 50 MB; a larger archive takes longer to fetch in a cold start.
_MOST_ZIP_KB = 203.0

_TIMED = """
import json, time
marks = [0.0]
mark = lambda: marks.append(time.process_time())
import runtime.handlers
import botocore.session, botocore.exceptions; mark()
import aws_lambda_powertools.logging, aws_lambda_powertools.metrics; mark()
import runtime.requests.properties; mark()
import runtime.handlers.{module}; mark()
from runtime.requests.properties import validate
from runtime.requests.properties import JobProperties
validate(JobProperties, {properties}); mark()
from runtime.aws import client
client("sagemaker"), client("s3"); mark()
parts = [1000 * (after - before) for before, after in zip(marks, marks[1:])]
print(json.dumps([*parts, 1000 * time.process_time()]))
"""
_PROPERTIES = {
    "RecipeKey": "b" * 64,
    "Source": {"Kind": "hub", "HubName": "SageMakerPublicHub", "ModelId": "some-model"},
    "Request": {"DeploymentInstanceType": "ml.g5.12xlarge"},
    "RoleArn": "arn:aws:iam::111122223333:role/Execution",
    "Bucket": "artifacts",
    "StateMachineArn": "arn:aws:states:us-west-2:111122223333:stateMachine:Watch",
}


def handler_targets(directory: Path, environment: dict[str, str], repeats: int) -> list[Target]:
    """Measure the handlers in a separate directory."""
    targets: list[Target] = []
    roots = _lambda_roots(directory)
    for module in _HANDLERS:
        parts = cold_start(module, roots, directory, environment, repeats)
        shown = ", ".join(f"{name} {parts[name]:.0f}" for name in _PARTS[:-1])
        is_met = parts["all"] < _MOST_COLD_START_MS and parts["own modules"] < _MOST_OWN_MS
        targets.append(
            Target(
                f"cold start of {module}",
                f"{parts['all']:.0f} ms ({shown})",
                f"< {_MOST_COLD_START_MS:.0f} ms, own modules < {_MOST_OWN_MS:.0f} ms",
                is_met,
            )
        )
    size = _runtime_zip_kb(directory)
    targets.append(Target("handlers, zipped", f"{size:.0f} KB", f"< {_MOST_ZIP_KB:.0f} KB", size < _MOST_ZIP_KB))
    return targets


def cold_start(
    module: str, roots: tuple[Path, Path], directory: Path, environment: dict[str, str], repeats: int
) -> dict[str, float]:
    """Return the median processor time of a handler's first import by part, in milliseconds."""
    timed = _TIMED.format(module=module, properties=json.dumps(_PROPERTIES))
    of_lambda = {
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_LAMBDA_FUNCTION_NAME": "bench",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        **environment,
        "PYTHONPATH": os.pathsep.join(str(root) for root in roots),
        # As in Lambda, without bytecode: the folders are read-only, and the layer is published without it.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    measured = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", timed],
                cwd=directory,
                env=of_lambda,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(repeats)
    ]
    return dict(zip(_PARTS, map(statistics.median, zip(*measured, strict=True)), strict=True))


def _lambda_roots(directory: Path) -> tuple[Path, Path]:
    """Copy the handlers' folder and the layer, to check that they need nothing else."""
    task, layer = directory / "lambda", directory / "layer"
    no_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_PACKAGE / "runtime", task / "runtime", ignore=no_bytecode)
    layer.mkdir()
    for name in _LAYER:
        origin = Path(importlib.util.find_spec(name).origin or "")  # pyright: ignore[reportOptionalMemberAccess]
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, layer / name, ignore=no_bytecode)
        else:
            shutil.copy(origin, layer)
    return task, layer


def _runtime_zip_kb(directory: Path) -> float:
    """Return the size of the handlers' archive that a deployment uploads."""
    archive = directory / "runtime.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((_PACKAGE / "runtime").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                packed.write(path, path.relative_to(_PACKAGE))
    return archive.stat().st_size / 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        measured = handler_targets(Path(temporary), {}, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    for each in measured:
        print(f"{each.name}: {each.measured}; target {each.limit}{'' if each.holds else ', missed'}")
    sys.exit(not all(each.holds for each in measured))
