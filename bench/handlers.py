"""What the Lambda handlers cost to load: their imports beyond boto3, as a cold start has them, and their archive."""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path

from targets import Target

_PACKAGE = Path(__file__).resolve().parent.parent / "constructs_optim"
_HANDLERS = ("artifact_handler", "capacity_handler", "job_handler", "job_watcher", "model_handler")
# What a handler imports of the Powertools layer; boto3 and what that needs are the runtime's.
_LAYER = ("aws_lambda_powertools", "typing_extensions")

_MOST_IMPORT_MS = 50.0
_MOST_LAYER_MS = 100.0  # Powertools from its layer; half of it is typing_extensions, compiled anew
_MOST_ZIP_KB = 128.0


def handler_targets(directory: Path, environment: dict[str, str], repeats: int) -> list[Target]:
    """Measure the handlers in a directory of their own."""
    targets: list[Target] = []
    roots = _lambda_roots(directory)
    measured = {module: _import_ms(module, roots, directory, environment, repeats) for module in _HANDLERS}
    layer = statistics.median(layer for layer, _ in measured.values())
    for module, (_, own) in measured.items():
        name = f"import of {module} beyond boto3 and Powertools"
        targets.append(Target(name, f"{own:.0f} ms", f"< {_MOST_IMPORT_MS:.0f} ms", own < _MOST_IMPORT_MS))
    targets.append(
        Target("import of Powertools", f"{layer:.0f} ms", f"< {_MOST_LAYER_MS:.0f} ms", layer < _MOST_LAYER_MS)
    )
    size = _runtime_zip_kb(directory)
    targets.append(Target("handlers, zipped", f"{size:.0f} KB", f"< {_MOST_ZIP_KB:.0f} KB", size < _MOST_ZIP_KB))
    return targets


def _import_ms(
    module: str, roots: tuple[Path, Path], directory: Path, environment: dict[str, str], repeats: int
) -> tuple[float, float]:
    """CPU milliseconds of a handler's first import beyond boto3: those of the Powertools layer, and its own."""
    timed = (
        "import boto3, botocore.config, botocore.exceptions, time\n"
        "started = time.process_time()\n"
        "import aws_lambda_powertools\n"
        "loaded = time.process_time()\n"
        f"import runtime.{module}\n"
        "print((loaded - started) * 1000, (time.process_time() - loaded) * 1000)"
    )
    of_lambda = {
        "AWS_DEFAULT_REGION": "us-west-2",
        **environment,
        "PYTHONPATH": os.pathsep.join(str(root) for root in roots),
        # As in Lambda, which has no bytecode: the folders are read-only, and the layer is published without.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    measured = [
        [
            float(milliseconds)
            for milliseconds in subprocess.run(
                [sys.executable, "-c", timed],
                cwd=directory,
                env=of_lambda,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
        ]
        for _ in range(repeats)
    ]
    layer, own = zip(*measured, strict=True)
    return statistics.median(layer), statistics.median(own)


def _lambda_roots(directory: Path) -> tuple[Path, Path]:
    """Copies of the handlers' folder and of the layer, which show that they need nothing beside them."""
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
    """The handlers' folder as the archive that a deployment uploads."""
    archive = directory / "runtime.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((_PACKAGE / "runtime").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                packed.write(path, path.relative_to(_PACKAGE))
    return archive.stat().st_size / 1024
