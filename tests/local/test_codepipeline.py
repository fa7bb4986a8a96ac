"""CodePipeline of the local cloud: executions run, actions do what they are for, and what fails stops the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from constructs_optim.local.cloud import LocalCloud

from .conftest import until
from .pipelines import (
    ARTIFACTS,
    REPOSITORY,
    TOPIC,
    Run,
    action,
    approval,
    build,
    commands,
    definition,
    outputs,
    project,
    source,
    stack,
    stage,
    write,
)

# tests/e2e/test_pipeline.py has a pipeline whose actions are tried here.
pytestmark = pytest.mark.exhaustive

PARAMETERS = {"Who": {"Type": "String", "Default": "nobody"}}
NAMED = {
    "Parameters": PARAMETERS,
    "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
    "Outputs": {"Who": {"Value": {"Ref": "Who"}}},
}
BROKEN = {"Resources": {"Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointConfigName": "no"}}}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository."""
    made = tmp_path_factory.mktemp("chat")
    settings = {"Parameters": {"Who": "of the file"}, "Tags": {"team": "chat"}}
    write(made, {"topic.json": TOPIC, "named.json": NAMED, "broken.json": BROKEN, "settings.json": settings})
    return made


@pytest.fixture(scope="module")
def cloud(folder: Path) -> Iterator[LocalCloud]:
    with LocalCloud(time_scale=0.001, endpoint_seconds=0.1, repositories={REPOSITORY: folder}) as running:
        running.client("s3").create_bucket(
            Bucket=ARTIFACTS, CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        yield running


@pytest.fixture(scope="module")
def passing(cloud: LocalCloud) -> str:
    """A project that hands its source on."""
    output = {"artifacts": {"files": ["**/*"], "exclude-paths": ["broken.json"]}}
    exported = {"env": {"exported-variables": ["MADE"]}}
    return project(cloud, commands("export MADE=$CODEBUILD_INITIATOR", **output, **exported))


def name() -> str:
    return f"stack-{uuid.uuid4().hex[:8]}"


class TestActions:
    def test_a_pipeline_takes_its_source_builds_it_and_deploys_what_comes_of_it(
        self, cloud: LocalCloud, folder: Path, passing: str
    ) -> None:
        made = name()
        run = Run(
            cloud,
            definition(
                source(),
                stage("Build", build("Build", passing, ["Built"], namespace="Built")),
                stage(
                    "Deploy",
                    stack("Prepare", "CHANGE_SET_REPLACE", made, template="topic.json", runOrder=1),
                    stack("Deploy", "CHANGE_SET_EXECUTE", made, runOrder=2),
                ),
            ),
        )
        assert run.ended() == "Succeeded", run.actions()
        assert list(run.statuses()) == ["Repository", "Build", "Prepare", "Deploy"]
        assert run.artifact("Source") == {item.name: item.read_bytes() for item in folder.iterdir()}
        assert set(run.artifact("Built")) == {"named.json", "settings.json", "topic.json"}
        assert run.actions()["Build"]["output"]["outputVariables"] == {"MADE": f"codepipeline/{run.name}"}
        assert outputs(cloud, made)["Arn"].startswith("arn:aws:sns:")
        # The template was in the bucket for as long as CloudFormation asked for it.
        listed = cloud.client("s3").list_objects_v2(Bucket=ARTIFACTS, Prefix=f"{run.name[:20]}/")["Contents"]
        assert not [item for item in listed if "/templates/" in item["Key"]]

        # The same once more: a change set without changes fails nothing.
        run.client.start_pipeline_execution(name=run.name)
        assert run.ended() == "Succeeded", run.actions()
        assert "empty" in run.result("Deploy")["externalExecutionSummary"]
        assert len({found["sourceRevisions"][0]["revisionId"] for found in run.executions()}) == 1

    def test_a_failing_build_stops_what_comes_after_it_and_says_why(self, cloud: LocalCloud) -> None:
        failing = project(cloud, commands("true", "echo the tests fail; exit_status() { return 3; }; exit_status"))
        run = Run(cloud, definition(source(), stage("Build", build("Build", failing)), stage("Next", approval())))
        assert run.ended() == "Failed"
        error = run.error("Build")
        assert error["code"] == "JobFailed"
        assert "exit_status. Reason: exit status 3" in error["message"]
        assert "Release" not in run.actions()
        assert run.state("Build")["latestExecution"]["status"] == "Failed"
        assert "latestExecution" not in run.state("Next")
        arn = run.result("Build")["logStreamARN"]
        group, stream = arn.partition(":log-group:")[2].split(":log-stream:")
        events = cloud.client("logs").get_log_events(logGroupName=group, logStreamName=stream)["events"]
        assert "the tests fail" in [event["message"] for event in events]

    def test_a_failing_stack_stops_what_comes_after_it_and_its_events_say_why(self, cloud: LocalCloud) -> None:
        deployment = stack("Deploy", "CREATE_UPDATE", name(), template="broken.json")
        run = Run(cloud, definition(source(), stage("Staging", deployment), stage("Production", approval())))
        assert run.ended() == "Failed"
        message = run.error("Deploy")["message"]
        assert "ROLLBACK_COMPLETE: Endpoint: " in message
        assert "Could not find endpoint configuration" in message
        assert "Release" not in run.actions()

    def test_stacks_are_created_updated_with_other_parameters_and_deleted(self, cloud: LocalCloud) -> None:
        made = name()
        settings = {"TemplateConfiguration": "Source::settings.json", "OutputFileName": "outputs.json"}
        overrides = {"given": {"ParameterOverrides": json.dumps({"Who": "of #{codepipeline.PipelineExecutionId}"})}}
        run = Run(
            cloud,
            definition(
                source(),
                stage(
                    "Stacks",
                    stack(
                        "Create",
                        "CREATE_UPDATE",
                        made,
                        template="named.json",
                        given=settings,
                        outputArtifacts=[{"name": "Outputs"}],
                    )
                    | {"runOrder": 1},
                    stack("Update", "CREATE_UPDATE", made, template="named.json", **overrides, runOrder=2),
                    approval(runOrder=3),
                    stack("Delete", "DELETE_ONLY", made, runOrder=4),
                ),
            ),
        )
        run.token("Stacks")
        assert json.loads(run.artifact("Outputs")["outputs.json"]) == {"Who": "of the file"}
        assert outputs(cloud, made) == {"Who": f"of {run.id}"}
        run.answer("Stacks", "Approved")
        assert run.ended() == "Succeeded", run.actions()
        with pytest.raises(ClientError, match="does not exist"):
            outputs(cloud, made)

    def test_a_template_that_the_artifact_lacks_is_named(self, cloud: LocalCloud) -> None:
        deployment = stack("Deploy", "CREATE_UPDATE", name(), template="absent.json")
        run = Run(cloud, definition(source(), stage("Deploy", deployment)))
        assert run.ended() == "Failed"
        assert run.error("Deploy") == {
            "code": "ConfigurationError",
            "message": "File [absent.json] does not exist in artifact [Source]",
        }

    def test_a_repository_without_a_folder_fails_and_says_how_to_name_one(self, cloud: LocalCloud) -> None:
        run = Run(cloud, definition(source("somebody/else"), stage("Next", approval())))
        assert run.ended() == "Failed"
        message = run.error("Repository")["message"]
        assert "no folder for the repository somebody/else (it knows my-organization/chat)" in message
        assert "repositories={" in message

    def test_of_a_git_repository_what_git_ignores_stays_behind(self, cloud: LocalCloud, folder: Path) -> None:
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
        write(folder, {".gitignore": "cdk.out\n", "cdk.out/manifest.json": {}, "src/app.py": "print()"})
        try:
            run = Run(cloud, definition(source(), stage("Next", approval())))
            run.answer("Next", "Approved")
            assert run.ended() == "Succeeded"
            assert set(run.artifact("Source")) == {
                ".gitignore",
                "broken.json",
                "named.json",
                "settings.json",
                "src/app.py",
                "topic.json",
            }
        finally:
            for item in (".git", "cdk.out", "src"):
                shutil.rmtree(folder / item)
            (folder / ".gitignore").unlink()

    def test_an_archive_in_s3_can_be_the_source(self, cloud: LocalCloud, passing: str, tmp_path: Path) -> None:
        write(tmp_path / "files", {"app.py": "print()"})
        archive = Path(shutil.make_archive(str(tmp_path / "source"), "zip", tmp_path / "files"))
        cloud.client("s3").put_object(Bucket=ARTIFACTS, Key="given/source.zip", Body=archive.read_bytes())
        given = {"S3Bucket": ARTIFACTS, "S3ObjectKey": "given/source.zip"}
        first = stage("Source", action("Source by S3", "Archive", given, outputs=["Source"]))
        run = Run(cloud, definition(first, stage("Build", build("Build", passing, ["Built"]))))
        assert run.ended() == "Succeeded", run.actions()
        assert run.artifact("Built") == {"app.py": b"print()"}

    def test_a_build_has_all_its_sources_and_makes_all_its_artifacts(self, cloud: LocalCloud, passing: str) -> None:
        spec = commands(
            'mkdir one two; cp "$CODEBUILD_SRC_DIR_Built/topic.json" one; echo $WHO >two/who.txt',
            artifacts={
                "secondary-artifacts": {
                    "One": {"base-directory": "one", "files": "**/*"},
                    "Two": {"files": ["two/*"], "discard-paths": True},
                }
            },
        )
        both = build("Both", project(cloud, spec), ["One", "Two"])
        both["inputArtifacts"].append({"name": "Built"})
        variables = [{"name": "WHO", "value": "#{Built.MADE}", "type": "PLAINTEXT"}]
        both["configuration"] |= {"PrimarySource": "Source", "EnvironmentVariables": json.dumps(variables)}
        first = build("First", passing, ["Built"], namespace="Built")
        run = Run(cloud, definition(source(), stage("First", first), stage("Both", both)))
        assert run.ended() == "Succeeded", run.actions()
        assert run.artifact("One") == {"topic.json": json.dumps(TOPIC).encode()}
        assert run.artifact("Two") == {"who.txt": f"codepipeline/{run.name}\n".encode()}

    def test_actions_of_one_run_order_run_side_by_side(self, cloud: LocalCloud, tmp_path: Path) -> None:
        # Each waits for what the other writes.
        meet = [
            project(
                cloud,
                commands(f"touch {tmp_path}/{own}; for i in $(seq 200); do [ -e {tmp_path}/{other} ] && exit 0; "
                         "sleep 0.05; done; exit 1"),
            )
            for own, other in (("a", "b"), ("b", "a"))
        ]  # fmt: skip
        both = [build(f"Build{number}", each, runOrder=7) for number, each in enumerate(meet)]
        run = Run(cloud, definition(source(), stage("Both", *both)))
        assert run.ended() == "Succeeded", run.actions()


class TestApprovals:
    def test_a_rejected_approval_fails_the_execution_with_the_persons_words(self, cloud: LocalCloud) -> None:
        run = Run(cloud, definition(source(), stage("Release", approval()), stage("Next", approval("Never"))))
        run.answer("Release", "Rejected", "too slow in staging")
        assert run.ended() == "Failed"
        assert run.error("Release")["message"] == "too slow in staging"
        assert "Never" not in run.actions()

    def test_an_answer_needs_the_token_and_comes_once(self, cloud: LocalCloud) -> None:
        run = Run(cloud, definition(source(), stage("Release", approval())))
        token = run.token("Release")
        given = {"pipelineName": run.name, "stageName": "Release", "actionName": "Release"}
        answer = {"status": "Approved", "summary": ""}
        with pytest.raises(ClientError, match="InvalidApprovalTokenException"):
            run.client.put_approval_result(**given, token=str(uuid.uuid4()), result=answer)
        with pytest.raises(ClientError, match="ActionNotFoundException"):
            run.client.put_approval_result(**{**given, "actionName": "Other"}, token=token, result=answer)
        run.client.put_approval_result(**given, token=token, result=answer)
        assert run.ended() == "Succeeded"
        with pytest.raises(ClientError, match="ApprovalAlreadyCompletedException"):
            run.client.put_approval_result(**given, token=token, result=answer)

    def test_an_approval_that_nobody_answers_times_out(self, cloud: LocalCloud) -> None:
        run = Run(cloud, definition(source(), stage("Release", approval(timeoutInMinutes=5))))
        assert run.ended() == "Failed"
        assert "nobody answered within 5 minutes" in run.error("Release")["message"]


class TestExecutions:
    def test_a_newer_execution_supersedes_the_one_that_waits_for_a_stage(self, cloud: LocalCloud) -> None:
        run = Run(cloud, definition(source(), stage("Release", approval())))
        run.token("Release")
        for waiting in (1, 2):
            run.client.start_pipeline_execution(name=run.name)
            newest = run.id
            until(lambda: run.state("Release").get("inboundExecution", {}).get("pipelineExecutionId"), newest.__eq__)
            assert len(run.executions()) == waiting + 1
        statuses = ["InProgress", "Superseded", "InProgress"]
        until(lambda: [found["status"] for found in run.executions()], statuses.__eq__)
        run.answer("Release", "Approved")
        until(lambda: run.executions()[2]["status"], "Succeeded".__eq__)
        run.answer("Release", "Approved")
        assert run.ended() == "Succeeded"

    def test_queued_executions_follow_each_other_and_each_has_its_variables(self, cloud: LocalCloud) -> None:
        saying = approval(configuration={"CustomData": "#{variables.stage} by #{codepipeline.PipelineExecutionId}"})
        queued = {
            "pipelineType": "V2",
            "executionMode": "QUEUED",
            "variables": [{"name": "stage", "defaultValue": "a"}],
        }
        run = Run(cloud, definition(source(), stage("Release", saying), **queued))
        run.token("Release")
        given = [{"name": "stage", "value": "b"}]
        with pytest.raises(ClientError, match="the pipeline has no variable colour"):
            run.client.start_pipeline_execution(name=run.name, variables=[{"name": "colour", "value": "red"}])
        for _ in range(2):
            run.client.start_pipeline_execution(name=run.name, variables=given)
        until(lambda: len(run.state("Release").get("inboundExecutions", [])), (2).__eq__)
        for after in range(1, 4):
            run.answer("Release", "Approved")
            until(lambda: [found["status"] for found in run.executions()].count("Succeeded"), after.__eq__)
        resolved = run.actions()["Release"]["input"]["resolvedConfiguration"]
        assert resolved == {"CustomData": f"b by {run.id}"}

    def test_a_stopped_execution_finishes_its_action_and_begins_no_other(self, cloud: LocalCloud) -> None:
        run = Run(cloud, definition(source(), stage("Release", approval()), stage("Next", approval("Never"))))
        token = run.token("Release")
        given = {"pipelineName": run.name, "pipelineExecutionId": run.id}
        run.client.stop_pipeline_execution(**given, reason="a holiday")
        assert run.status() == "Stopping"
        with pytest.raises(ClientError, match="DuplicatedStopRequestException"):
            run.client.stop_pipeline_execution(**given)
        assert run.token("Release") == token
        run.answer("Release", "Approved")
        assert run.ended() == "Stopped"
        assert run.statuses() == {"Repository": "Succeeded", "Release": "Succeeded"}
        assert run.executions()[0]["stopTrigger"] == {"reason": "a holiday"}
        with pytest.raises(ClientError, match="PipelineExecutionNotStoppableException"):
            run.client.stop_pipeline_execution(**given)

    def test_an_abandoned_build_ends_with_all_that_it_started(self, cloud: LocalCloud, tmp_path: Path) -> None:
        endless = project(cloud, commands(f"sleep 600 & echo $! >{tmp_path}/pid; wait"))
        run = Run(cloud, definition(source(), stage("Build", build("Build", endless))))
        pid = int(until(lambda: read(tmp_path / "pid"), bool))
        run.client.stop_pipeline_execution(pipelineName=run.name, pipelineExecutionId=run.id, abandon=True)
        assert run.ended() == "Stopped"
        assert run.statuses()["Build"] == "Abandoned"
        until(lambda: is_there(pid), lambda there: not there)
        codebuild, identity = cloud.client("codebuild"), run.result("Build")["externalExecutionId"]
        until(lambda: codebuild.batch_get_builds(ids=[identity])["builds"][0]["buildStatus"], "STOPPED".__eq__)

    def test_a_failed_stage_is_retried_with_the_actions_that_failed(self, cloud: LocalCloud, tmp_path: Path) -> None:
        good = project(cloud, commands(f"echo again >>{tmp_path}/good"))
        bad = project(cloud, commands(f"test -e {tmp_path}/mended"))
        both = stage("Build", build("Good", good), build("Bad", bad))
        run = Run(cloud, definition(source(), both, stage("Release", approval())))
        assert run.ended() == "Failed"
        given = {"pipelineName": run.name, "pipelineExecutionId": run.id, "retryMode": "FAILED_ACTIONS"}
        with pytest.raises(ClientError, match="StageNotRetryableException"):
            run.client.retry_stage_execution(**given, stageName="Source")
        (tmp_path / "mended").touch()
        assert run.client.retry_stage_execution(**given, stageName="Build")["pipelineExecutionId"] == run.id
        run.answer("Release", "Approved")
        assert run.ended() == "Succeeded"
        assert len(run.executions()) == 1
        assert (tmp_path / "good").read_text() == "again\n"

    def test_a_closed_transition_holds_executions_until_it_is_opened(self, cloud: LocalCloud) -> None:
        closed = {"pipelineName": "", "stageName": "Release", "transitionType": "Inbound"}
        run = Run(cloud, definition(source(), stage("First", approval("Go")), stage("Release", approval())))
        closed["pipelineName"] = run.name
        run.client.disable_stage_transition(**closed, reason="not today")
        run.answer("First", "Approved", name="Go")
        until(lambda: run.state("Release").get("inboundExecution"), bool)
        assert run.state("Release")["inboundTransitionState"]["disabledReason"] == "not today"
        assert "Release" not in run.actions()
        run.client.enable_stage_transition(**closed)
        run.answer("Release", "Approved")
        assert run.ended() == "Succeeded"


def test_an_operation_that_the_local_cloud_lacks_is_refused(cloud: LocalCloud) -> None:
    with pytest.raises(ClientError, match="ListWebhooks is not an operation of the local cloud"):
        cloud.client("codepipeline").list_webhooks()


def test_all_builds_end_with_the_local_cloud(tmp_path: Path) -> None:
    write(tmp_path / "chat", {"a.txt": "a"})
    with LocalCloud(repositories={REPOSITORY: tmp_path / "chat"}) as running:
        running.client("s3").create_bucket(
            Bucket=ARTIFACTS, CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        # One that leaves the build's process group.
        endless = project(running, commands(f"setsid sleep 600 & echo $! >{tmp_path}/pid; sleep 600"))
        Run(running, definition(source(), stage("Build", build("Build", endless))))
        pid = int(until(lambda: read(tmp_path / "pid"), bool))
        assert is_there(pid)
    until(lambda: is_there(pid), lambda there: not there)


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended and is not buried yet is gone.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
