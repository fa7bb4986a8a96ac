"""Each command that an alarm's text or the page of alarms names is run by a test against its fault."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.pages.standing_in import words_of

from ..support.documents import CHECKOUT

PLACES = [CHECKOUT / "docs" / "alarms.md", CHECKOUT / "constructs_optim" / "recipe" / "hosting" / "alarms.toml"]
_COMMAND = re.compile(r"constructs-optim ((?:endpoint|jobs|artifacts)[^`)]*)")
# By sub-commands and options. Each test asserts that the cause is in the output.
TESTS = {
    "jobs list --status": "tests/cli/test_jobs.py::test_failed_jobs_are_listed_with_their_reasons",
    "endpoint show": "tests/cli/test_endpoint.py::test_a_component_without_copies_waits_for_capacity",
    "endpoint start": "tests/cli/test_endpoint.py::test_a_component_without_copies_waits_for_capacity",
}


def named() -> set[str]:
    """The sub-commands and options of the commands."""
    texts = [" ".join(place.read_text().split()) for place in PLACES]
    words = [shlex.split(command) for text in texts for command in _COMMAND.findall(text)]
    return {" ".join([*each[:2], *(word for word in each[2:] if word.startswith("--"))]) for each in words}


def test_each_command_of_a_runbook_has_a_test() -> None:
    assert named() == set(TESTS)


@pytest.mark.parametrize("command", TESTS)
def test_the_test_of_a_command_runs_it(command: str) -> None:
    # The group of commands is in the file's function that runs them.
    assert set(command.split()) <= words_of(TESTS[command])
