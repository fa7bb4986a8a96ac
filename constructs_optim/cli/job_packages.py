"""The packages that training jobs install, and whether an environment that stands for their image has them.

A job of the local cloud installs nothing from the network: its environment has each package at the pinned version, or
the job fails.
"""

from __future__ import annotations

import os
import re
import subprocess
from enum import StrEnum
from pathlib import Path

import constructs_optim

_FOLDER = Path(constructs_optim.__file__).parent / "training"
_ABSENT = re.compile(r"No matching distribution found for (\S+)")


class Jobs(StrEnum):
    """Kinds of training jobs, by what they do."""

    quantizing = "quantizing"
    copying = "copying"
    training = "training"

    @property
    def requirements(self) -> Path:
        """The file with the versions and hashes of the packages that these jobs install."""
        return _FOLDER / ("requirements.txt" if self is Jobs.training else f"{self}.txt")

    @property
    def needs_torch(self) -> bool:
        """Whether their image brings PyTorch, which the file leaves out."""
        return self is not Jobs.copying


def shortfalls(folder: Path) -> dict[Jobs, str]:
    """Return the kinds of jobs that cannot run with the programs of a folder, with a sentence on what to install.

    A folder without Python stands for an image of another kind, and is not checked.
    """
    if not (folder / "python").exists():
        return {}
    missing = {kind: _missing(folder, kind) for kind in Jobs}
    return {kind: _described(folder, kind, package) for kind, package in missing.items() if package}


def _missing(folder: Path, kind: Jobs) -> str:
    """Return the first package that jobs of a kind do not find in an environment; empty if they find all."""
    # The command of a job, without its installation (constructs_optim/recipe/planning.py).
    install = ["-m", "pip", "install", "--no-deps", "--dry-run", "-qr", str(kind.requirements)]
    variables = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1"}
    for name in ("PIP_FIND_LINKS", "PIP_CONSTRAINT", "PYTHONPATH"):
        variables.pop(name, None)
    done = subprocess.run([folder / "python", *install], env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        found = _ABSENT.search(done.stderr)
        return found[1] if found else done.stderr.strip().rpartition("\n")[2]
    if kind.needs_torch:
        find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        if subprocess.run([folder / "python", "-c", find], check=False, capture_output=True).returncode != 0:
            return "torch"
    return ""


def _described(folder: Path, kind: Jobs, package: str) -> str:
    packages = "torch" if package == "torch" else f"--no-deps -r {kind.requirements}"
    return f"{folder} lacks {package}, which {kind} jobs need. Run: {folder / 'python'} -m pip install {packages}"
