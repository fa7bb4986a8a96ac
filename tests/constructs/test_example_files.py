"""Every example of Python has a twin of YAML, and both synthesize the same templates, byte for byte."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

import aws_cdk
import pytest
from aws_cdk import App

from constructs_optim.cli.endpoint_file import synthesized as synthesized_file
from constructs_optim.constructs.declaration.document import Document

from .test_examples import CONTEXTS, EXAMPLES

# What an app has besides endpoints: these examples take theirs from their files, and keep everything else.
APPS = ("larger_stack", "pipeline")
FILES = sorted(path.name for path in EXAMPLES.glob("*.yaml"))


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "111122223333")
    monkeypatch.setenv("CDK_DEFAULT_REGION", "us-west-2")


def without_own_dashboard(source: str) -> str:
    """The example of dashboards without the one that consists of single widgets."""
    kept, _, rest = source.partition("# Single widgets")
    return kept + rest[rest.index("app.synth()") :]


# What no file declares.
WITHOUT = {"dashboards": without_own_dashboard}


def synthesized(source: str, path: Path, out: Path) -> dict[str, bytes]:
    """The templates of an app's source, by their files' names."""
    script = out.parent / path.name
    script.write_text(source)
    with pytest.MonkeyPatch.context() as patched:
        # The template of a file has no indentation.
        context = {"@aws-cdk/core:suppressTemplateIndentation": True, **CONTEXTS.get(path.name, {})}
        patched.setattr(aws_cdk, "App", lambda **options: App(outdir=str(out), context=context, **options))
        runpy.run_path(str(script), run_name="__main__")
    return templates_in(out)


def templates_in(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.rglob("*.template.json")}


def test_every_example_has_a_file_and_every_file_an_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {name.partition(".")[0] for name in FILES}


@pytest.mark.parametrize("name", [name for name in FILES if name.partition(".")[0] not in APPS])
def test_a_file_and_its_example_synthesize_the_same_templates(name: str, tmp_path: Path) -> None:
    example = EXAMPLES / f"{name.partition('.')[0]}.py"
    expected = synthesized(WITHOUT.get(example.stem, str)(example.read_text()), example, tmp_path / "python")
    synthesized_file(Document.read(EXAMPLES / name), tmp_path / "yaml")
    made = templates_in(tmp_path / "yaml")
    assert len(made) == 1
    assert made.items() <= expected.items()


@pytest.mark.parametrize("name", APPS)
def test_an_app_that_takes_its_endpoints_from_a_file_synthesizes_the_same_templates(name: str, tmp_path: Path) -> None:
    example, file = EXAMPLES / f"{name}.py", EXAMPLES / f"{name}.yaml"
    expected = synthesized(example.read_text(), example, tmp_path / "python")
    rewriting = FromFile(file)
    rewritten = ast.unparse(rewriting.visit(ast.parse(example.read_text())))
    assert rewriting.count >= 1
    assert synthesized(rewritten, example, tmp_path / "yaml") == expected


class FromFile(ast.NodeTransformer):
    """Has an app take its endpoints from a file, with those arguments that the file does not have."""

    def __init__(self, file: Path) -> None:
        self.count = 0
        self._file = file
        self._endpoints: dict[str, Any] = Document.read(file).value_at(("endpoints",))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "OptimizedEndpoint"):
            return node
        self.count += 1
        declared = self._endpoints[ast.literal_eval(node.args[1])]
        kept = [word for word in node.keywords if word.arg is not None and word.arg not in declared]
        called = ast.Attribute(node.func, "from_file", ast.Load())
        return ast.Call(called, [*node.args, ast.Constant(str(self._file))], kept)
