from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

RULES_PAGE = Path(__file__).parent.parent.parent / "docs" / "rules.md"


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
        ("rules", {"id", "reason", "link"}),
    ],
)
def test_each_part_of_the_catalog_is_listed_as_data(what: str, columns: set[str]) -> None:
    result = run(what, "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) > 5
    assert all(columns <= set(row) for row in rows)


@pytest.mark.parametrize("what", ["models", "instances", "images", "rules"])
def test_each_part_of_the_catalog_is_listed_as_a_table(what: str) -> None:
    result = run(what)
    assert result.exit_code == 0, result.output
    assert "┃" in result.stdout


def test_the_page_of_rules_is_the_generated_one() -> None:
    assert run("rules", "--format", "markdown").stdout == RULES_PAGE.read_text(encoding="utf-8"), (
        "constructs-optim catalog rules --format markdown > docs/rules.md"
    )


def test_only_rules_are_a_page() -> None:
    assert run("models", "--format", "markdown").exit_code == 2
