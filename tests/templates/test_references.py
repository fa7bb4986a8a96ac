"""The references in a template value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.templates.references import Reference, referenced_ids, references
from constructs_optim.templates.text import text_of


def test_references_in_every_intrinsic_function_are_detected() -> None:
    value = {"Fn::Join": ["", [{"Ref": "A"}, {"Fn::GetAtt": ["B", "Arn"]}, {"Fn::GetAtt": "C.Arn"}]]}
    text = {"Fn::Sub": ["${D} ${E.Arn} ${!Literal} ${Own}", {"Own": {"Ref": "F"}}]}
    assert referenced_ids([value, text]) == {"A", "B", "C", "D", "E", "F"}
    assert "Literal" not in referenced_ids(text)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"Ref": "Queue"}, [Reference("Queue")]),
        ({"Fn::GetAtt": ["Queue", "Arn"]}, [Reference("Queue", "Arn")]),
        ({"Fn::GetAtt": "Inner.Outputs.Arn"}, [Reference("Inner", "Outputs.Arn")]),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Stage"}, "Most"]}, [Reference("Mappings.Sizes"), Reference("Stage")]),
        ({"Fn::Sub": "${Queue.Arn}/${AWS::Region}"}, [Reference("Queue", "Arn"), Reference("AWS::Region")]),
        ({"Ref": "AWS::Region"}, [Reference("AWS::Region")]),
        # A property of that name next to others is data.
        ({"Ref": "Queue", "Kind": "branch"}, []),
    ],
)
def test_a_reference_has_its_target_and_attribute(value: Any, found: list[Reference]) -> None:
    assert list(references(value)) == found


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Ref", "Fn::GetAtt", "Fn::Sub", "Fn::Join", "Fn::FindInMap"]), inner, max_size=2
        )
    ),
    max_leaves=5,
)


@given(_JSON)
def test_an_arbitrary_json_value_can_be_searched_for_references(value: Any) -> None:
    assert {type(reference.target) for reference in references(value)} <= {str}
    assert isinstance(text_of(value), str)
