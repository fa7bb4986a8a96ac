"""What a stream says: tokens with the times of their arrival, the server's own counts, and what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from constructs_optim.recipe.evaluation.calculation import ErrorKind

from .connection import Exchange

_EVENT_STREAM = "application/vnd.amazon.eventstream"
_LONGEST_MESSAGE = 300


@dataclass
class Answer:
    """An answer, as far as it came.

    Attributes:
        text: what the model said.
        reasoning: what it thought before, where the server tells it apart.
        first_token: when the first token arrived, seconds of ``time.perf_counter``; None where none did.
        last_token: when the last one did.
        first_tokens: how many tokens, at least, arrived with the first.
        first_length: how many characters did.
        input_tokens: as the server counted them; None where it does not say.
        output_tokens: likewise.
        finished: whether the server said that this was all.
        error: what went wrong; None where nothing did.
        message: the same in words.
    """

    text: str = ""
    reasoning: str = ""
    first_token: float | None = None
    last_token: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    finished: bool = False
    error: ErrorKind | None = None
    message: str = ""
    first_tokens: int = 0
    first_length: int = 0

    def add(self, at: float, text: str, reasoning: str = "") -> None:
        """A piece with at least one token."""
        self.text += text
        self.reasoning += reasoning
        if self.first_token is None:
            self.first_token = at
        if at == self.first_token:
            self.first_tokens += 1
            self.first_length += len(text) + len(reasoning)
        self.last_token = at

    def fail(self, error: ErrorKind, message: str) -> None:
        """Keep the first thing that went wrong."""
        if self.error is None:
            self.error, self.message = error, message[:_LONGEST_MESSAGE]


@dataclass
class Decoder:
    """Makes an answer of the pieces of a body. Subclasses know what an object means.

    Objects that say nothing of the answer (a ping, a count, what a later version adds) are passed over, as OpenAI's own
    client does; an answer is malformed where nothing else came.
    """

    answer: Answer = field(default_factory=Answer)
    _rest: bytes = b""
    _frames: Any = None
    _event: str = ""
    _data: bytes = b""
    _foreign: str = ""

    def start(self, headers: dict[str, str]) -> None:
        """What the answer's headers say."""
        if headers.get("content-type", "").startswith(_EVENT_STREAM):
            from botocore.eventstream import EventStreamBuffer

            self._frames = EventStreamBuffer()

    def feed(self, at: float, piece: bytes) -> None:
        """A piece of the body and when it arrived."""
        if self._frames is None:
            self._lines(at, piece)
            return
        for payload in self._payloads(piece):
            self._lines(at, payload)

    def finish(self, exchange: Exchange) -> Answer:
        """The answer, once the exchange is over."""
        if exchange.error is None:
            if self._rest.strip():
                self._line(exchange.end, self._rest)
            self._line(exchange.end, b"")
        if exchange.error is not None:
            self.answer.fail(exchange.error, exchange.message)
        elif self._foreign and self.answer.first_token is None:
            self.answer.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {self._foreign}")
        elif not self.answer.finished and exchange.pieces:
            self.answer.fail(ErrorKind.CUT_STREAM, "the answer ended without saying that it was finished")
        return self.answer

    def data(self, at: float, data: dict[str, Any]) -> bool:
        """One JSON object of the stream; whether it is of this format."""
        raise NotImplementedError

    def _payloads(self, piece: bytes) -> Iterator[bytes]:
        from botocore.eventstream import ParserError

        self._frames.add_data(piece)
        try:
            for event in self._frames:
                if event.headers.get(":message-type") == "event":
                    yield event.payload
                else:
                    kind = event.headers.get(":exception-type") or event.headers.get(":error-code") or "error"
                    self.answer.fail(ErrorKind.MODEL_ERROR, f"{kind}: {event.payload.decode(errors='replace')}")
        except ParserError as error:
            self.answer.fail(ErrorKind.MALFORMED_RESPONSE, f"no event stream: {error}")

    def _lines(self, at: float, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._line(at, line)

    def _line(self, at: float, line: bytes) -> None:
        line = line.strip()
        if line.startswith(b"data:"):
            # An event's data may be written in several lines (HTML Living Standard, "Server-sent events").
            self._data += (b"\n" if self._data else b"") + line[5:].strip()
            if self._said(at, self._data):
                self._data = b""
        elif line.startswith(b"event:"):
            self._event = line[6:].strip().decode(errors="replace")
        elif not line:
            if self._data and self._event in ("", "message", "error"):
                self._malformed(self._data)
            self._data, self._event = b"", ""
        elif not line.startswith((b":", b"id:", b"retry:")) and not self._said(at, line):
            self._malformed(line)

    def _malformed(self, line: bytes) -> None:
        self.answer.fail(ErrorKind.MALFORMED_RESPONSE, f"no JSON object: {line[:80].decode(errors='replace')}")

    def _said(self, at: float, line: bytes) -> bool:
        """What an object says; whether it is one."""
        if line == b"[DONE]":
            self.answer.finished = True
            return True
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(data, dict):
            return False
        if self._event == "error" or data.get("error") or data.get("object") == "error":
            self.answer.fail(ErrorKind.MODEL_ERROR, _said(data))
            return True
        shown = line[:120].decode(errors="replace")
        try:
            if not self.data(at, data):
                self._foreign = self._foreign or shown
        except (AttributeError, KeyError, TypeError, IndexError):
            self.answer.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {shown}")
        return True


@dataclass
class ChatDecoder(Decoder):
    """Chunks of OpenAI's chat completions, as server-sent events or, from LMI containers, as JSON lines.

    Source: OpenAI API reference, "Chat completions streaming"; DJL Serving, "LMI Chat Completions API Schema".
    """

    def data(self, at: float, data: dict[str, Any]) -> bool:
        """One chunk."""
        choices = data.get("choices") or []
        for choice in choices[:1]:
            # A server that does not stream sends the message whole.
            delta = choice.get("delta") or choice.get("message") or {}
            text = (delta.get("content") or "") + (delta.get("refusal") or "") + _called(delta)
            reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
            if text or reasoning:
                self.answer.add(at, text, reasoning)
            if choice.get("finish_reason") == "error":
                self.answer.fail(ErrorKind.MODEL_ERROR, _said(data))
            elif choice.get("finish_reason"):
                self.answer.finished = True
        usage = data.get("usage")
        if usage:
            self.answer.input_tokens = _count(usage.get("prompt_tokens"))
            self.answer.output_tokens = _count(usage.get("completion_tokens"))
        return bool(choices or usage)


def _count(value: object) -> int | None:
    """A number of tokens; None of anything else that a server may say."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _called(delta: dict[str, Any]) -> str:
    """The tools that a piece calls: names and arguments are generated like any text."""
    calls = [call.get("function") for call in delta.get("tool_calls") or []]
    functions = [function for function in (*calls, delta.get("function_call")) if function]
    return "".join((each.get("name") or "") + (each.get("arguments") or "") for each in functions)


@dataclass
class TokenDecoder(Decoder):
    """A JSON object for each token, as JSON lines from LMI containers or as server-sent events from TGI.

    Source: DJL Serving, "LMI handlers: inference API schema"; Text Generation Inference, "generate_stream".
    """

    _tokens: int = 0

    def data(self, at: float, data: dict[str, Any]) -> bool:
        """One token, or what is told at the end."""
        details = data.get("details") or {}
        if details.get("finish_reason") == "error":
            self.answer.fail(ErrorKind.MODEL_ERROR, _said(data))
            return True
        token = data.get("token")
        if token is not None:
            self._tokens += 1
            # A token of the model's own, such as the end of the text, is generated but not said.
            self.answer.add(at, "" if token.get("special") or token.get("special_token") else token["text"])
            self.answer.output_tokens = self._tokens
        if details or data.get("generated_text") is not None:
            self.answer.finished = True
            self.answer.output_tokens = _count(details.get("generated_tokens")) or self.answer.output_tokens
        return bool(token is not None or details or data.get("generated_text") is not None)


def refused(exchange: Exchange) -> tuple[ErrorKind, str] | None:
    """What a status other than 200 says; None where it is 200."""
    if exchange.status == 200:
        return None
    said = exchange.body.decode(errors="replace").strip()
    code = exchange.headers.get("x-amzn-errortype", "").partition(":")[0]
    status, message = exchange.status, said
    try:
        data = json.loads(said)
    except ValueError:
        data = None
    if isinstance(data, dict):
        message = _said(data)
        # The runtime's ModelError (424) tells what the container answered.
        status = _status(data.get("OriginalStatusCode")) or status
    told = " ".join(filter(None, [f"status {exchange.status}", code, message[:_LONGEST_MESSAGE]]))
    if status == 429 or "Throttl" in code:
        return ErrorKind.THROTTLED, told
    # 424: the model failed, and the runtime could not tell how.
    return (ErrorKind.SERVER_ERROR if status >= 500 or status == 424 else ErrorKind.CLIENT_ERROR), told


def _status(value: Any) -> int | None:
    return value if isinstance(value, int) and 400 <= value <= 599 else None


def _said(data: dict[str, Any]) -> str:
    error = data.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error
    found = error or data.get("OriginalMessage") or data.get("message") or data.get("Message") or data
    return found if isinstance(found, str) else json.dumps(found)
