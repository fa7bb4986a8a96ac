"""Trust policies: who they let assume a role, and what they leave undecided."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.runtime.preflight.trust import SAGEMAKER, may_assume, principals


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
        ([allow({"Federated": "cognito-identity.amazonaws.com"}, "sts:AssumeRoleWithWebIdentity")], False),
        ([], False),
        (None, False),
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
    ],
)
def test_a_trust_policy_decides_whether_sagemaker_may_assume_its_role(
    statements: object, expected: bool | None
) -> None:
    assert may_assume({"Version": "2012-10-17", "Statement": statements}) is expected


def test_a_policy_that_is_no_object_trusts_nobody() -> None:
    assert may_assume("{}") is False
    assert principals("{}") == ()


def test_principals_are_named_once_and_in_order() -> None:
    statements = [
        allow({"Service": ["lambda.amazonaws.com", "ec2.amazonaws.com"]}),
        allow({"Service": "lambda.amazonaws.com", "AWS": "arn:aws:iam::111122223333:root"}),
        DENY,
    ]
    assert principals({"Statement": statements}) == (
        "lambda.amazonaws.com",
        "ec2.amazonaws.com",
        "arn:aws:iam::111122223333:root",
    )
