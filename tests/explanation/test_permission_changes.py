"""What changes in who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.explanation.permissions import Permission, permission_changes
from constructs_optim.explanation.report import PermissionChange
from constructs_optim.templates.template import Template

from ..support.handwritten_templates import attribute, resource, role, template

READ = {"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::store/artifacts/*"}


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[PermissionChange]:
    return permission_changes(template(Role=role(*before)), template(Role=role(*after)))


def test_a_permission_is_gained_and_lost() -> None:
    line = "Allow s3:GetObject on arn:aws:s3:::store/artifacts/*"
    (gained,) = changes([], [READ])
    assert (gained.owner, gained.gained, gained.lost, gained.grants_more) == ("Role", (line,), (), True)
    (lost,) = changes([READ], [])
    assert (lost.gained, lost.lost, lost.grants_more) == ((), (line,), False)


@pytest.mark.parametrize(
    ("changed", "grants_more"),
    [
        ({"Action": ["s3:GetObject", "s3:PutObject"]}, True),
        ({"Action": "s3:*"}, True),
        ({"Action": "S3:getobject"}, False),
        ({"Resource": "*"}, True),
        ({"Resource": ["arn:aws:s3:::store/artifacts/*", "arn:aws:s3:::other/*"]}, True),
        ({"Resource": "arn:aws:s3:::store/artifacts/one"}, False),
        ({"Condition": {"Bool": {"aws:SecureTransport": "true"}}}, False),
        ({"Resource": "arn:aws:s3:::other/*"}, True),
        ({"Action": ["s3:PutObject"], "Resource": "*"}, True),
    ],
)
def test_only_statements_that_nothing_allowed_before_grant_more(changed: dict[str, Any], grants_more: bool) -> None:
    (change,) = changes([READ], [{**READ, **changed}])
    assert change.grants_more == grants_more


def test_a_renamed_statement_id_is_no_change() -> None:
    assert changes([READ], [{**READ, "Sid": "Renamed"}]) == []


def test_statements_are_compared_together() -> None:
    both = {**READ, "Action": ["s3:GetObject", "s3:ListBucket"]}
    assert changes([both], [READ, {**READ, "Action": "s3:ListBucket"}]) == []


def test_removing_an_action_from_not_action_grants_more() -> None:
    def all_but(*actions: str) -> dict[str, Any]:
        return {"Effect": "Allow", "NotAction": [*actions], "Resource": "*"}

    (change,) = changes([all_but("iam:*", "s3:*")], [all_but("iam:*")])
    assert (change.gained, change.grants_more) == (("Allow all but iam:* on *",), True)


def test_a_narrower_or_removed_deny_grants_more() -> None:
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    (change,) = changes([deny], [{**deny, "Resource": "arn:aws:s3:::store/*"}])
    assert change.grants_more
    (change,) = changes([deny], [])
    assert (change.lost, change.grants_more) == (("Deny s3:* on *",), True)
    (change,) = changes([], [deny])
    assert not change.grants_more


def test_a_removed_condition_grants_more() -> None:
    held = {**READ, "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}}
    (change,) = changes([held], [READ])
    assert change.grants_more
    assert change.lost[0].endswith(" if aws:SourceAccount StringEquals ${AWS::AccountId}")


def test_trust_policies_are_distinguished_from_permissions() -> None:
    trusted = role()
    trusted["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] = {
        "Service": ["sagemaker.amazonaws.com", "lambda.amazonaws.com"]
    }
    (change,) = permission_changes(template(Role=role()), template(Role=trusted))
    assert (change.kind, change.grants_more) == ("trust policy", True)
    assert change.gained == ("Allow sts:AssumeRole to lambda.amazonaws.com",)


def test_a_policy_is_attributed_to_the_role_it_is_attached_to() -> None:
    def with_policy(*statements: dict[str, Any], attached: Any) -> Template:
        policy = resource("AWS::IAM::Policy", PolicyDocument={"Statement": list(statements)}, Roles=[attached])
        return template(Role=role(), Extra=policy)

    (change,) = permission_changes(template(Role=role()), with_policy(READ, attached={"Ref": "Role"}))
    assert (change.owner, change.owner_id) == ("Role", "Role")
    (change,) = permission_changes(template(Role=role()), with_policy(READ, attached="their-role"))
    assert change.owner == "their-role"
    # Where a statement is written down changes nothing.
    assert permission_changes(template(Role=role(READ)), with_policy(READ, attached={"Ref": "Role"})) == []


def test_managed_policies_and_permissions_boundaries_are_reported() -> None:
    more = role()
    more["Properties"] |= {
        "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"],
        "PermissionsBoundary": "arn:aws:iam::111122223333:policy/limit",
    }
    found = permission_changes(template(Role=role()), template(Role=more))
    assert {change.kind for change in found} == {"managed policy", "permissions boundary"}
    assert [change.grants_more for change in found] == [True, False]
    assert "AdministratorAccess" in found[0].gained[0]


@pytest.mark.parametrize(
    ("type_name", "properties", "owner"),
    [
        ("AWS::S3::BucketPolicy", {"Bucket": {"Ref": "Store"}, "PolicyDocument": {"Statement": READ}}, "Store"),
        ("AWS::KMS::Key", {"KeyPolicy": {"Statement": [READ]}}, "It"),
        ("AWS::SNS::TopicPolicy", {"Topics": [{"Ref": "Topic"}], "PolicyDocument": {"Statement": [READ]}}, "Topic"),
        (
            "AWS::Lambda::Permission",
            {
                "FunctionName": attribute("Function", "Arn"),
                "Action": "lambda:InvokeFunction",
                "Principal": "s3.amazonaws.com",
            },
            "Function",
        ),
    ],
)
def test_resource_policies_are_reported(type_name: str, properties: dict[str, Any], owner: str) -> None:
    beside = {name: resource("AWS::S3::Bucket") for name in ("Store", "Topic", "Function")}
    (change,) = permission_changes(template(**beside), template(**beside, It=resource(type_name, **properties)))
    assert (change.kind, change.owner) == ("resource policy", owner)


permissions = st.builds(
    Permission,
    effect=st.just("Allow"),
    action=st.sampled_from(["s3:GetObject", "s3:PutObject", "s3:*", "*", "kms:Decrypt", "s3:Get?bject"]),
    resource=st.sampled_from(["a/*", "a/b", "*", "c"]),
)


@given(permissions, permissions, permissions)
def test_permission_coverage_is_reflexive_and_transitive(one: Permission, two: Permission, three: Permission) -> None:
    assert one.covers(one)
    if one.covers(two) and two.covers(three):
        assert one.covers(three)
