"""What a new user does wrong, with the installed wheel: the app is run, and the end of what it prints is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.likely_mistakes import CDK, PAGE, Mistake, command, message, mistakes
from tests.support.documents import first_example, snippets

from .environments import Environment

# Of these nothing shall be printed: frames of dependencies, and of Node.
_FRAMES = ("pydantic", "jsii.errors", "/node_modules/", "jsii/_kernel", "The above exception was the direct cause")


def printed_by(mistake: Mistake, environment: Environment, folder: Path) -> str:
    """What the app with the mistake prints; that it fails is asserted."""
    folder.mkdir()
    (folder / "app.py").write_text(mistake.app)
    done = environment.run(*command(mistake), cwd=folder, check=False)
    assert done.returncode == 1, f"{mistake}: {done.stdout}"
    return done.stdout + done.stderr


def test_likely_mistakes_are_told_in_the_end_without_frames_of_dependencies(
    wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    clean = environment("3.12")
    clean.install(wheel)
    made = mistakes()
    assert len(made) >= 20, PAGE.name
    with ThreadPoolExecutor(2) as side_by_side:
        numbered = [(number, each) for number, each in enumerate(made)]
        printed = list(side_by_side.map(lambda item: printed_by(item[1], clean, tmp_path / str(item[0])), numbered))
    for each, whole in zip(made, printed, strict=True):
        assert message(whole) == each.told, each.title
        assert [frame for frame in _FRAMES if frame in whole] == [], f"{each}:\n{whole}"
    assert_cli(clean, tmp_path / "cli", made[0])
    told = clean.run(clean.python, "-c", "from constructs_optim import Quantisation", cwd=tmp_path, check=False)
    assert told.stderr.rstrip().endswith("Did you mean: 'Quantization'?")


def assert_cli(clean: Environment, folder: Path, mistake: Mistake) -> None:
    """With the CDK CLI and the ``cdk.json`` of the documents: the example synthesizes, and a mistake is told last."""
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
