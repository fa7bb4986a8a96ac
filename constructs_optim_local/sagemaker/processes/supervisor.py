"""Runs a container's command for the local cloud: ``supervisor.py COMMAND ...``.

It starts the command in its own process group and ends with its exit status. ``T`` on standard input makes it send
SIGTERM. The end of standard input, that is, of the local cloud, makes it kill the group. No process of the group
outlasts the command. Standard library only, because it starts as a file, for each container.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TERMINATE = b"T"
_NOT_FOUND = 127
_PASSES, _PASS_SECONDS = 50, 0.02
_BASE = "SAGEMAKER_BASE_DIR"


def main() -> int:
    """Run the command, and return its exit status as a shell does: 128 plus the signal that ended it."""
    command = sys.argv[1:]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{command[0]} could not be started: {error.strerror}\n")
        return _NOT_FOUND
    threading.Thread(target=_obey, args=(process.pid,), daemon=True).start()
    status = process.wait()
    _kill(process.pid)
    return status if status >= 0 else 128 - status


def _obey(group: int) -> None:
    while word := os.read(0, 1):
        if word == TERMINATE:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
    _kill(group)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    # Repeat, because a process may start another before it is killed.
    for _ in range(_PASSES):
        strays = _strays()
        if not strays:
            return
        for process in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_PASS_SECONDS)


def _strays() -> list[int]:
    """Return processes that left the group, as torchrun's do: the container's folder is in their environment.

    Only Linux shows their environment; elsewhere, the process that started them has to end them.
    """
    mark = f"{_BASE}={os.environ.get(_BASE)}".encode()
    found = list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    status = main()
    # Do not wait for the thread that reads standard input.
    sys.stderr.flush()
    os._exit(status)
