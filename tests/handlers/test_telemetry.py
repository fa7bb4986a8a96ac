"""Logs, metrics and traces of the handlers, which never contain secrets."""

from __future__ import annotations

import http.server
import inspect
import io
import json
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import constructs_optim.runtime as runtime
from constructs_optim.recipe.catalog import availability
from constructs_optim.runtime import aws
from constructs_optim.runtime.handlers import job_handler, job_watcher, model_handler
from constructs_optim.runtime.telemetry import HandlerFailed
from constructs_optim_local.access.credentials import ACCOUNT
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.hosting import IMAGE
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, ROLE
from ..support.telemetry import CapturedLogs
from ..support.waiting import until

# Every secret below has it, in a form of its own.
MARK = "MARKED"
SIGNED = f"?X-Amz-Signature={MARK}0signature&X-Amz-Security-Token={MARK}1%2Fsession&X-Amz-Credential={MARK}2"
ENVIRONMENT = {"HF_TOKEN": f"hf_{MARK}3token", "MY_AUTH": f"{MARK}4 'quoted' \"setting\""}
STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Telemetry/1234"
DEFINITION = {"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}}

Handler = Callable[[Mapping[str, Any], Any], Any]


@pytest.fixture
def signed_url() -> Iterator[str]:
    """A pre-signed URL that accepts PUT requests."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            responses.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None: ...

    responses = list[dict[str, Any]]()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/answer{SIGNED}"
    server.shutdown()
    server.server_close()
    assert responses, "CloudFormation would still be waiting"
    # A reason is read by whoever may describe the stack.
    assert MARK not in json.dumps(responses)


@pytest.fixture
def state_machine(cloud: LocalCloud) -> str:
    made = cloud.client("stepfunctions").create_state_machine(
        name="telemetry", definition=json.dumps(DEFINITION), roleArn=ROLE
    )
    return made["stateMachineArn"]


@pytest.fixture(autouse=True)
def account(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in a bucket, and credentials that are marked as well."""
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    # Calls are signed with what the cloud takes, whatever the environment says of it.
    session = inspect.unwrap(aws.session)()
    session.set_credentials(ACCOUNT, cloud.environment()["AWS_SECRET_ACCESS_KEY"])
    monkeypatch.setattr(aws, "session", lambda: session)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{MARK}5secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{MARK}6session")
    cloud.client("s3").put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"weights")


def request(signed_url: str, kind: str = "Create", **properties: Any) -> dict[str, Any]:
    return custom_resource_event(
        kind,
        signed_url,
        stack_id=STACK,
        request_id="request-1",
        logical_id="Llama70B",
        properties={"RoleArn": ROLE, "Tags": [], **properties},
    )


def model_request(signed_url: str, **properties: Any) -> dict[str, Any]:
    model = {
        "Image": IMAGE,
        "Environment": ENVIRONMENT,
        "InstanceType": "ml.g5.12xlarge",
        "Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/models/mine/"},
    }
    return request(signed_url, **{**model, **properties})


def job_request(signed_url: str, state_machine: str, recipe: str, **properties: Any) -> dict[str, Any]:
    quantization = {"Image": IMAGE, "OverrideEnvironment": ENVIRONMENT}
    job = {
        "RecipeKey": recipe * 64,
        "Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/models/mine/"},
        "Request": {
            "DeploymentInstanceType": "ml.g5.12xlarge",
            "OptimizationConfigs": [{"ModelQuantizationConfig": quantization}],
            "OptimizationEnvironment": ENVIRONMENT,
            "StoppingCondition": {"MaxRuntimeInSeconds": "36000"},
        },
        "Bucket": BUCKET,
        "StateMachineArn": state_machine,
        "WaitHandle": signed_url,
    }
    return {**request(signed_url, **{**job, **properties}), "RequestId": f"request-{recipe}"}


def poll_event(signed_url: str, key: str = "e" * 64, **changed: Any) -> dict[str, Any]:
    return {"Bucket": BUCKET, "ArtifactKey": key, "Attempt": 1, "WaitHandle": signed_url, **changed}


def test_creating_a_model_logs_nothing_of_its_environment(logs: CapturedLogs, signed_url: str, sagemaker: Any) -> None:
    model_handler.handler(model_request(signed_url), LambdaContext(60, "Watcher"))
    name = logs.line("created")["model_name"]
    container = sagemaker.describe_model(ModelName=name)["PrimaryContainer"]
    assert container["Environment"] == ENVIRONMENT, "the container gets what the log does not"
    assert logs.metrics() == {"ModelCreated": [1.0]}
    assert MARK not in logs.text()


