"""What an editor shows of an app, by the CDK's own language server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..support.language_server import LanguageServer
from ..support.waiting import until

pytestmark = pytest.mark.e2e

APP = """\
from aws_cdk import App, Stack
from constructs_optim import Model, OptimizedEndpoint, Quantization

app = App()
OptimizedEndpoint(
    Stack(app, "Chat"),
    "Llama70B",
    model=Model.jumpstart("meta-textgeneration-llama-2-70b", {version}accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="{instance_type}",
)
app.synth()
"""
DECLARED_AT = 4  # of lines that are counted from 0, as editors do
FLAG = "@aws-cdk/core:annotationsInValidationReport"


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Callable[..., LanguageServer]]:
    """Opens an app in an editor, with the feature flag that `cdk init` sets or without it."""
    opened: list[LanguageServer] = []

    def edit(*, flag: bool = False, traces: bool = False) -> LanguageServer:
        config = {"app": f"{sys.executable} app.py", "context": {FLAG: True} if flag else {}, "versionReporting": False}
        (tmp_path / "cdk.json").write_text(json.dumps(config))
        environment = {**os.environ, **({"JSII_HOST_STACK_TRACES": "1"} if traces else {})}
        opened.append(LanguageServer(tmp_path, environment).__enter__())
        return opened[-1]

    yield edit
    for each in opened:
        each.__exit__(None, None, None)


def save(folder: Path, *, version: str = 'version="4.0.0", ', instance_type: str = "ml.g5.12xlarge") -> None:
    (folder / "app.py").write_text(APP.format(version=version, instance_type=instance_type))


def of_rule(findings: list[dict[str, Any]], rule: str) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["code"].endswith(rule)]


@pytest.mark.parametrize("flag", [True, False], ids=["with the flag", "without the flag"])
def test_advice_is_a_warning_at_the_line_of_the_endpoint(
    editor: Callable[..., LanguageServer], tmp_path: Path, flag: bool
) -> None:
    save(tmp_path, version="")
    server = editor(flag=flag)
    server.synthesize()
    (advice,) = of_rule(server.found("app.py", bool), "OPT006")
    assert advice["range"]["start"]["line"] == DECLARED_AT
    assert advice["severity"] == 2
    assert "without a version, each stack uses the version that is newest" in advice["message"]
    assert server.findings.keys() == {"app.py"}, "the CDK has a file ESCAPING for what it cannot place"


def test_refusals_are_errors_at_the_line_of_the_endpoint_until_they_are_mended(
    editor: Callable[..., LanguageServer], tmp_path: Path
) -> None:
    save(tmp_path, instance_type="ml.g5.12xlargee")
    server = editor()
    server.synthesize()
    (refusal,) = server.found("app.py", bool)
    assert refusal["code"] == "constructs-optim::OPT010"
    assert refusal["range"]["start"]["line"] == DECLARED_AT
    assert refusal["severity"] == 1
    assert "did you mean ml.g5.12xlarge" in refusal["message"]

    save(tmp_path)
    server.synthesize()
    assert server.found("app.py", lambda findings: not findings) == []


def test_an_endpoint_s_line_lists_its_resources(editor: Callable[..., LanguageServer], tmp_path: Path) -> None:
    save(tmp_path)
    server = editor(traces=True)
    server.synthesize()
    document = {"uri": (tmp_path / "app.py").as_uri()}
    # It reads the assembly when that has changed.
    lenses = until(lambda: server.ask("textDocument/codeLens", textDocument=document), bool)
    (lens,) = [each for each in lenses if each["range"]["start"]["line"] == DECLARED_AT]
    assert "resources" in lens["command"]["title"]
    labels = {choice["label"] for choice in lens["command"]["arguments"][0]}
    assert {"AWS::SageMaker::Endpoint", "AWS::CloudWatch::Dashboard"} <= labels
