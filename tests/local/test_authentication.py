"""Access to a local cloud, which runs code: only holders of its credentials, no web page, other user or host name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import io
import json
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import botocore
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from constructs_optim_local.access.credentials import ACCOUNT
from constructs_optim_local.cloud import LocalCloud

from ..support.local_cloud import BUCKET

PAGE = {"Content-Type": "text/plain", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
MADE_UP = {
    "Authorization": f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20261122/us-west-2/lambda/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=00",
    "X-Amz-Date": "20261122T000000Z",
}
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"},
    ],
}


def ask(
    cloud: LocalCloud, method: str, path: str, headers: Mapping[str, str] = {}, body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (in lower case) and body of the response to a raw HTTP request."""
    connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=20)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def secret_of(cloud: LocalCloud) -> str:
    return cloud.environment()["AWS_SECRET_ACCESS_KEY"]


def signed(
    cloud: LocalCloud, service: str, method: str, path: str, body: bytes = b"", **headers: str
) -> dict[str, str]:
    """The headers of a correctly signed request."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = AWSRequest(method, f"{cloud.endpoint_url}{path}", headers=given, data=body)
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    signer(Credentials(ACCOUNT, secret_of(cloud)), service, cloud.region).add_auth(request)
    return dict(request.headers)


def function(name: str) -> bytes:
    """The body of a CreateFunction request, as a web page could send it."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", "def handler(event, context): return 'ran'")
    given = {
        "FunctionName": name,
        "Runtime": "python3.11",
        "Role": f"arn:aws:iam::{ACCOUNT}:role/x",
        "Handler": "index.handler",
        "Code": {"ZipFile": base64.b64encode(code.getvalue()).decode()},
    }
    return json.dumps(given).encode()


def client(cloud: LocalCloud, service: str, key: str = ACCOUNT, secret: str = "", **config: Any) -> Any:
    return boto3.client(
        service,
        endpoint_url=cloud.endpoint_url,
        region_name=cloud.region,
        aws_access_key_id=key,
        aws_secret_access_key=secret or secret_of(cloud),
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}, **config),
    )


@pytest.fixture(scope="module")
def strict() -> Iterator[LocalCloud]:
    with LocalCloud(enforce_iam=True) as running:
        yield running


@pytest.mark.parametrize("enforced", [False, True])
@pytest.mark.parametrize("more", [{}, PAGE, MADE_UP, {**PAGE, **MADE_UP}], ids=["nothing", "page", "made up", "both"])
def test_unsigned_or_wrongly_signed_requests_cannot_create_functions(
    request: pytest.FixtureRequest, enforced: bool, more: dict[str, str]
) -> None:
    cloud: LocalCloud = request.getfixturevalue("strict" if enforced else "cloud")
    status, _, _ = ask(cloud, "POST", "/2015-03-31/functions", more, function("brought"))
    assert status == 403
    assert "brought" not in str(cloud.client("lambda").list_functions()["Functions"])


@pytest.mark.parametrize(
    "more",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "127.0.0.1"},
    ],
    ids=str,
)
def test_a_signed_request_from_a_web_page_or_for_another_host_is_refused(
    cloud: LocalCloud, more: dict[str, str]
) -> None:
    path = "/2015-03-31/functions"
    request = AWSRequest("GET", f"{cloud.endpoint_url}{path}", headers=more)
    SigV4Auth(Credentials(ACCOUNT, secret_of(cloud)), "lambda", cloud.region).add_auth(request)
    status, headers, content = ask(cloud, "GET", path, dict(request.headers))
    assert (status, headers["content-type"]) == (403, "text/plain")
    assert b"local cloud" in content


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_requests_to_loopback_host_names_are_served(cloud: LocalCloud, name: str) -> None:
    headers = signed(cloud, "lambda", "GET", "/2015-03-31/functions", Host=f"{name}:{cloud.port}")
    assert ask(cloud, "GET", "/2015-03-31/functions", headers)[0] == 200


@pytest.mark.parametrize("path", ["/", "/_constructs_optim/faults", "/2015-03-31/functions", f"/{BUCKET}/key"])
def test_a_cors_preflight_request_is_refused(cloud: LocalCloud, path: str) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for more in ({**asked, **PAGE}, asked):
        status, headers, _ = ask(cloud, "OPTIONS", path, more)
        assert status == 403
        assert not [name for name in headers if name.startswith("access-control-")]


def test_responses_carry_no_cors_headers(cloud: LocalCloud) -> None:
    for service, path in (("s3", f"/{BUCKET}"), ("lambda", "/2015-03-31/functions")):
        status, headers, _ = ask(cloud, "GET", path, signed(cloud, service, "GET", path))
        assert status == 200
        assert not [name for name in headers if name.startswith("access-control-")]


