"""A permissions boundary applies to every role, however it is declared."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, PermissionsBoundary, Stack
from aws_cdk import aws_iam as iam

from constructs_optim import PreOptimized, Quantization

from ..support.construct_stacks import ENVIRONMENT, endpoint, resources, template_of

BOUNDARY = "arn:aws:iam::111122223333:policy/Boundary"


def with_every_role(stack: Stack) -> Stack:
    """An endpoint with a job, and one with the handlers of models and configurations: every role."""
    endpoint(stack, "Quantized", techniques=[Quantization.awq()])
    endpoint(stack, "PreOptimized", techniques=[PreOptimized()], instance_type="ml.p4d.24xlarge")
    return stack


def by_aspect() -> Stack:
    stack = Stack(App(), "Chat", env=ENVIRONMENT)
    boundary = iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", BOUNDARY)
    iam.PermissionsBoundary.of(stack).apply(boundary)
    return with_every_role(stack)


def by_context() -> Stack:
    app = App(context={"@aws-cdk/core:permissionsBoundary": {"arn": BOUNDARY}})
    return with_every_role(Stack(app, "Chat", env=ENVIRONMENT))


def by_the_stack_s_property() -> Stack:
    stack = Stack(App(), "Chat", env=ENVIRONMENT, permissions_boundary=PermissionsBoundary.from_arn(BOUNDARY))
    return with_every_role(stack)


@pytest.mark.parametrize("declared", [by_aspect, by_context, by_the_stack_s_property])
def test_a_permissions_boundary_reaches_every_role(declared: Any) -> None:
    roles = resources(template_of(declared()), "AWS::IAM::Role")
    assert len(roles) == 9
    assert {role.get("PermissionsBoundary") for role in roles} == {BOUNDARY}


def test_without_a_boundary_no_role_has_one() -> None:
    roles = resources(template_of(with_every_role(Stack(App(), "Chat", env=ENVIRONMENT))), "AWS::IAM::Role")
    assert not any("PermissionsBoundary" in role for role in roles)
