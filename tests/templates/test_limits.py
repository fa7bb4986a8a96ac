"""The limits of a template: their figures, and what is found of a template."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from cfnlint.helpers import LIMITS

import constructs_optim.templates.limits as module
import constructs_optim_local.cloudformation.limits as of_the_local_cloud
from constructs_optim.templates.limits import excesses, limits

ROLE = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
BUCKET = {"Type": "AWS::S3::Bucket"}


def most(name: str) -> int:
    return limits()[name].most


def found(template: dict[str, Any], **more: Any) -> list[str]:
    return [str(excess) for excess in excesses(template, **more)]


def of_type(type_name: str, **properties: Any) -> dict[str, Any]:
    return {"Resources": {"It": {"Type": type_name, "Properties": properties}}}


def dashboard(graphs: int, metrics: int) -> dict[str, Any]:
    widget = {"type": "metric", "properties": {"metrics": [[{"expression": "a"}], *[["A", "B"]] * metrics]}}
    return of_type("AWS::CloudWatch::Dashboard", DashboardBody={"Fn::Sub": json.dumps({"widgets": [widget] * graphs})})


def policies(number: int) -> dict[str, Any]:
    return of_type("AWS::IAM::Role", ManagedPolicyArns=["arn"] * number)


def tagged(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def numbered(section: str, value: Any) -> Callable[[int], dict[str, Any]]:
    return lambda number: {section: {f"Name{index}": value for index in range(number)}}


# By limit: a template with as many as a number, and what says so.
CASES: dict[str, tuple[Callable[[int], dict[str, Any]], str]] = {
    "resources": (numbered("Resources", BUCKET), "the template"),
    "outputs": (numbered("Outputs", {"Value": "x"}), "the template"),
    "parameters": (numbered("Parameters", {"Type": "String", "Default": ""}), "the template"),
    "mappings": (numbered("Mappings", {"a": {"b": "c"}}), "the template"),
    "mapping attributes": (lambda n: {"Mappings": {"It": {f"a{i}": {} for i in range(n)}}}, "It"),
    "name": (lambda n: {"Outputs": {"x" * n: {"Value": "y"}}}, f"{'x' * 32}..."),
    "parameter value": (lambda n: {"Parameters": {"It": {"Type": "String", "Default": "x" * n}}}, "It"),
    "parameter description": (lambda n: {"Parameters": {"It": {"Type": "String", "Description": "x" * n}}}, "It"),
    "template description": (lambda n: {"Description": "x" * n}, "the template"),
    "dynamic references": (
        lambda n: of_type("AWS::SNS::Topic", DisplayName=[f"{{{{resolve:ssm:/name/{i}}}}}" for i in range(n)]),
        "the template",
    ),
    "tags": (lambda n: of_type("AWS::S3::Bucket", Tags=tagged({f"key{i}": "" for i in range(n)})), "It"),
    "tag key": (lambda n: of_type("AWS::IAM::Role", Tags=tagged({"a": "b", "k" * n: "v"})), "It"),
    "tag value": (lambda n: of_type("AWS::SQS::Queue", Tags=tagged({"key": "v" * n, "a": "b"})), "It"),
    "inline policies of a role": (
        lambda n: of_type("AWS::IAM::Role", Policies=[{"PolicyName": "a", "PolicyDocument": "x" * n}]),
        "It",
    ),
    "managed policy": (lambda n: of_type("AWS::IAM::ManagedPolicy", PolicyDocument="x \n" * n), "It"),
    "trust policy": (lambda n: of_type("AWS::IAM::Role", AssumeRolePolicyDocument="x" * n), "It"),
    "managed policies of a role": (policies, "It"),
    "bucket policy": (lambda n: of_type("AWS::S3::BucketPolicy", PolicyDocument="x" * n), "It"),
    "key policy": (lambda n: of_type("AWS::KMS::Key", KeyPolicy="x" * n), "It"),
    "dashboard widgets": (lambda n: dashboard(n, 1), "It"),
    "metrics of a widget": (lambda n: dashboard(1, n), "It"),
    "metrics of a dashboard": (lambda n: dashboard(6, -(-n // 6) if n > 2500 else n // 6), "It"),
    "alarm description": (lambda n: of_type("AWS::CloudWatch::Alarm", AlarmDescription="x" * n), "It"),
    "function environment": (
        lambda n: of_type("AWS::Lambda::Function", Environment={"Variables": {"A": "x" * (n - 8)}}),
        "It",
    ),
}


def test_the_local_cloud_has_the_same_limits() -> None:
    ours, theirs = (Path(str(each.__file__)).with_name("limits.json") for each in (module, of_the_local_cloud))
    assert ours.read_bytes() == theirs.read_bytes()


def test_the_limits_of_templates_are_those_of_cfn_lint() -> None:
    for section in ("Mappings", "Outputs", "Parameters", "Resources"):
        assert most(section.lower()) == LIMITS[section]["number"]
        assert most("name") == LIMITS[section]["name"]
    assert most("mapping attributes") == LIMITS["Mappings"]["attributes"]
    assert most("parameter value") == LIMITS["Parameters"]["value"]
    assert most("template bytes") == LIMITS["template"]["body"]


def test_the_limit_of_an_alarms_description_is_that_of_the_api() -> None:
    model = botocore.session.get_session().get_service_model("cloudwatch")
    assert most("alarm description") == model.shape_for("AlarmDescription").metadata["max"]


def test_the_limits_of_tags_are_those_of_the_api() -> None:
    model = botocore.session.get_session().get_service_model("iam")
    assert most("tags") == model.shape_for("tagListType").metadata["max"]
    assert most("tag key") == model.shape_for("tagKeyType").metadata["max"]
    assert most("tag value") == model.shape_for("tagValueType").metadata["max"]


def test_tags_of_all_resources_are_reported_once() -> None:
    tags = tagged({"key": "v" * 257})
    template = {"Resources": {name: {"Type": "AWS::S3::Bucket", "Properties": {"Tags": tags}} for name in "AB"}}
    assert found(template) == ["A has 257 characters in the longest value of its tags, and AWS allows 256"]


def test_every_limit_has_a_source_and_is_checked() -> None:
    assert CASES.keys() | {"template bytes"} == limits().keys()
    assert all(limit.source.startswith("https://docs.aws.amazon.com/") for limit in limits().values())


@pytest.mark.parametrize("name", CASES)
def test_a_template_is_refused_from_one_more_than_its_limit(name: str) -> None:
    template, where = CASES[name]
    assert found(template(most(name))) == []
    (refused,) = [excess for excess in excesses(template(most(name) + 1)) if excess.name == name]
    assert (refused.where, refused.found > most(name)) == (where, True)


def test_the_size_of_the_text_counts() -> None:
    assert found({}, size=1_000_000) == []
    assert found({}, size=1_000_001) == ["the template has 1,000,001 bytes, and CloudFormation allows 1,000,000"]


def test_all_excesses_are_found_at_once() -> None:
    template = {**CASES["outputs"][0](201), **CASES["bucket policy"][0](20_481)}
    assert found(template) == [
        "the template has 201 outputs, and CloudFormation allows 200",
        "It has 20,481 bytes in its policy, and S3 allows 20,480",
    ]
    assert found(policies(11)) == ["It has 11 managed policies, and IAM allows 10 by default"]


def test_inline_policies_count_together_with_those_of_other_resources() -> None:
    def with_policies(characters: int) -> dict[str, Any]:
        own = {**ROLE["Properties"], "Policies": [{"PolicyName": "a", "PolicyDocument": "x" * 5_000}]}
        added = {"PolicyDocument": "y" * characters, "Roles": [{"Ref": "Role"}, "of-another-stack"]}
        return {
            "Resources": {
                "Role": {**ROLE, "Properties": own},
                "Added": {"Type": "AWS::IAM::Policy", "Properties": added},
            }
        }

    assert found(with_policies(5_240)) == []
    assert found(with_policies(5_241)) == ["Role has 10,241 characters in its inline policies, and IAM allows 10,240"]


def test_managed_policies_count_together_with_those_that_name_the_role() -> None:
    def with_policies(number: int) -> dict[str, Any]:
        role = {**ROLE, "Properties": {"ManagedPolicyArns": ["arn"] * 8}}
        policy = {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"PolicyDocument": {}, "Roles": [{"Ref": "Role"}]}}
        return {"Resources": {"Role": role, **{f"Policy{index}": policy for index in range(number)}}}

    assert found(with_policies(2)) == []
    assert found(with_policies(3)) == ["Role has 11 managed policies, and IAM allows 10 by default"]


@pytest.mark.parametrize(
    ("value", "shortest"),
    [
        ({"Ref": "AWS::AccountId"}, 12),
        ({"Ref": "AWS::Partition"}, 3),
        ({"Ref": "Unknown"}, 0),
        ({"Fn::GetAtt": ["Bucket", "Arn"]}, len("arn:aws:s3:::team-Bucket-") + 12),
        ({"Ref": "Named"}, 4),
        ({"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/${Unknown}"}, len("arn:aws:iam::") + 12 + 6),
        ({"Fn::Join": [":", ["arn", {"Ref": "AWS::Partition"}, {"Ref": "Unknown"}]]}, 8),
        ({"Fn::If": ["Is", "x" * 99, "y" * 99]}, 0),
        ({"Fn::ImportValue": "other"}, 0),
        ({"Fn::FindInMap": ["Of", {"Ref": "AWS::Region"}, "a"]}, 0),
    ],
    ids=str,
)
def test_what_is_known_only_at_deployment_counts_with_its_shortest_value(value: Any, shortest: int) -> None:
    def template(more: int) -> dict[str, Any]:
        joined = {"Fn::Join": ["", [value, "x" * more]]}
        policy = {"Type": "AWS::S3::BucketPolicy", "Properties": {"PolicyDocument": joined}}
        named = {**BUCKET, "Properties": {"BucketName": "mine"}}
        return {"Resources": {"Policy": policy, "Bucket": BUCKET, "Named": named}}

    # A text with a part that cannot be evaluated may have any length.
    evaluated = not {"Fn::If", "Fn::FindInMap"} & value.keys()
    assert found(template(20_480 - shortest), stack_name="team") == []
    assert (found(template(20_481 - shortest), stack_name="team") != []) == evaluated


def test_absent_members_and_unreadable_dashboards_do_not_count() -> None:
    long = {"Fn::If": ["Is", "x" * 50_000, {"Ref": "AWS::NoValue"}]}
    assert found(of_type("AWS::S3::BucketPolicy", PolicyDocument={"a": long, "b": [long], "c": long})) == []
    assert found(of_type("AWS::CloudWatch::Dashboard", DashboardBody={"Fn::Join": ["", ["{", {"Ref": "A"}]]})) == []
