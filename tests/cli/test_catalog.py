from __future__ import annotations

import itertools
import json

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.recipe.catalog import models


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
                "supports",
                "gated",
            },
        ),
        ("instances", {"name", "accelerator", "accelerator_count", "accelerator_memory_mib"}),
        ("images", {"repository", "tag", "engine", "cuda", "makes", "serves"}),
        ("metrics", {"name", "title", "definition", "statistic", "shown_unit"}),
        ("rules", {"id", "reason", "link"}),
    ],
)
def test_each_part_of_the_catalog_is_listed_as_json(what: str, columns: set[str]) -> None:
    result = run(what, "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) > 5
    assert all(columns <= set(row) for row in rows)


@pytest.mark.parametrize("width", [80, 100, 240])
@pytest.mark.parametrize("what", ["models", "instances", "images", "metrics", "rules"])
def test_each_part_of_the_catalog_fits_the_terminal_without_broken_words(
    what: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {
        "models": "{model_id}",
        "instances": "{name}",
        "images": "{repository}:{tag}",
        "metrics": "{title}",
        "rules": "{link}",
    }
    words = {word for row in json.loads(run(what, "--json").stdout) for word in columns[what].format(**row).split()}
    monkeypatch.setenv("COLUMNS", str(width))
    result = run(what)
    assert result.exit_code == 0, result.output
    assert words <= set(result.stdout.split())
    for line in result.stdout.splitlines():
        assert len(line) <= width or line.strip().startswith("https://"), line


def test_models_are_filtered_by_family_and_supported_technique() -> None:
    rows = json.loads(run("models", "--family", "llama", "--supports", "eagle", "--json").stdout)
    assert rows
    assert all(row["family"] == "LLaMA" and "eagle" in row["supports"] for row in rows)
    assert "meta-textgeneration-llama-3-70b-instruct" in {row["model_id"] for row in rows}
    types = json.loads(run("instances", "--family", "g6", "--json").stdout)
    assert {row["family"] for row in types} == {"g6"}


@pytest.mark.parametrize(
    "arguments", [("rules", "--family", "g5"), ("instances", "--supports", "fp8"), ("models", "--supports", "fp9")]
)
def test_a_filter_that_does_not_apply_is_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_models_are_listed_by_family_with_the_newest_first() -> None:
    rows = json.loads(run("models", "--json").stdout)
    families = [family for family, _ in itertools.groupby(row["family"] for row in rows)]
    assert len(families) == len(set(families)), "a family is in one place"
    known = models.of_hugging_face()
    releases = [
        max(row.recipe.release for row in known.values() if row.family == family and row.recipe is not None)
        for family in families
        if any(row.family == family and row.recipe is not None for row in known.values())
    ]
    assert releases == sorted(releases, reverse=True)
    assert releases[0] > releases[-1]
    first = [row["family"] for row in rows[:75]]
    assert not {"Falcon", "gpt-neox", "Bloom", "LLaMA", "gpt2"} & {*first}
    assert families.index("gpt-oss") < families.index("LLaMA 3.1") < families.index("Falcon")
