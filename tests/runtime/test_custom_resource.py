from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.error
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from constructs_optim.runtime import custom_resource

from ..support.custom_resource_events import custom_resource_event
from ..support.lambda_context import LambdaContext


class Receiver:
    """What stands behind a pre-signed URL: answers with the statuses it is given, then with 200."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.clear()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.payloads.append(body)
                outer.received.append((self.headers["Content-Type"], json.loads(body)))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/signed?Signature=secret"

    def clear(self) -> None:
        self.received: list[tuple[str | None, dict[str, Any]]] = []
        self.payloads: list[bytes] = []

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(custom_resource.time, "sleep", lambda _: None)
    server = Receiver()
    yield server
    server.close()


def event(receiver: Receiver) -> dict[str, Any]:
    return custom_resource_event(
        "Create", receiver.url, stack_id="stack", request_id="request", logical_id="Job", properties={}
    )


def test_success_carries_the_identifiers_and_the_attributes(receiver: Receiver) -> None:
    custom_resource.respond(event(receiver), physical_id="key", data={"ArtifactKey": "key"})
    content_type, body = receiver.received[0]
    assert content_type == "", "a pre-signed URL is signed for an empty content type"
    assert body == {
        "Status": "SUCCESS",
        "Reason": "done",
        "PhysicalResourceId": "key",
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Job",
        "Data": {"ArtifactKey": "key"},
    }


# What custom resource response objects and the signals of wait conditions may have ("4096 bytes").
_MOST_BYTES = 4096
_FIXTURES = settings(derandomize=True)
# Any text at all, and texts that are too long whatever their characters take.
_texts = st.text() | st.builds(lambda text, times: text * times, st.text(min_size=1), st.integers(100, 6000))


@_FIXTURES
@given(failure=_texts)
@example(failure="x" * 10_000)
@example(failure="\N{HIRAGANA LETTER A}" * 1024)
@example(failure="\N{GRINNING FACE}" * 1024)
@example(failure='\x00"\\' * 2000)
@example(failure="\ud83d" * 5000)
def test_a_reason_of_any_text_fits_the_cloudformation_response_limit(receiver: Receiver, failure: str) -> None:
    receiver.clear()
    custom_resource.respond(event(receiver), physical_id="k" * 64, failure=failure)
    custom_resource.signal(receiver.url, failure=failure, data="|image|uri|job|")
    for payload, (_, body) in zip(receiver.payloads, receiver.received, strict=True):
        assert len(payload) <= _MOST_BYTES
        assert body["Status"] in ("FAILED", "FAILURE")
        # What the reason keeps is the beginning of the text, in whole characters.
        kept, whole = body["Reason"], custom_resource.redacted(failure or "done").encode(errors="replace").decode()
        if failure and kept != whole:
            assert kept.endswith("...")
            assert whole.startswith(kept.removesuffix("..."))
            assert len(payload) > _MOST_BYTES - 128, "and no more is cut than must be"


def test_a_signal_is_retried_after_a_server_error(receiver: Receiver) -> None:
    receiver.statuses = [503, 500]
    custom_resource.signal(receiver.url, data="|image|uri|job|")
    assert len(receiver.received) == 3
    assert receiver.received[-1][1]["Data"] == "|image|uri|job|"


def test_a_server_that_stays_ill_is_an_error_after_five_tries(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(custom_resource.time, "sleep", waited.append)
    receiver.statuses = [500] * 9
    with pytest.raises(urllib.error.HTTPError):
        custom_resource.respond(event(receiver), physical_id="key")
    assert (len(receiver.received), waited) == (5, [0.4, 0.8, 1.6, 3.2])


def test_a_server_that_cannot_be_reached_is_an_error_after_five_tries(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(custom_resource.time, "sleep", waited.append)
    receiver.close()
    with pytest.raises(urllib.error.URLError):
        custom_resource.respond(event(receiver), physical_id="key")
    assert waited == [0.4, 0.8, 1.6, 3.2]


def test_a_repeated_signal_has_the_same_id_so_that_it_counts_once(receiver: Receiver) -> None:
    custom_resource.signal(receiver.url, data="a")
    custom_resource.signal(receiver.url, failure="b")
    assert receiver.received[0][1]["UniqueId"] == receiver.received[1][1]["UniqueId"]


@pytest.mark.parametrize("status", [403, 404])
def test_an_expired_wait_handle_is_no_error(receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    custom_resource.signal(receiver.url, data="x")
    assert len(receiver.received) == 1


def test_a_response_that_cannot_be_delivered_is_an_error(receiver: Receiver) -> None:
    receiver.statuses = [403]
    with pytest.raises(urllib.error.HTTPError):
        custom_resource.respond(event(receiver), physical_id="key")


def test_the_signed_url_is_never_logged(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    receiver.statuses = [404]
    custom_resource.signal(receiver.url, data="x")
    assert "secret" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        ("AccessDeniedException", "not authorized", "SUCCESS"),
        ("ValidationException", "Could not assume role", "SUCCESS"),
        ("ValidationException", "2 validation errors", "FAILED"),
    ],
)
def test_a_request_is_repeated_while_permissions_may_not_be_effective_yet(
    receiver: Receiver, code: str, message: str, status: str
) -> None:
    refusals = [ClientError({"Error": {"Code": code, "Message": message}}, "CreateModel")]

    def ensure(event: custom_resource.Event) -> tuple[str, dict[str, str]]:
        if refusals:
            raise refusals.pop()
        return "key", {}

    stack = "arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1"
    create: Any = {**event(receiver), "StackId": stack, "RequestType": "Create", "ResourceProperties": {}}
    custom_resource.custom_resource(ensure=ensure, delete=lambda event: None)(create, LambdaContext(180))
    ((_, body),) = receiver.received
    assert body["Status"] == status
    assert (code in body["Reason"]) is (status == "FAILED")


def test_permissions_are_waited_for_with_longer_pauses_for_half_of_the_time(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(
        custom_resource, "time", SimpleNamespace(monotonic=lambda: sum(waited), sleep=waited.append, time=time.time)
    )
    stack = "arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1"
    create: Any = {**event(receiver), "StackId": stack, "ResourceProperties": {}}
    custom_resource.custom_resource(ensure=_denied, delete=_denied)(create, LambdaContext(60))
    assert waited == [1, 2, 4, 8, 8]
    assert receiver.received[-1][1]["Status"] == "FAILED"


@pytest.mark.parametrize(
    ("kind", "known", "expected"),
    [
        ("Create", None, "not-created-request"),
        ("Update", "made", "made"),
        ("Delete", "made", "made"),
    ],
)
def test_a_failure_leaves_the_physical_id_as_it_is(
    receiver: Receiver, kind: str, known: str | None, expected: str
) -> None:
    """With another one, CloudFormation would delete the resource that still serves."""
    given: Any = {**event(receiver), "RequestType": kind, "ResourceProperties": {}}
    given |= {"PhysicalResourceId": known} if known is not None else {}
    custom_resource.custom_resource(ensure=_unlogged, delete=_unlogged)(given, LambdaContext())
    (_, body) = receiver.received[-1]
    assert (body["Status"], body["PhysicalResourceId"]) == ("FAILED", expected)


def test_an_unexpected_failure_names_the_log_group(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/jobs")
    given: Any = {**event(receiver), "ResourceProperties": {}}
    custom_resource.custom_resource(ensure=_unlogged, delete=_unlogged)(given, LambdaContext())
    (_, body) = receiver.received[-1]
    assert "unexpected ValueError: the log line cannot be written" in body["Reason"]
    assert body["Reason"].endswith(" /aws/lambda/jobs")


def _denied(_: Any) -> Any:
    raise ClientError({"Error": {"Code": "AccessDenied", "Message": "denied"}}, "GetObject")


def _unlogged(*_: Any, **__: Any) -> None:
    raise ValueError("the log line cannot be written")


@pytest.mark.parametrize("missing", ["StackId", "LogicalResourceId", "RequestType", "ResourceProperties"])
@pytest.mark.parametrize("kind", ["Create", "Delete"])
def test_an_incomplete_request_is_answered(receiver: Receiver, kind: str, missing: str) -> None:
    whole = {**event(receiver), "RequestType": kind, "ResourceProperties": {"Bucket": "store"}}
    given: Any = {name: value for name, value in whole.items() if name != missing}
    handler = custom_resource.custom_resource(ensure=_denied, delete=lambda event: event["ResourceProperties"].clear())
    handler(given, LambdaContext(0.1))
    ((_, body),) = receiver.received
    assert body["RequestId"] == "request"
    assert (body["Status"] == "FAILED") is (kind == "Create" or missing in ("RequestType", "ResourceProperties"))


@pytest.mark.parametrize("broken", ["the stack's ID", "log", "redacted"])
def test_a_fault_while_a_reason_is_written_is_answered_with_a_constant_reason(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    stack = "stack" if broken == "the stack's ID" else "arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1"
    given: Any = {
        **event(receiver),
        "StackId": stack,
        "RequestType": "Create",
        "ResourceProperties": {"Bucket": "store"},
    }
    with monkeypatch.context() as patched:
        if broken == "redacted":
            patched.setattr(custom_resource, "redacted", _unlogged)
        if broken == "log":
            patched.setattr(custom_resource, "log", _unlogged)
        custom_resource.custom_resource(ensure=_denied, delete=_denied)(given, LambdaContext(0.1))
    ((_, body),) = receiver.received
    assert body["Status"] == "FAILED"
    assert "see the function's log" in body["Reason"]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("X-Amz-Date=20261121T120000Z&X-Amz-Expires=7200", 1795262400),
        ("X-Amz-Expires=7200&X-Amz-Date=20261121T120001Z", 1795262401),
        ("X-Amz-Date=2026-11-21", 0),
        ("X-Amz-Date=", 0),
        ("Expires=1795262400", 0),
        ("", 0),
    ],
)
def test_a_request_was_sent_when_its_url_was_signed(query: str, seconds: int) -> None:
    assert custom_resource.issued_at(f"https://cloudformation.example/response?{query}") == seconds


def failed(code: str, status: int = 400) -> ClientError:
    error: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, "PutObject")


SHARED = (
    "the store artifacts, that account must share it with this one, 111122223333 (ArtifactStore.share_with_account)"
)


@pytest.mark.parametrize(
    ("error", "properties", "ending"),
    [
        (failed("ValidationException"), {}, "PutObject failed with ValidationException: no"),
        (failed("Unheard", 499), {}, "PutObject failed with Unheard: no"),
        (failed("Unheard", 500), {}, "PutObject failed with Unheard: no. Next: the service failed; deploy again"),
        (failed("NoSuchBucket", 404), {}, "does not exist; create it again, or use another store"),
        # What is known of an error is said whatever its status.
        (failed("SlowDown", 503), {}, "Next: S3 kept throttling the call; deploy again"),
        (failed("ThrottlingException"), {}, "Next: the service kept throttling the call; deploy again"),
        (failed("KMS.DisabledException"), {}, "Next: enable the artifact store's KMS key, then deploy again"),
        (failed("KMS.KMSInvalidStateException"), {}, "KMS key, or cancel its deletion, then deploy again"),
        (failed("KMS.NotFoundException"), {}, "the artifact store's KMS key does not exist; use another key"),
        (failed("AccessDenied", 403), {}, "may deny what the role's own policy allows"),
        (failed("AccessDeniedException", 403), {"Bucket": "artifacts"}, SHARED),
        (failed("ResourceLimitExceeded"), {"Bucket": "artifacts"}, "when other jobs have ended"),
        (
            EndpointConnectionError(endpoint_url="https://s3"),
            {},
            "Next: the service could not be reached; deploy again",
        ),
    ],
)
def test_an_error_of_a_service_is_answered_with_the_next_step(
    receiver: Receiver, error: Exception, properties: dict[str, Any], ending: str
) -> None:
    def fails(_: Any) -> NoReturn:
        raise error

    given: Any = event(receiver) | {
        "RequestType": "Delete",
        "ResourceProperties": properties,
        "StackId": "arn:aws:cloudformation:us-west-2:111122223333:stack/Chat/1",
    }
    custom_resource.custom_resource(ensure=fails, delete=fails)(given, LambdaContext())
    (_, body) = receiver.received[-1]
    assert body["Status"] == "FAILED"
    assert body["Reason"].endswith(ending), body["Reason"]
