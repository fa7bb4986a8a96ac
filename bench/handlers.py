"""Measure the Lambda functions' cold starts in processor time, part by part, and the size of their archive.

A cold start is everything until a handler can make its first call to AWS: the interpreter, botocore, Powertools,
pydantic, the handler's own modules, its properties read once, and its clients. ``python bench/handlers.py`` prints it,
and fails if a target is missed; ``--write`` writes it into docs/observability.md, whose size of the archive
``tests/docs/test_handler_figures.py`` compares.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path

from targets import Target

_PACKAGE = Path(__file__).resolve().parent.parent / "constructs_optim"
_FUNCTIONS = tuple(
    sorted(path.stem for path in (_PACKAGE / "runtime" / "handlers").glob("*.py") if path.stem != "__init__")
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
# Libraries are most of a cold start. The share does not depend on the machine's speed.
_MOST_OWN_SHARE = 0.15
_PAGE = _PACKAGE.parent / "docs" / "observability.md"
_BLOCK = re.compile(r"(?<=<!-- written by bench/handlers.py -->\n).*?(?=<!-- end -->)", re.DOTALL)

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


def cold_starts(directory: Path, environment: dict[str, str], repeats: int) -> dict[str, dict[str, float]]:
    """Measure the functions in a separate directory: each one's parts, in milliseconds."""
    roots = _lambda_roots(directory)
    return {module: cold_start(module, roots, directory, environment, repeats) for module in _FUNCTIONS}


def handler_targets(measured: dict[str, dict[str, float]]) -> list[Target]:
    """Compare cold starts with their targets."""
    targets: list[Target] = []
    for module, parts in measured.items():
        shown = ", ".join(f"{name} {parts[name]:.0f}" for name in _PARTS[:-1])
        limit = f"< {_MOST_COLD_START_MS:.0f} ms, own modules < {_MOST_OWN_SHARE:.0%}"
        holds = parts["all"] < _MOST_COLD_START_MS and parts["own modules"] < _MOST_OWN_SHARE * parts["all"]
        targets.append(Target(f"cold start of {module}", f"{parts['all']:.0f} ms ({shown})", limit, holds))
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


def xray_ms(directory: Path, repeats: int) -> float:
    """Return the median processor time that a function's first sampled invocation takes to import X-Ray's SDK."""
    timed = (
        "import time, botocore.session, aws_lambda_powertools.logging; before = time.process_time(); "
        "import aws_lambda_powertools.tracing, aws_xray_sdk.core; print(1000 * (time.process_time() - before))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-B", "-c", timed],
            cwd=directory,
            # Where there is no bytecode, as in Lambda.
            env={**os.environ, "PYTHONPYCACHEPREFIX": str(directory / "no-bytecode")},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(repeats)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def archive_kb() -> float:
    """Return the size of the handlers' archive that a deployment uploads."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((_PACKAGE / "runtime").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                packed.write(path, path.relative_to(_PACKAGE))
    return len(archive.getvalue()) / 1024


def table(measured: dict[str, dict[str, float]], xray: float) -> str:
    """Return the page's table."""
    rows = [
        ("botocore", _range(measured, "botocore")),
        ("Powertools", _range(measured, "Powertools")),
        ("pydantic", _range(measured, "pydantic")),
        ("the function's own modules", _range(measured, "own modules", named=True)),
        ("the resource's properties, validated", _range(measured, "properties")),
        ("two AWS clients", _range(measured, "clients")),
        ("the whole cold start", _range(measured, "all", named=True)),
        ("X-Ray's SDK, in the first sampled invocation", f"{xray:.0f} ms"),
    ]
    lines = [
        "| part | CPU time (x86, Python 3.11) |",
        "| --- | --- |",
        *(f"| {name} | {time} |" for name, time in rows),
    ]
    size = f"The archive of all functions has {archive_kb():.0f} KB, zipped as the CDK CLI uploads it."
    return "\n" + "\n".join(lines) + f"\n\n{size}\n\n"


def _range(measured: dict[str, dict[str, float]], part: str, *, named: bool = False) -> str:
    least, most = (choose(measured, key=lambda module: measured[module][part]) for choose in (min, max))
    low, high = (f"{measured[module][part]:.0f}" for module in (least, most))
    if low == high:
        return f"{low} ms"
    return f"{low} ms (`{least}`) to {high} ms (`{most}`)" if named else f"{low} to {high} ms"


def written() -> str:
    """Return the figures that the page has."""
    (found,) = _BLOCK.findall(_PAGE.read_text(encoding="utf-8"))
    return found


def _main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each function; the median counts (default: 5)")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/observability.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measured = cold_starts(Path(temporary), {}, arguments.repeats)
        if arguments.write:
            figures = table(measured, xray_ms(Path(temporary), arguments.repeats))
            _PAGE.write_text(_BLOCK.sub(lambda _: figures, _PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    targets = handler_targets(measured)
    for each in targets:
        print(f"{each.name}: {each.measured}; target {each.limit}{'' if each.holds else ', missed'}")
    print(f"archive of all functions: {archive_kb():.0f} KB")
    return 0 if all(each.holds for each in targets) else 1


if __name__ == "__main__":
    sys.exit(_main())
