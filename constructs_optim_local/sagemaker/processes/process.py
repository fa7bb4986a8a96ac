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
    """A command under :mod:`.supervisor`, which ends it with this process.

    Args:
        command: what the container runs.
        environment: all of its variables.
        folder: where it starts.
        read: gets each line of its output, from a thread of its own.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, read: Callable[[str], None]
    ) -> None:
        # Isolated, for the variables are those of what it runs.
        supervised = [sys.executable, "-I", "-S", supervisor.__file__]
        self._process = subprocess.Popen(
            [*supervised, *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What ends the local cloud's group is not to end the supervisor before it has ended the command.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reader.start()

    @property
    def status(self) -> int | None:
        """The exit status, 128 and the signal for one that a signal ended; None while it runs."""
        status = self._process.poll()
        if status is not None:
            # What it printed last is a metric, often.
            self._reader.join(_READING_SECONDS)
        return status if status is None or status >= 0 else 128 - status

    def terminate(self) -> None:
        """Send SIGTERM to its process group."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(supervisor.TERMINATE)
                self._process.stdin.flush()

    def kill(self) -> None:
        """End it and all that it started, without a chance to clean up. Returns at once."""
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
