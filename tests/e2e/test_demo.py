"""`constructs-optim local`, as a newcomer meets it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from ..support.processes import marked, none_left
from ..support.waiting import until

CHECKOUT = Path(__file__).parent.parent.parent
COMMAND = str(Path(sys.executable).with_name("constructs-optim"))

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch) -> str:
    """In the environment of all that is started from now on."""
    value = uuid.uuid4().hex
    monkeypatch.setenv("LOCAL_CLOUD_TEST", value)
    monkeypatch.setenv("COLUMNS", "200")
    return value


def start(*arguments: str, folder: Path = CHECKOUT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "local", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_ctrl_c_ends_the_demo_and_all_its_processes(marker: str) -> None:
    demo = start("demo")
    assert demo.stdout is not None
    for line in demo.stdout:
        if "cdk bootstrap (" in line:
            break
    # The local cloud, the CDK CLI and the app.
    until(lambda: marked(marker), lambda processes: len(processes) > 2)
    os.killpg(demo.pid, signal.SIGINT)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, output
    assert "Interrupted" in output
    assert "Traceback" not in output
    assert none_left(marker)


def test_local_run_starts_a_bootstrapped_cloud_and_returns_the_commands_exit_status(marker: str) -> None:
    script = (
        "import boto3, sys; print(boto3.client('cloudformation').describe_stacks(StackName='CDKToolkit')['Stacks'][0]"
        "['StackStatus'], flush=True); sys.exit(7)"
    )
    run = start("run", "--bootstrap", "--", sys.executable, "-c", script)
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 7, output
    assert "CREATE_COMPLETE" in output
    assert none_left(marker)


def test_a_local_cloud_enforces_iam_policies_on_request(marker: str) -> None:
    script = """
import boto3, json
trust = {"Effect": "Allow", "Principal": {"AWS": "000000000000"}, "Action": "sts:AssumeRole"}
document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
role = boto3.client("iam").create_role(RoleName="powerless", AssumeRolePolicyDocument=document)["Role"]["Arn"]
session = boto3.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
names = dict(AccessKeyId="aws_access_key_id", SecretAccessKey="aws_secret_access_key", SessionToken="aws_session_token")
boto3.client("sagemaker", **{names[name]: session[name] for name in names}).list_models()
"""
    run = start("run", "--enforce-iam", "--", sys.executable, "-c", script)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 1, output
    assert "assumed-role/powerless/test is not authorized to perform: sagemaker:ListModels" in output


def client_arguments(variables: dict[str, str]) -> dict[str, str]:
    """What a client is made with in a shell that has these variables."""
    names = {"aws_access_key_id": "AWS_ACCESS_KEY_ID", "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY"}
    names |= {"region_name": "AWS_REGION", "endpoint_url": "AWS_ENDPOINT_URL"}
    return {argument: variables[name] for argument, name in names.items()}


def test_start_prints_the_variables_to_export_and_runs_until_terminated(marker: str) -> None:
    cloud = start("start")
    assert cloud.stdout is not None
    exported: dict[str, str] = {}
    told = ""
    for line in cloud.stdout:
        told += line
        assert not line.startswith("export AWS_PROFILE")
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").strip().partition("=")
            exported[name] = value
        if "Press Ctrl-C to stop" in line:
            break
    assert exported["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert exported["AWS_REGION"] == "us-west-2"
    assert len(exported["AWS_SECRET_ACCESS_KEY"]) == 40
    assert "It runs code as you, for anyone who has the secret access key above" in " ".join(told.split())
    # Without an app, the CDK CLI bootstraps only an environment that is named.
    assert "cdk bootstrap aws://000000000000/us-west-2\n" in told
    assert "constructs-optim deploy endpoint.yaml" in told
    sts = boto3.client("sts", **client_arguments(exported))
    assert sts.get_caller_identity()["Account"] == "000000000000"
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        boto3.client("sts", **client_arguments(exported | {"AWS_SECRET_ACCESS_KEY": "mine"})).get_caller_identity()
    cloud.send_signal(signal.SIGTERM)
    cloud.communicate(timeout=30)
    assert cloud.returncode == 0
    assert none_left(marker)


def test_a_command_that_is_not_installed_is_reported_by_name(marker: str) -> None:
    run = start("run", "--", "no-such-command")
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 127
    assert "no-such-command is not installed" in output


def test_a_port_in_use_is_reported(marker: str) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        start_ = start("start", "--port", str(taken.getsockname()[1]))
        output, _ = start_.communicate(timeout=60)
    assert start_.returncode == 2
    assert "choose another" in output
    assert "Traceback" not in output
