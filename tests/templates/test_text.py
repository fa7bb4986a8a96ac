"""Template values as text, with intrinsic functions evaluated as far as possible."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.templates.text import text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (4, "4"),
        ({"Ref": "Llama70B9E83F470"}, "${Llama70B}"),
        ({"Fn::GetAtt": ["Llama70B9E83F470", "EndpointName"]}, "${Llama70B.EndpointName}"),
        ({"Fn::GetAtt": "Queue.Arn"}, "${Queue.Arn}"),
        ({"Fn::Join": ["/", ["endpoint", {"Ref": "Chat"}, 1]]}, "endpoint/${Chat}/1"),
        ({"Fn::Sub": "${Queue.Arn} ${AWS::Region} ${!aws:username}"}, "${Queue.Arn} ${AWS::Region} ${aws:username}"),
        ({"Fn::Sub": ["${Name}-${Queue}", {"Name": {"Ref": "Chat"}}]}, "${Chat}-${Queue}"),
        ({"Fn::Select": [1, {"Fn::Split": ["|", {"Ref": "Ready"}]}]}, "${Ready}"),
        ({"Fn::FindInMap": ["Layers", {"Ref": "AWS::Region"}, "Arn"]}, "${Layers}"),
        ({"Fn::ImportValue": "Shared:Topic"}, "Shared:Topic"),
        ({"Type": "canary", "Value": 25}, "{Type: canary, Value: 25}"),
        (["a", {"Ref": "B"}], "a, ${B}"),
    ],
)
def test_values_known_only_at_deployment_become_placeholders(value: Any, text: str) -> None:
    assert text_of(value) == text
