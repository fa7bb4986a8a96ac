"""Captured traffic as prompts, as a workload for AIPerf, and as training data."""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.evaluator.datasets import read_prompts
from constructs_optim.operations.captures import CaptureFormat, Written, exported, files_of
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.evaluation.completions import read_prompts as read_gate_prompts
from constructs_optim.runtime.shadow.captures import read_captures

CHAT = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}], "max_tokens": 9}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}], "usage": {"prompt_tokens": 12}}
CAPTURES, PROMPTS, TEXT = CaptureFormat.CAPTURES, CaptureFormat.PROMPTS, CaptureFormat.TEXT


def record(request: Any, answer: Any = ANSWER, *, number: int = 1, encoding: str = "JSON") -> dict[str, Any]:
    """A record as data capture writes it."""

    def data(body: Any) -> str:
        text = json.dumps(body)
        return text if encoding == "JSON" else base64.b64encode(text.encode()).decode()

    parts = {"endpointInput": ("INPUT", request), "endpointOutput": ("OUTPUT", answer)}
    return {
        "captureData": {
            name: {
                "observedContentType": "application/json",
                "mode": mode,
                "data": data(body),
                "encoding": encoding,
            }
            for name, (mode, body) in parts.items()
            if body is not None
        },
        "eventMetadata": {"eventId": f"event-{number}", "inferenceTime": f"2026-11-07T10:00:{number % 60:02}Z"},
        "eventVersion": "0",
    }


def file(*records: Any) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def lines(content: bytes, form: CaptureFormat, **options: Any) -> tuple[list[dict[str, Any]], Written]:
    counts = Written()
    return [json.loads(line) for line in exported([content], form, counts, **options)], counts


def test_captures_are_written_as_records_that_aiperf_and_the_reader_of_captures_take() -> None:
    found, counts = lines(file(record(CHAT), record(CHAT, number=2, encoding="BASE64")), CAPTURES)
    assert (counts.read, counts.written) == (2, 2)
    # aiperf 0.13, sagemaker_data_capture.py: inferenceTime in ISO 8601, and JSON with messages.
    for each in found:
        dt.datetime.fromisoformat(each["eventMetadata"]["inferenceTime"])
        sent = each["captureData"]["endpointInput"]
        assert (sent["encoding"], json.loads(sent["data"])) == ("JSON", CHAT)
        assert json.loads(each["captureData"]["endpointOutput"]["data"])["usage"] == {"prompt_tokens": 12}
    [first, second] = read_captures(file(*found)).captures
    assert (first.request, first.response, first.event_id) == (CHAT, ANSWER, "event-1")
    assert second.inference_time == "2026-11-07T10:00:02Z"


def test_prompts_are_those_that_evaluations_read(tmp_path: Path) -> None:
    completion = {"prompt": "Once", "max_tokens": 5}
    text = {"inputs": "Once upon", "parameters": {"max_new_tokens": 5}}
    found, _ = lines(file(record(CHAT), record(completion), record(text, answer=None)), PROMPTS)
    written = tmp_path / "prompts.jsonl"
    written.write_bytes(file(*found))
    chat, plain, last = read_prompts(written)
    assert (chat.as_messages(), chat.max_tokens) == (CHAT["messages"], 9)
    assert (plain.inputs, plain.max_tokens, last.inputs) == ("Once", 5, "Once upon")
    assert len(read_gate_prompts(file(*found), "s3://b/k", most=9, max_tokens=5, form="prompt")) == 3


_VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -5, 9, 1.5, 10**40, "", " ", "Hi", "user", "a\u2028b", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "a"]), inner),
    max_leaves=6,
)
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.just("user") | _VALUES}, optional={"content": _VALUES, "name": _VALUES})
    | _VALUES,
    max_size=3,
)


