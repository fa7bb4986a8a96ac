"""The commands of a buildspec as one shell script, which writes down how far it has come.

Version 0.2 runs all commands in one shell, so that a folder or a variable that one sets is there for the next (user
guide, "Build specification reference for CodeBuild", version). A phase that fails ends the build, but ``post_build``
follows a failed ``build`` (user guide, "View build details": build phase transitions).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .buildspec import Buildspec, Phase

_PREAMBLE = """\
_codebuild_ended=0
_codebuild_tell() {{ printf '%s\\n' "$*" >>{progress}; }}
_codebuild_show() {{ printf '[Container] Running command %s\\n' "$1"; }}
"""


@dataclass(frozen=True)
class Step:
    """What the script wrote down: ``begin``, ``failed`` (with the command's number and its exit status) or ``end``."""

    kind: str
    phase: str
    command: int = 0
    status: int = 0


def script(spec: Buildspec, progress: Path, exported: Path) -> str:
    """The script; its exit status is 0 where all went well."""
    return "\n".join(_lines(spec, progress, exported))


def steps(progress: Path) -> list[Step]:
    """What the script has written down by now."""
    try:
        lines = progress.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [Step(kind, phase, *map(int, more)) for kind, phase, *more in (line.split() for line in lines)]


def exported_variables(exported: Path) -> dict[str, str]:
    """The variables that the build hands on."""
    try:
        found = exported.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    return dict(item.split("=", 1) for item in found.split("\0") if item)


def commands(spec: Buildspec, phase: str) -> tuple[str, ...]:
    """The commands of a phase, as :class:`Step` counts them."""
    found = next(item for item in spec.phases if item.name == phase)
    return (*found.commands, *found.final)


def _lines(spec: Buildspec, progress: Path, exported: Path) -> Iterator[str]:
    yield _PREAMBLE.format(progress=shlex.quote(str(progress)))
    for name, value in spec.variables:
        yield f"export {name}={shlex.quote(value)}"
    for phase in spec.phases:
        yield from _phase_lines(phase)
    yield f": >{shlex.quote(str(exported))}"
    for name in spec.exported:
        yield f"printf '%s=%s\\0' {name} \"${name}\" >>{shlex.quote(str(exported))}"
    yield 'exit "$_codebuild_ended"'


def _phase_lines(phase: Phase) -> Iterator[str]:
    # After a failed build, only post_build: one that an earlier phase ended does not come so far.
    runs = '[ "$_codebuild_ended" != 2 ]' if phase.name == "post_build" else '[ "$_codebuild_ended" = 0 ]'
    yield f"if {runs}; then"
    yield f"_codebuild_failed=0; _codebuild_tell begin {phase.name}"
    for number, command in enumerate(phase.commands):
        yield f'if [ "$_codebuild_failed" = 0 ]; then\n{_run(phase, number, command)}\nfi'
    for number, command in enumerate(phase.final, len(phase.commands)):
        yield _run(phase, number, command)
    yield f'_codebuild_tell end {phase.name} 0 "$_codebuild_failed"'
    ended = 0 if phase.continues else 1 if phase.name in ("build", "post_build") else 2
    if ended:
        yield f'if [ "$_codebuild_failed" != 0 ]; then _codebuild_ended={ended}; fi'
    if phase.name == "build":
        yield 'export CODEBUILD_BUILD_SUCCEEDING="$((1 - _codebuild_failed))"'
    yield "fi"


def _run(phase: Phase, number: int, command: str) -> str:
    text = shlex.quote(command)
    return (
        f"_codebuild_show {text}\neval {text}\n_codebuild_status=$?\n"
        f'if [ "$_codebuild_status" != 0 ]; then _codebuild_failed=1; '
        f'_codebuild_tell failed {phase.name} {number} "$_codebuild_status"; fi'
    )
