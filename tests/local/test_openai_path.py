"""The OpenAI-compatible path of endpoints: completions for bearer tokens, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import openai
import pytest
from botocore.credentials import Credentials

from constructs_optim.evaluator.bearer_token import bearer_token
from constructs_optim.evaluator.connection import Connection, Exchange, OpenAITarget
from constructs_optim.evaluator.streaming import ChatFormat
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.hosting.invocations import text_for

from ..support.benchmark_jobs import serve
from ..support.documents import CHECKOUT
from ..support.hosting import IMAGE, make_config, settled
from ..support.iam import ACCOUNT, PULL, Role, allow
from ..support.inference_components import create, endpoint, needing
from ..support.waiting import until

pytestmark = pytest.mark.local

REPOSITORY = "arn:aws:ecr:us-west-2:111122223333:repository/lmi"

CHAT = {"model": "", "messages": [{"role": "user", "content": "Why?"}]}
EXPECTED = text_for("user: Why?")


@pytest.fixture(scope="module")
def served(brisk: LocalCloud) -> str:
    return serve(brisk.client("sagemaker"), "chatting")


def token(cloud: LocalCloud, seconds: int = 900) -> str:
    """A token of the cloud's own credentials."""
    given = cloud.environment()
    credentials = Credentials(given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"])
    return bearer_token(credentials, cloud.region, seconds)


def ask(cloud: LocalCloud, path: str, authorization: str, body: Any = CHAT, method: str = "POST") -> tuple[int, bytes]:
    """Status and content of a request with a token."""
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    url = f"{cloud.environment()['AWS_ENDPOINT_URL']}/endpoints/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_chat_gets_the_models_completion(brisk: LocalCloud, served: str) -> None:
    status, content = ask(brisk, f"{served}/openai/v1/chat/completions", f"Bearer {token(brisk)}")
    assert status == 200
    assert json.loads(content)["choices"][0]["message"]["content"] == EXPECTED


def test_a_streamed_chat_comes_as_server_sent_events(brisk: LocalCloud, served: str) -> None:
    bearer = f"Bearer {token(brisk)}"
    _, content = ask(brisk, f"{served}/openai/v1/chat/completions", bearer, {**CHAT, "stream": True})
    events = [line.removeprefix(b"data: ") for line in content.splitlines() if line.startswith(b"data: ")]
    assert events.pop() == b"[DONE]"
    pieces = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(pieces) == EXPECTED


def test_the_path_names_an_inference_component(brisk: LocalCloud) -> None:
    sagemaker = brisk.client("sagemaker")
    endpoint(sagemaker, "shared")
    create(sagemaker, "one", "shared", needing(1))
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName="one")["InferenceComponentStatus"],
        lambda status: status == "InService",
    )
    path = "shared/inference-components/one/openai/v1/chat/completions"
    status, content = ask(brisk, path, f"Bearer {token(brisk)}")
    assert (status, EXPECTED in content.decode()) == (200, True)


def altered(good: str, *changes: tuple[str, str]) -> str:
    """A token whose signed call says something else."""
    text = base64.b64decode(good.removeprefix("sagemaker-api-key-")).decode()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return f"sagemaker-api-key-{base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    "change",
    [
        lambda good: "sk-of-another-service",
        lambda good: good[:-8],
        lambda good: altered(good, ("CallWithBearerToken", "ListEndpoints")),
        lambda good: altered(good, ("X-Amz-Expires=900", "X-Amz-Expires=901")),
        lambda good: altered(good, ("X-Amz-Expires=900", "X-Amz-Expires=43201")),
        lambda good: altered(good, ("%2Fsagemaker%2F", "%2Fs3%2F")),
        lambda good: altered(good, ("&Version=1", "")),
    ],
    ids=["another", "cut", "another action", "another signature", "too long", "another service", "no version"],
)
def test_a_wrong_token_is_refused(brisk: LocalCloud, served: str, change: Any) -> None:
    status, content = ask(brisk, f"{served}/openai/v1/chat/completions", f"Bearer {change(token(brisk))}")
    assert status == 403
    assert EXPECTED not in content.decode()


def test_an_expired_token_is_refused(served: str, brisk: LocalCloud) -> None:
    short = token(brisk, seconds=1)
    path = f"{served}/openai/v1/chat/completions"
    status = until(lambda: ask(brisk, path, f"Bearer {short}")[0], lambda status: status != 200)
    assert status == 403


