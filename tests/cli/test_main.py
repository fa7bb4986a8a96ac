"""The command where what it needs is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


def ran_without(*absent: str, words: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The command, in an interpreter that finds none of these modules."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); sys.argv[1:] = {list(words)}\n"
        "from constructs_optim.cli import main; main()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("absent", ["rich", "typer"])
def test_the_command_says_which_extra_it_is(absent: str) -> None:
    ran = ran_without(absent, words=("plan",))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == 'The command is an extra: pip install "constructs-optim[cli]"\n'


def test_the_local_cloud_says_which_extra_it_is_whatever_it_is_asked() -> None:
    for words in (("local",), ("local", "start"), ("local", "run", "--enforce-iam", "--", "cdk", "deploy")):
        ran = ran_without("yaml", words=words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == 'The local cloud is an extra: pip install "constructs-optim[local]"\n'
