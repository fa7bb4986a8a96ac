"""Pipelines for tests: a bucket, a repository, projects and definitions."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from constructs_optim.local.cloud import LocalCloud

from .conftest import ROLE, until

ARTIFACTS, REPOSITORY = "pipeline-artifacts", "my-organization/chat"
CONNECTION = "arn:aws:codeconnections:us-west-2:000000000000:connection/11111111-2222-3333-4444-555555555555"
TOPIC = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, "Outputs": {"Arn": {"Value": {"Ref": "Topic"}}}}


def action(
    kind: str,
    name: str,
    configuration: dict[str, str] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    **more: Any,
) -> dict[str, Any]:
    """An action; ``kind`` is ``<category> by <provider>``."""
    category, provider = kind.split(" by ")
    return {
        "name": name,
        "actionTypeId": {"category": category, "owner": "AWS", "provider": provider, "version": "1"},
        "configuration": configuration or {},
        "inputArtifacts": [{"name": artifact} for artifact in inputs],
        "outputArtifacts": [{"name": artifact} for artifact in outputs],
        **more,
    }


def source(repository: str = REPOSITORY) -> dict[str, Any]:
    given = {"ConnectionArn": CONNECTION, "FullRepositoryId": repository, "BranchName": "main"}
    kind = "Source by CodeStarSourceConnection"
    return {"name": "Source", "actions": [action(kind, "Repository", given, outputs=["Source"])]}


def approval(name: str = "Release", **more: Any) -> dict[str, Any]:
    return action("Approval by Manual", name, more.pop("configuration", None), **more)


def build(name: str, project: str, outputs: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    return action("Build by CodeBuild", name, {"ProjectName": project}, ["Source"], outputs, **more)


def stack(name: str, mode: str, stack_name: str, *, template: str = "", **more: Any) -> dict[str, Any]:
    given = {"ActionMode": mode, "StackName": stack_name, **more.pop("given", {})}
    if mode.startswith("CHANGE_SET"):
        given["ChangeSetName"] = "Change"
    if mode != "CHANGE_SET_EXECUTE":
        given["RoleArn"] = ROLE
    if template:
        given["TemplatePath"] = f"Source::{template}"
    return action("Deploy by CloudFormation", name, given, ["Source"] if template else [], **more)


def definition(*stages: dict[str, Any], name: str = "", role: str = ROLE, **more: Any) -> dict[str, Any]:
    return {
        "name": name or f"pipeline-{uuid.uuid4().hex[:8]}",
        "roleArn": role,
        "artifactStore": {"type": "S3", "location": ARTIFACTS},
        "stages": list(stages),
        **more,
    }


def stage(name: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "actions": list(actions)}


def project(cloud: LocalCloud, spec: dict[str, Any] | str, *, kind: str = "CODEPIPELINE", **more: Any) -> str:
    """Have CloudFormation make a build project; its name."""
    name = f"project-{uuid.uuid4().hex[:8]}"
    properties = {
        "Name": name,
        "Artifacts": {"Type": "CODEPIPELINE" if kind == "CODEPIPELINE" else "NO_ARTIFACTS"},
        "Environment": {
            "Type": "LINUX_CONTAINER",
            "Image": "aws/codebuild/standard:7.0",
            "ComputeType": "BUILD_GENERAL1_SMALL",
        },
        "ServiceRole": ROLE,
        "Source": {"Type": kind, "BuildSpec": spec if isinstance(spec, str) else json.dumps(spec)},
        **more,
    }
    deploy(cloud, name, {"Project": {"Type": "AWS::CodeBuild::Project", "Properties": properties}})
    return name


def deploy(cloud: LocalCloud, name: str, resources: dict[str, Any], given: dict[str, Any] | None = None) -> str:
    """Deploy a stack with outputs that are given; its status."""
    cloudformation = cloud.client("cloudformation")
    body = json.dumps({"Resources": resources, **({"Outputs": given} if given else {})})
    try:
        cloudformation.describe_stacks(StackName=name)
    except cloudformation.exceptions.ClientError:
        cloudformation.create_stack(StackName=name, TemplateBody=body)
    else:
        cloudformation.update_stack(StackName=name, TemplateBody=body)
    return until(
        lambda: cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"],
        lambda status: not status.endswith("_IN_PROGRESS"),
    )


def outputs(cloud: LocalCloud, name: str) -> dict[str, str]:
    """The outputs of a stack."""
    (found,) = cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    return {item["OutputKey"]: item["OutputValue"] for item in found.get("Outputs", [])}


def commands(*build_commands: str, **more: Any) -> dict[str, Any]:
    """A buildspec with one phase."""
    return {"version": "0.2", "phases": {"build": {"commands": list(build_commands)}}, **more}


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


class Run:
    """One pipeline, and its newest execution."""

    def __init__(self, cloud: LocalCloud, declaration: dict[str, Any]) -> None:
        self.cloud, self.name = cloud, declaration["name"]
        self.client: Any = cloud.client("codepipeline")
        self.client.create_pipeline(pipeline=declaration)

    def executions(self) -> list[dict[str, Any]]:
        """The newest first."""
        return self.client.list_pipeline_executions(pipelineName=self.name)["pipelineExecutionSummaries"]

    @property
    def id(self) -> str:
        return self.executions()[0]["pipelineExecutionId"]

    def status(self) -> str:
        return self.executions()[0]["status"]

    def ended(self) -> str:
        """The status the execution ends with."""
        return until(self.status, lambda status: status not in ("InProgress", "Stopping"))

    def actions(self) -> dict[str, dict[str, Any]]:
        """The latest execution of each action of the newest execution, in the order they began."""
        pages = self.client.get_paginator("list_action_executions").paginate(
            pipelineName=self.name, filter={"pipelineExecutionId": self.id}
        )
        found = [item for page in pages for item in page["actionExecutionDetails"]]
        return {item["actionName"]: item for item in reversed(found)}

    def statuses(self) -> dict[str, str]:
        return {name: found["status"] for name, found in self.actions().items()}

    def result(self, name: str) -> dict[str, Any]:
        return self.actions()[name]["output"]["executionResult"]

    def error(self, name: str) -> dict[str, str]:
        return self.result(name)["errorDetails"]

    def artifact(self, name: str) -> dict[str, bytes]:
        """The files of an artifact that an action has made."""
        made = (item for found in self.actions().values() for item in found["output"]["outputArtifacts"])
        place = next(item["s3location"] for item in made if item["name"] == name)
        body = self.cloud.client("s3").get_object(Bucket=place["bucket"], Key=place["key"])["Body"].read()
        with zipfile.ZipFile(io.BytesIO(body)) as packed:
            return {item: packed.read(item) for item in packed.namelist()}

    def state(self, stage_name: str) -> dict[str, Any]:
        stages = self.client.get_pipeline_state(name=self.name)["stageStates"]
        return next(found for found in stages if found["stageName"] == stage_name)

    def token(self, stage_name: str, name: str = "Release") -> str:
        """What an approval is answered with, once it is waited for."""

        def look() -> str:
            found = next(item for item in self.state(stage_name)["actionStates"] if item["actionName"] == name)
            return found.get("latestExecution", {}).get("token", "")

        return until(look, bool)

    def answer(self, stage_name: str, status: str, summary: str = "", name: str = "Release") -> None:
        token = self.token(stage_name, name)
        self.client.put_approval_result(
            pipelineName=self.name,
            stageName=stage_name,
            actionName=name,
            token=token,
            result={"status": status, "summary": summary},
        )
