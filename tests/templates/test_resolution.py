"""Values of a template before it is deployed: what is known of them, and what only a deployment knows."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.templates.references import Reference
from constructs_optim.templates.resolution import KnownLater, Resolver

TEMPLATE = {"Mappings": {"Accounts": {"us-west-2": {"account": "763104351884"}}}}
KNOWN = {
    Reference("AWS::Region"): "us-west-2",
    Reference("Store"): "store-1",
    Reference("Role", "Arn"): "arn:aws:iam::111122223333:role/r",
}


@pytest.fixture
def resolver() -> Resolver:
    return Resolver(TEMPLATE, KNOWN.get, {"Shared": "bucket-of-another"}.get)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (3, 3),
        ({"Ref": "Store"}, "store-1"),
        ({"Fn::GetAtt": ["Role", "Arn"]}, "arn:aws:iam::111122223333:role/r"),
        ({"Fn::Join": ["", ["s3://", {"Ref": "Store"}, "/artifacts/"]]}, "s3://store-1/artifacts/"),
        ({"Fn::Sub": "${AWS::Region}/${!Literal}/${Store}"}, "us-west-2/${Literal}/store-1"),
        (
            {
                "Fn::Sub": [
                    "${Account}.dkr.ecr.${AWS::Region}",
                    {"Account": {"Fn::FindInMap": ["Accounts", {"Ref": "AWS::Region"}, "account"]}},
                ]
            },
            "763104351884.dkr.ecr.us-west-2",
        ),
        ({"Fn::Select": [1, {"Fn::Split": [":", {"Fn::GetAtt": ["Role", "Arn"]}]}]}, "aws"),
        ({"Fn::ImportValue": "Shared"}, "bucket-of-another"),
        (
            {"Bucket": {"Ref": "Store"}, "Names": [{"Ref": "AWS::Region"}]},
            {"Bucket": "store-1", "Names": ["us-west-2"]},
        ),
    ],
)
def test_a_value_is_what_the_deployment_would_make_of_it(resolver: Resolver, value: Any, expected: Any) -> None:
    assert resolver.value(value) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"Ref": "Unmade"}, "Unmade"),
        ({"Fn::GetAtt": ["Unmade", "Arn"]}, "Unmade.Arn"),
        ({"Fn::Join": ["", ["s3://", {"Ref": "Unmade"}]]}, "Unmade"),
        ({"Fn::ImportValue": "Unmade"}, "the export Unmade"),
        ({"Fn::FindInMap": ["Accounts", "eu-west-3", "account"]}, "a value of the mapping Accounts"),
        ({"Fn::Select": [3, ["a"]]}, "an item of a list"),
        ({"Fn::If": ["Condition", "a", "b"]}, "Fn::If"),
    ],
)
def test_values_that_exist_only_at_deployment_are_named(resolver: Resolver, value: Any, name: str) -> None:
    with pytest.raises(KnownLater, match=f"^{name}$"):
        resolver.value(value)


def test_unknown_items_of_lists_are_left_out(resolver: Resolver) -> None:
    role = {"RoleArn": {"Fn::GetAtt": ["Role", "Arn"]}, "Reads": ["s3://a/", {"Ref": "Unmade"}, {"Ref": "Store"}]}
    assert resolver.pruned(role) == {"RoleArn": KNOWN[Reference("Role", "Arn")], "Reads": ["s3://a/", "store-1"]}
    with pytest.raises(KnownLater):
        resolver.pruned({"RoleArn": {"Ref": "Unmade"}})
