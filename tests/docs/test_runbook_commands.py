"""Each command that an alarm's text or the page of alarms names is run by a test against its fault."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.pages.standing_in import words_of

from ..support.documents import CHECKOUT

ALARMS = (CHECKOUT / "constructs_optim" / "recipe" / "hosting" / "alarms.toml").read_text(encoding="utf-8")
# From its first section of an alarm.
RUNBOOK = (CHECKOUT / "docs" / "alarms.md").read_text(encoding="utf-8").partition("## error-rate")[2]
_COMMAND = re.compile(r"(?:constructs-optim|aws|npx cdk) ([a-z][^`)]*)[`)]")
# By sub-commands and options. Each test asserts that the cause is in the output.
TESTS = {
    "jobs list --status --status": "tests/cli/test_jobs.py::test_jobs_that_ended_early_are_listed_with_their_reasons",
    "endpoint show": "tests/cli/test_endpoint.py::test_a_component_without_copies_waits_for_capacity",
    "endpoint start": "tests/cli/test_endpoint.py::test_a_component_without_copies_waits_for_capacity",
}


def named() -> set[str]:
    """The sub-commands and options of the commands."""
    texts = [" ".join(text.split()) for text in (ALARMS, RUNBOOK)]
    words = [shlex.split(command) for text in texts for command in _COMMAND.findall(text)]
    return {" ".join([*each[:2], *(word for word in each[2:] if word.startswith("--"))]) for each in words}


def test_each_command_of_a_runbook_has_a_test() -> None:
    assert named() == set(TESTS)


@pytest.mark.parametrize("command", TESTS)
def test_the_test_of_a_command_runs_it(command: str) -> None:
    # The group of commands is in the file's function that runs them.
    assert set(command.split()) <= words_of(TESTS[command])
