"""Environments that the pages' own lines make. Pages share what the lines that they begin with make."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from constructs_optim_local.cloud import IN_THE_WAY
from tests.support.made_once import made_once

from .page import Console, PageError, steps
from .terminal import Terminal

# Of AWS and the CDK, of the tests, and of a make that runs them: its job server is not there for a reader's make.
_OF_THIS_RUN = ("AWS_", "CDK_", "JSII_", "MAKE", "MFLAGS", "PYTHON", "PYTEST_", "VIRTUAL_ENV", *IN_THE_WAY)
_INSTALLS = re.compile(r"python3 -m venv |(?:\S+/)?pip install |npm (?:install|pack) |make -C ")
_ACTIVATES = re.compile(r"source (\S+)/bin/activate")


def of_a_fresh_machine(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that a reader's machine has as well."""
    return {name: value for name, value in variables.items() if not name.startswith(_OF_THIS_RUN)}


def installs(command: str) -> bool:
    """Whether a command only makes or fills an environment in the reader's directory."""
    return _INSTALLS.match(command) is not None


def install_lines(page: Path) -> list[str]:
    """The commands of a page that make its environment, in their order."""
    return [
        command.copied
        for step in steps(page)
        if isinstance(step, Console)
        for command in step.commands
        if installs(command.copied)
    ]


def made_by(lines: Sequence[str], folder: Path, environment: dict[str, str]) -> Path:
    """Return the directory in which lines were run, each one once for all pages of a run, below ``folder``.

    Raises:
        PageError: if a line fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    *before, last = lines
    key = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    # A virtual environment has absolute paths: it is made where it stays, and another folder says that it is complete.
    place = folder / key

    def make(complete: Path) -> None:
        complete.mkdir()
        shutil.rmtree(place, ignore_errors=True)
        if before:
            _copied(made_by(before, folder, environment), place)
        else:
            place.mkdir()
        with Terminal(place, complete, environment) as terminal:
            for line in (*map(activation, before), last):
                status, printed = terminal.run(line)
                if status != 0:
                    raise PageError(f"{line!r} ended with exit status {status}:\n{printed}")

    made_once(folder / f"{key}.complete", make)
    return place


def _copied(made: Path, place: Path) -> None:
    """Copy an environment by hard links: installers replace files, and never write into one."""
    shutil.copytree(made, place, symlinks=True, copy_function=os.link)
    for file in (*place.glob(".*/bin/*"), *place.glob(".*/pyvenv.cfg")):
        if file.is_file() and not file.is_symlink() and str(made).encode() in (content := file.read_bytes()):
            mode = file.stat().st_mode
            file.unlink()
            file.write_bytes(content.replace(str(made).encode(), str(place).encode()))
            file.chmod(mode)


def linked(environment: Path, directory: Path) -> None:
    """Give a reader's directory what an environment has."""
    for entry in environment.iterdir():
        (directory / entry.name).symlink_to(entry)


def activation(command: str) -> str:
    """The part of an installing command that changes the terminal; ``true`` if there is none."""
    found = _ACTIVATES.search(command)
    return found[0] if found else "true"
