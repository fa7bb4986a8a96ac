from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

DOCS = Path(__file__).parent.parent.parent / "docs"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["catalog", *arguments])


@pytest.mark.parametrize(
    ("what", "columns"),
    [
        (
            "models",
            {
                "model_id",
                "family",
                "quantization",
                "speculative_decoding",
                "sagemaker_draft_model",
                "pre_optimized",
                "pre_compiled",
                "gated",
            },
        ),
        ("instances", {"name", "accelerator", "accelerator_count", "accelerator_memory_mib"}),
        ("images", {"repository", "tag", "capabilities"}),
        ("metrics", {"name", "title", "definition", "statistic", "shown_unit"}),
        ("rules", {"id", "reason", "link"}),
    ],
)
def test_each_part_of_the_catalog_is_listed_as_data(what: str, columns: set[str]) -> None:
    result = run(what, "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) > 5
    assert all(columns <= set(row) for row in rows)


@pytest.mark.parametrize("what", ["models", "instances", "images", "metrics", "rules"])
def test_each_part_of_the_catalog_is_listed_as_a_table(what: str) -> None:
    result = run(what)
    assert result.exit_code == 0, result.output
    assert "┃" in result.stdout


def test_a_part_with_many_columns_can_be_read_in_a_terminal_of_80_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    narrow = run("instances").stdout
    assert "ml.g5.12xlarge" in narrow
    assert "accelerator memory mib 22888" in " ".join(narrow.replace("│", " ").split())
    monkeypatch.setenv("COLUMNS", "240")
    wide = run("instances").stdout
    assert "what is known of it" not in wide, "each has a column of its own where there is room"


@pytest.mark.parametrize("what", ["metrics", "rules"])
def test_the_page_of_metrics_or_rules_is_the_generated_one(what: str) -> None:
    page = DOCS / f"{what}.md"
    assert run(what, "--format", "markdown").stdout == page.read_text(encoding="utf-8"), (
        f"constructs-optim catalog {what} --format markdown > docs/{what}.md"
    )


def test_only_metrics_and_rules_are_pages() -> None:
    assert run("models", "--format", "markdown").exit_code == 2