@settings(deadline=None)
@given(
    requests=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "messages": _MESSAGES | _VALUES,
                "prompt": _VALUES,
                "inputs": _VALUES,
                "max_tokens": _VALUES,
                "max_completion_tokens": _VALUES,
                "text": _VALUES,
                "turns": _VALUES,
            },
        ),
        min_size=1,
        max_size=4,
    ),
    redact=st.booleans(),
)
def test_prompts_of_any_requests_are_those_that_evaluations_read(
    requests: list[dict[str, Any]], redact: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counts = Written()
    content = file(*(record(request, number=number) for number, request in enumerate(requests)))
    written = [*exported([content], PROMPTS, counts, redact=redact)]
    assert len(written) == counts.written == counts.read - counts.unusable
    if not written:
        return
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    path.write_text("".join(f"{line}\n" for line in written), encoding="utf-8", errors="replace")
    assert len(read_prompts(path)) == len(written)
    assert len(read_gate_prompts(path.read_bytes(), "s3://b/k", most=9, max_tokens=5, form="prompt")) == len(written)


@pytest.mark.parametrize("limit", [True, -5, 0, 1.5, "9", [9]])
def test_a_limit_that_is_none_is_left_out_of_prompts_and_counted(limit: object) -> None:
    found, counts = lines(file(record({**CHAT, "max_tokens": limit}), record({**CHAT, "max_tokens": None})), PROMPTS)
    assert [each.keys() for each in found] == [{"messages"}, {"messages"}]
    assert (counts.written, counts.unlimited) == (2, 1)
    [other], counts = lines(file(record({**CHAT, "max_tokens": limit, "max_completion_tokens": 7})), PROMPTS)
    assert (other["max_tokens"], counts.unlimited) == (7, 0)


@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [{"type": "function", "function": {"name": "weather"}}]},
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"choice": ["yes", "no"]}},
    ],
    ids=lambda asked: next(iter(asked)),
)
@pytest.mark.parametrize(("form", "number"), [(CAPTURES, 0), (PROMPTS, 1), (TEXT, 1)])
def test_requests_whose_tools_a_form_leaves_out_are_counted(
    form: CaptureFormat, number: int, asked: dict[str, Any]
) -> None:
    found, counts = lines(file(record({**CHAT, **asked}), record(CHAT)), form)
    assert (len(found), counts.formless) == (2, number)


@pytest.mark.parametrize("form", [CAPTURES, PROMPTS])
@pytest.mark.parametrize("message", [5, None, [1], "Hi", {}, {"content": "Hi"}, {"role": 1, "content": "Hi"}])
def test_a_chat_with_something_else_than_messages_is_left_out_and_counted(form: CaptureFormat, message: object) -> None:
    found, counts = lines(file(record({"messages": [*CHAT["messages"], message], "prompt": "Hi"}), record(CHAT)), form)
    assert (len(found), counts.unusable) == (1, 1)


def test_a_message_that_only_calls_tools_has_no_content() -> None:
    called = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    [found], _ = lines(file(record({"messages": [*CHAT["messages"], called, *CHAT["messages"][1:]]})), PROMPTS)
    assert found["messages"][2] == {**called, "content": None}


def test_text_is_what_a_workload_of_the_cloud_reads() -> None:
    found, counts = lines(file(record(CHAT), record({"inputs": "Once"}), record({"messages": []})), TEXT)
    assert found == [{"text": "Be brief.\nHello"}, {"text": "Once"}]
    assert (counts.read, counts.written, counts.unusable) == (3, 2, 1)


def test_what_has_no_chat_is_left_out_of_captures_and_counted() -> None:
    # aiperf fails at the first record without messages.
    found, counts = lines(file(record({"inputs": "Once"}), record(CHAT)), CAPTURES)
    assert (len(found), counts.unusable) == (1, 1)


NESTED = '{"messages": [{"role": "user", "content": "Hi"}], "metadata": ' + '{"a":' * 1_500 + "1" + "}" * 1_501
HALF = r'{"messages": [{"role": "user", "content": "Hi \ud800"}]}'


@pytest.mark.parametrize("form", [CAPTURES, PROMPTS])
@pytest.mark.parametrize("encoding", ["JSON", "BASE64"])
def test_a_request_that_cannot_be_read_is_counted_and_others_are_written(form: CaptureFormat, encoding: str) -> None:
    nested, half = record(CHAT, number=1, encoding=encoding), record(CHAT, number=2, encoding=encoding)
    for each, text in ((nested, NESTED), (half, HALF)):
        data = text if encoding == "JSON" else base64.b64encode(text.encode()).decode()
        each["captureData"]["endpointInput"]["data"] = data
    found, counts = lines(file(nested, half, record(CHAT, number=3)), form)
    assert (len(found), counts.read, counts.written, counts.unusable) == (2, 3, 2, 1)
    assert "Hi \N{REPLACEMENT CHARACTER}" in json.dumps(found, ensure_ascii=False)


