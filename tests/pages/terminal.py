"""Terminals of a reader: shells that keep their variables, in the reader's directory."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType

from .page import PageError

_LONGEST = 900.0
_QUESTION = "[y/N]: "
_READY = "Press Ctrl-C to stop"


class Terminal:
    """A shell in a directory. Each command is run as it is written, with the variables that earlier ones left."""

    def __init__(self, directory: Path, work: Path, environment: dict[str, str]) -> None:
        """Start the shell. ``work`` is for its own files, apart from the reader's."""
        self.directory, self._work = directory, work
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            if pipe is not None:
                pipe.close()

    def run(self, command: str, *, columns: int = 80, answer: str = "") -> tuple[int, str]:
        """Run a command, and return its exit status and what a terminal shows of it, with the answer to its question.

        Raises:
            PageError: if it does not end.
        """
        script, output, typed = (self._work / name for name in ("command.sh", "output", "input"))
        typed.write_text(f"{answer}\n" if answer else "")
        script.write_text(f"export COLUMNS={columns}\n{command}\n")
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        script, output_, typed_ = (shlex.quote(str(each)) for each in (script, output, typed))
        self._shell.stdin.write(f". {script} >{output_} 2>&1 <{typed_}; echo $?\n")
        self._shell.stdin.flush()
        timer = _Timer(self._shell.pid)
        with timer:
            status = self._shell.stdout.readline().strip()
        printed = output.read_text(errors="replace") if output.exists() else ""
        if not status:
            why = f"ran longer than {_LONGEST:.0f} seconds" if timer.is_over else "ended the shell"
            raise PageError(f"{command!r} {why}:\n{printed}")
        # A terminal echoes what is typed.
        return int(status), printed.replace(_QUESTION, f"{_QUESTION}{answer}\n", 1) if answer else printed

    @property
    def variables(self) -> dict[str, str]:
        """The exported variables."""
        _, text = self.run("env -0")
        return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


class _Timer:
    """Kills a shell's processes when the time is over."""

    def __init__(self, group: int) -> None:
        self.is_over = False
        self._group = group
        self._timer = threading.Timer(_LONGEST, self._kill)

    def _kill(self) -> None:
        self.is_over = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


class Background:
    """A command that keeps running in a terminal of its own, as ``constructs-optim local start`` does."""

    def __init__(self, command: str, directory: Path, work: Path, environment: dict[str, str]) -> None:
        """Start it, and wait until it says how to stop it.

        Raises:
            PageError: if it ends before.
        """
        self._command, self._output = command, work / f"background-{time.monotonic_ns()}"
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-c", f"exec {command}"],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until = time.monotonic() + 120
        while _READY not in self.printed:
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise PageError(f"{command!r} did not start:\n{self.printed}")
            time.sleep(0.05)

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._output.read_text(errors="replace")

    @property
    def assignments(self) -> str:
        """The lines that a reader copies into another terminal."""
        return "\n".join(line for line in self.printed.splitlines() if line.startswith(("export ", "unset ")))

    def stop(self) -> None:
        """Press Ctrl-C.

        Raises:
            PageError: if it ends with an error.
        """
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            status = self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PageError(f"{self._command!r} ignores Ctrl-C") from None
        if status != 0:
            raise PageError(f"{self._command!r} ended with exit status {status}:\n{self.printed}")

    def kill(self) -> None:
        """End it and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
