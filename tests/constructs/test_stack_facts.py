"""What is kept in Python says what the CDK would say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Aws, CfnResource, Environment, Fn, NestedStack, Stack, Stage, Token
from constructs import Construct
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.constructs.stack.late_value import late_text, late_value
from constructs_optim.constructs.stack.stack_facts import (
    PSEUDO,
    answer,
    facts_of,
    is_token,
    path_of,
    placed,
    resolved,
)

from .stacks import stack, template_of

SCOPE = stack()
KEPT = CfnResource(SCOPE, "Kept", type="Custom::Kept")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from([KEPT.ref, f"before-{KEPT.ref}-after", Aws.REGION]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("text", ["", "plain", "${Token[", "${Token[TOKEN.1]}", "Token[", "${AWS::Region}", "${T}"])
def test_text_is_a_token_where_the_cdk_says_so(text: str) -> None:
    for given_text in (text, f"{text}{KEPT.ref}", f"{Aws.ACCOUNT_ID}{text}"):
        assert is_token(given_text) == Token.is_unresolved(given_text)


def test_what_is_no_text_is_no_token() -> None:
    assert not is_token(7)
    assert not is_token(None)


@settings(deadline=None, max_examples=60)
@given(value=st.dictionaries(st.text("abc", min_size=1), JSON))
def test_a_value_resolves_as_the_stack_resolves_it(value: dict[str, Any]) -> None:
    assert json.dumps(resolved(SCOPE, value)) == json.dumps(SCOPE.resolve(value))


@pytest.mark.parametrize("name", ["Plain", "With/Slash", "With\nLine"])
def test_a_construct_that_was_placed_has_the_path_that_its_node_has(name: str) -> None:
    for scope in (App(), Stack(App(), "Chat"), Construct(Stack(App(), "Chat"), "Inner")):
        construct = Construct(scope, name)
        if not isinstance(scope, App):
            placed(construct, scope, name)
        assert path_of(construct) == construct.node.path


def test_a_nested_stack_is_a_stack_of_its_own() -> None:
    outer = Stack(App(), "Outer", env=Environment(account="111122223333", region="us-west-2"))
    inner = NestedStack(outer, "Inner")
    assert facts_of(Construct(inner, "Model")).stack is inner
    assert facts_of(Construct(outer, "Model")).stack is outer
    assert facts_of(inner).known_region == "us-west-2"
    assert is_token(facts_of(inner).name)


def test_a_stack_of_a_stage_has_the_stages_region() -> None:
    stage = Stage(App(), "Prod", env=Environment(account="111122223333", region="eu-west-1"))
    assert facts_of(Construct(Stack(stage, "Chat"), "Model")).known_region == "eu-west-1"
    assert facts_of(Construct(Stack(App(), "Anywhere"), "Model")).known_region is None


def test_what_the_stack_has_once_is_found_where_a_user_declared_it() -> None:
    scope = stack()
    mine = Construct(scope, "Shared")
    assert facts_of(scope).child("Shared", Construct, Construct) is mine
    assert facts_of(scope).child("Other", Construct, Construct) is facts_of(scope).child("Other", Construct, Construct)


def test_pseudo_parameters_are_those_of_the_cdk() -> None:
    assert SCOPE.resolve([PSEUDO.account, PSEUDO.partition, PSEUDO.region, PSEUDO.stack_id, PSEUDO.url_suffix]) == [
        {"Ref": f"AWS::{name}"} for name in ("AccountId", "Partition", "Region", "StackId", "URLSuffix")
    ]


def test_an_attribute_is_asked_for_once() -> None:
    class Asked:
        times = 0

        @property
        def arn(self) -> str:
            self.times += 1
            return "arn"

    asked = Asked()
    assert (answer(asked, "arn"), answer(asked, "arn"), asked.times) == ("arn", "arn", 1)


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