def test_lines_that_are_no_captures_are_counted() -> None:
    content = b"not json\n" + json.dumps({"captureData": {}}).encode() + b"\n" + file(record("no object"), record(CHAT))
    found, counts = lines(content, PROMPTS)
    assert (len(found), counts.read, counts.unusable) == (1, 4, 3)


@settings(max_examples=10)
@given(share=st.floats(0.05, 0.95))
def test_a_sample_is_a_share_and_the_same_each_time(share: float) -> None:
    content = file(*(record(CHAT, number=number) for number in range(400)))
    first, counts = lines(content, CAPTURES, sample=share)
    again, _ = lines(content, CAPTURES, sample=share)
    assert first == again
    assert counts.written + counts.sampled_out == counts.read == 400
    # Six standard deviations.
    assert abs(counts.written - 400 * share) < 6 * (400 * share * (1 - share)) ** 0.5 + 1
    larger, _ = lines(content, CAPTURES, sample=min(1.0, share + 0.05))
    events = {each["eventMetadata"]["eventId"] for each in larger}
    assert {each["eventMetadata"]["eventId"] for each in first} <= events


PERSONAL = [
    ("Write to jane.doe+x@example.co.uk today", "jane.doe", "[EMAIL 1]"),
    ("Call +49 (30) 1234-5678 now", "1234", "[NUMBER 1]"),
    ("Card 4111 1111 1111 1111.", "4111", "[NUMBER 1]"),
    ("Card 4111\u00a01111\u00a01111\u00a01111", "4111", "[NUMBER 1]"),
    ("Card 4111\u20111111\u20111111\u20111111", "4111", "[NUMBER 1]"),
    ("user\uff20example.com", "example", "[EMAIL 1]"),
    ("to=user%40example.com", "example", "to=[EMAIL 1]"),
    ("From 192.168.10.20, twice", "192.168", "[IP 1]"),
    ("From 2001:db8:85a3::8a2e:370:7334, twice", "8a2e", "[IP 1]"),
    ("From [fe80::1] and ::ffff:192.168.10.20", "fe80", "[IP 1]"),
    ("Host 2001:0db8:0000:0000:0000:ff00:0042:8329.", "8329", "[IP 1]"),
    ("My password: hunter2xyz, thanks", "hunter2xyz", "***"),
    ("curl -H 'X-Api-Key: k123456'", "k123456", "***"),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "***"),
    ("IBAN DE89 3704 0044 0532 0130 00 please", "3704", "[IBAN 1]"),
    ("Key AKIAIOSFODNN7EXAMPLE here", "AKIA", "***"),
    ("password=hunter22 and more", "hunter22", "***"),
]


@pytest.mark.parametrize(("text", "gone", "replacement"), PERSONAL)
def test_redaction_replaces_what_looks_like_personal_data(text: str, gone: str, replacement: str) -> None:
    request = {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}], "max_tokens": 9}
    answer = {"choices": [{"message": {"content": f"You said: {text}"}}]}
    [found], _ = lines(file(record(request, answer)), CAPTURES, redact=True)
    for part in found["captureData"].values():
        assert gone not in part["data"]
        assert replacement in part["data"]
    assert json.loads(found["captureData"]["endpointInput"]["data"])["max_tokens"] == 9


SECRETS = ["hunter2", "correcthorse", "15551234567", "4111111111111111", "horsestaple"]


