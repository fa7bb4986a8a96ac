from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.evaluator.connection import Exchange, refusal
from constructs_optim.evaluator.options import FormatName, Generation
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.streaming import (
    ChatFormat,
    CompletionFormat,
    Format,
    LmiFormat,
    Record,
    candidate_formats,
)

from ..support.timing_server import frame

EVENT_STREAM = {"content-type": "application/vnd.amazon.eventstream"}
PART = {":message-type": "event", ":event-type": "PayloadPart"}


def chunk(content: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if content is None else {"content": content}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def events(*data: Any) -> bytes:
    return b"".join(f"data: {part if isinstance(part, str) else json.dumps(part)}\n\n".encode() for part in data)


def lines(*data: Any) -> bytes:
    return b"".join(json.dumps(part).encode() + b"\n" for part in data)


def token(text: str, **more: Any) -> dict[str, Any]:
    return {"token": {"id": 1, "text": text, "log_prob": -0.1}, **more}


def decoded(form: type[Format], *pieces: bytes, headers: dict[str, str] | None = None, **exchange: Any) -> Record:
    """The record of a response whose pieces arrived a second apart, the first after one."""
    arrived = [(float(at), piece) for at, piece in enumerate(pieces, start=1)]
    response = form(Exchange(0, len(pieces) + 1, 200, headers or {}, arrived, **exchange))
    for at, piece in arrived:
        response.feed(at, piece)
    return response.finish()


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}


def test_the_first_token_of_a_chat_is_its_first_content() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    answer = decoded(ChatFormat, events(role), events(chunk("Hel")), events(chunk("lo", "stop"), USAGE, "[DONE]"))
    expected = Record(0, 4, 2, 3, text="Hello", first_length=3, gaps=[1000.0])
    expected.server_input_tokens, expected.server_output_tokens = 7, 2
    assert answer == expected


def test_reasoning_content_counts_as_generated_output() -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "Hm."}}]}
    answer = decoded(ChatFormat, events(thought), events(chunk("Yes", "stop")))
    assert (answer.text, answer.reasoning, answer.first_token) == ("Yes", "Hm.", 1)


def test_lmi_containers_stream_chats_as_json_lines() -> None:
    answer = decoded(ChatFormat, lines(chunk(" Oh")), lines(chunk(" assist", "length")))
    assert (answer.text, answer.error, answer.last_token) == (" Oh assist", None, 2)


def test_a_response_that_is_not_streamed_is_decoded() -> None:
    whole = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": USAGE["usage"]}
    answer = decoded(ChatFormat, json.dumps(whole).encode())
    assert (answer.text, answer.server_output_tokens, answer.error) == ("Hello", 2, None)


def test_a_response_that_is_not_streamed_may_have_several_lines() -> None:
    whole = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": USAGE["usage"]}
    written = json.dumps(whole, indent=1).encode()
    answer = decoded(ChatFormat, written[:30], written[30:])
    assert (answer.text, answer.server_output_tokens, answer.first_token, answer.error) == ("Hello", 2, 3, None)
    answer = decoded(ChatFormat, json.dumps({"error": {"message": "no memory"}}, indent=1).encode())
    assert (answer.error, answer.message) == (ErrorKind.MODEL_ERROR, "no memory")


def test_text_that_cannot_be_written_is_replaced_and_a_divided_pair_is_one_character() -> None:
    """A tokenizer may divide an emoji, and a server write each half as it comes."""
    answer = decoded(ChatFormat, events(chunk("a\ud83d")), events(chunk("\ude00b\ud800", "stop")))
    assert (answer.text, answer.error) == ("a😀b�", None)
    answer = decoded(ChatFormat, events({"choices": [{"delta": {"reasoning": "\ud800."}}]}), error=ErrorKind.TIMEOUT)
    assert answer.reasoning == "�."
    answer = decoded(ChatFormat, events({"error": {"message": "ill: \ud800"}}))
    assert answer.message == "ill: �"


def test_a_completion_of_text_is_decoded_as_a_chat_is() -> None:
    def part(text: str, finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}

    answer = decoded(CompletionFormat, events(part("Hel")), events(part("lo", "stop"), USAGE, "[DONE]"))
    expected = Record(0, 3, 1, 2, text="Hello", first_length=3, gaps=[1000.0])
    expected.server_input_tokens, expected.server_output_tokens = 7, 2
    assert answer == expected
    assert decoded(CompletionFormat, events(chunk("Hello"))).error is ErrorKind.MALFORMED_RESPONSE


def test_text_without_a_template_is_sent_in_a_form_without_one_where_the_server_has_it() -> None:
    """LMI has ``inputs``, vLLM ``prompt``, and SGLang nothing but chats."""
    formats = candidate_formats(FormatName.AUTO, sagemaker=True, as_text=True)
    assert formats == (LmiFormat, CompletionFormat, ChatFormat)
    assert candidate_formats(FormatName.COMPLETIONS, sagemaker=False, as_text=False) == (CompletionFormat,)
    body = CompletionFormat.body(Prompt(inputs="[INST] a [/INST]"), Generation(max_tokens=7), None)
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    assert body == {"prompt": "[INST] a [/INST]", "max_tokens": 7, "temperature": 0, **usage}


