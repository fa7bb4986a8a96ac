"""The cached context of a stack matches the CDK's, and lazy values resolve to current data."""

from __future__ import annotations

import pytest
from aws_cdk import App, Aws, CfnResource, Environment, Fn, NestedStack, Stack, Stage, Token
from constructs import Construct

from constructs_optim.constructs.stack.stack_context import (
    StackContext,
    is_token,
    late_text,
    late_value,
)

from ..support.construct_stacks import stack, template_of

SCOPE = stack()
KEPT = CfnResource(SCOPE, "Kept", type="Custom::Kept")


@pytest.mark.parametrize("text", ["", "plain", "${Token[", "${Token[TOKEN.1]}", "Token[", "${AWS::Region}", "${T}"])
def test_is_token_agrees_with_the_cdk_for_strings(text: str) -> None:
    for given_text in (text, f"{text}{KEPT.ref}", f"{Aws.ACCOUNT_ID}{text}"):
        assert is_token(given_text) == Token.is_unresolved(given_text)


def test_is_token_is_false_for_numbers_and_none() -> None:
    assert not is_token(7)
    assert not is_token(None)


def test_a_nested_stack_has_its_own_stack_context() -> None:
    outer = Stack(App(), "Outer", env=Environment(account="111122223333", region="us-west-2"))
    inner = NestedStack(outer, "Inner")
    assert StackContext.of(Construct(inner, "Model")).stack is inner
    assert StackContext.of(Construct(outer, "Model")).stack is outer
    assert StackContext.of(inner).known_region == "us-west-2"
    assert StackContext.of(outer).known_name == "Outer"
    assert StackContext.of(inner).known_name is None


def test_a_stack_inside_a_stage_has_the_stages_region() -> None:
    stage = Stage(App(), "Prod", env=Environment(account="111122223333", region="eu-west-1"))
    assert StackContext.of(Construct(Stack(stage, "Chat"), "Model")).known_region == "eu-west-1"
    assert StackContext.of(Construct(Stack(App(), "Anywhere"), "Model")).known_region is None


def test_a_lazy_value_includes_later_additions_and_cross_stack_references() -> None:
    app = App()
    there, here = Stack(app, "There"), Stack(app, "Here")
    other = CfnResource(there, "Other", type="Custom::Other")
    values: list[str] = []
    CfnResource(
        here,
        "Late",
        type="Custom::Late",
        properties={
            "Text": late_text(lambda: {"Fn::Sub": ["${All}", {"All": Fn.join(",", values)}]}),
            "Values": late_value(lambda: values),
        },
    )
    values += ["plain", other.ref]
    found = template_of(here)["Resources"]["Late"]["Properties"]
    plain, imported = found["Values"]
    assert plain == "plain"
    assert imported["Fn::ImportValue"].startswith("There:ExportsOutputRefOther")
    assert found["Text"]["Fn::Sub"][1]["All"] == {"Fn::Join": [",", ["plain", imported]]}


def test_a_lazy_value_reflects_changes_between_two_resolutions() -> None:
    scope = stack()
    values = ["first"]
    late = late_value(lambda: values)
    assert scope.resolve(late) == ["first"]
    values.append("second")
    assert scope.resolve(late) == ["first", "second"]
