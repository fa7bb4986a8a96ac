"""A new user's likely mistakes with the installed wheel: each app runs, and the end of its output is checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.likely_mistakes import CDK, PAGE, Mistake, command, message, mistakes
from tests.support.documents import first_example, snippets

from .environments import Environment

# Frames of dependencies and of Node, which the output must not contain.
_FRAMES = ("pydantic", "jsii.errors", "/node_modules/", "jsii/_kernel", "The above exception was the direct cause")


def printed_by(mistake: Mistake, environment: Environment, folder: Path) -> str:
    """The output of the app with the mistake, which must fail."""
    folder.mkdir()
    (folder / "app.py").write_text(mistake.app)
    done = environment.run(*command(mistake), cwd=folder, check=False)
    assert done.returncode == 1, f"{mistake}: {done.stdout}"
    return done.stdout + done.stderr


# tests/docs compares the errors of all that Python raises.
@pytest.mark.parametrize("one_in", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_likely_mistakes_print_their_error_last_without_dependency_frames(
    one_in: int, wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    clean = environment("3.12")
    clean.install(wheel)
    all_mistakes = mistakes()
    assert len(all_mistakes) >= 20, PAGE.name
    tried = [each for number, each in enumerate(all_mistakes) if number % one_in == 0 or not each.is_raised]
    with ThreadPoolExecutor(2) as side_by_side:
        numbered = [(number, each) for number, each in enumerate(tried)]
        printed = list(side_by_side.map(lambda item: printed_by(item[1], clean, tmp_path / str(item[0])), numbered))
    for each, whole in zip(tried, printed, strict=True):
        assert message(whole) == each.told, each.title
        assert [frame for frame in _FRAMES if frame in whole] == [], f"{each}:\n{whole}"
    assert_cli(clean, tmp_path / "cli", tried[0])
    imported = clean.run(clean.python, "-c", "from constructs_optim import Quantisation", cwd=tmp_path, check=False)
    assert imported.stderr.rstrip().endswith("Did you mean: 'Quantization'?")


def assert_cli(clean: Environment, folder: Path, mistake: Mistake) -> None:
    """With the documented ``cdk.json`` the CDK CLI synthesizes the example and prints a mistake's error last."""
    (cdk_json,) = [each.code for each in snippets(PAGE.parent / "getting-started.md") if each.language == "json"]
    folder.mkdir()
    (folder / "cdk.json").write_text(cdk_json)
    assert json.loads(cdk_json)["app"] == "python app.py"
    (folder / "app.py").write_text(first_example())
    clean.run(*CDK, "synth", "--quiet", cwd=folder)
    assert (folder / "cdk.out" / "Chat.template.json").exists()
    (folder / "app.py").write_text(mistake.app)
    refused = clean.run(*CDK, "synth", "--quiet", cwd=folder, check=False)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"{mistake.told}python app.py: Subprocess exited with error 1\n"), refused.stderr