@pytest.mark.parametrize(
    "member",
    [
        {"password": "hunter2"},
        {"password": 15551234567},
        {"password": ["hunter2", {"old": "correcthorse"}]},
        {"password": {"value": "hunter2"}},
        {"credentials": {"type": "service_account", "user": "correcthorse"}},
        {"metadata": {"api_key": "correcthorse", "phone": 15551234567}},
        {"metadata": {"card": 4111111111111111, "phones": [15551234567.0, -15551234567]}},
        {"headers": [{"name": "X-Api-Key", "value": "correcthorse"}]},
        {"environment": [{"Name": "DB_PASS", "Value": "correcthorse"}]},
        {"environment": {"DB_PASS": "correcthorse", "ENCRYPTION_KEY": "horsestaple"}},
        {"tools": [{"properties": {"password": {"type": "string", "default": "hunter2", "examples": ["hunter2"]}}}]},
        {"tools": [{"properties": {"password": {"type": ["string", {}], "const": "hunter2"}}}]},
        {"arguments": '{"password": "hunter2", "phone": 15551234567}'},
        {"logprobs": {"content": [{"token": "correct", "top_logprobs": [{"token": "correcthorse"}]}]}},
    ],
)
def test_redaction_hides_what_names_of_members_announce_and_numbers(member: dict[str, Any]) -> None:
    request, answer = {**CHAT, **member}, {**ANSWER, **member}
    [found], _ = lines(file(record(request, answer)), CAPTURES, redact=True)
    sent, answered = (json.loads(part["data"]) for part in found["captureData"].values())
    for text in SECRETS:
        assert text not in json.dumps([sent, answered])
    assert sent["messages"] == CHAT["messages"]
    assert sent.keys() == request.keys()
    assert (sent["max_tokens"], answered["usage"]) == (9, {"prompt_tokens": 12})


def test_redaction_keeps_what_a_server_needs() -> None:
    schema = {"type": "object", "properties": {"token": {"type": "string", "description": "A token"}, "n": {}}}
    request = {
        **CHAT,
        "tools": [{"type": "function", "function": {"name": "login", "parameters": {**schema, "required": ["token"]}}}],
        "seed": 1234567890,
        "max_tokens": 10_000_000,
        "temperature": 0.123456789,
        "logprobs": True,
        "stop_token_ids": [128001],
        "stream": False,
        "user": None,
    }
    answer = {**ANSWER, "created": 1764400000, "usage": {"prompt_tokens": 1048576}}
    [found], _ = lines(file(record(request, answer)), CAPTURES, redact=True)
    sent, answered = (json.loads(part["data"]) for part in found["captureData"].values())
    assert (sent, answered) == (request, answer)


@pytest.mark.parametrize(
    "around", ["{}", "{}.", "{}, and", "({})", '"{}"', "<{}>", "{}\n", "is:{}.", "{}!", "{}; {}.", "{}?"]
)
@pytest.mark.parametrize(
    "personal",
    [
        "jane@example.com",
        "10.0.0.2",
        "2001:db8:85a3::8a2e:370:7334",
        "15551234567",
        "+49 30 1234-5678",
        "4111 1111 1111 1111",
    ],
)
def test_punctuation_around_personal_data_does_not_matter(personal: str, around: str) -> None:
    text = f"I wrote {around.format(personal, personal)} to them"
    [found], _ = lines(file(record({"prompt": text})), PROMPTS, redact=True)
    assert personal not in found["inputs"]


ORDINARY = [
    "At 10:30:15 or 10:30",
    "std::vector and a::b",
    "Ratio 3:4, verse 12:1",
    "de:ad:be:ef:00:01 is a MAC address",
    "What is 2 + 2?",
    "In 2026, 15 of 100",
    "Version 3.11.7 of Python",
    "12.5 % of 1,000",
    "Version 1.2.3.4.5",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_redaction_leaves_ordinary_text_alone(text: str) -> None:
    [found], _ = lines(file(record({"prompt": text})), PROMPTS, redact=True)
    assert found["inputs"] == text


def test_the_same_text_has_the_same_replacement_everywhere() -> None:
    texts = ["a@example.com and b@example.com", "b@example.com"]
    found, _ = lines(file(*(record({"prompt": text}) for text in texts)), PROMPTS, redact=True)
    assert [each["inputs"] for each in found] == ["[EMAIL 1] and [EMAIL 2]", "[EMAIL 2]"]


def test_files_of_a_folder_are_read_by_their_names(tmp_path: Path) -> None:
    for hour in ("11", "09", "10"):
        folder = tmp_path / "2026" / "11" / "07" / hour
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text(hour)
    (tmp_path / "notes.txt").write_text("no captures")
    assert [*files_of(str(tmp_path), pytest.fail)] == [b"09", b"10", b"11"]
    with pytest.raises(DeploymentError, match="there are no captures under"):
        list(files_of(str(tmp_path / "2025"), pytest.fail))