def test_a_web_socket_is_refused(cloud: LocalCloud) -> None:
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(b"0" * 16).decode(),
    }
    assert ask(cloud, "GET", "/_aws/execute-api/api/stage", handshake)[0] == 403


@pytest.mark.parametrize("more", [{}, PAGE, MADE_UP], ids=["nothing", "page", "made up"])
def test_the_control_api_refuses_unsigned_requests(cloud: LocalCloud, more: dict[str, str]) -> None:
    for path in ("jobs", "calls", "faults", "authorizations"):
        assert ask(cloud, "GET", f"/_constructs_optim/{path}", more)[0] == 403
    assert ask(cloud, "POST", "/_constructs_optim/faults", more, b'{"name": "job_fails"}')[0] == 403
    assert cloud.faults() == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/_ministack/reset"),
        ("POST", "/_ministack/config"),
        ("GET", "/_ministack/health"),
        ("GET", "/_ministack/sqs/messages"),
        ("GET", f"/_ministack/lambda-code/{ACCOUNT}/us-west-2/any"),
    ],
)
def test_ministacks_own_endpoints_are_refused(cloud: LocalCloud, method: str, path: str) -> None:
    assert ask(cloud, method, path)[0] == 403


CALLS = {
    "sts": "get_caller_identity",
    "cloudformation": "list_stacks",
    "iam": "list_roles",
    "sagemaker": "list_models",
    "stepfunctions": "list_state_machines",
    "ssm": "describe_parameters",
    "lambda": "list_functions",
    "s3": "list_buckets",
    "cloudwatch": "list_metrics",
}
XML = ("sts", "cloudformation", "iam", "cloudwatch")


@pytest.mark.parametrize("service", CALLS)
def test_services_refuse_bad_signatures_with_the_error_codes_of_aws(cloud: LocalCloud, service: str) -> None:
    def code(made: Any) -> str:
        with pytest.raises(ClientError) as caught:
            getattr(made, CALLS[service])()
        return str(caught.value.response["Error"]["Code"])

    found = (
        code(client(cloud, service, secret="another user's")),
        code(client(cloud, service, key="AKIAIOSFODNN7EXAMPLE")),
        code(client(cloud, service, signature_version=botocore.UNSIGNED)),
    )
    if service == "s3":
        assert found == ("SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied")
    elif service in XML:
        assert found == ("SignatureDoesNotMatch", "InvalidClientTokenId", "MissingAuthenticationToken")
    else:
        assert found == (
            "InvalidSignatureException",
            "UnrecognizedClientException",
            "MissingAuthenticationTokenException",
        )
    getattr(client(cloud, service), CALLS[service])()


def test_a_session_needs_its_session_token_and_secret(cloud: LocalCloud) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/any"
    session = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]

    def identity(**given: str) -> str:
        made = boto3.client(
            "sts",
            endpoint_url=cloud.endpoint_url,
            region_name=cloud.region,
            aws_access_key_id=session["AccessKeyId"],
            **{"aws_secret_access_key": session["SecretAccessKey"], **given},
        )
        return str(made.get_caller_identity()["Arn"])

    assert identity(aws_session_token=session["SessionToken"]).endswith("assumed-role/any/test")
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        identity()
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        identity(aws_session_token=session["SessionToken"], aws_secret_access_key="another")