def test_a_token_needs_both_permissions() -> None:
    with LocalCloud(endpoint_seconds=0.1, enforce_iam=True) as guarded:
        sagemaker = guarded.client("sagemaker")
        execution = Role(guarded, allow("ecr:GetAuthorizationToken", "*"), allow(PULL, REPOSITORY))
        sagemaker.create_model(ModelName="one", ExecutionRoleArn=execution.arn, PrimaryContainer={"Image": IMAGE})
        make_config(sagemaker, "one", "one")
        sagemaker.create_endpoint(EndpointName="one", EndpointConfigName="one")
        assert settled(sagemaker, "one")["EndpointStatus"] == "InService"
        arn = f"arn:aws:sagemaker:{guarded.region}:{ACCOUNT}:endpoint/one"
        invoke, call = allow("sagemaker:InvokeEndpoint", arn), allow("sagemaker:CallWithBearerToken", "*")
        cases = (
            ((invoke,), b"CallWithBearerToken"),
            ((call,), b"InvokeEndpoint"),
            ((invoke, call), EXPECTED.encode()),
        )
        for statements, expected in cases:
            signer: Any = Role(guarded, *statements).client("sagemaker")
            credentials = signer._request_signer._credentials
            bearer = f"Bearer {bearer_token(credentials, guarded.region, 900)}"
            _, content = ask(guarded, "one/openai/v1/chat/completions", bearer)
            assert expected in content, statements


def test_only_chat_completions_have_a_path(brisk: LocalCloud, served: str) -> None:
    for path in ("models", "completions", "embeddings"):
        status, _ = ask(brisk, f"{served}/openai/v1/{path}", f"Bearer {token(brisk)}")
        assert status >= 400, path


def test_a_request_of_another_form_gets_the_containers_error(brisk: LocalCloud, served: str) -> None:
    bearer = f"Bearer {token(brisk)}"
    status, content = ask(brisk, f"{served}/openai/v1/chat/completions", bearer, {"inputs": "Why?"})
    assert status == 400
    assert "messages" in json.loads(content)["error"]["message"]


def test_an_endpoint_that_does_not_exist_is_refused(brisk: LocalCloud, served: str) -> None:
    status, content = ask(brisk, "nowhere/openai/v1/chat/completions", f"Bearer {token(brisk)}")
    assert status == 400
    assert "nowhere" in content.decode()


@pytest.fixture
def client(brisk: LocalCloud, served: str) -> Iterator[openai.OpenAI]:
    """OpenAI's own client, with a new token for each request."""
    url = f"{brisk.environment()['AWS_ENDPOINT_URL']}/endpoints/{served}/openai/v1"
    with openai.OpenAI(base_url=url, api_key=lambda: token(brisk), max_retries=0) as made:
        yield made


def test_openais_client_gets_completions_streamed_and_whole(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="", messages=[{"role": "user", "content": "Why?"}])
    assert whole.choices[0].message.content == EXPECTED
    stream = client.chat.completions.create(model="", messages=[{"role": "user", "content": "Why?"}], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == EXPECTED


def test_openais_client_raises_an_error_for_a_wrong_token(client: openai.OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError, match="bearer token"):
        client.with_options(api_key="sk-1").chat.completions.create(
            model="", messages=[{"role": "user", "content": "Why?"}]
        )


def test_the_examples_client_prints_the_completion(brisk: LocalCloud, served: str) -> None:
    given = brisk.environment()
    url = f"{given['AWS_ENDPOINT_URL']}/endpoints/{served}/openai/v1"
    program = [sys.executable, str(CHECKOUT / "examples" / "clients" / "chat.py"), url, "Why?"]
    environment = {**os.environ, **given, "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.strip() == EXPECTED, ended.stderr


def test_an_evaluation_sends_its_requests_by_the_path(brisk: LocalCloud, served: str) -> None:
    given = brisk.environment()
    session = boto3.Session(given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"], region_name=brisk.region)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", given["AWS_ENDPOINT_URL"])
        target = OpenAITarget(session, served)

    async def exchange() -> Exchange:
        body = json.dumps({**CHAT, "stream": True}).encode()
        connection = Connection(target.server)
        try:
            return await connection.send(await target.request(body, ChatFormat.path), 30)
        finally:
            connection.close()

    found = asyncio.run(exchange())
    read = ChatFormat(found)
    for at, piece in found.pieces:
        read.feed(at, piece)
    record = read.finish()
    assert (record.error, record.text) == (None, EXPECTED)