def test_a_job_is_logged_and_counted_without_its_secrets(
    logs: CapturedLogs, signed_url: str, state_machine: str, sagemaker: Any
) -> None:
    job_handler.handler(job_request(signed_url, state_machine, "1"), LambdaContext(60, "Watcher"))
    started = logs.line("created")
    assert started["stack_id"] == STACK
    key, job = started["artifact_key"], started["job_name"]
    event = poll_event(signed_url, key, Account="000000000000")
    until(lambda: job_watcher.handler(event, LambdaContext(60, "Watcher")), lambda answer: answer["Done"])
    assert sagemaker.describe_optimization_job(OptimizationJobName=job)["OptimizationEnvironment"] == ENVIRONMENT
    job_handler.handler(
        {**job_request(signed_url, state_machine, "1"), "LogicalResourceId": "Another"}, LambdaContext(60, "Watcher")
    )
    assert logs.line("reused")["artifact_key"] == key
    assert {"JobStarted", "JobCompleted", "JobSeconds", "ArtifactReused"} <= set(logs.metrics())
    assert logs.units()["JobSeconds"] == "Seconds"
    assert {line["job_name"] for line in logs.lines() if line["message"] == "polled"} == {job}
    assert MARK not in logs.text()


def test_a_refused_model_is_logged_without_secrets(logs: CapturedLogs, signed_url: str) -> None:
    nothing = {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/nothing/"}
    model_handler.handler(model_request(signed_url, Source=nothing), LambdaContext(60, "Watcher"))
    assert f"s3://{BUCKET}/nothing/" in logs.line("failed")["reason"]
    assert logs.metrics() == {"DeploymentFailed": [1.0]}
    assert MARK not in logs.text()


def test_a_validation_error_is_logged_without_the_values_it_quotes(
    logs: CapturedLogs, signed_url: str, state_machine: str
) -> None:
    # The form of an instance type, so that the service is the first to see that it is none.
    secret = f"ml.{MARK.lower()}.secret"
    event = job_request(signed_url, state_machine, "2")
    event["ResourceProperties"]["Request"] |= {
        "DeploymentInstanceType": secret,
        "OptimizationEnvironment": {"INSTANCE_SECRET": secret},
    }
    job_handler.handler(event, LambdaContext(60, "Watcher"))
    line = logs.line("failed")
    assert line["level"] == "ERROR"
    assert "ValidationException" in line["reason"] or "Parameter validation failed" in line["reason"]
    assert secret not in logs.text()


def test_a_failed_job_is_logged_without_the_wait_condition_handle(logs: CapturedLogs, signed_url: str) -> None:
    answer = job_watcher.handler(
        poll_event(signed_url, Error={"Error": "States.TaskFailed", "Cause": signed_url}), LambdaContext(60, "Watcher")
    )
    assert answer == {"Done": True}
    assert logs.line("ended")["level"] == "ERROR"
    assert logs.metrics() == {"JobFailed": [1.0]}
    assert MARK not in logs.text()


@pytest.mark.parametrize("module", [job_handler, model_handler])
def test_a_handler_crash_is_logged_without_secrets(
    logs: CapturedLogs, signed_url: str, state_machine: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = model_request(signed_url) if module is model_handler else job_request(signed_url, state_machine, "3")

    def crash(*arguments: Any, **named: Any) -> None:
        try:
            raise LookupError(json.dumps(event), os.environ["AWS_SESSION_TOKEN"])
        except LookupError:
            raise RuntimeError(f"cannot use {event} with {os.environ['AWS_SECRET_ACCESS_KEY']}") from None

    monkeypatch.setattr(module, "resolve", crash)
    module.handler(event, LambdaContext(60, "Watcher"))
    line = logs.line("failed")
    assert "in crash" in line["traceback"]
    assert "cannot use" in line["reason"]
    assert MARK not in logs.text()


def test_a_crashing_poll_reaches_the_state_machine_without_secrets(
    logs: CapturedLogs, signed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = poll_event(signed_url)

    def crash(*arguments: Any) -> None:
        raise RuntimeError(f"cannot poll with {event}")

    monkeypatch.setattr(job_watcher, "SageMakerJobs", crash)
    with pytest.raises(HandlerFailed, match="cannot poll") as raised:
        job_watcher.handler(event, LambdaContext(60, "Watcher"))
    assert MARK not in str(raised.value)
    assert MARK not in logs.text()
    monkeypatch.undo()
    # The state machine catches it, and the stack is told.
    job_watcher.handler({**event, "Error": {"Cause": str(raised.value)}}, LambdaContext(60, "Watcher"))


TRACED = """
from types import SimpleNamespace
import boto3
from runtime.telemetry import entry_point
@entry_point
def handler(event, context):
    boto3.client("sts").get_caller_identity()
    raise RuntimeError(f"giving up on {event}")
try:
    context = SimpleNamespace(function_name="f", memory_limit_in_mb=1, invoked_function_arn="f", aws_request_id="r")
    handler({"WaitHandle": "https://handle.example/x?X-Amz-Signature=MARKEDsignature"}, context)
except Exception as error:
    print(error)
"""


def test_a_sampled_invocation_is_traced_with_its_calls_and_without_secrets(cloud: LocalCloud) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(5)
        environment = {
            **cloud.child_environment(),
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "LAMBDA_TASK_ROOT": "/var/task",
            "POWERTOOLS_SERVICE_NAME": "job_watcher",
            "PYTHONPATH": str(Path(runtime.__file__).parent.parent),
            "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        }
        environment.pop("POWERTOOLS_TRACE_DISABLED", None)
        done = subprocess.run([sys.executable, "-c", TRACED], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sent = [json.loads(daemon.recv(65536).decode().partition("\n")[2]) for _ in range(2)]
    call, handler = sent
    assert (call["name"], call["aws"]["operation"]) == ("sts", "GetCallerIdentity")
    assert handler["name"] == "## handler"
    assert handler["annotations"]["Service"] == "job_watcher"
    assert "giving up on" in json.dumps(handler)
    assert MARK not in json.dumps(sent) + done.stdout + done.stderr


def test_an_invocation_that_is_not_sampled_does_not_import_the_xray_sdk() -> None:
    script = TRACED.replace('boto3.client("sts").get_caller_identity()', "") + (
        "\nimport sys; print([name for name in sys.modules if 'xray' in name])"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(runtime.__file__).parent.parent),
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0",
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_deployed_handler_has_powertools_and_writes_to_its_log_group(cloud: LocalCloud) -> None:
    folder = Path(runtime.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in folder.rglob("*.py"):
            archive.write(path, path.relative_to(folder.parent))
    layer = availability.powertools()
    cloud.client("lambda").create_function(
        FunctionName="watcher",
        Runtime="python3.14",
        Role=ROLE,
        Handler="runtime.handlers.job_watcher.handler",
        Code={"ZipFile": packed.getvalue()},
        Environment={
            "Variables": {
                "POWERTOOLS_LOG_LEVEL": "INFO",
                "POWERTOOLS_METRICS_NAMESPACE": "ConstructsOptim",
                "POWERTOOLS_SERVICE_NAME": "job_watcher",
            }
        },
        # AWS's own, of which the local cloud has no copy: the function finds Powertools where the local cloud does.
        Layers=[f"arn:aws:lambda:{cloud.region}:{layer.accounts[cloud.region]}:layer:{layer.name}:{layer.version}"],
        TracingConfig={"Mode": "Active"},
    )
    event = poll_event("", "f" * 64, Attempt="one")
    answer = cloud.client("lambda").invoke(FunctionName="watcher", Payload=json.dumps(event))
    assert answer["FunctionError"]

    def said_there() -> list[dict[str, Any]]:
        logs = cloud.client("logs")
        found = logs.filter_log_events(logGroupName="/aws/lambda/watcher")["events"]
        return [json.loads(event["message"]) for event in found if event["message"].startswith("{")]

    line, metrics = until(said_there, lambda found: len(found) >= 2)
    assert (line["level"], line["message"], line["service"]) == ("ERROR", "crashed", "job_watcher")
    assert (line["cold_start"], line["function_name"], line["artifact_key"]) == (True, "watcher", "f" * 64)
    assert line["xray_trace_id"], "tracing is active, though there is nowhere to send to"
    assert line["reason"] == "these properties are missing or malformed: Attempt"
    assert metrics["InvocationFailed"] == [1.0]
    assert metrics["service"] == "job_watcher"