@pytest.mark.parametrize("written", [lines, events])
def test_lmi_and_tgi_token_streams_are_decoded_alike(written: Any) -> None:
    last = token("</s>", generated_text="Deep", details={"finish_reason": "length", "generated_tokens": 3})
    last["token"]["special"] = True
    answer = decoded(LmiFormat, written(token("De")), written(token("ep")), written(last))
    assert answer == Record(0, 4, 1, 3, text="Deep", server_output_tokens=3, first_length=2, gaps=[1000.0, 1000.0])


WHOLE = b": a comment\nevent: message\nid: 1\nretry: 5\n" + events(
    chunk("Grüße "), chunk("und"), chunk("😀", "stop"), USAGE
)


@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=12), framed=st.booleans())
def test_a_stream_is_decoded_regardless_of_chunk_boundaries(cuts: list[int], framed: bool) -> None:
    edges = sorted({0, *cuts, len(WHOLE)})
    pieces = [WHOLE[start:end] for start, end in pairwise(edges)]
    if framed:
        # The runtime frames pieces as it likes, and the network cuts the frames again.
        stream = b"".join(frame(PART, piece) for piece in pieces)
        pieces = [stream[start : start + 7] for start in range(0, len(stream), 7)]
    answer = decoded(ChatFormat, *pieces, headers=EVENT_STREAM if framed else None)
    assert (answer.text, answer.server_output_tokens, answer.error) == ("Grüße und😀", 2, None)


@pytest.mark.parametrize("decoder", [ChatFormat, LmiFormat])
def test_an_empty_body_is_an_empty_completion(decoder: type[Format]) -> None:
    assert decoded(decoder) == Record(0, 1)


def exception(kind: str) -> bytes:
    return frame({":message-type": "exception", ":exception-type": kind}, b'{"Message": "broken"}')


@pytest.mark.parametrize(
    ("decoder", "pieces", "headers", "kind", "said"),
    [
        (ChatFormat, [events(chunk("a"))], {}, ErrorKind.CUT_STREAM, "before the completion was finished"),
        (LmiFormat, [lines(token("a"))], {}, ErrorKind.CUT_STREAM, "before the completion"),
        (ChatFormat, [b'data: {"choices": [{"de\n\n'], {}, ErrorKind.MALFORMED_RESPONSE, "not a JSON object"),
        (ChatFormat, [b"<html>\n"], {}, ErrorKind.MALFORMED_RESPONSE, "<html>"),
        (ChatFormat, [b"data: 7\n"], {}, ErrorKind.MALFORMED_RESPONSE, "not a JSON object: 7"),
        (ChatFormat, [lines(token("a"))], {}, ErrorKind.MALFORMED_RESPONSE, "not of this format"),
        (ChatFormat, [lines({"choices": [{"delta": {"content": 5}}]})], {}, ErrorKind.MALFORMED_RESPONSE, "format"),
        (LmiFormat, [lines(chunk("a"))], {}, ErrorKind.MALFORMED_RESPONSE, "not of this format"),
        (ChatFormat, [events({"error": {"message": "no memory"}})], {}, ErrorKind.MODEL_ERROR, "no memory"),
        (ChatFormat, [events({"object": "error", "message": "no"})], {}, ErrorKind.MODEL_ERROR, "no"),
        (ChatFormat, [b"event: error\n" + events({"message": "ill"})], {}, ErrorKind.MODEL_ERROR, "ill"),
        (ChatFormat, [events(chunk("", "error"))], {}, ErrorKind.MODEL_ERROR, "error"),
        (LmiFormat, [lines(token("", details={"finish_reason": "error"}))], {}, ErrorKind.MODEL_ERROR, "error"),
        (
            ChatFormat,
            [exception("ModelStreamError")],
            EVENT_STREAM,
            ErrorKind.MODEL_ERROR,
            "ModelStreamError: .*broken",
        ),
        (ChatFormat, [b"\x00\x00\x00\x20" * 8], EVENT_STREAM, ErrorKind.MALFORMED_RESPONSE, "not an event stream"),
    ],
)
def test_stream_errors_have_a_kind_and_a_message(
    decoder: type[Format], pieces: Sequence[bytes], headers: dict[str, str], kind: ErrorKind, said: str
) -> None:
    import re

    answer = decoded(decoder, *pieces, headers=headers)
    assert answer.error is kind
    assert re.search(said, answer.message)


