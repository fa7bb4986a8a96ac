"""Warnings and findings of policies that a file acknowledges."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack

import constructs_optim
from constructs_optim.constructs.declaration.builder import _OTHER_WARNINGS
from constructs_optim.constructs.declaration.document import DeclarationError, Document
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack, declared_template
from constructs_optim.recipe.rules import all_rules
from constructs_optim.templates.limits import limits

# A newer version of the model may come with each first deployment (OPT006).
UNPINNED: dict[str, Any] = {
    "model": {"jumpstart": {"model_id": "meta-textgeneration-llama-2-70b", "accept_eula": True}},
    "techniques": [{"quantization": "awq"}],
    "instance_type": "ml.g5.12xlarge",
}


def _document(rule: str | None, reason: str = "a trial until May", **of_stack: Any) -> Document:
    acknowledged = {"acknowledge": [{"rule": rule, "reason": reason}]} if rule is not None else {}
    content = {"stack": "Chat", "endpoints": {"Chat": {**UNPINNED, **acknowledged}}, **of_stack}
    return Document.parsed(json.dumps(content), "endpoint.json")


def _warnings(document: Document) -> list[str]:
    """The IDs of the warnings, which the Terraform module's check shows too."""
    _, made = declared_template(document, code_bucket=None, inline=False)
    return re.findall(r"\[ack: ([\w:-]+)\]", "\n".join(made.warnings))


@pytest.mark.parametrize("rule", ["OPT006", "constructs-optim:OPT006"])
def test_an_acknowledged_warning_is_gone_from_the_endpoint(rule: str) -> None:
    assert "constructs-optim:OPT006" in _warnings(_document(None))
    assert "constructs-optim:OPT006" not in _warnings(_document(rule))


def test_an_acknowledgement_of_the_stack_covers_all_endpoints() -> None:
    accepted = [{"rule": "OPT006", "reason": "a trial until May"}]
    assert "constructs-optim:OPT006" not in _warnings(_document(None, acknowledge=accepted))


def test_the_reason_is_kept_beside_the_warnings_id() -> None:
    stack = DeclaredStack(_document("OPT006"))
    kept = [entry.data for entry in stack.node.find_child("Chat").node.metadata if "acknowledged" in entry.type]
    assert kept == [{"Annotation::constructs-optim:OPT006": "a trial until May"}]


def test_a_finding_of_another_tool_is_acknowledged_by_the_name_that_the_tool_gives_it() -> None:
    stack = DeclaredStack(_document("CdkNag::AwsSolutions-S1"))
    kept = [entry.data for entry in stack.node.find_child("Chat").node.metadata if "acknowledged" in entry.type]
    assert kept == [{"CdkNag::AwsSolutions-S1": "a trial until May"}]


@pytest.mark.parametrize(
    ("rule", "reason", "said", "fix"),
    [
        ("OPT001", "x", "OPT001 is an error", "correct what it refuses, and leave this out"),
        ("OPT999", "x", "there is no rule 'OPT999'", "the ID in a warning"),
        ("speed", "x", "there is no rule 'speed'", "such as OPT013, or POL001 of a policy"),
        ("OPT006", " ", "OPT006 has no reason", "add one"),
        ("POL001", " ", "POL001 has no reason", "add one"),
    ],
)
def test_what_cannot_be_acknowledged_is_refused_with_what_can(rule: str, reason: str, said: str, fix: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(_document(rule, reason))
    (found,) = refused.value.violations
    assert said in found.reason
    assert fix in found.suggestion


@pytest.mark.parametrize("rule", [*(each.id for each in all_rules() if each.advisory), *_OTHER_WARNINGS])
def test_every_rule_that_warns_can_be_acknowledged(rule: str) -> None:
    # Each of them is a dictionary key; a whole stack for each takes long.
    from constructs_optim.constructs.declaration.builder import acknowledge

    acknowledge(Stack(), rule=rule, reason="known")


def test_other_warnings_are_those_that_the_library_gives_without_an_advisory_rule() -> None:
    package = Path(str(constructs_optim.__file__)).parent / "constructs"
    sources = [each.read_text(encoding="utf-8") for each in package.rglob("*.py")]
    given = {found for text in sources for found in re.findall(r'Advice\(\s*"constructs-optim:([\w-]+)"', text)}
    given |= {name.title().replace(" ", "") for name, limit in limits().items() if limit.adjustable}
    assert given - {each.id for each in all_rules() if each.advisory} == {*_OTHER_WARNINGS}
