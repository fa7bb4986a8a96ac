"""The local cloud's process: the addresses it listens on, when it ends, and its clean-up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud, LocalCloudError

from ..support.processes import listening_addresses, marked, none_left
from ..support.waiting import until

TWICE = "def handler(event, context): return {'twice': 2 * event['number']}"
pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")


def test_the_local_cloud_listens_on_loopback_only(cloud: LocalCloud) -> None:
    assert cloud.pid is not None
    assert listening_addresses(cloud.pid) == {f"127.0.0.1:{cloud.port}"}


def test_child_processes_get_the_local_endpoint_and_credentials_only(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a real one")
    environment = cloud.child_environment()
    assert environment["AWS_ENDPOINT_URL"] == cloud.endpoint_url
    assert environment["AWS_ACCESS_KEY_ID"] == "000000000000"
    assert environment["AWS_SECRET_ACCESS_KEY"] == cloud.environment()["AWS_SECRET_ACCESS_KEY"]
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & set(environment)


def test_functions_call_their_own_cloud_in_a_shell_that_has_the_variables_of_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_SAGEMAKER"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with LocalCloud() as cloud:
        invoke_a_function(cloud, f"import boto3\n\n{TWICE}\nboto3.client('s3').list_buckets()\n")


def test_leaving_the_context_leaves_no_process_and_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = mark(monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with LocalCloud() as cloud:
        invoke_a_function(cloud)
        assert len(marked(marker)) > 1, "the function has a worker of its own"
        assert list(tmp_path.glob("constructs-optim-local-*")), "its files are below the temporary directory"
    assert none_left(marker)
    assert not list(tmp_path.iterdir())


def test_the_local_cloud_ends_when_its_parent_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = mark(monkeypatch)
    script = (
        "import time; from constructs_optim_local.cloud import LocalCloud\n"
        "with LocalCloud() as cloud: print('started', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "started\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=10)
    parent.stdout.close()
    assert none_left(marker)


def test_files_of_a_killed_local_cloud_and_nothing_else_are_removed_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    killed = LocalCloud().start()
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.stop()
    (left,) = tmp_path.iterdir()
    assert re.fullmatch(r"constructs-optim-local-\d+-\w+", left.name)
    others = [tmp_path / name for name in ("constructs-optim-local-1-mine", "constructs-optim-local-notes", "else")]
    for other in others:
        other.mkdir()
    (tmp_path / "constructs-optim-local-999999999-link").symlink_to(others[2])
    with LocalCloud(), LocalCloud():
        assert not left.exists()
        assert len(list(tmp_path.glob("constructs-optim-local-*-*"))) == 4, "two that run, one's own and a link"
    assert all(other.is_dir() for other in others)


def test_a_local_cloud_can_be_stopped_twice_and_restarted() -> None:
    cloud = LocalCloud()
    cloud.start()
    cloud.stop()
    cloud.stop()
    with cloud:
        assert cloud.jobs() == []


def test_starting_on_a_port_in_use_fails_at_once() -> None:
    with LocalCloud() as first, pytest.raises(LocalCloudError, match=str(first.port)):
        LocalCloud(port=first.port).start()


def test_an_unknown_path_of_the_control_api_is_refused(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError, match="GET nothing does not exist"):
        cloud._control("GET", "nothing")


def test_the_process_of_a_lambda_function_ends_when_its_stack_is_deleted(cloud: LocalCloud) -> None:
    cloudformation = cloud.client("cloudformation")
    properties = {
        "Runtime": "python3.14",
        "Role": "arn:aws:iam::000000000000:role/function",
        "Handler": "index.handler",
        "Code": {"ZipFile": "import os\ndef handler(event, context): return os.getpid()"},
    }
    template = {"Resources": {"Function": {"Type": "AWS::Lambda::Function", "Properties": properties}}}
    cloudformation.create_stack(StackName="Functions", TemplateBody=json.dumps(template))
    cloudformation.get_waiter("stack_create_complete").wait(StackName="Functions", WaiterConfig={"Delay": 1})
    (resource,) = cloudformation.describe_stack_resources(StackName="Functions")["StackResources"]
    answer = cloud.client("lambda").invoke(FunctionName=resource["PhysicalResourceId"])
    process = Path("/proc", answer["Payload"].read().decode())
    assert process.exists()
    cloudformation.delete_stack(StackName="Functions")
    until(process.exists, lambda exists: not exists)


def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Put a value into the environment that identifies all processes started from now on."""
    marker = uuid.uuid4().hex
    monkeypatch.setenv("LOCAL_CLOUD_TEST", marker)
    return marker


def invoke_a_function(cloud: LocalCloud, code: str = TWICE) -> None:
    import io
    import zipfile

    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w") as archive:
        archive.writestr("index.py", code)
    client = cloud.client("lambda")
    client.create_function(
        FunctionName="twice",
        Runtime="python3.14",
        Role="arn:aws:iam::000000000000:role/function",
        Handler="index.handler",
        Code={"ZipFile": archived.getvalue()},
    )
    until(
        lambda: client.get_function(FunctionName="twice")["Configuration"],
        lambda configuration: configuration.get("State", "Active") == "Active",
    )
    answer = client.invoke(FunctionName="twice", Payload=json.dumps({"number": 21}))
    assert json.loads(answer["Payload"].read()) == {"twice": 42}
