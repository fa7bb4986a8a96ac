"""AWS's errors at the command line: a sentence each, and status 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import boto3
import pytest
import typer
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    SSOTokenLoadError,
)
from botocore.stub import Stubber
from typer.testing import CliRunner

from constructs_optim.cli import local
from constructs_optim.cli.aws import DEFAULT_REGION, Account, errors_explained, region_without_calls, session_of
from constructs_optim.cli.main import app
from constructs_optim.cli.presentation import description, owner_name, print_fields, print_table, say
from constructs_optim.explanation.formatting import duration
from constructs_optim.runtime.store.artifact_store import Owner
from constructs_optim.templates.resource_types import PREFLIGHT
from constructs_optim_local.cloud import LocalCloudError

from ..support.handwritten_templates import chat, resource, stack, written
from ..support.sampling import one_in


def refused(code: str, operation: str = "ListOptimizationJobs", message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


def test_an_endpoint_s_url_may_have_an_address_of_version_6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://[::1]:4566")
    assert session_of(None, "us-west-2").region_name == "us-west-2"


def test_a_command_without_calls_needs_no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[broken\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    assert region_without_calls(None) == DEFAULT_REGION


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NoCredentialsError(), "aws sso login"),
        (NoRegionError(), "--region"),
        (SSOTokenLoadError(profile_name="team", error_msg="expired"), "aws sso login"),
        (EndpointConnectionError(endpoint_url="https://sagemaker.mars-1.amazonaws.com"), "Cannot reach AWS"),
        (refused("ExpiredToken"), "Sign in again"),
        (refused("UnrecognizedClientException"), "does not know these credentials"),
        (refused("AccessDeniedException"), "AWS denies ListOptimizationJobs"),
        (refused("403", "HeadObject", "Forbidden"), "AWS denies HeadObject"),
        (refused("NoSuchBucket", "ListObjectsV2"), "No such bucket"),
        (refused("ThrottlingException", message="Rate [exceeded]"), "failed with ThrottlingException: Rate [exceeded]"),
    ],
)
def test_an_aws_error_ends_the_command_with_a_one_line_remedy(
    error: ClientError | BotoCoreError, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, errors_explained():
        raise error
    assert ended.value.exit_code == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert len(printed.splitlines()) == 1


@pytest.mark.parametrize(
    ("answer", "region"), [({}, "us-east-1"), ({"LocationConstraint": "EU"}, "eu-west-1")], ids=["none", "EU"]
)
def test_a_store_s_region_is_looked_up_by_get_bucket_location_alone(
    answer: dict[str, str], region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = boto3.client("s3", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
    account = Account(None, "us-west-2")
    monkeypatch.setattr(account, "client", lambda *_: s3)
    # It refuses any other call, HeadBucket among them.
    with Stubber(s3) as stubber:
        stubber.add_response("get_bucket_location", answer, {"Bucket": "shared"})
        assert account.region_of("shared") == region
        assert account.region_of("shared") == region


@pytest.mark.e2e
def test_the_commands_run_without_the_local_extra() -> None:
    # The extra "local" brings the rest; without it these are not there.
    without = "import sys; sys.modules.update(dict.fromkeys(['aws_lambda_powertools', 'ministack', 'moto', 'cfnlint']))"
    command = f"{without}; from constructs_optim.cli import main; main()"
    for group in ("jobs", "artifacts"):
        ended = subprocess.run([sys.executable, "-c", command, group, "--help"], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        assert "list" in ended.stdout


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without credentials, region or configuration."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("jobs", "list"), "No AWS Region is set"),
        (("jobs", "list", "--region", "us-west-2"), "No AWS credentials found"),
        (("artifacts", "list", "--store", "artifacts"), "No AWS credentials found"),
        (("jobs", "watch", "optim-x", "--profile", "team"), "aws configure list-profiles"),
        (("jobs", "list", "--region", "nowhere!"), "nowhere!"),
    ],
)
def test_a_shell_without_credentials_or_region_gets_an_error_message(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output


ONE, OTHER = {"AWS_REGION": "eu-west-1"}, {"AWS_DEFAULT_REGION": "eu-west-1"}
VARIABLES = [ONE, OTHER, {**ONE, "AWS_DEFAULT_REGION": "us-east-2"}, {"AWS_REGION": "", **OTHER}]


@pytest.fixture(params=VARIABLES, ids=str)
def in_ireland(request: pytest.FixtureRequest, nobody: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials whose Region is eu-west-1, and an app in cdk.out."""
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    written(Path("cdk.out"), stack({**chat(), "Preflight": resource(PREFLIGHT)}))


