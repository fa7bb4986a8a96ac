"""What a build does, as its buildspec says it.

Source: CodeBuild user guide, "Build specification reference for CodeBuild" (version 0.2). Read are ``env`` (shell,
variables, exported variables), ``phases`` and ``artifacts``; ``cache``, ``proxy`` and ``reports`` are passed over, for
the result of a build does not depend on them, and so are ``runtime-versions``: the programs are this machine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

PHASES = ("install", "pre_build", "build", "post_build")
_SHELLS = {"sh": "/bin/sh", "bash": "/bin/bash", "/bin/sh": "/bin/sh", "/bin/bash": "/bin/bash"}
_LACKING = ("parameter-store", "secrets-manager", "git-credential-helper")


class BuildspecError(ValueError):
    """A buildspec that cannot be carried out; its text says everything that is wrong with it."""


@dataclass(frozen=True)
class Phase:
    """One phase.

    Attributes:
        name: install, pre_build, build or post_build.
        commands: run in one shell, until one fails.
        final: run after them, whatever came of them.
        continues: whether what comes after it runs where it failed.
    """

    name: str
    commands: tuple[str, ...]
    final: tuple[str, ...] = ()
    continues: bool = False


@dataclass(frozen=True)
class Output:
    """What becomes an artifact.

    Attributes:
        files: patterns below the folder.
        folder: where they are looked for; the source's where it is empty.
        excluded: patterns of what is left out.
        discards_paths: whether the files lie side by side in the artifact.
    """

    files: tuple[str, ...]
    folder: str = ""
    excluded: tuple[str, ...] = ()
    discards_paths: bool = False


@dataclass(frozen=True)
class Buildspec:
    """A buildspec, with the values that those left out have."""

    phases: tuple[Phase, ...]
    output: Output | None = None
    secondary: tuple[tuple[str, Output], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    exported: tuple[str, ...] = ()
    shell: str = "/bin/sh"


def parse(text: str) -> Buildspec:
    """Read a buildspec, YAML or JSON.

    Raises:
        BuildspecError: saying everything that is wrong with it.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BuildspecError(f"YAML_FILE_ERROR: {error}") from None
    if not isinstance(given, dict):
        raise BuildspecError("YAML_FILE_ERROR: the buildspec is no mapping")
    problems = list[str]()
    if str(given.get("version")) != "0.2":
        problems.append(f"version is {given.get('version')!r}; the local cloud runs 0.2")
    if "batch" in given:
        problems.append("batch: the local cloud has no batch builds")
    env, phases, artifacts = (_mapping(given, name, problems) for name in ("env", "phases", "artifacts"))
    problems += [f"env.{name}: the local cloud's builds have no {name}" for name in _LACKING if name in env]
    shell = str(env.get("shell", "sh"))
    if shell not in _SHELLS:
        problems.append(f"env.shell is {shell!r}; the local cloud has sh and bash")
    problems += [f"phases.{name} is none of {', '.join(PHASES)}" for name in phases if name not in PHASES]
    if not phases:
        problems.append("phases: at least one is needed")
    found = Buildspec(
        phases=tuple(_phase(name, phases[name], problems) for name in PHASES if name in phases),
        output=_output("artifacts", artifacts, problems) if "files" in artifacts else None,
        secondary=tuple(
            (str(name), _output(f"artifacts.secondary-artifacts.{name}", output, problems))
            for name, output in _mapping(artifacts, "secondary-artifacts", problems).items()
        ),
        variables=tuple((str(k), str(v)) for k, v in _mapping(env, "variables", problems).items()),
        exported=_texts(env.get("exported-variables")),
        shell=_SHELLS.get(shell, ""),
    )
    if problems:
        raise BuildspecError(f"YAML_FILE_ERROR: {'; '.join(problems)}")
    return found


def _phase(name: str, given: Any, problems: list[str]) -> Phase:
    if not isinstance(given, dict) or not ("commands" in given or "runtime-versions" in given):
        problems.append(f"phases.{name} has no commands")
        return Phase(name, ())
    reaction = str(given.get("on-failure", "ABORT"))
    if reaction not in ("ABORT", "CONTINUE"):
        problems.append(f"phases.{name}.on-failure is {reaction!r}; the local cloud has ABORT and CONTINUE")
    return Phase(name, _texts(given.get("commands")), _texts(given.get("finally")), reaction == "CONTINUE")


def _output(place: str, given: Any, problems: list[str]) -> Output:
    if not isinstance(given, dict) or not _texts(given.get("files")):
        problems.append(f"{place} has no files")
        return Output(())
    return Output(
        _texts(given["files"]),
        str(given.get("base-directory") or ""),
        _texts(given.get("exclude-paths")),
        str(given.get("discard-paths", "no")).lower() in ("yes", "true"),
    )


def _mapping(given: dict[str, Any], name: str, problems: list[str]) -> dict[str, Any]:
    found = given.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        problems.append(f"{name} is no mapping")
        return {}
    return found


def _texts(given: Any) -> tuple[str, ...]:
    """One text or a list of them."""
    if given is None:
        return ()
    return tuple(str(item) for item in given) if isinstance(given, list) else (str(given),)