def test_the_credentials_of_a_function_cannot_be_derived_from_names(strict: LocalCloud) -> None:
    role = strict.client("iam").create_role(RoleName="guessed", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
    strict.client("lambda").create_function(**json.loads(function("guessed")) | {"Role": role["Arn"]} | code())
    strict.client("lambda").get_waiter("function_active_v2").wait(FunctionName="guessed")
    made = strict.client("lambda").invoke(FunctionName="guessed")
    assert made["Payload"].read() == b'"ran"'
    # What ministack makes of a function's name and its role's.
    arn = strict.client("lambda").get_function(FunctionName="guessed")["Configuration"]["FunctionArn"]
    digest = hashlib.sha256(f"{arn}:{role['Arn']}".encode()).hexdigest()
    guessed = boto3.client(
        "sts",
        endpoint_url=strict.endpoint_url,
        region_name=strict.region,
        aws_access_key_id=f"ASIA{digest[:16].upper()}",
        aws_secret_access_key=hashlib.sha256(f"secret:{digest}".encode()).hexdigest(),
        aws_session_token=hashlib.sha256(f"token:{digest}".encode()).hexdigest(),
    )
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        guessed.get_caller_identity()


def code() -> dict[str, Any]:
    return {"Code": {"ZipFile": base64.b64decode(json.loads(function(""))["Code"]["ZipFile"])}}


@pytest.mark.parametrize("version", [None, "s3v4"], ids=["SigV2", "SigV4"])
def test_a_presigned_url_is_valid_only_for_its_object_until_it_expires(cloud: LocalCloud, version: str | None) -> None:
    s3 = client(cloud, "s3", signature_version=version)
    for key in ("a b/ü+%2F~x", "other"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"object")
    given = {"Bucket": BUCKET, "Key": "a b/ü+%2F~x"}
    url = s3.generate_presigned_url("get_object", Params=given)
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"object"
    late = s3.generate_presigned_url("get_object", Params=given, ExpiresIn=-10)
    elsewhere = url.replace("a%20b/%C3%BC%2B%252F~x", "other")
    assert elsewhere != url
    forged = client(cloud, "s3", secret="another", signature_version=version).generate_presigned_url(
        "get_object", Params=given
    )
    for refused in (elsewhere, late, forged):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(refused)
        assert caught.value.code == 403
    put = urllib.request.Request(url, b"overwritten", method="PUT")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(put)


@pytest.mark.parametrize("service", ["s3", "lambda"])
def test_a_request_whose_body_differs_from_the_signed_one_is_refused(cloud: LocalCloud, service: str) -> None:
    method, path, body = {
        "s3": ("PUT", f"/{BUCKET}/signed", b"what was signed"),
        "lambda": ("POST", "/2015-03-31/functions", function("other")),
    }[service]
    headers = signed(cloud, service, method, path, body)
    assert ask(cloud, method, path, headers, body[::-1])[0] == 403
    assert ask(cloud, method, path, headers | {"Content-Length": str(len(body))}, body)[0] in (200, 201)


def test_the_signature_of_each_chunk_of_an_upload_is_verified(cloud: LocalCloud) -> None:
    """What the SDKs for Java and .NET send: S3 API reference, "Signature calculations ... (chunked upload)"."""
    path, chunks = f"/{BUCKET}/chunked", [b"a" * 65_536, b"b" * 10, b""]
    length = sum(len(f"{len(chunk):x};chunk-signature=") + 64 + len(chunk) + 4 for chunk in chunks)
    more = {
        "x_amz_content_sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "x_amz_decoded_content_length": "65546",
        "content_length": str(length),
    }
    given = {name.replace("_", "-"): value for name, value in more.items()}
    request = AWSRequest("PUT", f"{cloud.endpoint_url}{path}", headers=given)

    class Signer(S3SigV4Auth):
        def payload(self, request: Any) -> str:
            return more["x_amz_content_sha256"]

    signer = Signer(Credentials(ACCOUNT, secret_of(cloud)), "s3", cloud.region)
    signer.add_auth(request)
    date = request.headers["X-Amz-Date"]
    scope = f"{date[:8]}/{cloud.region}/s3/aws4_request"
    secret = f"AWS4{secret_of(cloud)}".encode()
    for part in scope.split("/"):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    last, body = request.headers["Authorization"].rpartition("Signature=")[2], b""
    for chunk in chunks:
        hashes = hashlib.sha256(b"").hexdigest(), hashlib.sha256(chunk).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", date, scope, last, *hashes])
        last = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
        body += f"{len(chunk):x};chunk-signature={last}\r\n".encode() + chunk + b"\r\n"
    headers = dict(request.headers)
    assert ask(cloud, "PUT", path, headers, body.replace(b"b" * 10, b"c" * 10))[0] == 403
    assert ask(cloud, "PUT", path, headers, body)[0] == 200
    assert cloud.client("s3").get_object(Bucket=BUCKET, Key="chunked")["Body"].read() == b"".join(chunks)


def test_the_code_of_a_function_is_downloaded_through_a_presigned_url(cloud: LocalCloud) -> None:
    cloud.client("lambda").create_function(**json.loads(function("linked")) | code())
    link = cloud.client("lambda").get_function(FunctionName="linked")["Code"]["Location"]
    with urllib.request.urlopen(link) as answer:
        assert zipfile.ZipFile(io.BytesIO(answer.read())).namelist() == ["index.py"]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(link.partition("?")[0])


def test_each_start_has_a_new_secret_that_no_command_line_shows(cloud: LocalCloud) -> None:
    before = secret_of(cloud)
    assert len(before) == 40
    again = LocalCloud()
    first = secret_of(again)
    with again:
        assert secret_of(again) == first != before
        lines = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
        assert before.encode() not in lines
        assert first.encode() not in lines
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            client(again, "sts", secret=before).get_caller_identity()
    with again:
        assert secret_of(again) != first
        assert again.jobs() == []