PLANNED = ("--model", "Qwen/Qwen3-32B", "--instance-type", "ml.g6e.12xlarge", "--json")


@pytest.mark.usefixtures("in_ireland")
def test_commands_that_do_not_call_aws_take_their_region_from_the_environment() -> None:
    plan = json.loads(CliRunner().invoke(app, ["plan", *PLANNED]).stdout)
    assert ".eu-west-1." in plan["container"]["image"]
    elsewhere = json.loads(CliRunner().invoke(app, ["plan", *PLANNED, "--region", "us-east-1"]).stdout)
    assert ".us-east-1." in elsewhere["container"]["image"]
    asked = ["recommend", "Qwen/Qwen3-32B", "--instance-type", "ml.g6e.12xlarge", "--offline", "--json"]
    assert json.loads(CliRunner().invoke(app, asked).stdout)["region"] == "eu-west-1"


@pytest.mark.usefixtures("in_ireland")
def test_the_local_cloud_runs_in_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[str] = []

    def refuse(*, region: str, **_: object) -> None:
        regions.append(region)
        raise LocalCloudError("it does not start")

    monkeypatch.setattr(local, "LocalCloud", refuse)
    for command in (["start"], ["run", "--", sys.executable]):
        CliRunner().invoke(app, ["local", *command])
    assert regions == ["eu-west-1", "eu-west-1"]


@pytest.mark.usefixtures("in_ireland")
@pytest.mark.parametrize(
    "command",
    one_in(
        3,
        [
            "jobs list",
            "endpoint show chat",
            "captures s3://bucket/chat/ --output captures.jsonl",
            "evaluate chat",
            "explain --against deployed",
            "explain --prices aws",
            "preflight",
            "adopt chat",
            "recommend Qwen/Qwen3-32B",
        ],
    ),
)
def test_commands_that_call_aws_take_their_region_from_the_environment(command: str) -> None:
    result = CliRunner().invoke(app, command.split())
    assert (result.exit_code, "No AWS credentials found" in result.stderr) == (2, True), result.output


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(
    ("variables", "option", "region"),
    [
        ({}, None, "ap-south-1"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}, None, "ap-south-1"),
        *((each, None, "eu-west-1") for each in VARIABLES),
        (ONE, "us-east-1", "us-east-1"),
    ],
)
def test_the_region_is_the_option_s_then_that_of_aws_region_then_the_profile_s(
    variables: Mapping[str, str],
    option: str | None,
    region: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "config").write_text("[profile team]\nregion = ap-south-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert session_of("team", option).region_name == region
    assert Account("team", option).client("sagemaker").meta.region_name == region


@pytest.mark.usefixtures("nobody")
def test_empty_variables_of_regions_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "")
    result = CliRunner().invoke(app, ["jobs", "list"])
    assert (result.exit_code, "No AWS Region is set" in result.stderr) == (2, True), result.output


@pytest.mark.usefixtures("in_ireland")
@pytest.mark.parametrize("name", one_in(2, ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER", "endpoint_url"]))
@pytest.mark.parametrize("command", ["endpoint show chat", "explain --against deployed", "preflight", "evaluate chat"])
def test_an_endpoint_url_without_a_scheme_is_refused_by_its_name(
    command: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "endpoint_url":
        Path("config").write_text("[default]\nendpoint_url = localhost:4566\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", "config")
    else:
        monkeypatch.setenv(name, "localhost:4566")
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2, result.output
    assert f"{name} is 'localhost:4566', which is no URL: begin it with http://" in result.stderr.replace(
        " of the profile", ""
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (7980, "2 h 13 min"), (86_400, "1 d"), (90_061, "1 d 1 h")],
)
def test_a_time_span_reads_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_owner_reads_as_stack_and_resource() -> None:
    arn = "arn:aws-cn:cloudformation:cn-north-1:111122223333:stack/Chat/0aa1"
    assert owner_name(Owner(arn, "Job")) == "Chat / Job (111122223333, cn-north-1)"
    assert owner_name(Owner("stack/Chat", "Job")) == "stack/Chat / Job"


def test_a_recipe_reads_in_one_line() -> None:
    assert description({"Model": "llama 1.0.0", "Techniques": ["AWQ", "shards"]}) == "llama 1.0.0: AWQ + shards"
    assert description({}) == ""


def test_control_characters_in_names_are_escaped_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "Chat\x1b[2J\x1b]0;title\x07\x9b\u202e [bold]\u00e9\u4e2d"
    say(name)
    print_fields([("stack", name)])
    print_table(["stack"], [[name]])
    said = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)
    assert said.count("Chat\\x1b[2J\\x1b]0;title\\x07\\x9b\\u202e [bold]\u00e9\u4e2d") == 3
