"""What changes in who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.explanation.permissions import covers, permission_changes
from constructs_optim.explanation.report import Direction, PermissionChange, Statement
from constructs_optim.templates.template import Template

from .templates import attribute, resource, role, template

READ = {"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::store/artifacts/*"}


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[PermissionChange]:
    return permission_changes(template(Role=role(*before)), template(Role=role(*after)))


def test_a_statement_is_added_and_removed() -> None:
    (added,) = changes([], [READ])
    assert (added.owner, added.direction, added.grants_more) == ("Role", "added", True)
    assert added.statement.actions == ("s3:GetObject",)
    (removed,) = changes([READ], [])
    assert (removed.direction, removed.grants_more) == ("removed", False)


@pytest.mark.parametrize(
    ("changed", "direction"),
    [
        ({"Action": ["s3:GetObject", "s3:PutObject"]}, "widened"),
        ({"Action": "s3:*"}, "widened"),
        ({"Action": "S3:getobject"}, None),
        ({"Resource": "*"}, "widened"),
        ({"Resource": ["arn:aws:s3:::store/artifacts/*", "arn:aws:s3:::other/*"]}, "widened"),
        ({"Resource": "arn:aws:s3:::store/artifacts/one"}, "narrowed"),
        ({"Condition": {"Bool": {"aws:SecureTransport": "true"}}}, "narrowed"),
        ({"Resource": "arn:aws:s3:::other/*"}, "changed"),
        ({"Action": ["s3:PutObject"], "Resource": "*"}, "changed"),
        ({"Sid": "Renamed"}, None),
    ],
)
def test_a_statement_is_widened_narrowed_or_changed(changed: dict[str, Any], direction: Direction | None) -> None:
    found = changes([READ], [{**READ, **changed}])
    if direction is None:
        # IAM's actions have no case; CloudFormation updates the role all the same.
        assert all(change.direction == "changed" for change in found)
        return
    (change,) = found
    assert change.direction is direction
    assert change.grants_more == (direction != "narrowed")


def test_a_denial_that_covers_less_lets_somebody_do_more() -> None:
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    (change,) = changes([deny], [{**deny, "Resource": "arn:aws:s3:::store/*"}])
    assert (change.direction, change.grants_more) == ("widened", True)
    (change,) = changes([deny], [])
    assert (change.direction, change.grants_more) == ("removed", True)
    (change,) = changes([], [deny])
    assert not change.grants_more


def test_a_lost_condition_widens() -> None:
    held = {**READ, "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}}
    (change,) = changes([held], [READ])
    assert change.direction == "widened"
    assert change.before is not None
    assert change.before.conditions == ("aws:SourceAccount StringEquals ${AWS::AccountId}",)


def test_who_may_assume_a_role_is_told_apart_from_what_it_may_do() -> None:
    trusted = role()
    trusted["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] = {
        "Service": ["sagemaker.amazonaws.com", "lambda.amazonaws.com"]
    }
    (change,) = permission_changes(template(Role=role()), template(Role=trusted))
    assert (change.kind, change.direction) == ("trust policy", "widened")
    assert change.statement.principals == ("lambda.amazonaws.com", "sagemaker.amazonaws.com")


def test_a_policy_counts_for_the_role_it_is_attached_to() -> None:
    def with_policy(*statements: dict[str, Any], attached: Any) -> Template:
        policy = resource("AWS::IAM::Policy", PolicyDocument={"Statement": list(statements)}, Roles=[attached])
        return template(Role=role(), Extra=policy)

    (change,) = permission_changes(template(Role=role()), with_policy(READ, attached={"Ref": "Role"}))
    assert (change.owner, change.owner_id) == ("Role", "Role")
    (change,) = permission_changes(template(Role=role()), with_policy(READ, attached="their-role"))
    assert change.owner == "their-role"
    # Where a statement is written down changes nothing.
    assert permission_changes(template(Role=role(READ)), with_policy(READ, attached={"Ref": "Role"})) == []


def test_managed_policies_and_boundaries_are_permissions_as_well() -> None:
    more = role()
    more["Properties"] |= {
        "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"],
        "PermissionsBoundary": "arn:aws:iam::111122223333:policy/limit",
    }
    found = permission_changes(template(Role=role()), template(Role=more))
    assert {change.kind for change in found} == {"managed policy", "permissions boundary"}
    assert "AdministratorAccess" in found[0].statement.actions[0]


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
def test_the_policies_of_resources_are_told_of(type_name: str, properties: dict[str, Any], owner: str) -> None:
    beside = {name: resource("AWS::S3::Bucket") for name in ("Store", "Topic", "Function")}
    (change,) = permission_changes(template(**beside), template(**beside, It=resource(type_name, **properties)))
    assert (change.kind, change.owner) == ("resource policy", owner)


texts = st.sampled_from(["s3:GetObject", "s3:PutObject", "s3:*", "*", "kms:Decrypt", "s3:Get?bject"])
statements = st.builds(
    Statement,
    sid=st.just(""),
    effect=st.just("Allow"),
    actions=st.lists(texts, min_size=1, max_size=3, unique=True).map(lambda some: tuple(sorted(some))),
    resources=st.lists(st.sampled_from(["a/*", "a/b", "*", "c"]), min_size=1, max_size=2, unique=True).map(tuple),
)


@given(statements)
def test_a_statement_covers_itself_and_everything_with_a_part_of_it_left_out(statement: Statement) -> None:
    assert covers(statement, statement)
    for left in statement.actions[1:]:
        fewer = tuple(action for action in statement.actions if action != left)
        assert covers(statement, statement.model_copy(update={"actions": fewer}))


@given(statements, statements, statements)
def test_what_covers_what_covers_another_covers_that_as_well(one: Statement, two: Statement, three: Statement) -> None:
    if covers(one, two) and covers(two, three):
        assert covers(one, three)
