"""IAM quotas: the size of policies, and the number of policies of a role."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack
from ..support.local_cloud import ROLE

TRUST: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
INLINE_WORDS = "Maximum policy size of 10240 bytes exceeded for role {}"
MANAGED_WORDS = "Cannot exceed quota for PolicySize: 6144"
TRUST_WORDS = "Cannot exceed quota for ACLSizePerRole: 2048"
NUMBER_WORDS = "Cannot exceed quota for PoliciesPerRole: 10"
LOGS_WORDS = "Invalid Logging Configuration: The CloudWatch Logs Resource Policy size was exceeded."


def policy(characters: int) -> dict[str, Any]:
    """A policy of that many characters, not counting white space."""
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::"}
    made: dict[str, Any] = {"Version": "2012-10-17", "Statement": [statement]}
    statement["Resource"] += "x" * (characters - len(json.dumps(made, separators=(",", ":"))))
    return made


def trust(characters: int) -> dict[str, Any]:
    made = json.loads(json.dumps(TRUST))
    made["Statement"][0]["Sid"] = ""
    made["Statement"][0]["Sid"] = "x" * (characters - len(json.dumps(made, separators=(",", ":"))))
    return made


def refused(call: Any, **request: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**request)
    assert caught.value.response["Error"]["Code"] == "LimitExceeded"
    return caught.value.response["Error"]["Message"]


@pytest.fixture
def iam(cloud: LocalCloud) -> Any:
    return cloud.client("iam")


@pytest.fixture
def role(iam: Any) -> str:
    name = f"role-{uuid.uuid4().hex[:8]}"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))
    return name


def test_inline_policies_of_a_role_beyond_10240_characters_are_refused(iam: Any, role: str) -> None:
    def put(name: str, characters: int) -> dict[str, Any]:
        return {"RoleName": role, "PolicyName": name, "PolicyDocument": json.dumps(policy(characters), indent=8)}

    iam.put_role_policy(**put("one", 10_000))
    iam.put_role_policy(**put("other", 240))
    assert refused(iam.put_role_policy, **put("other", 241)) == INLINE_WORDS.format(role)
    # What is put again takes the place of what was there.
    iam.put_role_policy(**put("one", 9_000))
    iam.put_role_policy(**put("other", 1_240))


def test_a_managed_policy_beyond_6144_characters_is_refused(iam: Any) -> None:
    name = f"policy-{uuid.uuid4().hex[:8]}"
    arn = iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(policy(6_144), indent=1))["Policy"]["Arn"]
    too_large = json.dumps(policy(6_145))
    assert refused(iam.create_policy, PolicyName=f"{name}-2", PolicyDocument=too_large) == MANAGED_WORDS
    assert refused(iam.create_policy_version, PolicyArn=arn, PolicyDocument=too_large) == MANAGED_WORDS


def test_a_trust_policy_beyond_2048_characters_is_refused(iam: Any, role: str) -> None:
    iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(trust(2_048), indent=1))
    large = json.dumps(trust(2_049))
    assert refused(iam.update_assume_role_policy, RoleName=role, PolicyDocument=large) == TRUST_WORDS
    assert refused(iam.create_role, RoleName=f"{role}-2", AssumeRolePolicyDocument=large) == TRUST_WORDS


def test_an_eleventh_managed_policy_of_a_role_is_refused(iam: Any, role: str) -> None:
    arns = [
        iam.create_policy(PolicyName=f"{role}-{n}", PolicyDocument=json.dumps(policy(200)))["Policy"]["Arn"]
        for n in range(11)
    ]
    for arn in arns[:10]:
        iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    iam.attach_role_policy(RoleName=role, PolicyArn=arns[0])
    assert refused(iam.attach_role_policy, RoleName=role, PolicyArn=arns[10]) == NUMBER_WORDS


def role_resource(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST, **properties}}


def tagged_role(tags: dict[str, str]) -> dict[str, Any]:
    return role_resource(Tags=[{"Key": key, "Value": value} for key, value in tags.items()])


def policy_resource(characters: int, *roles: str, kind: str = "Policy") -> dict[str, Any]:
    properties: dict[str, Any] = {"PolicyDocument": policy(characters), "Roles": [{"Ref": name} for name in roles]}
    if kind == "Policy":
        properties["PolicyName"] = "made"
    return {"Type": f"AWS::IAM::{kind}", "Properties": properties}


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"Role": role_resource(Policies=[{"PolicyName": "a", "PolicyDocument": policy(10_241)}])}, INLINE_WORDS),
        (
            {
                "Role": role_resource(Policies=[{"PolicyName": "a", "PolicyDocument": policy(10_000)}]),
                "Policy": policy_resource(241, "Role"),
            },
            INLINE_WORDS,
        ),
        ({"Role": role_resource(AssumeRolePolicyDocument=trust(2_049))}, TRUST_WORDS),
        ({"Role": role_resource(ManagedPolicyArns=[f"arn:aws:iam::aws:policy/P{n}" for n in range(11)])}, NUMBER_WORDS),
        ({"Managed": policy_resource(6_145, kind="ManagedPolicy")}, MANAGED_WORDS),
        ({"Role": tagged_role({f"key{n}": "" for n in range(51)})}, "Value at 'tags' failed"),
        ({"Role": tagged_role({"k" * 129: "value"})}, "Value at 'tags.1.member.key' failed"),
        ({"Role": tagged_role({"a": "b", "key": "v" * 257})}, "Value at 'tags.2.member.value' failed"),
        (
            {
                "Role": role_resource(ManagedPolicyArns=[f"arn:aws:iam::aws:policy/P{n}" for n in range(10)]),
                "Managed": policy_resource(200, "Role", kind="ManagedPolicy"),
            },
            NUMBER_WORDS,
        ),
    ],
)
def test_a_stack_that_exceeds_a_policy_limit_rolls_back(
    cloud: LocalCloud, resources: dict[str, Any], words: str
) -> None:
    stack = Stack(cloud, f"policies-{uuid.uuid4().hex[:8]}")
    assert stack.deploy(resources) == "ROLLBACK_COMPLETE"
    assert words.partition("{")[0] in stack.reasons()
    stack.delete()


def test_an_update_counts_all_inline_policies_of_the_role(cloud: LocalCloud) -> None:
    stack = Stack(cloud, f"growing-{uuid.uuid4().hex[:8]}")
    small = role_resource(Policies=[{"PolicyName": "own", "PolicyDocument": policy(200)}])
    assert stack.deploy({"Role": small, "Policy": policy_resource(10_000, "Role")}) == "CREATE_COMPLETE"
    assert stack.deploy({"Role": small, "Policy": policy_resource(10_040, "Role")}) == "UPDATE_COMPLETE"
    assert stack.deploy({"Role": small, "Policy": policy_resource(10_041, "Role")}) == "UPDATE_ROLLBACK_COMPLETE"
    large = role_resource(Policies=[{"PolicyName": "own", "PolicyDocument": policy(201)}])
    assert stack.deploy({"Role": large, "Policy": policy_resource(10_040, "Role")}) == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.reasons().count("Maximum policy size of 10240 bytes exceeded for role") == 2
    stack.delete()


def test_a_bucket_policy_beyond_20_kilobytes_is_refused(cloud: LocalCloud) -> None:
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": cloud.region})
    document = policy(20_481)
    with pytest.raises(ClientError, match="PolicyTooLarge"):
        s3.put_bucket_policy(Bucket=name, Policy=json.dumps(document, separators=(",", ":")))
    stack = Stack(cloud, name)
    resource = {"Type": "AWS::S3::BucketPolicy", "Properties": {"Bucket": name, "PolicyDocument": document}}
    assert stack.deploy({"Policy": resource}) == "ROLLBACK_COMPLETE"
    assert "Policy exceeds the maximum allowed document size." in stack.reasons()
    stack.delete()


def logging_machine(group: str) -> dict[str, Any]:
    arn = f"arn:aws:logs:us-west-2:000000000000:log-group:{group}:*"
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "RoleArn": ROLE,
            "DefinitionString": json.dumps({"StartAt": "Only", "States": {"Only": {"Type": "Pass", "End": True}}}),
            "LoggingConfiguration": {
                "Level": "ALL",
                "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": arn}}],
            },
        },
    }


@pytest.mark.parametrize(("prefix", "works"), [("Stack-WatcherLogs", False), ("/aws/vendedlogs/states/", True)])
def test_only_vended_log_groups_keep_the_logs_resource_policy_within_its_limit(
    cloud: LocalCloud, prefix: str, works: bool
) -> None:
    stack = Stack(cloud, f"logging-{uuid.uuid4().hex[:8]}")
    few = {f"Machine{n}": logging_machine(f"{prefix}{n:060}") for n in range(20)}
    assert stack.deploy(few) == "CREATE_COMPLETE"
    many = {f"Machine{n}": logging_machine(f"{prefix}{n:060}") for n in range(45)}
    assert stack.deploy(many) == ("UPDATE_COMPLETE" if works else "UPDATE_ROLLBACK_COMPLETE")
    assert (LOGS_WORDS in stack.reasons()) is not works
    stack.delete()
