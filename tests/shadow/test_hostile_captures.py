"""What clients send and models answer ends no shadow run: what cannot be judged is counted, and the run goes on."""

from __future__ import annotations

import datetime as dt
import io
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, get_args

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.shadow_properties import CheckKind, ShadowRequest
from constructs_optim.runtime.shadow import observation
from constructs_optim.runtime.shadow.captures import Pair, read_captures
from constructs_optim.runtime.shadow.checks import Check, outcome
from constructs_optim.runtime.shadow.observation import Observer, RunState
from constructs_optim.runtime.shadow.sequential_test import Counts

from .test_observation import REQUEST

KINDS: tuple[CheckKind, ...] = get_args(CheckKind)
ASKED: dict[str, Any] = {
    "messages": [{"role": "user", "content": "x"}],
    "temperature": 0,
    "parameters": {"temperature": 0},
    "response_format": {"type": "json_object"},
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {
                    "type": "object",
                    "required": ["a"],
                    "properties": {"a": {"type": "string", "enum": ["1"]}},
                    "additionalProperties": False,
                },
            },
        }
    ],
}
ANSWERED: dict[str, Any] = {
    "choices": [
        {
            "message": {"content": "{}", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": "1"}'}}]},
            "text": "{}",
            "logprobs": {
                "content": [{"top_logprobs": [{"token": "a", "logprob": -1.5}, {"token": "b", "logprob": -2}]}]
            },
        }
    ],
    "generated_text": "{}",
}
_JUNK = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 1e300, 10**300, "", "a", "f", "\u2028", "{", '{"a": [1]}']),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "name", "type"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value, itself included."""
    yield at
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*at, key))


def replaced(value: Any, at: tuple[Any, ...], new: object) -> Any:
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], new)
    return copy


def hostile(value: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The same JSON object with something else at one or two of its places."""

    def changed(drawn: tuple[tuple[Any, ...], object, int, object]) -> dict[str, Any]:
        first, new, second, other = drawn
        once = replaced(value, first, new)
        return replaced(once, found[second % len(found)], other) if (found := [*places(once)][1:]) else once

    inside = [*places(value)][1:]
    return st.tuples(st.sampled_from(inside), _JUNK, st.integers(0, 99), _JUNK).map(changed)


def record(request: object, answer: object, number: int = 1) -> bytes:
    parts = {"endpointInput": request, "endpointOutput": answer}
    data = {name: {"data": json.dumps(body), "encoding": "JSON"} for name, body in parts.items()}
    return json.dumps({"captureData": data, "eventMetadata": {"eventId": str(number)}}).encode() + b"\n"


@given(request=hostile(ASKED), production=hostile(ANSWERED), candidate=hostile(ANSWERED))
def test_every_check_has_an_outcome_for_whatever_was_captured(
    request: dict[str, Any], production: dict[str, Any], candidate: dict[str, Any]
) -> None:
    for answers in ((production, candidate), (ANSWERED, candidate), (production, ANSWERED), (ANSWERED, ANSWERED)):
        sent, copied = (read_captures(record(request, answer)).captures[0] for answer in answers)
        pair = Pair(sent.request, sent.response, copied.response)
        for kind in KINDS:
            found = outcome(Check(kind), pair, {"x": "y"}, lambda _: None)
            assert found is None or found.pairs == 1


@given(
    content=st.binary(max_size=60)
    | hostile(json.loads(record(ASKED, ANSWERED))).map(lambda each: json.dumps(each).encode())
    | st.text(max_size=40).map(
        lambda text: json.dumps(
            {"captureData": {"endpointInput": {"data": text, "encoding": "BASE64"}}}, ensure_ascii=False
        ).encode("utf-8", "replace")
    )
)
def test_every_file_of_captures_can_be_read(content: bytes) -> None:
    read = read_captures(content, answered=False)
    assert len(read.captures) + read.unusable <= content.count(b"\n") + 1


