"""Advice at its line of the app."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Annotations, App, Stack
from constructs import Construct

from constructs_optim import AlarmSettings, Model, OptimizedEndpoint, Quantization, RecipeError
from constructs_optim.constructs.stack import findings
from constructs_optim.recipe.errors import Advice

UNPINNED = Model.jumpstart("meta-textgeneration-llama-2-70b", accept_eula=True)


def test_advice_is_traced_to_the_line_that_declares_it() -> None:
    app = App()
    stack = Stack(app, "Chat")
    first = inspect.currentframe()
    assert first is not None
    line = first.f_lineno + 1
    OptimizedEndpoint(stack, "Chat", model=UNPINNED, techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    (job,) = [node for node in app.node.find_all() if node.node.path == "Chat/Chat/Optimization"]
    found = {entry.type: entry for entry in job.node.metadata}
    assert str(found["aws:cdk:warning"].data).endswith("[ack: constructs-optim:OPT006]")
    assert found["aws:cdk:warning"].trace is None, "a trace of jsii's kernel would come first"
    frames = found["aws:cdk:creationStack"].data
    assert frames[0] == f"test_advice_is_traced_to_the_line_that_declares_it ({__file__}:{line})"


def test_advice_is_acknowledged_before_and_after() -> None:
    stack = Stack(App(), "Chat")
    Annotations.of(stack).acknowledge_warning("constructs-optim:OPT006")
    OptimizedEndpoint(stack, "Chat", model=UNPINNED, techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    assert not [entry for node in stack.node.find_all() for entry in node.node.metadata if "warning" in entry.type]


def test_a_construct_with_several_warnings_has_one_place() -> None:
    stack = Stack(App(), "Chat")
    made = Construct(stack, "Made")
    for number in range(2):
        findings.advise(made, Advice(f"constructs-optim:OPT{number}", "look at this"))
    findings.advise(Construct(stack, "Other"))
    kinds = [entry.type for node in stack.node.find_all() for entry in node.node.metadata if node is not stack]
    assert sorted(kinds) == ["aws:cdk:creationStack", "aws:cdk:warning", "aws:cdk:warning"]


def test_a_warning_is_translated_in_the_block_of_its_reader_only() -> None:
    with findings.translated(str.upper):
        with findings.translated(str.title):
            assert findings.warning("a plan") == "A Plan"
        assert findings.warning("a plan") == "A PLAN"
    assert findings.warning("a plan") == "a plan"


class Ended:
    """An app that an uncaught error ends, and what the CDK CLI reads of it then."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.printed: list[BaseException] = []
        monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: self.printed.append(error))
        self._hook = findings._UncaughtRefusal()
        monkeypatch.setattr(sys, "excepthook", self._hook)
        self._assembly = folder / "out"
        self.app = App(outdir=str(self._assembly))
        self.stack = Stack(self.app, "Chat")

    def by(self, declare: Callable[[], object]) -> BaseException:
        with pytest.raises(Exception) as ending:  # noqa: PT011 - any error
            declare()
        self._hook(type(ending.value), ending.value, ending.tb)
        return ending.value

    @property
    def errors(self) -> dict[str, list[tuple[str, list[str]]]]:
        """The text and the frames of each error, by the path of its construct."""
        found: dict[str, list[tuple[str, list[str]]]] = {}
        for path in self._assembly.glob("*.metadata.json"):
            for construct, entries in json.loads(path.read_text()).items():
                frames = [
                    frame for each in entries if each["type"] == "aws:cdk:creationStack" for frame in each["data"]
                ]
                texts = [each["data"] for each in entries if each["type"] == "aws:cdk:error"]
                if texts:
                    found[construct] = [(text, frames) for text in texts]
        return found


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ended:
    return Ended(tmp_path, monkeypatch)


def chat(scope: Construct, **changed: Any) -> OptimizedEndpoint:
    known = {"model": UNPINNED, "techniques": [Quantization.awq()], "instance_type": "ml.g5.12xlarge"}
    return OptimizedEndpoint(scope, "Llama", **{**known, **changed})


def test_a_refusal_that_ends_an_app_is_an_error_of_the_refused_construct(ended: Ended) -> None:
    error = ended.by(lambda: chat(ended.stack, instance_type="ml.g5.12xlage"))
    ((path, ((text, frames),)),) = ended.errors.items()
    assert path == "/Chat/Llama"
    assert text.startswith("instance_type = 'ml.g5.12xlage': SageMaker has no endpoint instance type with this name\n")
    assert "\nWhat works: did you mean ml.g5.12xlarge" in text
    assert text.endswith(" (constructs-optim::OPT010)")
    assert frames[0].startswith(f"chat ({__file__}:")
    assert ended.printed == [error], "and it is printed as before"


def test_a_refused_setting_is_an_error_of_the_latest_stack(ended: Ended) -> None:
    chat(ended.stack)
    ended.by(lambda: AlarmSettings(threshold=-1))
    ((path, ((text, _),)),) = ended.errors.items()
    assert path == "/Chat/OPT090"
    assert text.startswith("AlarmSettings.threshold = -1: ")


def test_the_error_of_a_construct_that_exists_already_is_beside_it(ended: Ended) -> None:
    chat(ended.stack)

    def refuse() -> None:
        try:
            AlarmSettings(threshold=-1)
        except RecipeError as error:
            findings.keep_refusal(error, ended.stack, "Llama")
            raise

    ended.by(refuse)
    assert list(ended.errors) == ["/Chat/OPT090"]


def test_other_errors_are_only_printed(ended: Ended) -> None:
    error = ended.by(lambda: {}["a"])
    assert ended.printed == [error]
    assert ended.errors == {}