@pytest.mark.parametrize(
    "beside",
    [
        events({"id": "1", "usage": None}),
        events({"choices": None}),
        b"event: ping\ndata: {}\n\n",
        b"event: ping\ndata: pong\n\n",
        events({"object": "server.status"}),
    ],
)
@pytest.mark.parametrize("decoder", [ChatFormat, LmiFormat])
def test_stream_content_unrelated_to_the_completion_is_skipped(decoder: type[Format], beside: bytes) -> None:
    said = events(chunk("Hi", "stop")) if decoder is ChatFormat else events(token("Hi", generated_text="Hi"))
    answer = decoded(decoder, beside, said, beside)
    assert (answer.text, answer.error, answer.first_token) == ("Hi", None, 2)


@pytest.mark.parametrize("count", ["12", -1, True, 1.5, None, [2]])
def test_an_invalid_token_count_is_ignored(count: object) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": count}}
    answer = decoded(ChatFormat, events(chunk("Hi", "stop")), events(usage))
    assert (answer.text, answer.error, answer.server_input_tokens, answer.server_output_tokens) == (
        "Hi",
        None,
        None,
        None,
    )


def test_a_prompt_of_no_tokens_is_not_counted() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    answer = decoded(ChatFormat, events(chunk("Hi", "stop"), usage))
    assert (answer.server_input_tokens, answer.server_output_tokens) == (None, 0)


def test_the_servers_count_of_reasoning_tokens_is_kept() -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    answer = decoded(ChatFormat, events(chunk("Hi", "stop"), {"choices": [], "usage": usage}))
    assert (answer.server_output_tokens, answer.reasoning_tokens) == (9, 7)


def test_a_line_that_is_nested_too_deeply_is_malformed() -> None:
    answer = decoded(ChatFormat, b"data: " + b"[" * 200_000 + b"\n\n")
    assert answer.error is ErrorKind.MALFORMED_RESPONSE


def test_a_stream_of_unknown_objects_is_malformed() -> None:
    answer = decoded(ChatFormat, events({"completion": "Hi"}, {"completion": " there"}))
    assert (answer.error, answer.message) == (
        ErrorKind.MALFORMED_RESPONSE,
        'not of this format: {"completion": "Hi"}',
    )


def test_an_event_can_span_several_data_lines() -> None:
    written = json.dumps(chunk("a\nb", "stop"), indent=1).replace("\n", "\r\ndata: ")
    answer = decoded(ChatFormat, f"data: {written}\r\n\r\n".encode())
    assert (answer.text, answer.error) == ("a\nb", None)


def test_tool_calls_and_refusals_count_as_output() -> None:
    def delta(**said: Any) -> dict[str, Any]:
        return {"choices": [{"delta": said}]}

    called = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "sum", "arguments": ""}}])
    arguments = delta(tool_calls=[{"index": 0, "function": {"arguments": "[1,2]"}}])
    answer = decoded(ChatFormat, events(called), events(arguments), events(chunk(None, "tool_calls")))
    assert (answer.text, answer.first_token, answer.last_token, answer.error) == ("sum[1,2]", 1, 2, None)
    answer = decoded(ChatFormat, events(delta(refusal="No.")), events(chunk(None, "stop")))
    assert (answer.text, answer.error) == ("No.", None)


def test_the_first_error_of_a_stream_is_the_one_recorded() -> None:
    broken = {"error": ErrorKind.CUT_STREAM, "message": "the server closed the connection"}
    answer = decoded(ChatFormat, events({"error": "no memory"}), **broken)
    assert (answer.error, answer.message) == (ErrorKind.MODEL_ERROR, "no memory")


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "said"),
    [
        (429, {}, b"slow down", ErrorKind.THROTTLED, "status 429 slow down"),
        (400, {"x-amzn-errortype": "ThrottlingException:x"}, b"{}", ErrorKind.THROTTLED, "ThrottlingException"),
        (
            400,
            {"x-amzn-errortype": "ValidationError"},
            b'{"message": "no endpoint"}',
            ErrorKind.CLIENT_ERROR,
            "no endpoint",
        ),
        (302, {}, b"", ErrorKind.CLIENT_ERROR, "status 302"),
        (500, {}, b'{"error": "bad \\ud800"}', ErrorKind.SERVER_ERROR, "status 500 bad �"),
        (503, {}, b"<html>", ErrorKind.SERVER_ERROR, "status 503 <html>"),
        (424, {}, b'{"OriginalStatusCode": 400, "OriginalMessage": "bad"}', ErrorKind.CLIENT_ERROR, "status 424 bad"),
        (424, {}, b'{"OriginalStatusCode": 429, "Message": "busy"}', ErrorKind.THROTTLED, "busy"),
        (424, {}, b'{"OriginalStatusCode": 0, "Message": "dead"}', ErrorKind.SERVER_ERROR, "dead"),
    ],
)
def test_an_error_response_has_a_kind_and_the_server_s_message(
    status: int, headers: dict[str, str], body: bytes, kind: ErrorKind, said: str
) -> None:
    found = refusal(Exchange(0, 1, status, headers, [(1, body)]))
    assert found[0] is kind
    assert said in found[1]
