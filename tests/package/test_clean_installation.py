"""The wheel in environments with its dependencies and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import CHECKOUT, first_example

from .environments import BASE, NODE, Environment, run

# 3.11 with pip is what tests/pages uses.
PYTHONS = (*(pytest.param(version, marks=pytest.mark.exhaustive) for version in ("3.11", "3.12")), "3.13")


def synthesized(environment: Environment, tmp_path: Path) -> dict[str, Any]:
    """The template of Getting started's app, run from a directory that holds it and nothing else."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "app.py").write_text(first_example())
    assert sorted(app.iterdir()) == [app / "app.py"]
    program = (
        "import os, runpy; os.environ['CDK_OUTDIR'] = 'cdk.out'; runpy.run_path('app.py')\n"
        "import sys, constructs_optim; print(constructs_optim.__file__)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    lines = environment.run(environment.python, "-c", program, cwd=app).stdout.splitlines()
    assert Path(lines[-2]).is_relative_to(environment.folder), "the wheel is under test, not the checkout"
    assert not {"boto3", "botocore", "rich", "typer"} & set(lines[-1].split()), "synthesis needs none of them"
    return json.loads((app / "cdk.out" / "Chat.template.json").read_text())


@pytest.mark.parametrize("python", PYTHONS)
def test_a_clean_environment_synthesizes_the_first_example(
    python: str, wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    clean = environment(python)
    clean.install(wheel, with_pip=python == "3.11")
    assert set(clean.distributions) == {"constructs-optim", *clean.needed_by(*BASE)}
    types = {each["Type"] for each in synthesized(clean, tmp_path)["Resources"].values()}
    assert types >= {
        "Custom::OptimizationJob",
        "AWS::SageMaker::Endpoint",
        "AWS::SageMaker::Model",
        "AWS::CloudWatch::Dashboard",
        "AWS::ApplicationAutoScaling::ScalingPolicy",
    }
    for command in (["constructs-optim"], [clean.python, "-m", "constructs_optim"]):
        refused = clean.run(*command, "plan", cwd=tmp_path, check=False)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == 'The command is an extra: pip install "constructs-optim[cli]"\n'
    if python == "3.13":
        assert_type_checked(clean, tmp_path)


def assert_type_checked(clean: Environment, tmp_path: Path) -> None:
    """Pyright's strict mode checks a program against the library's types and reports no unknown type."""
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    program = tmp_path / "program.py"
    program.write_text(first_example().replace("max_capacity=4", 'max_capacity="four"'))
    pyright = CHECKOUT / "node_modules" / "pyright" / "index.js"
    checked = run(NODE, pyright, "--outputjson", "--pythonpath", clean.python, program, cwd=tmp_path, check=False)
    # A ServicePrincipal is no IPrincipal to pyright: the CDK's bindings name a parameter of a method in two ways.
    found = json.loads(checked.stdout)["generalDiagnostics"]
    (finding,) = [each for each in found if '"ServicePrincipal" is incompatible' not in each["message"]]
    assert finding["rule"] == "reportArgumentType"
    assert "four" in finding["message"]
