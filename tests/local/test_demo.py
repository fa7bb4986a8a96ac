"""The processes that the demo starts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from constructs_optim_local import demo

from ..support.waiting import settled

SLEEPS = ["sh", "-c", "sleep 60 & wait"]


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_a_process_starts_ends_that_process(
    sign: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when the process exists and nobody has it yet."""
    groups: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            groups.append(self.pid)
            os.kill(os.getpid(), sign)

    monkeypatch.setattr(demo.subprocess, "Popen", Interrupted)
    before = signal.signal(sign, signal.default_int_handler)
    try:
        with (
            (tmp_path / "log").open("w") as log,
            pytest.raises(KeyboardInterrupt),
            demo.running(SLEEPS, tmp_path, dict(os.environ), log),
        ):
            raise AssertionError("the interruption comes before the block")
        assert signal.getsignal(sign) is signal.default_int_handler
    finally:
        signal.signal(sign, before)
    assert len(groups) == 1
    assert settled(lambda: is_gone(groups[0]), bool)


def test_a_process_that_did_not_start_leaves_ctrl_c_as_it_was(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(FileNotFoundError),
        demo.running(["no-such-program"], tmp_path, dict(os.environ), log),
    ):
        pass
    assert signal.getsignal(signal.SIGINT) is before
