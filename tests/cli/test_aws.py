"""AWS's errors at the command line: a sentence each, and status 2."""

from __future__ import annotations

import subprocess
import sys

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

from constructs_optim.cli.aws import Account, errors_explained
from constructs_optim.cli.main import app
from constructs_optim.cli.presentation import description, owner_name, print_fields, print_table, say
from constructs_optim.explanation.formatting import duration
from constructs_optim.runtime.store.artifact_store import Owner


def refused(code: str, operation: str = "ListOptimizationJobs", message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


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
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
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
