"""The lines of an app that advice and refusals are traced to in its assembly, where the CDK's language server reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

APP = """\
from aws_cdk import App, Stack
from constructs_optim import Model, OptimizedEndpoint, Quantization, RecipeError

app = App()
stack = Stack(app, "Chat")


def declare(id, instance_type="ml.g5.12xlarge"):
    model = Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0", accept_eula=True)
    return OptimizedEndpoint(stack, id, model=model, techniques=[Quantization.awq()], instance_type=instance_type)


{rest}
app.synth()
"""
DECLARED_AT = 10


def written(folder: Path, rest: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an app as the CDK CLI does."""
    (folder / "app.py").write_text(APP.format(rest=rest))
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=folder,
        env={**os.environ, "CDK_OUTDIR": "cdk.out", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def entries(folder: Path, kind: str) -> dict[str, list[Any]]:
    """What the assembly has of a kind of metadata, by the paths of constructs."""
    metadata: dict[str, Any] = json.loads((folder / "cdk.out" / "Chat.metadata.json").read_text())
    found = {path: [entry["data"] for entry in each if entry["type"] == kind] for path, each in metadata.items()}
    return {path: each for path, each in found.items() if each}


def place(folder: Path, line: int) -> str:
    return f"({folder / 'app.py'}:{line})"


def test_a_refusal_that_ends_the_app_is_in_its_assembly_with_all_violations(tmp_path: Path) -> None:
    ran = written(tmp_path, 'declare("Two", "ml.g5.2xlarge2")', CDK_VALIDATION="true")
    assert ran.returncode == 1
    assert "Template validation" not in ran.stderr, "that the stack without the refused construct is empty"
    assert ran.stderr.rstrip().endswith("https://constructs-optim.dev/rules/#opt010"), (
        "the refusal is the last that is printed"
    )
    (errors,) = entries(tmp_path, "aws:cdk:error").values()
    assert list(entries(tmp_path, "aws:cdk:error")) == ["/Chat/Two"]
    assert len(errors) == ran.stderr.count("why:")
    assert errors[0].startswith("instance_type = 'ml.g5.2xlarge2': ")
    assert "What works: did you mean" in errors[0]
    assert errors[0].endswith(" (constructs-optim::OPT010)")
    (trace,) = entries(tmp_path, "aws:cdk:creationStack")["/Chat/Two"]
    assert trace == [f"declare {place(tmp_path, DECLARED_AT)}", f"<module> {place(tmp_path, DECLARED_AT + 3)}"]


def test_a_refusal_by_a_method_is_at_the_line_that_calls_it(tmp_path: Path) -> None:
    ran = written(tmp_path, 'one = declare("One")\none.auto_scale(min_capacity=4, max_capacity=2)')
    assert ran.returncode == 1
    ((path, errors),) = entries(tmp_path, "aws:cdk:error").items()
    rule = path.removeprefix("/Chat/")
    assert errors[0].endswith(f"(constructs-optim::{rule})")
    (trace,) = entries(tmp_path, "aws:cdk:creationStack")[path]
    assert trace == [f"<module> {place(tmp_path, DECLARED_AT + 4)}"]


def test_a_refusal_that_an_app_handles_leaves_no_error(tmp_path: Path) -> None:
    handled = 'try:\n    declare("Two", "ml.g5.2xlarge2")\nexcept RecipeError:\n    declare("Two")'
    ran = written(tmp_path, handled)
    assert ran.returncode == 0, ran.stderr
    assert not entries(tmp_path, "aws:cdk:error")


@pytest.mark.parametrize("environment", [{}, {"CDK_OUTDIR": "cdk.out"}], ids=["by hand", "without a stack"])
def test_elsewhere_a_refusal_writes_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    rest = 'declare("One", "ml.none")' if not environment else "del stack\nModel.jumpstart(7)"
    (tmp_path / "app.py").write_text(APP.format(rest=rest))
    clean = {name: value for name, value in os.environ.items() if name != "CDK_OUTDIR"}
    ran = subprocess.run(
        [sys.executable, "app.py"], cwd=tmp_path, env={**clean, **environment}, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "RecipeError" in ran.stderr
    assert not (tmp_path / "cdk.out" / "manifest.json").exists()


def test_resources_are_traced_to_the_app_where_the_cli_asks_for_traces(tmp_path: Path) -> None:
    ran = written(tmp_path, 'declare("One")', JSII_HOST_STACK_TRACES="1")
    assert ran.returncode == 0, ran.stderr
    first = {
        next((frame for frame in trace if " (" in frame), "")
        for path, (trace, *_) in entries(tmp_path, "aws:cdk:creationStack").items()
        if path.startswith("/Chat/One/")
    }
    assert first == {f"declare {place(tmp_path, DECLARED_AT)}"}
