"""Messages about a file speak of its keys: no Python calls, no arguments, no context of cdk.json."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.constructs.declaration.wording import in_yaml
from constructs_optim.constructs.declared_stack.stack_file import stack_form
from constructs_optim.constructs.validation import template_size
from constructs_optim.recipe import Recipe
from constructs_optim.recipe.rules import check

from ..recipe.test_rules import BAD, recipe
from ..support.template_limits import lower
from .test_document import VALID

stack_form()
RULES = Path(__file__).parents[2] / "constructs_optim" / "recipe" / "rules"
# An environment variable is no argument, and a plural such as file(s) is no call.
PYTHON = re.compile(r"[A-Za-z_][\w.]*\((?!s\))|(?<![\w./?&-])[a-z][a-z0-9_]*=(?!=)|\b(?:True|False|None)\b")


def python_in(text: str) -> list[str]:
    """The calls and arguments of a text, without commands, which are in backticks."""
    return PYTHON.findall(" ".join(text.split("`")[::2]))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("use Quantization.awq()", "use {quantization: awq}"),
        ("spot=False, or no capacity_reservation", "spot: false, or no capacity_reservation"),
        ("a degree of 1 or 2 (tensor_parallel_degree=)", "a degree of 1 or 2 (tensor_parallel_degree)"),
        ("pass token_secret_arn=secret.secret_arn", "pass token_secret_arn: ..."),
        ("evaluate() enlarges a dashboard", "evaluations enlarges a dashboard"),
        ("endpoint.auto_scale(max_capacity=4)", "scaling: max_capacity: 4"),
        ("artifact_store=ArtifactStore.from_bucket(store.bucket)", "artifact_store: {from_bucket: ...}"),
        ("Model.huggingface(..., token_secret_arn=secret.secret_arn)", "{huggingface: {token_secret_arn: ...}}"),
        ('SecretValue.secrets_manager("<name>").unsafe_unwrap()', "{{resolve:secretsmanager:<name>}}"),
        ("Objectives(input_tokens=..., ...)", "{input_tokens: ..., ...}"),
        ("`constructs-optim lock --update x=1` of file(s)", "`constructs-optim lock --update x=1` of file(s)"),
        ("https://example.com/?a=b&c=d and VLLM_USE=1", "https://example.com/?a=b&c=d and VLLM_USE=1"),
    ],
)
def test_a_message_about_a_file_has_yaml_in_place_of_python(text: str, written: str) -> None:
    assert in_yaml(text) == written


@pytest.mark.parametrize("case", BAD, ids=[f"{case[0]}-{number}" for number, case in enumerate(BAD)])
def test_refusals_of_rules_have_no_python_in_a_file(case: Any) -> None:
    for violation in check(Recipe(**recipe(**case[1]))):
        assert not python_in(in_yaml(violation.suggestion)), violation.suggestion
        assert not python_in(in_yaml(violation.reason)), violation.reason


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "x" for part in each.values)  # type: ignore[misc]


def test_messages_that_rules_compose_have_no_python_in_a_file() -> None:
    for file in sorted(RULES.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            is_fix = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("fix", "reason")
            if is_fix or (isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"):
                for text in _texts(node):
                    assert not python_in(in_yaml(text)), f"{file.name}: {text}"


@pytest.mark.parametrize("limit", ["bytes", "resources"])
def test_a_file_with_too_many_endpoints_is_refused_in_its_own_words(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_size, "_WATCHED_FROM", 1)
    if limit == "bytes":
        lower(monkeypatch, "template bytes", 10_000)
    else:
        refused = RuntimeError("Number of resources in stack 'Chat': 501 is greater than allowed maximum of 500: ...")

        def written_template(_: Any) -> str:
            raise refused

        monkeypatch.setattr(template_size, "written_template", written_template)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoint.yaml").write_text(VALID)
    result = CliRunner().invoke(app, ["synth", "endpoint.yaml"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "10,000" in said or "Number of resources" in said
    assert not python_in(said)
    assert "cdk.json" not in said
    assert "ValidationFailed" not in said
    assert "another stack" in said


def test_a_file_s_template_has_no_indentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoint.yaml").write_text(VALID)
    assert CliRunner().invoke(app, ["synth", "endpoint.yaml", "--output", "out"]).exit_code == 0
    assert "\n " not in (tmp_path / "out" / "Chat.template.json").read_text()
