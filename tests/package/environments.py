"""Virtual environments with the built package and its dependencies, created for a test."""

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

# All dependencies that the base install may have.
BASE = ("aws-cdk-lib", "boto3", "constructs", "jsii", "pydantic", "regex", "ruamel-yaml")


def run(
    *command: str | Path, cwd: Path, check: bool = True, path: str = "", text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command isolated from this checkout, with the packages of its own environment.

    ``text`` is its standard input. Default: this process's.
    """
    # COLUMNS: the width of a terminal, which pytest-xdist sets for its workers.
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
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
    """A Python of that version: this one, one of pyenv's, or one that uv finds or downloads.

    The test is skipped if none is available.
    """
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in sorted(root.glob(f"versions/{version}.*/bin/python")):
        return str(candidate)
    found = run(UV, "python", "find", version, cwd=CHECKOUT, check=False)
    if found.returncode != 0:
        found = run(UV, "python", "install", version, cwd=CHECKOUT, check=False)
        found = run(UV, "python", "find", version, cwd=CHECKOUT, check=False)
    if found.returncode != 0:
        pytest.skip(f"this machine has no Python {version}: {found.stderr.strip()}")
    return found.stdout.strip()


class Environment:
    """A virtual environment.

    Args:
        folder: Its location.
        version: Of Python, ``3.12``.
    """

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        run(interpreter(version), "-m", "venv", folder, cwd=CHECKOUT)
        self.bin = folder / "bin"
        self.python = self.bin / "python"

    def install(self, *what: str | Path, with_pip: bool = False) -> None:
        """Install packages with uv, or with pip if only pip's configuration names the package mirror."""
        with_uv = [UV, "pip", "install", "--quiet", "--python", self.python, *what]
        if not with_pip and run(*with_uv, cwd=self.folder, check=False).returncode == 0:
            return
        # Modules are compiled when they are imported; most of aws_cdk never is.
        run(self.python, "-m", "pip", "install", "--quiet", "--no-compile", *what, cwd=self.folder)

    def run(
        self, *command: str | Path, cwd: Path, check: bool = True, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as in the activated environment."""
        return run(*command, cwd=cwd, check=check, path=str(self.bin), text=text)

    @property
    def distributions(self) -> dict[str, Distribution]:
        """The installed distributions by canonical name, without pip and setuptools."""
        (packages,) = self.folder.glob("lib/python*/site-packages")
        found = {str(canonicalize_name(each.name)): each for each in distributions(path=[str(packages)])}
        return {name: each for name, each in found.items() if name not in ("pip", "setuptools")}

    def needed_by(self, *names: str) -> set[str]:
        """Canonical names of these packages and of all their installed dependencies, without extras."""
        installed = self.distributions
        needed: set[str] = set()
        pending = list(names)
        while pending:
            name = str(canonicalize_name(pending.pop()))
            if name in needed:
                continue
            needed.add(name)
            requirements = map(Requirement, installed[name].requires or ())
            # Markers are read with this interpreter's values: none of them tells 3.11 from 3.13.
            pending += [
                each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
        return needed
