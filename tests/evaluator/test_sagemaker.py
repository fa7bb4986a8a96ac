from __future__ import annotations

import asyncio
import json

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError

from constructs_optim.evaluator.connection import SageMakerTarget
from constructs_optim.evaluator.options import ClosedLoop
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.streaming import ChatFormat, Format, LmiFormat

from ..support.model_server import TOKENS, ModelServer, asked, sender, sent


@pytest.fixture
def session(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> boto3.Session:
    """A session whose SageMaker runtime is the timing server."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", f"http://127.0.0.1:{server.port}")
    return boto3.Session("AKIDEXAMPLE", "secret", "token", region_name="us-west-2")


def test_the_timing_server_s_event_stream_is_readable_by_boto3(server: ModelServer, session: boto3.Session) -> None:
    """What the other tests stand on."""
    body = json.dumps({"inputs": "Hello", "parameters": {}}).encode()
    answered = session.client("sagemaker-runtime").invoke_endpoint_with_response_stream(EndpointName="chat", Body=body)
    stream = b"".join(event["PayloadPart"]["Bytes"] for event in answered["Body"])
    assert [json.loads(line)["token"]["text"] for line in stream.splitlines()] == [f"w{n} " for n in range(TOKENS)]


@pytest.mark.parametrize("written", [ChatFormat, LmiFormat])
def test_an_endpoint_is_measured_by_its_response_stream(
    server: ModelServer, session: boto3.Session, written: type[Format]
) -> None:
    to = sender(SageMakerTarget(session, "chat"), asked("Hello there"), written)
    records, segment = sent(to, ClosedLoop(concurrency=2, requests=4))
    assert segment.complete
    for record in records:
        assert (record.error, record.server_output_tokens) == (None, TOKENS)
        assert record.text == "".join(f"w{number} " for number in range(TOKENS))
    assert server.timing.bodies[0]["path"] == "/endpoints/chat/invocations-response-stream"


def test_a_request_has_the_signature_botocore_computes(server: ModelServer, session: boto3.Session) -> None:
    target = SageMakerTarget(session, "chat", variant_name="blue", inference_component_name="llama")
    sent(sender(target, asked("Grüße")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    headers = server.timing.bodies[0]["headers"]
    assert headers["x-amzn-sagemaker-target-variant"] == "blue"
    assert headers["x-amzn-sagemaker-inference-component"] == "llama"
    assert headers["x-amz-security-token"] == "token"
    algorithm, _, rest = headers["authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert algorithm == "AWS4-HMAC-SHA256"
    assert parts["Credential"].endswith("/us-west-2/sagemaker/aws4_request")
    # The service calculates the signature anew, from what it was sent.
    signed = {name: headers[name] for name in parts["SignedHeaders"].split(";")}
    assert {"content-type", "host", "x-amz-date", "x-amzn-sagemaker-target-variant"} <= signed.keys()
    content = ChatFormat.body(asked("Grüße")[0], sender(target, []).generation, None)
    body = json.dumps(content, separators=(",", ":")).encode()
    request = AWSRequest("POST", f"http://{headers['host']}{server.timing.bodies[0]['path']}", signed, body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials("AKIDEXAMPLE", "secret", "token"), "sagemaker", "us-west-2")
    wanted = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    assert parts["Signature"] == wanted


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("400", ErrorKind.CLIENT_ERROR, "ValidationError"),
        ("429", ErrorKind.THROTTLED, "ThrottlingException"),
        ("500", ErrorKind.SERVER_ERROR, "ModelError"),
        ("error", ErrorKind.MODEL_ERROR, "ModelStreamError"),
        ("cut", ErrorKind.CUT_STREAM, "closed"),
        ("malformed", ErrorKind.MALFORMED_RESPONSE, "not a JSON object"),
    ],
)
def test_sagemaker_runtime_errors_are_classified_by_kind(
    session: boto3.Session, fault: str, kind: ErrorKind, said: str
) -> None:
    to = sender(SageMakerTarget(session, "chat"), asked(f"fault:{fault}"), LmiFormat)
    records, _ = sent(to, ClosedLoop(concurrency=1, requests=1, warm_up=0))
    assert records[0].error is kind
    assert said in records[0].message


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(NoCredentialsError):
        SageMakerTarget(boto3.Session(region_name="us-west-2"), "chat")


def test_credentials_that_are_about_to_expire_are_renewed(server: ModelServer, session: boto3.Session) -> None:
    import datetime as dt

    from botocore.credentials import RefreshableCredentials

    renewed: list[int] = []

    def metadata(minutes: int) -> dict[str, str]:
        expiry = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=minutes)
        return {"access_key": f"AKID{len(renewed)}", "secret_key": "s", "token": "t", "expiry_time": expiry.isoformat()}

    def renew() -> dict[str, str]:
        renewed.append(1)
        return metadata(60)

    target = SageMakerTarget(session, "chat")
    target._credentials = RefreshableCredentials.create_from_metadata(metadata(1), renew, "test")
    request = asyncio.run(target.request(b"{}", ChatFormat.path))
    assert b"Credential=AKID1/" in request
    assert len(renewed) == 1
