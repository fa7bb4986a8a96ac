"""``constructs-optim local``: what it is told of repositories."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.local import local_app


@pytest.mark.parametrize(
    "given", ["my-organization/chat", "my-organization/chat=", "=.", "my-organization/chat=absent"]
)
def test_a_repository_needs_a_name_and_a_folder_that_is_there(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Narrow output breaks the sentence into lines.
    result = CliRunner().invoke(local_app, ["run", "--repository", given, "--", "true"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "expected <owner>/<name>=<folder>, and a folder that is there" in result.output


def test_a_command_runs_beside_a_local_cloud_that_knows_the_repository(tmp_path: Path) -> None:
    arguments = [
        "run",
        "--repository",
        f"my-organization/chat={tmp_path}",
        "--",
        "sh",
        "-c",
        'test -n "$AWS_ENDPOINT_URL"',
    ]
    assert CliRunner().invoke(local_app, arguments).exit_code == 0
