"""AWS::CodePipeline::Pipeline, from create to delete."""

from __future__ import annotations

import io
import uuid
import zipfile
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.local.cloud import LocalCloud

from .conftest import BUCKET, ROLE, until
from .pipelines import action, approval, deploy, outputs, stage

# tests/e2e/test_pipeline.py has a pipeline whose actions are tried here.
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def archive(cloud: LocalCloud) -> dict[str, Any]:
    """A stage whose source is an archive in S3."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("app.py", "print()")
    cloud.client("s3").put_object(Bucket=BUCKET, Key="source.zip", Body=content.getvalue())
    given = {"S3Bucket": BUCKET, "S3ObjectKey": "source.zip"}
    return stage("Source", action("Source by S3", "Archive", given, outputs=["Source"]))


def test_a_pipeline_lives_from_create_to_delete_and_begins_again_when_it_is_updated(
    cloud: LocalCloud, archive: dict[str, Any]
) -> None:
    made = f"stack-{uuid.uuid4().hex[:8]}"

    def resources(release: str, *, tags: dict[str, str], **more: Any) -> dict[str, Any]:
        stages = [archive, stage("Release", approval(release))]
        tagged = [{"Key": key, "Value": value} for key, value in tags.items()]
        properties = {
            "ArtifactStore": {"Type": "S3", "Location": BUCKET},
            "RestartExecutionOnUpdate": True,
            "RoleArn": ROLE,
            "Stages": spelled(stages),
            "Tags": tagged,
            **more,
        }
        return {"Pipeline": {"Type": "AWS::CodePipeline::Pipeline", "Properties": properties}}

    def deployed(release: str, **more: Any) -> str:
        given = {name: {"Value": {"Fn::GetAtt": ["Pipeline", name]}} for name in ("Arn", "Version")}
        return deploy(cloud, made, resources(release, **more), given)

    assert deployed("First", tags={"team": "chat", "old": "yes"}) == "CREATE_COMPLETE"
    client = cloud.client("codepipeline")
    (pipeline,) = (found for found in client.list_pipelines()["pipelines"] if found["name"].startswith("Pipeline-"))
    identity = {"name": pipeline["name"]}
    arn = client.get_pipeline(**identity)["metadata"]["pipelineArn"]

    def executions() -> list[dict[str, Any]]:
        return client.list_pipeline_executions(pipelineName=pipeline["name"])["pipelineExecutionSummaries"]

    (first,) = executions()
    assert first["trigger"]["triggerType"] == "CreatePipeline"
    assert tags_of(client, arn) == {"team": "chat", "old": "yes"}

    # Another tag alone begins nothing.
    assert deployed("First", tags={"team": "search"}) == "UPDATE_COMPLETE"
    assert tags_of(client, arn) == {"team": "search"}
    assert len(executions()) == 1
    assert outputs(cloud, made) == {"Arn": arn, "Version": "1"}

    closed = {"DisableInboundStageTransitions": [{"StageName": "Release", "Reason": "not today"}]}
    assert deployed("Second", tags={"team": "search"}, **closed) == "UPDATE_COMPLETE"
    until(lambda: [found["status"] for found in executions()], ["InProgress", "Cancelled"].__eq__)
    assert client.get_pipeline(**identity)["pipeline"]["version"] == 2
    assert outputs(cloud, made) == {"Arn": arn, "Version": "2"}
    (_, state) = client.get_pipeline_state(**identity)["stageStates"]
    assert state["inboundTransitionState"]["disabledReason"] == "not today"

    cloudformation = cloud.client("cloudformation")
    cloudformation.delete_stack(StackName=made)
    until(lambda: [found for found in client.list_pipelines()["pipelines"] if found["name"] == pipeline["name"]],
          lambda found: not found)  # fmt: skip
    with pytest.raises(ClientError, match="does not have a pipeline with name"):
        client.get_pipeline(**identity)


def test_a_pipeline_that_codepipeline_refuses_fails_the_stack(cloud: LocalCloud, archive: dict[str, Any]) -> None:
    made = f"stack-{uuid.uuid4().hex[:8]}"
    properties = {
        "ArtifactStore": {"Type": "S3", "Location": BUCKET},
        "RoleArn": ROLE,
        "Stages": spelled([archive]),
    }
    resources = {"Pipeline": {"Type": "AWS::CodePipeline::Pipeline", "Properties": properties}}
    assert deploy(cloud, made, resources) == "ROLLBACK_COMPLETE"
    events = cloud.client("cloudformation").describe_stack_events(StackName=made)["StackEvents"]
    assert any("at least 2 stages" in event.get("ResourceStatusReason", "") for event in events)


def tags_of(client: Any, arn: str) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in client.list_tags_for_resource(resourceArn=arn)["tags"]}


def spelled(value: Any) -> Any:
    """As CloudFormation spells it."""
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key[:1].upper() + key[1:]: item if key == "configuration" else spelled(item) for key, item in value.items()}
