from __future__ import annotations

import http.server
import json
import threading
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim.runtime import cloudformation


class Receiver:
    """What stands behind a pre-signed URL: answers with the statuses it is given, then with 200."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.received: list[tuple[str | None, dict[str, Any]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.received.append((self.headers["Content-Type"], json.loads(body)))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/signed?Signature=secret"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(cloudformation.time, "sleep", lambda _: None)
    server = Receiver()
    yield server
    server.close()


def event(receiver: Receiver) -> dict[str, str]:
    return {
        "ResponseURL": receiver.url,
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Job",
    }


def test_success_carries_the_identifiers_and_the_attributes(receiver: Receiver) -> None:
    cloudformation.respond(event(receiver), physical_id="key", data={"ArtifactKey": "key"})
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


def test_a_long_reason_is_shortened_to_fit_the_response(receiver: Receiver) -> None:
    cloudformation.respond(event(receiver), physical_id="key", failure="x" * 10_000)
    body = receiver.received[0][1]
    assert body["Status"] == "FAILED"
    assert len(json.dumps(body)) < 4096


def test_a_failing_server_is_tried_again(receiver: Receiver) -> None:
    receiver.statuses = [503, 500]
    cloudformation.signal(receiver.url, data="|image|uri|job|")
    assert len(receiver.received) == 3
    assert receiver.received[-1][1]["Data"] == "|image|uri|job|"


def test_a_repeated_signal_has_the_same_id_so_that_it_counts_once(receiver: Receiver) -> None:
    cloudformation.signal(receiver.url, data="a")
    cloudformation.signal(receiver.url, failure="b")
    assert receiver.received[0][1]["UniqueId"] == receiver.received[1][1]["UniqueId"]


@pytest.mark.parametrize("status", [403, 404])
def test_a_handle_that_is_gone_is_no_error(receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    cloudformation.signal(receiver.url, data="x")
    assert len(receiver.received) == 1


def test_a_response_that_cannot_be_delivered_is_an_error(receiver: Receiver) -> None:
    receiver.statuses = [403]
    with pytest.raises(urllib.error.HTTPError):
        cloudformation.respond(event(receiver), physical_id="key")


def test_the_signed_url_is_never_logged(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    receiver.statuses = [404]
    cloudformation.signal(receiver.url, data="x")
    assert "secret" not in capsys.readouterr().out
