"""A reader who follows a page from an empty directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import environments
from .output import contains, difference
from .page import Console, PageError, Printed, SavedFile, steps
from .terminal import Background, Terminal


def follow(
    page: Path,
    directory: Path,
    work: Path,
    environment: dict[str, str],
    *,
    made: Path | None,
    give: Callable[[str], None],
) -> int:
    """Do what a page says, and return how many commands ran.

    Args:
        page: the page.
        directory: the reader's directory, empty or with what an earlier page left.
        work: a directory for the runner's own files.
        environment: the variables of the reader's terminal.
        made: where the page's installing lines were run; None if they are run here.
        give: brings about a state that a block needs.

    Raises:
        PageError: if a command fails, or prints something else than the page shows. The message names the block.
    """
    work.mkdir(exist_ok=True)
    if made is not None:
        environments.linked(made, directory)
    ran, last = 0, ""
    background: Background | None = None
    try:
        with Terminal(directory, work, environment) as terminal:
            for step in steps(page):
                if isinstance(step, Console) and step.given:
                    give(step.given)
                if isinstance(step, SavedFile):
                    _save(step, directory)
                elif isinstance(step, Printed):
                    if not contains(last, step.text):
                        raise PageError(f"{step.at}: the last command did not print this, but:\n{last}")
                elif step.keeps_running:
                    background = _in_background(step, terminal, work, background)
                    ran += 1
                else:
                    ran, last = ran + len(step.commands), _run(step, terminal, made=made is not None)
            if background is not None:
                ended, background = background, None
                ended.stop()
    finally:
        if background is not None:
            background.kill()
    return ran


def _save(file: SavedFile, directory: Path) -> None:
    path = directory / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not file.changes:
        path.write_text(file.text)
        return
    if not path.exists():
        raise PageError(f"{file.at} changes {file.name}, which the page has not saved")
    before = "".join(f"{line[1:]}\n" for line in file.text.splitlines() if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in file.text.splitlines() if not line.startswith("-"))
    content = path.read_text()
    if content.count(before) != 1:
        raise PageError(f"{file.at} changes lines that {file.name} has {content.count(before)} times")
    path.write_text(content.replace(before, after))


def _in_background(step: Console, terminal: Terminal, work: Path, before: Background | None) -> Background:
    if before is not None:
        before.stop()
    (command,) = step.commands
    variables = {**terminal.variables, "COLUMNS": str(step.columns)}
    started = Background(command.copied, terminal.directory, work, variables)
    try:
        if command.output and (found := difference(command.output, started.printed, any_order=step.any_order)):
            raise PageError(f"{step.at}: {command.copied!r} prints something else:\n{found}")
        terminal.run(started.assignments)
    except BaseException:
        started.kill()
        raise
    return started


def _run(step: Console, terminal: Terminal, *, made: bool) -> str:
    printed = ""
    for command in step.commands:
        installed = made and environments.installs(command.copied)
        text = environments.activation(command.copied) if installed else command.text
        status, printed = terminal.run(text, columns=step.columns, answer=step.answer)
        should_fail = step.fails and command is step.commands[-1]
        if (status != 0) != should_fail:
            raise PageError(f"{step.at}: {command.text!r} ended with exit status {status}:\n{printed}")
        found = difference(command.output, printed, any_order=step.any_order, durations_vary=step.durations_vary)
        if command.output and found:
            raise PageError(f"{step.at}: {command.text!r} prints something else:\n{found}")
    return printed
