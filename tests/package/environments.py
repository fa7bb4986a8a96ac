"""Virtual environments that hold the built package and what it asks for, made for a test."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.documents import CHECKOUT

UV = Path(sys.executable).parent / "uv"
NODE = Path(sys.executable).parent / "node"

# What the base install may ask for, and nothing else.
BASE = ("aws-cdk-lib", "boto3", "constructs", "jsii", "pydantic")


def run(
    *command: str | Path, cwd: Path, check: bool = True, path: str = "", text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that sees nothing of this checkout: its packages are those of its own environment.

    ``text`` is its standard input. Default: this process's.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {
        **kept,
        "JSII_NODE": str(NODE),
        "PATH": f"{path}{os.pathsep}{kept['PATH']}" if path else kept["PATH"],
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not check or done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done


def interpreter(version: str) -> str:
    """A Python of that version: this one, one of pyenv's, or one that uv finds or fetches.

    Where there is none, the test that asks is skipped.
    """
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for found in sorted(root.glob(f"versions/{version}.*/bin/python")):
        return str(found)
    asked = run(UV, "python", "find", version, cwd=CHECKOUT, check=False)
    if asked.returncode != 0:
        asked = run(UV, "python", "install", version, cwd=CHECKOUT, check=False)
        asked = run(UV, "python", "find", version, cwd=CHECKOUT, check=False)
    if asked.returncode != 0:
        pytest.skip(f"this machine has no Python {version}: {asked.stderr.strip()}")
    return asked.stdout.strip()


class Environment:
    """A virtual environment.

    Args:
        folder: Where it is made.
        version: Of Python, ``3.12``.
    """

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        run(interpreter(version), "-m", "venv", folder, cwd=CHECKOUT)
        self.bin = folder / "bin"
        self.python = self.bin / "python"

    def install(self, *what: str | Path, with_pip: bool = False) -> None:
        """Install packages: with uv, or with pip behind a mirror that only pip's configuration names."""
        with_uv = [UV, "pip", "install", "--quiet", "--python", self.python, *what]
        if not with_pip and run(*with_uv, cwd=self.folder, check=False).returncode == 0:
            return
        # What is not compiled now is when it is imported; aws_cdk has more than that.
        run(self.python, "-m", "pip", "install", "--quiet", "--no-compile", *what, cwd=self.folder)

    def run(
        self, *command: str | Path, cwd: Path, check: bool = True, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as in the activated environment."""
        return run(*command, cwd=cwd, check=check, path=str(self.bin), text=text)

    @property
    def distributions(self) -> dict[str, Distribution]:
        """What is installed, by its canonical name; without pip, which made it."""
        (packages,) = self.folder.glob("lib/python*/site-packages")
        found = {str(canonicalize_name(each.name)): each for each in distributions(path=[str(packages)])}
        return {name: each for name, each in found.items() if name not in ("pip", "setuptools")}

    def needed_by(self, *names: str) -> set[str]:
        """Canonical names of these packages and of all that they ask for here, without extras."""
        installed = self.distributions
        needed: set[str] = set()
        asked = list(names)
        while asked:
            name = str(canonicalize_name(asked.pop()))
            if name in needed:
                continue
            needed.add(name)
            requirements = map(Requirement, installed[name].requires or ())
            # Markers are read with this interpreter's values: none of them tells 3.11 from 3.13.
            asked += [each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
        return needed
