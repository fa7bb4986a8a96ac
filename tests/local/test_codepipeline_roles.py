"""Pipelines while IAM is enforced: which roles act, and what they must be allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.local.cloud import LocalCloud

from .pipelines import (
    ARTIFACTS,
    CONNECTION,
    REPOSITORY,
    TOPIC,
    Run,
    approval,
    build,
    commands,
    definition,
    project,
    source,
    stack,
    stage,
    write,
)
from .test_iam import Role, allow, document, refused

# tests/e2e/test_pipeline.py has a pipeline whose actions are tried here.
pytestmark = pytest.mark.exhaustive

OBJECTS = f"arn:aws:s3:::{ARTIFACTS}/*"
CALLER = "python -c \"import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])\""
USE = allow("codeconnections:UseConnection", CONNECTION)
STORE = allow(["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], OBJECTS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    folder = tmp_path_factory.mktemp("chat")
    write(folder, {"topic.json": TOPIC})
    with LocalCloud(enforce_iam=True, time_scale=0.001, repositories={REPOSITORY: folder}) as running:
        running.client("s3").create_bucket(
            Bucket=ARTIFACTS, CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        yield running


def role(cloud: LocalCloud, trusted: dict[str, str], *statements: dict[str, Any]) -> Role:
    """A role that ``trusted`` may take on."""
    made = Role(cloud, *statements)
    trust = document(allow("sts:AssumeRole", None, Principal=trusted))
    cloud.client("iam").update_assume_role_policy(RoleName=made.name, PolicyDocument=trust)
    return made


def of_pipeline(cloud: LocalCloud, *statements: dict[str, Any]) -> Role:
    return role(cloud, {"Service": "codepipeline.amazonaws.com"}, *statements)


def of_project(cloud: LocalCloud, *statements: dict[str, Any]) -> Role:
    return role(cloud, {"Service": "codebuild.amazonaws.com"}, *statements)


def test_an_action_acts_under_its_own_role_and_a_build_under_its_projects(guarded: LocalCloud, tmp_path: Path) -> None:
    building = of_project(guarded, STORE)
    name = project(guarded, commands(f"{CALLER} >who.txt", artifacts={"files": ["who.txt"]}), ServiceRole=building.arn)
    pipeline = of_pipeline(guarded, allow("sts:AssumeRole", "*"))
    acting = role(guarded, {"AWS": pipeline.arn}, USE, STORE, allow("codebuild:StartBuild", f"*:project/{name}"))
    repository, built = source(), build("Build", name, ["Who"], roleArn=acting.arn)
    repository["actions"][0]["roleArn"] = acting.arn
    run = Run(guarded, definition(repository, stage("Build", built), role=pipeline.arn))
    assert run.ended() == "Succeeded", run.actions()
    assert f"assumed-role/{building.name}/" in run.artifact("Who")["who.txt"].decode()
    assert ("sts:AssumeRole", "Allow") in pipeline.decisions
    assert ("codebuild:StartBuild", "Allow") in acting.decisions
    assert {decision for _, decision in [*pipeline.decisions, *acting.decisions, *building.decisions]} == {"Allow"}


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([STORE], "is not authorized to perform: codeconnections:UseConnection on resource: " + CONNECTION),
        # The prefix has to be that of the connection's ARN.
        ([STORE, allow("codestar-connections:UseConnection", CONNECTION)], "codeconnections:UseConnection"),
        ([USE], "not authorized to perform: s3:PutObject"),
    ],
)
def test_a_source_needs_the_connection_and_the_bucket(
    guarded: LocalCloud, statements: list[dict[str, Any]], said: str
) -> None:
    pipeline = of_pipeline(guarded, *statements)
    run = Run(guarded, definition(source(), stage("Next", approval()), role=pipeline.arn))
    assert run.ended() == "Failed"
    error = run.error("Repository")
    assert error["code"] == "PermissionError"
    assert said in error["message"]


def test_a_build_that_its_project_role_cannot_read_for_fails_and_says_so(guarded: LocalCloud) -> None:
    name = project(guarded, commands("true"), ServiceRole=of_project(guarded).arn)
    pipeline = of_pipeline(guarded, USE, STORE, allow("codebuild:StartBuild", "*"))
    run = Run(guarded, definition(source(), stage("Build", build("Build", name)), role=pipeline.arn))
    assert run.ended() == "Failed"
    message = run.error("Build")["message"]
    assert "not authorized to perform: s3:GetObject" in message, message


def test_an_action_needs_to_start_its_build_and_a_role_that_can_be_assumed(guarded: LocalCloud) -> None:
    name = project(guarded, commands("true"), ServiceRole=of_project(guarded, STORE).arn)
    unable = of_pipeline(guarded, USE, STORE)
    run = Run(guarded, definition(source(), stage("Build", build("Build", name)), role=unable.arn))
    assert run.ended() == "Failed"
    assert run.error("Build")["code"] == "PermissionError"
    assert (
        f"codebuild:StartBuild on resource: arn:aws:codebuild:us-west-2:000000000000:project/{name}"
        in run.error("Build")["message"]
    )

    others = Role(guarded)
    built = build("Build", name, roleArn=others.arn)
    run = Run(guarded, definition(source(), stage("Build", built), role=unable.arn))
    assert run.ended() == "Failed"
    assert f"cannot assume the action's role {others.arn}" in run.error("Build")["message"]


def test_a_stack_action_is_refused_what_its_role_may_not_ask_of_cloudformation(guarded: LocalCloud) -> None:
    pipeline = of_pipeline(guarded, USE, STORE, allow("cloudformation:DescribeStacks", "*"))
    deployment = stack("Deploy", "CREATE_UPDATE", "refused-stack", template="topic.json")
    run = Run(guarded, definition(source(), stage("Deploy", deployment), role=pipeline.arn))
    assert run.ended() == "Failed"
    error = run.error("Deploy")
    assert error["code"] == "PermissionError"
    assert "cloudformation:CreateStack" in error["message"]


def test_a_pipeline_needs_a_role_that_codepipeline_can_assume(guarded: LocalCloud) -> None:
    client, given = (
        guarded.client("codepipeline"),
        definition(source(), stage("Next", approval()), role=Role(guarded).arn),
    )
    code, message = refused(client.create_pipeline, pipeline=given)
    assert code == "InvalidStructureException"
    assert message == f"CodePipeline is not authorized to perform AssumeRole on role {given['roleArn']}"


def test_a_caller_may_answer_the_approval_that_its_policy_names_and_no_other(guarded: LocalCloud) -> None:
    pipeline = of_pipeline(guarded, USE, STORE)
    run = Run(guarded, definition(source(), stage("Next", approval()), role=pipeline.arn))
    token = run.token("Next")
    prefix = f"arn:aws:codepipeline:us-west-2:000000000000:{run.name}"
    other, able = (
        Role(guarded, allow("codepipeline:PutApprovalResult", f"{prefix}/Next/{name}")).client("codepipeline")
        for name in ("Other", "Release")
    )
    answer = {
        "pipelineName": run.name,
        "stageName": "Next",
        "actionName": "Release",
        "token": token,
        "result": {"status": "Approved", "summary": ""},
    }
    code, message = refused(other.put_approval_result, **answer)
    assert code == "AccessDeniedException"
    assert f"codepipeline:PutApprovalResult on resource: {prefix}/Next/Release" in message
    able.put_approval_result(**answer)
    assert run.ended() == "Succeeded", json.dumps(run.actions(), default=str)


def test_a_policy_may_tell_the_roles_to_be_assumed_by_their_tags(guarded: LocalCloud) -> None:
    # As the role of a pipeline that updates itself does with those of `cdk bootstrap`.
    condition = {"ForAnyValue:StringEquals": {"iam:ResourceTag/aws-cdk:bootstrap-role": ["file-publishing", "deploy"]}}
    sts = Role(guarded, allow("sts:AssumeRole", "*", Condition=condition)).client("sts")
    tagged, other = (
        Role(guarded, Tags=[{"Key": "aws-cdk:bootstrap-role", "Value": value}]) for value in ("deploy", "lookup")
    )
    assert sts.assume_role(RoleArn=tagged.arn, RoleSessionName="deploys")["Credentials"]
    for denied in (other, Role(guarded)):
        assert refused(sts.assume_role, RoleArn=denied.arn, RoleSessionName="deploys")[0] == "AccessDenied"
