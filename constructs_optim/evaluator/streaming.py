"""The formats of requests and completions: request bodies, and parsers of streamed responses.

``pooled_formats`` has those of models that generate no text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from botocore.eventstream import EventStreamBuffer, ParserError

from .connection import Exchange, error_message, well_formed
from .options import FormatName, Generation
from .prompts import Prompt
from .requests import ErrorKind, Request

_EVENT_STREAM = "application/vnd.amazon.eventstream"
_LONGEST_MESSAGE = 300
# Decimals of milliseconds.
_GAP_DIGITS = 2


@dataclass
class Record(Request):
    """One request of an evaluation, and its completion as far as it arrived.

    ``prompt`` is the index of its prompt, ``turn`` its index in its ``conversation``. A resumed evaluation begins a new
    ``segment``; times are relative to the segment's start. Requests sent before the load was complete or the endpoint
    was warm are not ``counted``. ``reasoning`` is text that the server separates from the completion. ``retried`` is
    whether it was sent again because the server had closed the idle connection. ``server_input_tokens`` and
    ``server_output_tokens`` are the server's counts, None if it sends none; ``cached_tokens`` of the prompt were in the
    server's prefix cache, and ``reasoning_tokens`` of the output are reasoning. ``tokenizer_input_tokens`` and
    ``tokenizer_output_tokens`` are the tokenizer's counts, None if there is none or it fails. ``first_length`` is the
    number of characters that arrived with the first token.
    """

    prompt: int = 0
    turn: int = 0
    conversation: int = 0
    segment: int = 0
    counted: bool = True
    text: str = ""
    reasoning: str = ""
    message: str = ""
    retried: bool = False
    server_input_tokens: int | None = None
    server_output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    tokenizer_input_tokens: int | None = None
    tokenizer_output_tokens: int | None = None
    first_length: int = 0

    def add(self, at: float, text: str, reasoning: str = "") -> None:
        """Add a piece with at least one token."""
        self.text += text
        self.reasoning += reasoning
        if self.first_token is None:
            self.first_token, self.first_tokens = at, 0
        elif self.last_token is not None and at > self.last_token:
            self.gaps.append(round((at - self.last_token) * 1000, _GAP_DIGITS))
        if at == self.first_token:
            self.first_tokens += 1
            self.first_length += len(text) + len(reasoning)
        self.last_token = at

    def fail(self, error: ErrorKind, message: str) -> None:
        """Record an error; the first one counts."""
        if self.error is None:
            self.error, self.message = error, well_formed(message[:_LONGEST_MESSAGE])


class Format:
    """A schema of requests and completions. An instance reads one response into its ``record``.

    Responses are server-sent events or JSON lines, with or without AWS's frames, or one JSON object on several lines.
    Subclasses read one JSON object. Like OpenAI's own client, a format ignores objects of other schemas (a ping, a
    count, additions of a later version). A response of only such objects is malformed.
    """

    name: ClassVar[FormatName]
    path: ClassVar[str] = "/invocations"
    """The path below the URL of a server."""
    streams: ClassVar[bool] = True
    """Whether the response is a stream of text; otherwise it has embeddings, scores or classes."""
    example: ClassVar[Prompt | None] = None
    """A prompt with which to try the format if no other suits it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.record = Record(exchange.start, exchange.end, retried=exchange.retried)
        framed = exchange.headers.get("content-type", "").startswith(_EVENT_STREAM)
        self._frames: Any = EventStreamBuffer() if framed else None
        self._rest = self._data = b""
        self._event = self._unknown = ""
        self._unread: list[bytes] = []
        self._finished = False

    @classmethod
    def body(cls, prompt: Prompt, generation: Generation, model: str | None) -> dict[str, Any]:
        """Return the body of a request."""
        raise NotImplementedError

    @classmethod
    def count(cls, record: Record, prompt: Prompt, generation: Generation) -> None:
        """Note the number of inputs of a request; none for text generation, which has one prompt."""

    @classmethod
    def suits(cls, prompt: Prompt) -> bool:
        """Return whether a request can have this prompt."""
        return prompt.generates

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read one JSON object of the stream, and return whether it has this format."""
        raise NotImplementedError

    def feed(self, at: float, piece: bytes) -> None:
        """Read a piece of the body, which arrived at the time ``at``."""
        for payload in [piece] if self._frames is None else self._payloads(piece):
            *lines, self._rest = (self._rest + payload).split(b"\n")
            for line in lines:
                self._line(at, line)

    def finish(self) -> Record:
        """Return the record of the exchange, after all its pieces have been read."""
        exchange, record = self._exchange, self.record
        if exchange.error is not None:
            record.fail(exchange.error, exchange.message)
        else:
            self._end()
        # Only now, because a server may send the halves of a surrogate pair in two pieces.
        record.text, record.reasoning = well_formed(record.text), well_formed(record.reasoning)
        return record

    def _end(self) -> None:
        exchange, record = self._exchange, self.record
        if self._rest.strip():
            self._line(exchange.end, self._rest)
        self._line(exchange.end, b"")
        if self._unread and not self._read_json(exchange.end, unread := b"\n".join(self._unread)):
            self._fail_malformed(unread)
        if self._unknown and record.first_token is None:
            record.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {self._unknown}")
        elif not self._finished and exchange.pieces:
            record.fail(ErrorKind.CUT_STREAM, "the response ended before the completion was finished")

    def _payloads(self, piece: bytes) -> Iterator[bytes]:
        self._frames.add_data(piece)
        try:
            for event in self._frames:
                if event.headers.get(":message-type") == "event":
                    yield event.payload
                else:
                    kind = event.headers.get(":exception-type") or event.headers.get(":error-code") or "error"
                    self.record.fail(ErrorKind.MODEL_ERROR, f"{kind}: {event.payload.decode(errors='replace')}")
        except ParserError as error:
            self.record.fail(ErrorKind.MALFORMED_RESPONSE, f"not an event stream: {error}")

    def _line(self, at: float, line: bytes) -> None:
        line = line.strip()
        if line.startswith(b"data:"):
            # An event's data may span several lines (HTML Living Standard, "Server-sent events").
            self._data += (b"\n" if self._data else b"") + line[5:].strip()
            if self._read_json(at, self._data):
                self._data = b""
        elif line.startswith(b"event:"):
            self._event = line[6:].strip().decode(errors="replace")
        elif not line:
            if self._data and self._event in ("", "message", "error"):
                self._fail_malformed(self._data)
            self._data, self._event = b"", ""
        elif not line.startswith((b":", b"id:", b"retry:")) and (self._unread or not self._read_json(at, line)):
            self._unread.append(line)

    def _fail_malformed(self, line: bytes) -> None:
        message = f"not a JSON object: {line[:80].decode(errors='replace')}"
        self.record.fail(ErrorKind.MALFORMED_RESPONSE, message)

    def _read_json(self, at: float, line: bytes) -> bool:
        """Read a JSON object, and return whether the line is one."""
        if line == b"[DONE]":
            self._finished = True
            return True
        try:
            # Not json_value: the halves of a surrogate pair may come in two pieces.
            data = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(data, dict):
            return False
        if self._event == "error" or data.get("error") or data.get("object") == "error":
            self.record.fail(ErrorKind.MODEL_ERROR, error_message(data))
            return True
        excerpt = line[:120].decode(errors="replace")
        try:
            if not self.read(at, data):
                self._unknown = self._unknown or excerpt
        except (AttributeError, KeyError, TypeError, IndexError):
            self.record.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {excerpt}")
        return True


class ChatFormat(Format):
    """OpenAI's chat completions, as server-sent events or (from LMI containers) as JSON lines.

    Source: OpenAI API reference, "Chat completions streaming"; DJL Serving, "LMI Chat Completions API Schema".
    """

    name = FormatName.OPENAI
    path = "/chat/completions"

    @classmethod
    def body(cls, prompt: Prompt, generation: Generation, model: str | None) -> dict[str, Any]:
        """Return a request that includes the server's token counts in the response."""
        return {
            **({"model": model} if model else {}),
            **cls._asked(prompt),
            "max_tokens": prompt.max_tokens or generation.max_tokens,
            "temperature": generation.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            **generation.parameters,
        }

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read one chunk."""
        choices = data.get("choices") or []
        for choice in choices[:1]:
            delta = self._delta(choice)
            text = (delta.get("content") or "") + (delta.get("refusal") or "") + _tool_calls(delta)
            reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
            if text or reasoning:
                self.record.add(at, text, reasoning)
            if choice.get("finish_reason") == "error":
                self.record.fail(ErrorKind.MODEL_ERROR, error_message(data))
            elif choice.get("finish_reason"):
                self._finished = True
        usage = data.get("usage")
        if usage:
            # A prompt is never empty, so 0 is not a count.
            self.record.server_input_tokens = _token_count(usage.get("prompt_tokens")) or None
            if isinstance(details := usage.get("prompt_tokens_details"), dict):
                self.record.cached_tokens = _token_count(details.get("cached_tokens"))
            self.record.server_output_tokens = _token_count(usage.get("completion_tokens"))
            if isinstance(details := usage.get("completion_tokens_details"), dict):
                self.record.reasoning_tokens = _token_count(details.get("reasoning_tokens"))
        return bool(choices or usage)

    @classmethod
    def _asked(cls, prompt: Prompt) -> dict[str, Any]:
        return {"messages": prompt.as_messages()}

    def _delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        # A server that does not stream sends the whole message.
        return choice.get("delta") or choice.get("message") or {}


class CompletionFormat(ChatFormat):
    """OpenAI's completions, for text without a template. A chat is sent as plain text.

    Source: OpenAI API reference, "Completions"; vLLM 0.30, ``entrypoints/serve/sagemaker/api_router.py``, whose
    ``/invocations`` accepts them and refuses ``inputs``.
    """

    name = FormatName.COMPLETIONS
    path = "/completions"

    @classmethod
    def _asked(cls, prompt: Prompt) -> dict[str, Any]:
        return {"prompt": prompt.text}

    def _delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        return {"content": choice["text"]}


class LmiFormat(Format):
    """LMI's ``inputs`` and ``parameters``, with a JSON object for each token, as JSON lines or server-sent events.

    Source: DJL Serving, "LMI handlers: inference API schema"; Text Generation Inference, "generate_stream".
    """

    name = FormatName.LMI
    _tokens = 0

    @classmethod
    def body(cls, prompt: Prompt, generation: Generation, model: str | None) -> dict[str, Any]:
        """Return a request. This schema has no chats, so a chat is sent as text without a template."""
        sampling = {"do_sample": False} if generation.temperature == 0 else {"temperature": generation.temperature}
        parameters = {
            "max_new_tokens": prompt.max_tokens or generation.max_tokens,
            **sampling,
            "details": True,
            **generation.parameters,
        }
        return {"inputs": prompt.text, "parameters": parameters, "stream": True}

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read one token, or the details at the end."""
        details = data.get("details") or {}
        if details.get("finish_reason") == "error":
            self.record.fail(ErrorKind.MODEL_ERROR, error_message(data))
            return True
        token = data.get("token")
        if token is not None:
            self._tokens += 1
            # A special token, such as the end of the text, counts but has no text.
            self.record.add(at, "" if token.get("special") or token.get("special_token") else token["text"])
            self.record.server_output_tokens = self._tokens
        finished = bool(details) or data.get("generated_text") is not None
        if finished:
            self._finished = True
            counted = _token_count(details.get("generated_tokens"))
            self.record.server_output_tokens = counted or self.record.server_output_tokens
        return token is not None or finished


def candidate_formats(name: FormatName, *, sagemaker: bool, as_text: bool) -> tuple[type[Format], ...]:
    """Return the formats to try: a SageMaker endpoint's container may support some of them.

    SGLang's container supports only chats (``srt/entrypoints/http_server.py``, ``/invocations``).
    """
    if name is FormatName.AUTO and sagemaker:
        return (LmiFormat, CompletionFormat, ChatFormat) if as_text else (ChatFormat, LmiFormat)
    if name is FormatName.COMPLETIONS:
        return (CompletionFormat,)
    # Text Generation Inference has the same schema as LMI containers.
    return (LmiFormat,) if name in (FormatName.LMI, FormatName.TGI) else (ChatFormat,)


def _token_count(value: object) -> int | None:
    """Return a number of tokens; None for any other value from a server."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tool_calls(delta: dict[str, Any]) -> str:
    """Return the names and arguments of a piece's tool calls, which are also generated text."""
    calls = [call.get("function") for call in delta.get("tool_calls") or []]
    functions = [function for function in (*calls, delta.get("function_call")) if function]
    return "".join((function.get("name") or "") + (function.get("arguments") or "") for function in functions)
