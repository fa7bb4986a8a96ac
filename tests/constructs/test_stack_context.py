"""What is kept of a stack is what the CDK has, and a late value is as old as what it is made of."""

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

from .stacks import stack, template_of

SCOPE = stack()
KEPT = CfnResource(SCOPE, "Kept", type="Custom::Kept")


@pytest.mark.parametrize("text", ["", "plain", "${Token[", "${Token[TOKEN.1]}", "Token[", "${AWS::Region}", "${T}"])
def test_text_is_a_token_where_the_cdk_says_so(text: str) -> None:
    for given_text in (text, f"{text}{KEPT.ref}", f"{Aws.ACCOUNT_ID}{text}"):
        assert is_token(given_text) == Token.is_unresolved(given_text)


def test_what_is_no_text_is_no_token() -> None:
    assert not is_token(7)
    assert not is_token(None)


def test_a_nested_stack_is_a_stack_of_its_own() -> None:
    outer = Stack(App(), "Outer", env=Environment(account="111122223333", region="us-west-2"))
    inner = NestedStack(outer, "Inner")
    assert StackContext.of(Construct(inner, "Model")).stack is inner
    assert StackContext.of(Construct(outer, "Model")).stack is outer
    assert StackContext.of(inner).known_region == "us-west-2"
    assert is_token(StackContext.of(inner).name)


def test_a_stack_of_a_stage_has_the_stages_region() -> None:
    stage = Stage(App(), "Prod", env=Environment(account="111122223333", region="eu-west-1"))
    assert StackContext.of(Construct(Stack(stage, "Chat"), "Model")).known_region == "eu-west-1"
    assert StackContext.of(Construct(Stack(App(), "Anywhere"), "Model")).known_region is None


def test_a_late_value_has_what_was_added_after_it_and_references_to_other_stacks() -> None:
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


def test_a_late_value_is_never_older_than_what_it_is_made_of() -> None:
    scope = stack()
    values = ["first"]
    late = late_value(lambda: values)
    assert scope.resolve(late) == ["first"]
    values.append("second")
    assert scope.resolve(late) == ["first", "second"]