@pytest.mark.parametrize(
    ("text", "encoding", "is_usable"),
    [
        ("{}", "JSON", True),
        ("e30=", "BASE64", True),
        ("e30=!", "BASE64", False),
        ("{}", "BASE64", False),
        (5, "BASE64", False),
        (None, "BASE64", False),
        (5, "JSON", False),
    ],
)
def test_a_request_is_text_or_text_in_base64(text: object, encoding: str, *, is_usable: bool) -> None:
    side = {"data": text, "encoding": encoding}
    line = json.dumps({"captureData": {"endpointInput": side}}).encode()
    read = read_captures(line, answered=False)
    assert ([each.request for each in read.captures], read.unusable) == (([{}], 0) if is_usable else ([], 1))
    read = read_captures(line)
    assert (read.captures, read.unusable) == ([], 1), "the answer is missing"


@pytest.mark.parametrize("required", [[["a"]], [{}], [None, 1], {"a": 1}, "a"])
def test_names_that_a_schema_cannot_require_fail_no_answer(required: object) -> None:
    place = ("tools", 0, "function", "parameters", "required")
    pair = Pair(replaced(ASKED, place, required), ANSWERED, ANSWERED)
    assert outcome(Check("tool_calls"), pair, {}, None) == Counts(equal=1)


@pytest.mark.parametrize("kind", ["integer", "number", "string"])
def test_a_switch_is_no_number(kind: str) -> None:
    function = {"name": "f", "parameters": {"properties": {"a": {"type": kind}}}}
    for value in (True, False):
        call: dict[str, Any] = {
            "choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": {"a": value}}}]}}]
        }
        fitting: dict[str, Any] = {
            "choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}}]
        }
        assert outcome(Check("tool_calls"), Pair({"tools": [{"function": function}]}, fitting, call), {}, None) == (
            Counts(worse=1)
        )


