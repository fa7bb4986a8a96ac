"""Stands between the local cloud and a container's processes: ``supervisor.py COMMAND ...``.

It starts the command in a process group of its own and ends with its exit status. ``T`` on its standard input passes
SIGTERM on. The end of its standard input, which is the end of the local cloud however that ends, kills the group; and
nothing of it outlasts the command. Standard library only: it is started as a file, for each container.
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
    """Run the command, and return its exit status as a shell gives it: 128 and the signal that ended it."""
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
    # Again, for one may start another before it is killed.
    for _ in range(_PASSES):
        strays = _strays()
        if not strays:
            return
        for process in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_PASS_SECONDS)


def _strays() -> list[int]:
    """Processes that left the group, as those of ``torchrun`` do: the container's folder is in their environment.

    Only Linux reports them; elsewhere they are left to the process that started them.
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
    # The thread that waits for orders is not waited for.
    sys.stderr.flush()
    os._exit(status)
