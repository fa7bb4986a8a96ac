"""Ports on loopback for servers that start later, in processes of their own."""

from __future__ import annotations

import random
import socket

# Below those that systems give to clients and to servers that ask for any port (Linux: 32768 to 60999 by default, macOS
# and Windows: from 49152), so that another process rarely gets the port before its server listens.
_FIRST, _LAST = 16_384, 32_767
_TRIES = 100
_choice = random.SystemRandom()


def free_port() -> int:
    """Return a port on loopback at which nothing listens.

    Raises:
        RuntimeError: if none of 100 tries finds one.
    """
    reason: OSError | None = None
    for _ in range(_TRIES):
        port = _choice.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                reason = error
            else:
                return port
    raise RuntimeError(
        f"none of {_TRIES} ports between {_FIRST} and {_LAST} on 127.0.0.1 is free ({reason}): end servers that you no "
        "longer need, or allow this process to open ports on loopback"
    ) from reason
