from __future__ import annotations

import errno
import socket
from typing import NoReturn

import pytest

from constructs_optim_local.ports import free_port


def test_a_free_port_can_be_listened_at() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_the_search_for_a_port_ends_with_the_reason_if_none_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[object] = []

    class Refused(socket.socket):
        def bind(self, address: object, /) -> NoReturn:
            tries.append(address)
            if len(tries) > 1_000:
                pytest.fail("it searches for ever")
            raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", Refused)
    with pytest.raises(RuntimeError, match=r"none of 100 ports .* is free \(.*Operation not permitted\)"):
        free_port()
    assert len(tries) == 100
