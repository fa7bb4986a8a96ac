"""Each page is followed from an empty directory, in an environment that its own lines make."""

from __future__ import annotations

import hashlib
import re
import uuid
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud
from tests.support.documents import CHECKOUT, snippets
from tests.support.made_once import folder_of_run
from tests.support.processes import none_left

from .environments import install_lines, made_by
from .page import Console, SavedFile, all_pages, is_console, is_followed, not_run, steps
from .reader import follow

# A page that installs nothing continues from this one.
FIRST = CHECKOUT / "docs" / "getting-started.md"
# Needs PyTorch, as a quantization job does: make medusa follows it.
TRAINS = {CHECKOUT / "docs" / "tutorial.md"}
# The blocks that no test follows, by page. A new one needs a reason in the page, and a number here.
NOT_RUN = {
    "README.md": 1,
    "docs/adoption.md": 1,
    "docs/dashboards.md": 1,
    "docs/evaluation.md": 2,
    "docs/examples.md": 1,
    "docs/existing-endpoints.md": 2,
    "docs/explain.md": 2,
    "docs/how-to/change-instance-type.md": 2,
    "docs/how-to/cut-cost.md": 1,
    "docs/how-to/failed-job.md": 4,
    "docs/how-to/qwen3-speculation.md": 1,
    "docs/how-to/release-gate.md": 1,
    "docs/how-to/share-artifacts.md": 1,
    "docs/medusa.md": 1,
    "docs/metrics.md": 1,
    "docs/observability.md": 1,
    "docs/operations.md": 6,
    "docs/pipelines.md": 1,
    "docs/preflight.md": 1,
    "docs/recommendation.md": 3,
    "docs/replay.md": 1,
    "docs/scaling.md": 1,
    "docs/servers.md": 1,
    "docs/serving-locally.md": 2,
    "docs/sharing.md": 1,
    "docs/speculation.md": 1,
}
# Their commands are not followed yet: tests/e2e/test_toolchains.py and test_mcp.py deploy by them.
TOOLCHAINS = {
    CHECKOUT / name
    for name in (
        "docs/agents.md",
        "docs/terraform.md",
        "terraform/README.md",
        "docs/typescript.md",
        "typescript/README.md",
    )
}
PAGES = [page for page in all_pages() if page not in TOOLCHAINS]
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
    lines = install_lines(page)
    made = made_by(lines or install_lines(FIRST), folder_of_run(tmp_path_factory) / "environments", environment)
    directory, variables = tmp_path / "reader", {**environment, "HF_ENDPOINT": hub}
    directory.mkdir()
    if not lines:
        variables |= {"VIRTUAL_ENV": f"{made}/.venv", "PATH": f"{made}/.venv/bin:{environment['PATH']}"}
        for step in steps(FIRST):
            if isinstance(step, SavedFile) and not step.changes:
                (directory / step.name).write_text(step.text)
    if not any(isinstance(step, Console) and step.keeps_running for step in steps(page)):
        cloud: LocalCloud = request.getfixturevalue("cloud")
        variables |= cloud.environment(account_of(page))
    marker = uuid.uuid4().hex
    assert follow(page, directory, tmp_path / "work", {**variables, "READER": marker}, made=made) > 0
    assert none_left(marker), "a command of the page left a process running"


def test_each_block_of_commands_is_followed_or_says_why_not() -> None:
    found = {page.relative_to(CHECKOUT).as_posix(): len([*not_run(page)]) for page in PAGES}
    assert {page: count for page, count in found.items() if count} == NOT_RUN


def test_each_block_of_output_is_compared_or_says_why_not() -> None:
    unmarked = [
        str(snippet)
        for page in PAGES
        if page.name != "likely-mistakes.md"  # tests/docs/test_likely_mistakes.py compares all
        for snippet in snippets(page)
        if snippet.language in ("", "text") and not is_console(snippet) and not snippet.marker
    ]
    assert unmarked == []


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


def test_the_tests_that_stand_for_blocks_exist() -> None:
    reasons = {snippet.marker for page in PAGES for snippet in snippets(page) if "not run: " in snippet.marker}
    named = {path for reason in reasons for path in re.findall(r"tests/[\w./]*\w", reason)}
    assert len(named) > 10
    assert {path for path in named if not (CHECKOUT / path).exists()} == set()


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
