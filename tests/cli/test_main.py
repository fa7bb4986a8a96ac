"""The command as a whole: its help, its release, its options, and what it says where an extra is not installed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from constructs_optim.cli import installation
from constructs_optim.cli.installation import installing
from constructs_optim.cli.main import app


def commands(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every group and command, with the words that call it."""
    yield path, found
    for name, command in getattr(found, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("path", "found"), COMMANDS.items(), ids=[" ".join(path) for path in COMMANDS])
def test_the_help_fits_80_columns_and_names_values_as_command_lines_do(
    path: tuple[str, ...], found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, [*path, "--help"])
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert not re.search(r"\w\.\.\.$", result.stdout.partition("\n")[2], flags=re.MULTILINE), "a summary is cut off"
    assert not re.search(r"<(str|bool|int|float|path|list|enum)", result.stdout)
    assert not re.search(r"^  --\S+ (FOR|UP|THAN|HOUR|S3|COMPARE|RESUME)\b", result.stdout, flags=re.MULTILINE)
    for option in (name for param in found.params for name in param.opts if name.startswith("--")):
        assert f"  {option}" in result.stdout or f", {option}" in result.stdout


def test_the_version_option_prints_the_distribution_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"constructs-optim {metadata.version('constructs-optim')}\n")


def test_a_store_a_model_and_prices_have_the_same_option_everywhere() -> None:
    options = {
        path: {name for param in found.params for name in param.opts if name.startswith("--")}
        for path, found in COMMANDS.items()
    }
    named = set[str]().union(*(found for path, found in options.items() if path))
    assert not named & {"--bucket", "--version", "--rps", "--file", "--revision", "--app-directory", "--out"}
    assert "--model" in options[("plan",)]
    assert "--model-version" in options[("plan",)] & options[("recommend",)]
    for path in (("recommend",), ("explain",), ("jobs", "list"), ("artifacts", "list"), ("artifacts", "prune")):
        assert "--store" in options[path]


# What they print is another program's, or a protocol's, or JSON anyway, or a path for a shell.
_WITHOUT_JSON = {("deploy",), ("mcp",), ("schema",), ("local", "run"), ("local", "demo"), ("local", "requirements")}
LEAVES = {path: found for path, found in COMMANDS.items() if path and not hasattr(found, "commands")}


def test_every_command_with_a_result_prints_it_as_json() -> None:
    assert {path for path, found in LEAVES.items() if "--json" not in _options(found)} == _WITHOUT_JSON


@pytest.mark.parametrize(("path", "found"), LEAVES.items(), ids=[" ".join(path) for path in LEAVES])
def test_the_examples_of_a_command_are_calls_of_it(path: tuple[str, ...], found: Any) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"]).stdout.partition("Examples:\n")[2]
    examples = [line for line in shown.replace("\\\n", " ").splitlines() if line.strip()]
    assert examples
    for words in map(shlex.split, examples):
        if words[0] == "constructs-optim":
            assert tuple(words[1 : 1 + len(path)]) == path
            own = words[: words.index("--")] if "--" in words else words
            assert {word for word in own if word.startswith("--")} <= _options(found)


def _options(found: Any) -> set[str]:
    return {name for param in found.params for name in param.opts if name.startswith("--")}


def ran_without(*absent: str, words: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The command, in an interpreter that finds none of these modules."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); sys.argv[1:] = {list(words)}\n"
        "from constructs_optim.cli import main; main()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("absent", ["rich", "typer"])
def test_without_the_cli_extra_the_command_names_it(absent: str) -> None:
    ran = ran_without(absent, words=("plan",))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"The command is an extra: {installing('cli')}\n"


@pytest.mark.e2e
def test_without_the_local_extra_every_local_command_names_it() -> None:
    for words in (("local",), ("local", "run", "--enforce-iam", "--", "cdk", "deploy")):
        ran = ran_without("yaml", words=words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == f"The local cloud is an extra: {installing('local')}\n"


def test_without_the_mcp_extra_the_command_names_it() -> None:
    ran = ran_without("mcp", words=("mcp",))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"The server is an extra: {installing('mcp')}\n"


@pytest.mark.parametrize(
    ("origin", "extra", "command"),
    [
        (None, "cli", 'pip install "constructs-optim[cli]"'),
        ({"url": "file:///tmp/a.whl", "archive_info": {}}, "cli", 'pip install "constructs-optim[cli]"'),
        ({"url": "file:///home/me/my%20code", "dir_info": {}}, "mcp", 'pip install "/home/me/my code[mcp]"'),
        (
            {"url": "file:///code", "dir_info": {"editable": True}},
            "local",
            'pip install -e "/code/constructs_optim_local" -e "/code[local]"',
        ),
    ],
)
def test_an_extra_is_installed_from_where_the_package_is(
    origin: Any, extra: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(origin) if origin is not None else None

    monkeypatch.setattr(installation, "distribution", lambda _: Installed())
    assert installing(extra) == command


def test_a_misspelled_choice_is_answered_with_the_similar_one() -> None:
    result = CliRunner().invoke(app, ["catalog", "modles"])
    assert result.exit_code == 2
    assert "Value error" not in result.stderr
    assert "Did you mean models?" in result.stderr


def test_options_of_the_cdk_cli_are_said_to_go_after_two_hyphens() -> None:
    result = CliRunner().invoke(app, ["deploy", "endpoint.yaml", "--require-approval", "never"])
    assert result.exit_code == 2
    assert "constructs-optim deploy FILE -- --require-approval" in " ".join(result.stderr.split())