Watched = Callable[..., tuple[Observer, RunState]]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The lines about pairs that were not judged."""
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(observation, "log", lambda event, **fields: lines.append({"event": event, **fields}))
    return lines


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """An observer of a file with these requests for each variant, and its state."""

    def made(
        requests: list[dict[str, Any]],
        *,
        check: dict[str, Any],
        judge: Any = None,
        answer: object = ANSWERED,
        before: Any = (),
    ) -> tuple[Observer, RunState]:
        now = dt.datetime.now(dt.UTC)
        content = b"".join(record(each, answer, number) for number, each in enumerate(requests))

        def paginate(*, Prefix: str, **_: Any) -> list[dict[str, Any]]:  # noqa: N803 - boto3's
            return [{"Contents": [{"Key": f"{Prefix}{now:%Y/%m/%d/%H}/a.jsonl", "LastModified": now}]}]

        storage = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=paginate))
        functions = SimpleNamespace(invoke=judge)
        monkeypatch.setattr(observation, "client", lambda name, *_: functions if name == "lambda" else storage)
        monkeypatch.setattr(observation, "get_object", lambda *_: {"Body": io.BytesIO(content)})
        monkeypatch.setattr(Observer, "_read_metrics", lambda self, now: None)
        request = validate(
            ShadowRequest, {**json.loads(REQUEST.model_dump_json(by_alias=True)), "Checks": [*before, check]}
        )
        state = RunState(began=now.timestamp() - 60, minute=now.timestamp())
        return Observer(request, state), state

    return made


def requests(count: int) -> list[dict[str, Any]]:
    """Requests of which no two have the same prompt."""
    return [
        {**ASKED, "user": f"someone {number}", "messages": [{"role": "user", "content": f"x{number}"}]}
        for number in range(count)
    ]


def test_a_pair_that_no_check_expected_is_counted_and_told_and_the_others_are_compared(
    watched: Watched, logged: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = observation.outcome

    def failing(check: Check, pair: Pair, *more: Any) -> Counts | None:
        if pair.request["user"] in ("someone 3", "someone 4"):
            raise TypeError(f"unexpected: {pair.request}")
        return real(check, pair, *more)

    monkeypatch.setattr(observation, "outcome", failing)
    observer, state = watched(requests(9), check={"Kind": "answered"})
    assert observer.observe(time.time()) is False
    assert (state.observed.pairs, state.observed.answers[0].equal, state.unjudged) == (9, 7, 2)
    [line] = logged
    assert (line["pairs"], line["reason"]) == (2, "answered: TypeError")
    assert "someone" not in str(line), "what users wrote is not logged"


def answers(payload: bytes) -> dict[str, Any]:
    return {"Payload": io.BytesIO(payload)}


def refused(code: str) -> NoReturn:
    raise ClientError({"Error": {"Code": code, "Message": ""}}, "Invoke")


def silent(**_: Any) -> NoReturn:
    raise ReadTimeoutError(endpoint_url="https://lambda")


JUDGE = {"Kind": "judge", "Judge": "arn:aws:lambda:us-west-2:111122223333:function:judge"}


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (lambda **_: answers(b"no JSON"), "the judge did not answer in JSON"),
        (lambda **_: {**answers(b'{"errorMessage": "x"}'), "FunctionError": "Unhandled"}, "the judge failed"),
        (lambda **_: refused("RequestTooLargeException"), "too large for the judge"),
        (lambda **_: refused("RequestEntityTooLargeException"), "too large for the judge"),
        (silent, "the judge did not answer in time"),
        (lambda **_: answers(b'{"production": true, "candidate": null}'), "the judge gave no verdict"),
        (lambda **_: answers(b'{"production": true, "candidate": 1}'), "the judge gave no verdict"),
    ],
)
def test_a_pair_that_the_judge_cannot_judge_is_counted(
    judge: Any, reason: str, watched: Watched, logged: list[dict[str, Any]]
) -> None:
    observer, state = watched(requests(3), check=JUDGE, judge=judge)
    observer.observe(time.time())
    assert (state.observed.pairs, state.observed.answers[0].counts.pairs, state.unjudged) == (3, 0, 3)
    assert [(line["pairs"], line["reason"]) for line in logged] == [(3, reason)]


def test_the_judge_gets_the_request_and_both_answers(watched: Watched) -> None:
    calls: list[dict[str, Any]] = []

    def judge(**call: Any) -> dict[str, Any]:
        calls.append(call)
        return answers(b'{"production": true, "candidate": false}')

    asked = {**ASKED, "user": "J\u00fcrgen"}
    observer, state = watched([asked], check=JUDGE, judge=judge, before=[{"Kind": "answered"}])
    observer.observe(time.time())
    assert state.observed.answers[1].worse == 1
    (call,) = calls
    assert call["FunctionName"] == JUDGE["Judge"]
    assert json.loads(call["Payload"]) == {"request": asked, "production": ANSWERED, "candidate": ANSWERED}
    # A character that is escaped would count six times towards the size.
    assert "J\u00fcrgen".encode() in call["Payload"]


def test_a_pair_that_is_larger_than_lambda_s_quota_is_not_sent_to_the_judge(watched: Watched) -> None:
    sent: list[int] = []

    def judge(**call: Any) -> dict[str, Any]:
        sent.append(len(call["Payload"]))
        return answers(b'{"production": true, "candidate": true}')

    large = {**ASKED, "user": "x" * 6_000_000}
    observer, state = watched([large, *requests(2)], check=JUDGE, judge=judge)
    observer.observe(time.time())
    assert (state.observed.answers[0].equal, state.unjudged) == (2, 1)
    assert max(sent) < 6_000_000
    assert len(sent) == 2


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "AccessDeniedException", "TooManyRequestsException"])
def test_a_judge_that_cannot_be_called_at_all_is_tried_again_with_the_next_poll(code: str, watched: Watched) -> None:
    observer, _ = watched(requests(3), check=JUDGE, judge=lambda **_: refused(code))
    with pytest.raises(ClientError):
        observer.observe(time.time())


def test_a_slow_judge_s_pairs_wait_for_the_next_poll_and_each_is_judged_once(watched: Watched) -> None:
    judged: list[str] = []

    def judge(**call: Any) -> dict[str, Any]:
        judged.append(json.loads(call["Payload"])["request"]["user"])
        return answers(b'{"production": true, "candidate": true}')

    observer, state = watched(requests(8), check=JUDGE, judge=judge)
    for polls in range(1, 9):
        # No time at all is left, and the record is stored between polls.
        assert observer.observe(time.time(), until=0.0) is (polls < 8)
        stored = RunState.model_validate_json(state.model_dump_json())
        observer._state, state = stored, stored
        observer._contents.clear()
    assert judged == [f"someone {number}" for number in range(8)]
    assert (state.observed.pairs, state.production.waiting, state.candidate.waiting, state.files) == (8, [], [], [])
