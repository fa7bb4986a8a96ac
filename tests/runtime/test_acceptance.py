"""The acceptance length of an evaluation: what CloudWatch is asked, for which time, and what its answers mean."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import EndpointConnectionError

from constructs_optim.runtime.evaluation import acceptance
from constructs_optim.runtime.evaluation.acceptance import seconds_until_published, with_acceptance
from constructs_optim.runtime.evaluation.benchmark_output import Level
from constructs_optim.runtime.requests.run_properties import Acceptance, EvaluationRequest, Gate

from .test_gate import request

NOW = 1_800_000_000.0


@pytest.mark.parametrize(("ago", "seconds"), [(-60, 180), (0, 180), (0.5, 180), (100, 80), (180, 0), (9_000, 0)])
def test_cloudwatch_has_all_metrics_three_minutes_after_the_end(
    ago: float, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance.time, "time", lambda: NOW)
    assert seconds_until_published(dt.datetime.fromtimestamp(NOW - ago, dt.UTC)) == seconds


def test_nothing_is_waited_for_if_the_end_is_not_known() -> None:
    assert seconds_until_published(None) == 0


class CloudWatch:
    """CloudWatch's PromQL: answers queries in order, with a body, a status or an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.answers, self.requests = list(answers), list[Any]()
        service = SimpleNamespace(endpoint_url="https://monitoring.us-west-2.amazonaws.com", region_name="us-west-2")
        clients = {"cloudwatch": SimpleNamespace(meta=service)}
        monkeypatch.setattr(acceptance, "client", lambda name: clients[name])
        self.credentials: Credentials | None = Credentials("key", "secret")
        monkeypatch.setattr(acceptance, "session", lambda: SimpleNamespace(get_credentials=lambda: self.credentials))
        monkeypatch.setattr(acceptance, "URLLib3Session", lambda timeout: self)

    def send(self, prepared: Any) -> Any:
        self.requests.append(prepared)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return SimpleNamespace(status_code=answer, content=value("9.5"), text="refused")
        return SimpleNamespace(status_code=200, content=answer, text="")

    @property
    def queries(self) -> list[dict[str, list[str]]]:
        return [parse_qs(each.body.decode() if isinstance(each.body, bytes) else each.body) for each in self.requests]


def value(text: object) -> bytes:
    return json.dumps({"data": {"result": [{"value": [NOW, text]}]}}).encode()


def level(users: int, *, ended: float | None = NOW) -> Level:
    return Level(users, 100.2, {"client_invocations": 10.0}, {}, ended)


def asked(drafts: str | None = "rate(drafts[$window])") -> EvaluationRequest:
    wanted = Acceptance(length="accepted[$window] / drafts[$window]", drafts=drafts)
    return request(Gate()).model_copy(update={"acceptance": wanted})


def test_a_recipe_without_speculation_has_no_acceptance_length(monkeypatch: pytest.MonkeyPatch) -> None:
    service = CloudWatch(monkeypatch)
    assert with_acceptance(request(Gate()), [level(1)]) == ([level(1)], [])
    assert service.requests == []


def test_a_level_is_asked_about_with_a_minute_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    service = CloudWatch(monkeypatch, value("2.5"), value("0.5"))
    (found,), notes = with_acceptance(asked(), [level(8)])
    # 100.2 seconds, rounded up, and a minute on each side.
    at = [f"{NOW + 60:.0f}"]
    assert service.queries == [
        {"query": ["accepted[221s] / drafts[221s]"], "time": at},
        {"query": ["rate(drafts[221s])"], "time": at},
    ]
    assert found.metrics == {"client_invocations": 10.0, "acceptance_length": 2.5, "drafts": 110}
    assert notes == []


def test_a_query_is_signed_for_cloudwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    service = CloudWatch(monkeypatch, value("2.5"))
    with_acceptance(asked(drafts=None), [level(8)])
    (sent,) = service.requests
    assert (sent.method, sent.url) == ("POST", "https://monitoring.us-west-2.amazonaws.com/api/v1/query")
    assert sent.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert "/us-west-2/monitoring/aws4_request" in str(sent.headers["Authorization"])


def test_without_its_rate_the_number_of_drafts_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for answers, of in (((value("2.5"),), asked(drafts=None)), ((value("2.5"), 400), asked())):
        CloudWatch(monkeypatch, *answers)
        (found,), notes = with_acceptance(of, [level(8)])
        assert (found.metrics["acceptance_length"], "drafts" in found.metrics, notes) == (2.5, False, [])


@pytest.mark.parametrize(
    "answer",
    [
        *(400, 503, b"not JSON", b"{}", b'{"data": {"result": []}}', b'{"data": {"result": [{"value": [1]}]}}'),
        *(value("NaN"), value("+Inf"), value("many"), value(None)),
        EndpointConnectionError(endpoint_url="https://monitoring.us-west-2.amazonaws.com"),
    ],
    ids=str,
)
def test_a_level_without_an_answer_keeps_its_metrics_and_is_noted(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    CloudWatch(monkeypatch, answer, value("2.5"))
    found, (note,) = with_acceptance(asked(drafts=None), [level(4), level(8)])
    assert [each.metrics.get("acceptance_length") for each in found] == [None, 2.5]
    assert note.startswith("CloudWatch has no acceptance length for the time with 4 users. PromQL finds")


def test_a_refused_query_is_logged_with_its_status(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    CloudWatch(monkeypatch, 400)
    with_acceptance(asked(drafts=None), [level(4)])
    (told,) = [vars(record) for record in caplog.records if record.message == "no acceptance length"]
    assert (told["status"], told["reason"]) == (400, "refused")


def test_a_level_whose_end_is_not_known_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    service = CloudWatch(monkeypatch)
    found, (note,) = with_acceptance(asked(), [level(4, ended=None), level(8, ended=None)])
    assert (found, service.requests) == ([level(4, ended=None), level(8, ended=None)], [])
    assert "for the time with 4 and 8 users" in note


def test_without_credentials_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    service = CloudWatch(monkeypatch)
    service.credentials = None
    (found,), (note,) = with_acceptance(asked(), [level(4)])
    assert (found, service.requests) == (level(4), [])
    assert "no acceptance length" in note
