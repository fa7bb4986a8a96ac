"""Trust policies: who they let assume a role, and what they leave undecided."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.runtime.preflight.trust import SAGEMAKER, may_assume, refusal


def allow(principal: object, action: object = "sts:AssumeRole", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": principal, "Action": action, **more}


DENY = {**allow({"Service": SAGEMAKER}), "Effect": "Deny"}
CONDITION = {"StringEquals": {"aws:SourceAccount": "111122223333"}}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([allow({"Service": SAGEMAKER})], True),
        (allow({"Service": SAGEMAKER}), True),
        ([allow({"Service": ["lambda.amazonaws.com", SAGEMAKER]})], True),
        ([allow({"Service": SAGEMAKER}, ["sts:AssumeRole", "sts:TagSession"])], True),
        ([allow({"Service": SAGEMAKER}, "sts:*")], True),
        ([allow({"Service": SAGEMAKER}, "STS:assume*")], True),
        ([allow({"Service": "lambda.amazonaws.com"})], False),
        ([allow({"Service": SAGEMAKER}, "sts:TagSession")], False),
        ([allow({"AWS": "arn:aws:iam::111122223333:root"})], False),
        ([allow({"CanonicalUser": "79a59df900b949e55d96a1e698fbaced"})], False),
        ([allow({"Anything": SAGEMAKER})], None),
        ([allow({"Federated": "cognito-identity.amazonaws.com"}, "sts:AssumeRoleWithWebIdentity")], False),
        ([], False),
        (None, None),
        ([allow({"Service": SAGEMAKER}), DENY], False),
        ([allow({"Service": SAGEMAKER}), {**DENY, "Condition": CONDITION}], None),
        ([allow({"Service": SAGEMAKER}, Condition=CONDITION)], None),
        ([allow("*")], None),
        ([allow({"AWS": "*"})], None),
        ([allow({"Service": {"Fn::Sub": "sagemaker.${AWS::URLSuffix}"}})], None),
        ([allow({"Service": "sagemaker.us-west-2.amazonaws.com"})], None),
        ([{"Effect": "Allow", "NotPrincipal": {"AWS": "arn:aws:iam::1:root"}, "Action": "sts:AssumeRole"}], None),
        ([{"Effect": "Allow", "Principal": {"Service": SAGEMAKER}, "NotAction": "sts:TagSession"}], None),
        ([allow({"Service": "lambda.amazonaws.com"}), allow({"Service": SAGEMAKER})], True),
        # What is known only at deployment.
        ({"Fn::If": ["IsTrusted", [], []]}, None),
        ([allow({"Service": "lambda.amazonaws.com"}), {"Fn::If": ["IsTrusted", allow("*"), {"Ref": "X"}]}], None),
        ([allow({"Service": "lambda.amazonaws.com"}), "{}"], None),
        ([{**allow({"Service": "lambda.amazonaws.com"}), "Fn::Transform": {"Name": "AWS::Include"}}], None),
        ([{**allow({"Service": SAGEMAKER}), "Effect": {"Ref": "Effect"}}], None),
        ([{"Principal": {"Service": SAGEMAKER}, "Action": "sts:AssumeRole"}], None),
        ([allow({"Fn::If": ["IsTrusted", {"Service": SAGEMAKER}, {"AWS": "*"}]})], None),
        ([allow({"Service": {"Fn::If": ["IsTrusted", SAGEMAKER, "lambda.amazonaws.com"]}})], None),
        ([allow({"AWS": {"Ref": "Principal"}})], None),
        ([allow({"AWS": {"Fn::ImportValue": "Principal"}})], None),
        ([allow({"AWS": ["arn:aws:iam::111122223333:root", {"Fn::If": ["IsOpen", "*", {"Ref": "X"}]}]})], None),
        ([allow({"Service": SAGEMAKER}, {"Ref": "Action"})], None),
        ([allow({"Service": SAGEMAKER}, Condition={"Fn::If": ["IsStrict", CONDITION, {"Ref": "AWS::NoValue"}]})], None),
        # Tokens that cannot be the service.
        ([allow({"AWS": {"Ref": "AWS::AccountId"}})], False),
        ([allow({"AWS": {"Fn::GetAtt": ["Role", "Arn"]}})], False),
        ([allow({"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}})], False),
        ([allow({"AWS": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":iam::111122223333:root"]]}})], False),
        ([allow({"Federated": {"Ref": "Provider"}}, "sts:AssumeRoleWithWebIdentity")], False),
    ],
)
def test_a_trust_policy_decides_whether_sagemaker_may_assume_its_role(
    statements: object, expected: bool | None
) -> None:
    assert may_assume({"Version": "2012-10-17", "Statement": statements}) is expected


@pytest.mark.parametrize(
    "policy", ["{}", None, {}, {"Fn::If": ["IsTrusted", {}, {}]}, {"Statement": [], "Fn::Transform": {"Name": "Macro"}}]
)
def test_a_policy_that_cannot_be_read_is_not_decided(policy: object) -> None:
    assert may_assume(policy) is None
    assert refusal(policy) is None


TAGS = allow({"Service": SAGEMAKER}, ["sts:TagSession", "sts:SetSourceIdentity"])
LAMBDA = allow({"Service": "lambda.amazonaws.com"})
OTHERS = [
    allow({"Service": ["lambda.amazonaws.com", "ec2.amazonaws.com"]}),
    allow({"Service": "lambda.amazonaws.com", "AWS": "arn:aws:iam::111122223333:root"}),
]


DENIED = f"has a Deny statement for {SAGEMAKER}"
ONLY_TAGS = f"allows {SAGEMAKER} only sts:TagSession, sts:SetSourceIdentity, not sts:AssumeRole"
IN_THE_CDK = f'assumed_by=iam.ServicePrincipal("{SAGEMAKER}")'


@pytest.mark.parametrize(
    ("statements", "reason", "fixes"),
    [
        ([], f"names nobody, not the service {SAGEMAKER}", ['allow "sts:AssumeRole"', IN_THE_CDK]),
        (
            OTHERS,
            "names lambda.amazonaws.com, ec2.amazonaws.com, arn:aws:iam::111122223333:root, not the service "
            f"{SAGEMAKER}",
            ['allow "sts:AssumeRole"', IN_THE_CDK],
        ),
        ([allow({"Service": SAGEMAKER}), DENY], DENIED, ["out of the Deny statement"]),
        ([allow("*"), DENY], DENIED, ["out of the Deny statement"]),
        ([LAMBDA, TAGS], ONLY_TAGS, ["add sts:AssumeRole"]),
        (
            [allow({"Service": "*"}, "sts:TagSession")],
            f"allows {SAGEMAKER} only sts:TagSession, not sts:AssumeRole",
            [],
        ),
        (
            [LAMBDA, DENY],
            f"{DENIED} and names lambda.amazonaws.com, not the service {SAGEMAKER}",
            ["Deny statement", IN_THE_CDK],
        ),
        (
            [allow({"Federated": SAGEMAKER}, "sts:AssumeRoleWithWebIdentity")],
            f"names the identity provider {SAGEMAKER}, not the service {SAGEMAKER}",
            [IN_THE_CDK],
        ),
        ([TAGS, DENY], f"{DENIED} and {ONLY_TAGS}", ["out of the Deny statement", "add sts:AssumeRole"]),
    ],
)
def test_the_cause_of_a_refusal_is_named_with_what_lifts_it(
    statements: list[object], reason: str, fixes: list[str]
) -> None:
    refused = refusal({"Statement": statements})
    assert refused is not None
    assert refused.reason == f"its trust policy {reason}"
    assert all(text in refused.fix for text in fixes)
    assert (IN_THE_CDK in refused.fix) == (IN_THE_CDK in fixes)


@pytest.mark.parametrize(
    "principal",
    [
        "*",
        {"AWS": "*"},
        {"Service": "*"},
        {"Service": ["ec2.amazonaws.com", SAGEMAKER]},
        {"Service": SAGEMAKER, "AWS": "*"},
        {"Service": {"Ref": "Service"}},
        None,
    ],
)
@pytest.mark.parametrize("own", [[], [TAGS]])
def test_the_remedy_lets_only_sagemaker_assume_the_role(principal: object, own: list[object]) -> None:
    refused = refusal({"Statement": [allow(principal, "sts:TagSession"), *own]})
    assert refused is not None
    assert "add sts:AssumeRole" not in refused.fix
    assert f'allow "sts:AssumeRole" for the service principal "{SAGEMAKER}"' in refused.fix
    assert refused.fix.endswith("in a statement of its own")


def test_a_policy_that_lets_sagemaker_assume_the_role_is_not_refused() -> None:
    assert refusal({"Statement": [TAGS, allow({"Service": SAGEMAKER})]}) is None


def test_a_deny_statement_for_another_service_is_no_reason() -> None:
    other = {**DENY, "Principal": {"Service": "ec2.amazonaws.com"}}
    found = refusal({"Statement": [other, allow({"Service": "lambda.amazonaws.com"})]})
    assert found is not None
    assert found.reason == f"its trust policy names lambda.amazonaws.com, not the service {SAGEMAKER}"
