"""The bodies of requests: read after the caller is known, up to a limit, in a linear time."""

from __future__ import annotations

import asyncio
import http.client
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from constructs_optim_local.access.credentials import ACCOUNT
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.faults import Faults
from constructs_optim_local.server.authentication import Authentication
from constructs_optim_local.server.bodies import LONGEST_BODY, BodyTooLong, Disconnected, read_body
from constructs_optim_local.server.handler_calls import HandlerCalls

from ..support.local_cloud import BUCKET

PART = b"x" * 1024
HALF = b"x" * (LONGEST_BODY // 2)
CALLBACK = "/_ministack/cfn-response/any"
REFUSED = 403, {"Content-Type": "text/plain"}, b"refused"


class Client:
    """The client of an ASGI application, which counts how much of its body is read."""

    def __init__(self, parts: int, *, leaves: bool = False, part: bytes = PART) -> None:
        self._messages = self._sent(parts, leaves, part)
        self.read, self.statuses = 0, list[int]()

    @staticmethod
    def _sent(parts: int, leaves: bool, part: bytes) -> Iterator[dict[str, Any]]:
        for number in range(parts):
            yield {"type": "http.request", "body": part, "more_body": leaves or number < parts - 1}
        while True:
            yield {"type": "http.disconnect"}

    async def receive(self) -> dict[str, Any]:
        message = next(self._messages)
        self.read += len(message.get("body", b""))
        return message

    async def send(self, message: dict[str, Any]) -> None:
        if "status" in message:
            self.statuses.append(message["status"])


class Inner:
    """The application behind the authentication."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})


def asked(
    client: Client,
    *,
    method: str = "POST",
    path: str = "/",
    verify: Callable[..., Any] = lambda *check: None,
    **headers: str,
) -> Inner:
    """The application behind the authentication, after a client's request."""
    inner = Inner()
    asyncio.run(guarded(inner, verify)(requested(method, path, **headers), client.receive, client.send))
    return inner


def guarded(inner: Inner, verify: Callable[..., Any] = lambda *check: None) -> Authentication:
    """The application behind the authentication, for requests whose signatures need the body."""
    return Authentication(inner, port=1, verify=verify, needs_body=lambda *given: True, sign=lambda *given: {})


def requested(method: str = "POST", path: str = "/", **headers: str) -> dict[str, Any]:
    given = {"host": "127.0.0.1:1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


def test_a_body_is_joined_once_and_never_read_beyond_its_limit() -> None:
    client = Client(10)
    assert asyncio.run(read_body(client.receive, 10 * len(PART))) == 10 * PART
    client = Client(10)
    with pytest.raises(BodyTooLong) as refused:
        asyncio.run(read_body(client.receive, 2 * len(PART) + 1))
    assert refused.value.start == (3 * PART)[: 2 * len(PART) + 2]
    assert client.read == 3 * len(PART)
    with pytest.raises(Disconnected):
        asyncio.run(read_body(Client(3, leaves=True).receive, 10 * len(PART)))


def test_nothing_of_a_refused_request_is_read() -> None:
    client = Client(10)
    assert asked(client, verify=lambda *check: REFUSED).bodies == []
    assert (client.read, client.statuses) == (0, [403])


def test_nothing_is_read_of_a_request_with_an_invalid_bearer_token() -> None:
    client = Client(10)
    path = "/endpoints/any/openai/v1/chat/completions"
    assert asked(client, path=path, authorization="Bearer none").bodies == []
    assert (client.read, client.statuses) == (0, [403])


def test_a_body_is_verified_with_the_signature_before_it_is_passed_on() -> None:
    client, checks = Client(2), list[bytes | None]()

    def verify(*check: Any) -> Any:
        checks.append(check[-1])
        return REFUSED if check[-1] is not None else None

    assert asked(client, verify=verify).bodies == []
    assert (checks, client.statuses) == ([None, 2 * PART], [403])


def test_a_body_that_declares_more_than_the_largest_request_is_not_read() -> None:
    client = Client(10)
    assert asked(client, content_length=str(LONGEST_BODY + 1)).bodies == []
    assert (client.read, client.statuses) == (0, [413])


def test_bodies_that_are_not_verified_yet_have_little_room_together() -> None:
    first, second, small, later = (
        Client(parts, part=part) for parts, part in [(2, HALF), (2, HALF), (1, PART), (2, HALF)]
    )
    inner = Inner()

    async def ask() -> None:
        application, others_came = guarded(inner), asyncio.Event()

        async def slow() -> dict[str, Any]:
            if first.read:
                await others_came.wait()
            return await first.receive()

        waiting = asyncio.create_task(application(requested(), slow, first.send))
        while not first.read:
            await asyncio.sleep(0)
        for client in (second, small):
            await application(requested(), client.receive, client.send)
        others_came.set()
        await waiting
        await application(requested(), later.receive, later.send)

    asyncio.run(ask())
    assert [client.statuses for client in (first, second, small, later)] == [[200], [503], [200], [200]]
    assert [len(body) for body in inner.bodies] == [len(PART), 2 * len(HALF), 2 * len(HALF)]


def test_a_body_that_is_refused_leaves_its_room_to_others() -> None:
    application = guarded(Inner(), lambda *check: None if check[-1] is None else REFUSED)
    clients = [Client(2, part=HALF) for _ in range(3)]
    for client in clients:
        asyncio.run(application(requested(), client.receive, client.send))
    assert [client.statuses for client in clients] == [[403]] * 3


def test_a_request_whose_client_leaves_early_is_not_served() -> None:
    client = Client(3, leaves=True)
    assert asked(client).bodies == []
    assert client.statuses == []


def test_a_callback_is_read_up_to_the_length_that_cloudformation_takes() -> None:
    client = Client(100)
    inner = asked(client, method="PUT", path=CALLBACK)
    assert (client.read, [len(body) for body in inner.bodies]) == (5 * len(PART), [4_097])
    assert client.statuses == [200], "the service says what becomes of it"


def test_a_function_that_leaves_early_makes_no_call() -> None:
    inner = Inner()
    calls: Any = None
    application = HandlerCalls(inner, faults=Faults(), calls=calls, kill=lambda: None)
    client = Client(3, leaves=True)
    scope = {"type": "http", "method": "PUT", "path": CALLBACK, "headers": []}
    asyncio.run(application(scope, client.receive, client.send))
    assert (inner.bodies, client.statuses) == ([], [])


@pytest.mark.parametrize("signer", ["none", "unknown key", "S3", "S3 in the URL"])
def test_the_response_to_an_unknown_caller_does_not_wait_for_the_body(cloud: LocalCloud, signer: str) -> None:
    url = f"{cloud.endpoint_url}/{BUCKET}/key"
    request = AWSRequest("PUT", url, headers={"Content-Length": "100000000"}, data=b"")
    key = "AKIAIOSFODNN7EXAMPLE" if signer == "unknown key" else ACCOUNT
    given = Credentials(key, "not the secret"), "s3", cloud.region
    signers = {"unknown key": SigV4Auth, "S3": S3SigV4Auth, "S3 in the URL": S3SigV4QueryAuth}
    if signer in signers:
        signers[signer](*given).add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=20)
    connection.putrequest("PUT", str(request.url).removeprefix(cloud.endpoint_url))
    for name, value in dict(request.headers).items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.parametrize("query", ["X-Amz-Credential=key/20261122/us-west-2/s3/aws4_request", "AWSAccessKeyId=key"])
def test_a_second_signature_in_the_url_makes_no_body_longer(cloud: LocalCloud, query: str) -> None:
    request = AWSRequest("POST", f"{cloud.endpoint_url}/", headers={"Content-Length": "100000000"}, data=b"")
    SigV4Auth(Credentials(ACCOUNT, "not the secret"), "sts", cloud.region).add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=20)
    connection.putrequest("POST", f"/?{query}")
    for name, value in dict(request.headers).items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_callback_with_too_many_bytes_is_answered_without_the_rest(cloud: LocalCloud) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=20)
    connection.putrequest("PUT", f"/_ministack/cfn-response/{uuid.uuid4()}")
    connection.putheader("Content-Length", "100000000")
    connection.endheaders(b"x" * 8_192)
    assert connection.getresponse().status == 200
    connection.close()


def test_a_signed_body_is_served(cloud: LocalCloud) -> None:
    s3 = cloud.client("s3")
    s3.put_object(Bucket=BUCKET, Key="large", Body=b"y" * 2_000_000)
    assert len(s3.get_object(Bucket=BUCKET, Key="large")["Body"].read()) == 2_000_000
    given = {"name": "/large", "value": json.dumps([1] * 1_000), "type": "String"}
    cloud.client("ssm").put_parameter(**{key.title(): value for key, value in given.items()})
