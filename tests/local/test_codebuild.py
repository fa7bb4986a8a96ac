"""CodeBuild of the local cloud: what buildspecs say is what builds do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.local.cloud import LocalCloud
from constructs_optim.local.codebuild.build_host import BuildHost, NothingToPack
from constructs_optim.local.codebuild.buildspec import BuildspecError, Output, parse

from .conftest import until
from .pipelines import commands, project, write

# tests/e2e/test_pipeline.py has a pipeline whose actions are tried here.
pytestmark = pytest.mark.exhaustive


class Build:
    """A build of a project without a source."""

    def __init__(self, cloud: LocalCloud, spec: dict[str, Any], *, override: Any = (), **more: Any) -> None:
        self.cloud, self.client = cloud, cloud.client("codebuild")
        name = project(cloud, spec, kind="NO_SOURCE", **more)
        started = self.client.start_build(projectName=name, environmentVariablesOverride=list(override))
        self.id = started["build"]["id"]

    def describe(self) -> dict[str, Any]:
        (found,) = self.client.batch_get_builds(ids=[self.id])["builds"]
        return found

    def ended(self) -> dict[str, Any]:
        return until(self.describe, lambda found: found["buildComplete"])

    def phases(self) -> dict[str, str]:
        return {phase["phaseType"]: phase.get("phaseStatus", "") for phase in self.ended()["phases"]}

    def reasons(self) -> list[str]:
        return [context["message"] for phase in self.ended()["phases"] for context in phase.get("contexts", [])]

    def printed(self) -> list[str]:
        logs = self.ended()["logs"]
        events = self.cloud.client("logs").get_log_events(
            logGroupName=logs["groupName"], logStreamName=logs["streamName"]
        )["events"]
        return [event["message"] for event in events if not event["message"].startswith("[Container]")]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name, does in (("cdk", "echo the CDK"), ("npm", 'echo "npm really: $*"')):
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cloud(programs: Path) -> Iterator[LocalCloud]:
    with LocalCloud(build_path=[programs]) as running:
        yield running


def phased(**phases: Any) -> dict[str, Any]:
    return {"version": "0.2", "phases": phases}


def test_commands_share_one_shell_and_export_what_they_are_asked_for(cloud: LocalCloud) -> None:
    spec = phased(
        install={"commands": ["cd /", "kept='it is kept'"]},
        build={"commands": ["pwd", 'echo "$kept, $GIVEN"', "export MADE='1 = 1'"]},
    )
    spec["env"] = {"shell": "bash", "variables": {"GIVEN": "so is 'this'"}, "exported-variables": ["MADE"]}
    build = Build(cloud, spec)
    found = build.ended()
    assert found["buildStatus"] == "SUCCEEDED", build.reasons()
    assert build.printed() == ["/", "it is kept, so is 'this'"]
    assert found["exportedEnvironmentVariables"] == [{"name": "MADE", "value": "1 = 1"}]
    assert list(build.phases()) == [
        "SUBMITTED",
        "PROVISIONING",
        "DOWNLOAD_SOURCE",
        "INSTALL",
        "BUILD",
        "UPLOAD_ARTIFACTS",
        "FINALIZING",
        "COMPLETED",
    ]


def test_after_a_failed_build_only_its_final_commands_and_post_build_run(cloud: LocalCloud) -> None:
    build = Build(
        cloud,
        phased(
            build={"commands": ["echo one", "false", "echo never"], "finally": ["echo at last"]},
            post_build={"commands": ["echo succeeding: $CODEBUILD_BUILD_SUCCEEDING"]},
        ),
    )
    assert build.ended()["buildStatus"] == "FAILED"
    assert build.printed() == ["one", "at last", "succeeding: 0"]
    assert build.reasons() == ["Error while executing command: false. Reason: exit status 1"]
    assert (build.phases()["BUILD"], build.phases()["POST_BUILD"]) == ("FAILED", "SUCCEEDED")


def test_after_a_failed_install_nothing_runs(cloud: LocalCloud) -> None:
    build = Build(
        cloud,
        phased(
            install={"commands": ["echo one; false"]},
            build={"commands": ["echo never"]},
            post_build={"commands": ["echo never"]},
        ),
    )
    assert build.ended()["buildStatus"] == "FAILED"
    assert build.printed() == ["one"]


def test_a_phase_may_fail_where_its_buildspec_says_so(cloud: LocalCloud) -> None:
    build = Build(
        cloud,
        phased(install={"commands": ["false"], "on-failure": "CONTINUE"}, build={"commands": ["echo goes on"]}),
    )
    assert build.ended()["buildStatus"] == "SUCCEEDED"
    assert build.printed() == ["goes on"]


def test_a_command_that_ends_the_shell_fails_the_phase_it_is_in(cloud: LocalCloud) -> None:
    build = Build(cloud, commands("echo one", "exit 4"))
    assert build.ended()["buildStatus"] == "FAILED"
    assert build.reasons() == ["The shell ended with exit status 4"]
    assert build.phases()["BUILD"] == "FAILED"


def test_a_build_finds_its_programs_and_installs_none_globally(cloud: LocalCloud, programs: Path) -> None:
    build = Build(
        cloud,
        commands("cdk", "npm install -g aws-cdk@2", "npm ci --silent", "npm install --global absent@1 cdk@latest"),
    )
    assert build.ended()["buildStatus"] == "FAILED"
    printed = "\n".join(build.printed())
    assert build.printed()[0] == "the CDK"
    assert f"aws-cdk is there already: {programs}/cdk" in printed
    assert "npm really: ci --silent" in printed
    assert "install nothing globally, and none of their folders has absent (program absent)" in printed
    assert "build_path" in printed


def test_variables_come_from_the_project_the_parameter_store_and_the_caller(cloud: LocalCloud) -> None:
    cloud.client("ssm").put_parameter(Name="/chat/secret", Value="hidden", Type="String")
    environment = {
        "Type": "LINUX_CONTAINER",
        "Image": "aws/codebuild/standard:7.0",
        "ComputeType": "BUILD_GENERAL1_SMALL",
        "EnvironmentVariables": [
            {"Name": "ONE", "Value": "project's", "Type": "PLAINTEXT"},
            {"Name": "TWO", "Value": "project's"},
            {"Name": "THREE", "Value": "/chat/secret", "Type": "PARAMETER_STORE"},
        ],
    }
    spec = commands("echo $ONE $TWO $THREE $CODEBUILD_INITIATOR")
    override = [{"name": "TWO", "value": "caller's", "type": "PLAINTEXT"}]
    build = Build(cloud, spec, override=override, Environment=environment)
    assert build.ended()["buildStatus"] == "SUCCEEDED", build.reasons()
    assert build.printed() == ["project's caller's hidden 000000000000/user"]


def test_a_build_can_be_stopped(cloud: LocalCloud) -> None:
    build = Build(cloud, commands("sleep 600"))
    until(build.describe, lambda found: found["currentPhase"] == "BUILD")
    build.client.stop_build(id=build.id)
    assert build.ended()["buildStatus"] == "STOPPED"
    assert build.phases()["BUILD"] == "STOPPED"


def test_projects_and_builds_are_listed(cloud: LocalCloud) -> None:
    build = Build(cloud, commands("true"))
    client, name = build.client, build.id.partition(":")[0]
    assert name in client.list_projects()["projects"]
    assert client.list_builds_for_project(projectName=name)["ids"] == [build.id]
    assert build.id in client.list_builds()["ids"]
    found = client.batch_get_projects(names=[name, "absent"])
    assert ([each["name"] for each in found["projects"]], found["projectsNotFound"]) == ([name], ["absent"])
    assert client.batch_get_builds(ids=["absent:1"])["buildsNotFound"] == ["absent:1"]


def test_what_only_a_pipeline_can_start_is_refused(cloud: LocalCloud) -> None:
    with pytest.raises(ClientError, match="CODEPIPELINE can only be started by CodePipeline"):
        cloud.client("codebuild").start_build(projectName=project(cloud, commands("true")))
    with pytest.raises(ClientError, match="Project cannot be found"):
        cloud.client("codebuild").start_build(projectName="absent")


def test_a_buildspec_that_cannot_be_carried_out_fails_the_build_with_all_that_is_wrong(cloud: LocalCloud) -> None:
    build = Build(cloud, {"version": "0.1", "phases": {"deploy": {"commands": ["true"]}}})
    assert build.ended()["buildStatus"] == "FAILED"
    (reason,) = build.reasons()
    assert "version is '0.1'; the local cloud runs 0.2" in reason
    assert "phases.deploy is none of install, pre_build, build, post_build" in reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: [", "YAML_FILE_ERROR"),
        ("just a text", "is no mapping"),
        ("version: 0.2", "phases: at least one is needed"),
        ("{version: 0.2, phases: {build: {}}}", "phases.build has no commands"),
        ("{version: 0.2, phases: {build: {commands: [a], on-failure: RETRY}}}", "on-failure is 'RETRY'"),
        ("{version: 0.2, batch: {}, phases: {build: {commands: a}}}", "has no batch builds"),
        ("{version: 0.2, env: {shell: powershell}, phases: {build: {commands: a}}}", "env.shell is 'powershell'"),
        ("{version: 0.2, env: {secrets-manager: {A: b}}, phases: {build: {commands: a}}}", "have no secrets-manager"),
        (
            "{version: 0.2, phases: {build: {commands: a}}, artifacts: {secondary-artifacts: {One: {}}}}",
            "artifacts.secondary-artifacts.One has no files",
        ),
    ],
)
def test_a_buildspec_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BuildspecError, match="YAML_FILE_ERROR") as refused:
        parse(text)
    assert said in str(refused.value)


def test_a_buildspec_may_be_yaml_and_give_one_text_for_a_list() -> None:
    spec = parse(
        "version: 0.2\nphases:\n  build:\n    commands: make\nartifacts:\n  files: '**/*'\n  base-directory: out"
    )
    assert spec.phases[0].commands == ("make",)
    assert spec.output == Output(("**/*",), "out")


@pytest.mark.parametrize(
    ("output", "names"),
    [
        (Output(("**/*",)), {"a.txt", "sub/b.txt", "sub/deep/c.json"}),
        (Output(("*",)), {"a.txt"}),
        (Output(("**/*.txt",)), {"a.txt", "sub/b.txt"}),
        (Output(("**/*",), "sub"), {"b.txt", "deep/c.json"}),
        (Output(("sub/deep/c.json",), discards_paths=True), {"c.json"}),
        (Output(("**/*",), excluded=("sub/**/*",)), {"a.txt"}),
        (Output(("a.txt", "sub/*")), {"a.txt", "sub/b.txt"}),
    ],
)
def test_an_artifact_is_what_its_patterns_match(tmp_path: Path, output: Output, names: set[str]) -> None:
    host = BuildHost(tmp_path)
    write(host.source, {"a.txt": "a", "sub/b.txt": "b", "sub/deep/c.json": "c"})
    assert set(host.files(output)) == names


@pytest.mark.parametrize("pattern", ["*.md", "../outside.txt", ""])
def test_an_artifact_without_files_fails(tmp_path: Path, pattern: str) -> None:
    host = BuildHost(tmp_path)
    write(tmp_path, {"src/a.txt": "a", "outside.txt": "not of the build"})
    with pytest.raises(NothingToPack, match="no matching artifact paths found"):
        host.files(Output((pattern,)))
