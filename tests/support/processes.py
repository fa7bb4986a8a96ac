"""Processes and their sockets, read from /proc."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from pathlib import Path

from .waiting import settled

_LISTEN = "0A"


def marked(marker: str) -> list[int]:
    """The processes, other than this one, that have ``marker`` in their environment."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def children(pid: int | None) -> list[int]:
    """The running processes that a process started itself."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name of the program, in parentheses, may have spaces.
                state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(parent) == pid and state != "Z":
                    found.append(int(entry.name))
    return found


def none_left(marker: str, seconds: float = 15) -> bool:
    """Whether all the marked processes are gone within ``seconds``."""
    return not settled(lambda: marked(marker), lambda processes: not processes, seconds)


def listening_addresses(pid: int) -> set[str]:
    """``address:port`` of every TCP socket that a process listens on."""
    inodes: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                found.add(f"{_address(address)}:{int(port, 16)}")
    return found


def _address(hexadecimal: str) -> str:
    words = [struct.pack("<I", int(hexadecimal[i : i + 8], 16)) for i in range(0, len(hexadecimal), 8)]
    return str(ipaddress.ip_address(b"".join(words)))
