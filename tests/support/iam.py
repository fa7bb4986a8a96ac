"""Roles, policy documents and refusals of IAM."""

from __future__ import annotations

import json
import uuid
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

ACCOUNT = "000000000000"


PULL = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]


class Role:
    """A role of the local cloud, which the administrator and SageMaker may take on.

    ``home`` is its account, and ``account`` the one for which SageMaker may.
    """

    def __init__(
        self,
        cloud: LocalCloud,
        *statements: dict[str, Any],
        home: str = ACCOUNT,
        account: str | None = None,
        **given: Any,
    ) -> None:
        self.cloud, self.home, self.name = cloud, home, f"role-{uuid.uuid4().hex[:8]}"
        trust = [
            allow("sts:AssumeRole", None, Principal={"AWS": f"arn:aws:iam::{home}:root"}),
            allow(
                "sts:AssumeRole",
                None,
                Principal={"Service": "sagemaker.amazonaws.com"},
                Condition={"StringEquals": {"aws:SourceAccount": account or home}},
            ),
        ]
        iam = cloud.client("iam", home)
        made = iam.create_role(RoleName=self.name, AssumeRolePolicyDocument=document(*trust), **given)
        self.arn = made["Role"]["Arn"]
        if statements:
            iam.put_role_policy(RoleName=self.name, PolicyName="p", PolicyDocument=document(*statements))

    def client(self, service: str) -> Any:
        """A client that signs with a session of the role."""
        sts = self.cloud.client("sts", self.home)
        session = sts.assume_role(RoleArn=self.arn, RoleSessionName="test")["Credentials"]
        return boto3.client(
            service,
            endpoint_url=self.cloud.endpoint_url,
            region_name=self.cloud.region,
            aws_access_key_id=session["AccessKeyId"],
            aws_secret_access_key=session["SecretAccessKey"],
            aws_session_token=session["SessionToken"],
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    @property
    def decisions(self) -> list[tuple[str, str]]:
        """Actions requested under the role, and their decisions."""
        return [(found["action"], found["decision"]) for found in self.cloud.authorizations(self.name)]


def allow(action: str | list[str], resource: str | list[str] | None, **rest: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, **({"Resource": resource} if resource else {}), **rest}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def refused(call: Any, *arguments: Any, **given: Any) -> tuple[str, str]:
    """Code and message of the error that a call must end in."""
    with pytest.raises(ClientError) as raised:
        call(*arguments, **given)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]
