"""The page of likely mistakes shows the errors that are raised. ``make package`` checks it with real apps."""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path

import pytest

from constructs_optim.recipe import Model, Quantization, Recipe, RecipeError
from constructs_optim.recipe.rules import check
from tests.likely_mistakes import Mistake, mistakes, raised_by
from tests.support.documents import CHECKOUT

MISTAKES = mistakes()


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.is_raised], ids=str)
def test_a_mistake_raises_the_error_shown_on_the_page(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path))
    assert raised_by(mistake) == mistake.told, "python -m tests.likely_mistakes"


def test_each_heading_describes_one_mistake_without_duplicates() -> None:
    headings = re.findall(r"^### (.+)$", (CHECKOUT / "docs" / "likely-mistakes.md").read_text(), flags=re.MULTILINE)
    assert [each.title for each in MISTAKES] == headings
    assert len({each.app for each in MISTAKES}) == len(MISTAKES) >= 20


def test_an_error_message_shows_the_value_reason_and_fix() -> None:
    refused = [each.told for each in MISTAKES if "RecipeError" in each.told]
    assert len(refused) >= 15
    for told in refused:
        count = len(re.findall(r"^  OPT\d{3} \S+ = \S", told, flags=re.MULTILINE))
        assert count >= 1
        for part in ("why:        ", "what works: ", "see:        https://"):
            assert told.count(f"    {part}") == count, told


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md", "docs/tutorial.md"])
def test_the_documented_cdk_cli_has_the_tested_major_version(page: str) -> None:
    tested = json.loads((CHECKOUT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    documented = re.findall(r"npm install (\S+)", (CHECKOUT / page).read_text())
    assert documented == [f"aws-cdk@{tested.split('.')[0]}"]
    assert '{"app": "python app.py"}' in (CHECKOUT / page).read_text()


def test_the_error_shown_among_the_concepts_is_the_one_raised() -> None:
    broken = check(
        Recipe(
            model=Model.jumpstart("meta-textgeneration-lama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq(), Quantization.fp8()],
            instance_type="ml.g5.12xlage",
        )
    )
    raised = "".join(traceback.format_exception_only(RecipeError(broken)))
    assert f"```\n{raised}```" in (CHECKOUT / "docs" / "concepts.md").read_text()
