"""A container as a process of this machine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import supervisor

_LONGEST_LINE = 65_536
_READING_SECONDS = 5.0


class SupervisedProcess:
    """A command under ``supervisor``, which ends the command when this process ends.

    Args:
        command: the container's command line.
        environment: all environment variables of the command.
        folder: the working directory.
        read: gets each line of the output, in a separate thread.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, read: Callable[[str], None]
    ) -> None:
        # Python runs isolated, because the variables are the command's.
        supervised = [sys.executable, "-I", "-S", supervisor.__file__]
        self._process = subprocess.Popen(
            [*supervised, *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A signal to the local cloud's group must not end the supervisor before it has ended the command.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reader.start()

    @property
    def status(self) -> int | None:
        """The exit status; 128 plus the signal if a signal ended the command; None while it runs."""
        status = self._process.poll()
        if status is not None:
            # The last lines of the output often have a metric.
            self._reader.join(_READING_SECONDS)
        return status if status is None or status >= 0 else 128 - status

    def terminate(self) -> None:
        """Send SIGTERM to the command's process group."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(supervisor.TERMINATE)
                self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the command and all processes that it started. Returns at once."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _read(self, read: Callable[[str], None]) -> None:
        output = self._process.stdout
        if output is None:
            return
        with contextlib.suppress(OSError, ValueError), output:
            while line := output.readline(_LONGEST_LINE):
                read(line.decode(errors="replace").rstrip("\r\n"))
