"""examples/pipeline.py: the real CLI deploys the pipeline, whose own actions deploy the rest, under its roles."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.local.cloud import LocalCloud

from ..local.conftest import until
from .chat_repository import CONNECTED, cdk, change, write_programs, write_repository
from .conftest import write_document
from .stack import CHECKOUT

pytestmark = pytest.mark.exhaustive

MODEL, VERSION = "meta-textgeneration-llama-3-70b-instruct", "2.25.0"
STAGES = ["Source", "Build", "UpdatePipeline", "Assets", "Staging", "Production"]
_LONGEST = 180


class Pipeline:
    """The deployed pipeline."""

    def __init__(self, cloud: LocalCloud, repository: Path) -> None:
        self.cloud, self.repository = cloud, repository
        self._client: Any = cloud.client("codepipeline")
        (self.name,) = (found["name"] for found in self._client.list_pipelines()["pipelines"])

    def executions(self) -> list[dict[str, Any]]:
        """The newest first."""
        return self._client.list_pipeline_executions(pipelineName=self.name)["pipelineExecutionSummaries"]

    def start(self) -> str:
        return self._client.start_pipeline_execution(name=self.name)["pipelineExecutionId"]

    def actions(self, execution: str) -> list[dict[str, Any]]:
        """Those of an execution in the order they began."""
        found = self._client.list_action_executions(pipelineName=self.name, filter={"pipelineExecutionId": execution})[
            "actionExecutionDetails"
        ]
        return found[::-1]

    def statuses(self, execution: str) -> dict[str, str]:
        return {f"{found['stageName']}.{found['actionName']}": found["status"] for found in self.actions(execution)}

    def error(self, execution: str) -> str:
        """Why its last action failed."""
        return self.actions(execution)[-1]["output"]["executionResult"]["errorDetails"]["message"]

    def token(self) -> str:
        """What the release is approved with; empty while it is not waited for."""
        stages = self._client.get_pipeline_state(name=self.name)["stageStates"]
        (release,) = (
            action for stage in stages for action in stage["actionStates"] if action["actionName"] == "Release"
        )
        return release.get("latestExecution", {}).get("token", "")

    def waits_or_ends(self) -> list[dict[str, Any]]:
        """The executions, once the newest waits for approval or has ended."""
        return until(
            self.executions, lambda found: found[0]["status"] != "InProgress" or bool(self.token()), seconds=_LONGEST
        )

    def approve(self) -> None:
        self._client.put_approval_result(
            pipelineName=self.name,
            stageName="Production",
            actionName="Release",
            token=self.token(),
            result={"status": "Approved", "summary": "measured well"},
        )

    def endpoint(self, stage: str) -> dict[str, Any]:
        resources = self.cloud.client("cloudformation").describe_stack_resources(StackName=f"{stage}-Chat")
        (arn,) = (
            found["PhysicalResourceId"]
            for found in resources["StackResources"]
            if found["ResourceType"] == "AWS::SageMaker::Endpoint"
        )
        return self.cloud.client("sagemaker").describe_endpoint(EndpointName=arn.rpartition("/")[2])

    def stack_status(self, stage: str) -> str:
        (found,) = self.cloud.client("cloudformation").describe_stacks(StackName=f"{stage}-Chat")["Stacks"]
        return found["StackStatus"]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A bootstrapped local cloud that holds roles to their policies, with the example's store and pipeline deployed."""
    hub, programs, repository = (tmp_path_factory.mktemp(name) for name in ("hub", "programs", "chat"))
    write_document(hub / MODEL, (VERSION,))
    write_programs(programs)
    write_repository(repository)
    with LocalCloud(
        job_seconds=(0.3, 0.3),
        endpoint_seconds=0.2,
        time_scale=0.003,
        hub_folders=[hub],
        enforce_iam=True,
        repositories={CONNECTED: repository},
        build_path=[programs, CHECKOUT / "node_modules" / ".bin", Path(sys.executable).parent],
    ) as cloud:
        cdk(cloud, repository, "bootstrap")
        cdk(cloud, repository, "deploy", "Artifacts", "Pipeline", "--require-approval", "never")
        yield Pipeline(cloud, repository)


def test_the_pipeline_deploys_staging_and_waits_for_a_persons_word(pipeline: Pipeline) -> None:
    (execution,) = pipeline.waits_or_ends()
    identity = execution["pipelineExecutionId"]
    assert execution["status"] == "InProgress", pipeline.error(identity)
    statuses = pipeline.statuses(identity)
    assert statuses.pop("Production.Release") == "InProgress"
    assert [name.partition(".")[0] for name in statuses] == [*STAGES[:4], "Staging", "Staging"]
    assert set(statuses.values()) == {"Succeeded"}
    assert pipeline.endpoint("Staging")["EndpointStatus"] == "InService"
    # Staging was measured, and production is not there yet.
    assert pipeline.cloud.benchmark_jobs()
    with pytest.raises(Exception, match="does not exist"):
        pipeline.stack_status("Production")


def test_production_follows_the_approval_and_runs_no_job(pipeline: Pipeline) -> None:
    jobs = len(pipeline.cloud.jobs())
    pipeline.approve()
    (execution,) = until(pipeline.executions, lambda found: found[0]["status"] != "InProgress", seconds=_LONGEST)
    assert execution["status"] == "Succeeded", pipeline.error(execution["pipelineExecutionId"])
    endpoints = {stage: pipeline.endpoint(stage) for stage in ("Staging", "Production")}
    assert {found["EndpointStatus"] for found in endpoints.values()} == {"InService"}
    assert len({found["EndpointName"] for found in endpoints.values()}) == 2
    assert len(pipeline.cloud.jobs()) == jobs == 1


def test_a_change_that_stagings_gate_refuses_does_not_reach_production(pipeline: Pipeline) -> None:
    before = {stage: pipeline.endpoint(stage)["EndpointConfigName"] for stage in ("Staging", "Production")}
    pipeline.cloud.set_performance(ttft_ms=5000)
    change(pipeline.repository, "Quantization.awq()", "Quantization.awq(group_size=64)")
    # And of the pipeline itself, which takes it on first.
    change(pipeline.repository, "Staging's evaluation is on its dashboard.", "See staging's dashboard.")
    first = pipeline.start()
    # Not before the pipeline has begun again with its new definition.
    until(pipeline.executions, lambda found: len(found) == 3 or found[0]["status"] != "InProgress", seconds=_LONGEST)
    again, former, _ = pipeline.waits_or_ends()
    assert (former["pipelineExecutionId"], former["status"]) == (first, "Cancelled")
    assert again["status"] == "Failed"
    statuses = pipeline.statuses(again["pipelineExecutionId"])
    assert statuses.pop("Staging.Deploy") == "Failed"
    assert [name.partition(".")[0] for name in statuses] == STAGES[:5]
    assert set(statuses.values()) == {"Succeeded"}
    assert "at most 2000 ms is required" in pipeline.error(again["pipelineExecutionId"])
    assert pipeline.stack_status("Staging") == "UPDATE_ROLLBACK_COMPLETE"
    assert {stage: pipeline.endpoint(stage)["EndpointConfigName"] for stage in before} == before
    assert {pipeline.endpoint(stage)["EndpointStatus"] for stage in before} == {"InService"}


def test_the_roles_of_the_pipeline_are_denied_nothing(pipeline: Pipeline) -> None:
    found = pipeline.cloud.authorizations()
    assert {"codeconnections:UseConnection", "codebuild:StartBuild"} <= {each["action"] for each in found}
    denied = [each for each in found if each["decision"] != "Allow"]
    assert not denied, json.dumps(denied, indent=1)
