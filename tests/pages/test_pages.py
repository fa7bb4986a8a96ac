"""Each page is followed from an empty directory, in an environment that its own lines make."""

from __future__ import annotations

import hashlib
import re
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud
from tests.support.documents import CHECKOUT, snippets
from tests.support.made_once import folder_of_run
from tests.support.processes import none_left

from .environments import install_lines, made_by
from .given import give
from .page import Console, SavedFile, all_pages, is_console, is_followed, not_run, steps
from .reader import follow
from .standing_in import commands_without, references, words_of

# A page that installs nothing continues from this one.
FIRST = CHECKOUT / "docs" / "getting-started.md"
# Needs PyTorch, as a quantization job does: make medusa follows it.
TRAINS = {CHECKOUT / "docs" / "tutorial.md"}
# What no test runs: a program of others that needs a server, and a benchmark that trains for minutes.
UNTESTED = {"docs/speculation.md: aiperf", "docs/medusa.md: .venv-models/bin/python"}
PAGES = all_pages()
_MAKE = re.compile(r"^\$ make (\w+)", re.MULTILINE)


def account_of(page: Path) -> str:
    """An account of the page's own, as 12 digits."""
    return str(int(hashlib.sha256(str(page).encode()).hexdigest(), 16))[:12]


@pytest.mark.e2e
# An installation takes minutes on a busy machine; each command has a limit of its own.
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.trains] if page in TRAINS else [])
        for page in sorted(PAGES, key=lambda page: page != FIRST)
        if is_followed(page)
    ],
    ids=lambda page: page.relative_to(CHECKOUT).as_posix(),
)
def test_a_page_can_be_followed_from_an_empty_directory(
    page: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, str],
    hub: str,
    request: pytest.FixtureRequest,
) -> None:
    lines, run = install_lines(page), commands_of(page)
    continues = not any(line.startswith("python3 -m venv") for line in lines)
    lines = [*install_lines(FIRST), *lines] if continues else lines
    made = made_by(lines, folder_of_run(tmp_path_factory) / "environments", environment)
    directory, variables = tmp_path / "reader", {**environment, "HF_ENDPOINT": hub}
    directory.mkdir()
    if continues:
        variables |= {"VIRTUAL_ENV": f"{made}/.venv", "PATH": f"{made}/.venv/bin:{environment['PATH']}"}
        for step in steps(FIRST):
            if isinstance(step, SavedFile) and not step.changes:
                (directory / step.name).write_text(step.text)
    if any(command.startswith("aws ") for command in run):
        variables["PATH"] += f":{request.getfixturevalue('aws')}"
    if any(command.startswith("terraform ") for command in run):
        variables |= request.getfixturevalue("terraform")
    marker = uuid.uuid4().hex
    with ExitStack() as stack:
        own: LocalCloud | None = None
        if any(isinstance(step, Console) and step.given for step in steps(page)):
            own = stack.enter_context(LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.2))
            variables |= own.environment()
        elif not any(isinstance(step, Console) and step.keeps_running for step in steps(page)):
            cloud: LocalCloud = request.getfixturevalue("cloud")
            variables |= cloud.environment(account_of(page))

        def bring_about(state: str) -> None:
            assert own is not None
            give(state, own, tmp_path / "given")

        variables["READER"] = marker
        assert follow(page, directory, tmp_path / "work", variables, made=made, give=bring_about) > 0
    assert none_left(marker), "a command of the page left a process running"


def commands_of(page: Path) -> list[str]:
    """The commands of a page that are run."""
    return [command.copied for step in steps(page) if isinstance(step, Console) for command in step.commands]


def test_each_block_of_commands_is_followed_or_names_a_test_that_runs_its_commands() -> None:
    blocks = [(step, references(reason)) for page in PAGES for step, reason in not_run(page)]
    assert len(blocks) > 10
    left = [f"{step.at}: {command}" for step, tests in blocks for command in commands_without(step, tests)]
    untested = {re.sub(r":\d+: (\S+).*", r": \1", each, flags=re.DOTALL) for each in left}
    assert untested == UNTESTED, left


def test_each_block_of_output_is_compared_or_names_the_test_that_compares_it() -> None:
    left = [
        str(snippet)
        for page in PAGES
        if page.name != "likely-mistakes.md"  # tests/docs/test_likely_mistakes.py compares all
        for snippet in snippets(page)
        if snippet.language in ("", "text") and not is_console(snippet)
        if snippet.marker != "printed"
        and not snippet.marker.startswith(("printed; ", "no output: "))
        and not [words_of(test) for test in references(snippet.marker)]
    ]
    assert left == []


def test_what_pages_install_can_be_installed_before_the_first_release() -> None:
    # The page of mistakes shows what the command prints.
    lines = [
        f"{page.relative_to(CHECKOUT)}: {line}"
        for page in PAGES
        if page.name not in ("likely-mistakes.md", "CONTRIBUTING.md")
        for line in page.read_text().splitlines()
        if re.search(r'pip install "?constructs-optim', line) and "0.1.0" not in line
    ]
    assert lines == []


def test_each_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (CHECKOUT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {
        target
        for page in PAGES
        for snippet in snippets(page)
        if is_console(snippet)
        for target in _MAKE.findall(snippet.code)
    }
    assert {"demo", "test"} <= named <= targets
