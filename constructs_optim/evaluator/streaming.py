"""Requests and completions on the wire: how a prompt is written for a server, and what its stream says.

A format is a schema that servers understand. Its decoder turns the pieces of a response's body into a completion:
tokens with the times of their arrival, the server's own token counts, and the error if there was one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.evaluation.calculation import ErrorKind

from .connection import Exchange
from .options import FormatName, Generation
from .prompts import Prompt

_EVENT_STREAM = "application/vnd.amazon.eventstream"
_LONGEST_MESSAGE = 300


@dataclass
class Completion:
    """What a model generated, as far as it arrived.

    Attributes:
        text: of the completion.
        reasoning: that came before it, where the server keeps it apart.
        first_token: when the first token arrived, seconds of ``time.perf_counter``; None where none did.
        last_token: when the last one did.
        server_input_tokens: the server's count; None where it sends none.
        server_output_tokens: likewise.
        error: the kind of error; None where there was none.
        message: of the error.
        first_tokens: how many tokens, at least, arrived with the first.
        first_length: how many characters did.
    """

    text: str = ""
    reasoning: str = ""
    first_token: float | None = None
    last_token: float | None = None
    server_input_tokens: int | None = None
    server_output_tokens: int | None = None
    error: ErrorKind | None = None
    message: str = ""
    first_tokens: int = 0
    first_length: int = 0

    def add(self, at: float, text: str, reasoning: str = "") -> None:
        """Add a piece with at least one token."""
        self.text += text
        self.reasoning += reasoning
        if self.first_token is None:
            self.first_token = at
        if at == self.first_token:
            self.first_tokens += 1
            self.first_length += len(text) + len(reasoning)
        self.last_token = at

    def fail(self, error: ErrorKind, message: str) -> None:
        """Record an error; the first one counts."""
        if self.error is None:
            self.error, self.message = error, message[:_LONGEST_MESSAGE]


class Decoder:
    """Reads a completion from the pieces of a body: server-sent events or JSON lines, framed by AWS or not.

    Subclasses read one JSON object each. Objects of another schema (a ping, a count, additions of a later version) are
    passed over, as OpenAI's own client does; a response is malformed where nothing else came.
    """

    def __init__(self) -> None:
        self.completion = Completion()
        self._rest = self._data = b""
        self._frames: Any = None
        self._event = self._unknown = ""
        self._finished = False

    def start(self, headers: dict[str, str]) -> None:
        """Take the response's headers, names in lower case."""
        if headers.get("content-type", "").startswith(_EVENT_STREAM):
            from botocore.eventstream import EventStreamBuffer

            self._frames = EventStreamBuffer()

    def feed(self, at: float, piece: bytes) -> None:
        """Take a piece of the body that arrived at a time."""
        for payload in [piece] if self._frames is None else self._payloads(piece):
            *lines, self._rest = (self._rest + payload).split(b"\n")
            for line in lines:
                self._line(at, line)

    def finish(self, exchange: Exchange) -> Completion:
        """The completion, once the exchange is over."""
        if exchange.error is not None:
            self.completion.fail(exchange.error, exchange.message)
            return self.completion
        if self._rest.strip():
            self._line(exchange.end, self._rest)
        self._line(exchange.end, b"")
        if self._unknown and self.completion.first_token is None:
            self.completion.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {self._unknown}")
        elif not self._finished and exchange.pieces:
            self.completion.fail(ErrorKind.CUT_STREAM, "the answer ended without saying that it was finished")
        return self.completion

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read one JSON object of the stream, and return whether it is of this format."""
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
                    self.completion.fail(ErrorKind.MODEL_ERROR, f"{kind}: {event.payload.decode(errors='replace')}")
        except ParserError as error:
            self.completion.fail(ErrorKind.MALFORMED_RESPONSE, f"no event stream: {error}")

    def _line(self, at: float, line: bytes) -> None:
        line = line.strip()
        if line.startswith(b"data:"):
            # An event's data may be written in several lines (HTML Living Standard, "Server-sent events").
            self._data += (b"\n" if self._data else b"") + line[5:].strip()
            if self._read_json(at, self._data):
                self._data = b""
        elif line.startswith(b"event:"):
            self._event = line[6:].strip().decode(errors="replace")
        elif not line:
            if self._data and self._event in ("", "message", "error"):
                self._fail_malformed(self._data)
            self._data, self._event = b"", ""
        elif not line.startswith((b":", b"id:", b"retry:")) and not self._read_json(at, line):
            self._fail_malformed(line)

    def _fail_malformed(self, line: bytes) -> None:
        message = f"no JSON object: {line[:80].decode(errors='replace')}"
        self.completion.fail(ErrorKind.MALFORMED_RESPONSE, message)

    def _read_json(self, at: float, line: bytes) -> bool:
        """Read a JSON object, and return whether the line is one."""
        if line == b"[DONE]":
            self._finished = True
            return True
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(data, dict):
            return False
        if self._event == "error" or data.get("error") or data.get("object") == "error":
            self.completion.fail(ErrorKind.MODEL_ERROR, _error_message(data))
            return True
        excerpt = line[:120].decode(errors="replace")
        try:
            if not self.read(at, data):
                self._unknown = self._unknown or excerpt
        except (AttributeError, KeyError, TypeError, IndexError):
            self.completion.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {excerpt}")
        return True


class ChatDecoder(Decoder):
    """Chunks of OpenAI's chat completions, as server-sent events or, from LMI containers, as JSON lines.

    Source: OpenAI API reference, "Chat completions streaming"; DJL Serving, "LMI Chat Completions API Schema".
    """

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read one chunk."""
        choices = data.get("choices") or []
        for choice in choices[:1]:
            # A server that does not stream sends the message whole.
            delta = choice.get("delta") or choice.get("message") or {}
            text = (delta.get("content") or "") + (delta.get("refusal") or "") + _tool_calls(delta)
            reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
            if text or reasoning:
                self.completion.add(at, text, reasoning)
            if choice.get("finish_reason") == "error":
                self.completion.fail(ErrorKind.MODEL_ERROR, _error_message(data))
            elif choice.get("finish_reason"):
                self._finished = True
        usage = data.get("usage")
        if usage:
            self.completion.server_input_tokens = _token_count(usage.get("prompt_tokens"))
            self.completion.server_output_tokens = _token_count(usage.get("completion_tokens"))
        return bool(choices or usage)


class TokenDecoder(Decoder):
    """A JSON object for each token, as JSON lines from LMI containers or as server-sent events from TGI.

    Source: DJL Serving, "LMI handlers: inference API schema"; Text Generation Inference, "generate_stream".
    """

    def __init__(self) -> None:
        super().__init__()
        self._tokens = 0

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read one token, or the details at the end."""
        details = data.get("details") or {}
        if details.get("finish_reason") == "error":
            self.completion.fail(ErrorKind.MODEL_ERROR, _error_message(data))
            return True
        token = data.get("token")
        if token is not None:
            self._tokens += 1
            # A special token, such as the end of the text, is generated but is no text.
            self.completion.add(at, "" if token.get("special") or token.get("special_token") else token["text"])
            self.completion.server_output_tokens = self._tokens
        finished = bool(details) or data.get("generated_text") is not None
        if finished:
            self._finished = True
            counted = _token_count(details.get("generated_tokens"))
            self.completion.server_output_tokens = counted or self.completion.server_output_tokens
        return token is not None or finished


def _chat_body(prompt: Prompt, generation: Generation) -> dict[str, Any]:
    return {
        "messages": prompt.as_messages(),
        "max_tokens": prompt.max_tokens or generation.max_tokens,
        "temperature": generation.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        **generation.parameters,
    }


def _token_body(prompt: Prompt, generation: Generation) -> dict[str, Any]:
    """There is no chat in this schema: the text of a chat is sent without a template."""
    sampling = {"do_sample": False} if generation.temperature == 0 else {"temperature": generation.temperature}
    parameters = {
        "max_new_tokens": prompt.max_tokens or generation.max_tokens,
        **sampling,
        "details": True,
        **generation.parameters,
    }
    return {"inputs": prompt.text, "parameters": parameters, "stream": True}


@dataclass(frozen=True)
class Format:
    """A schema of requests and completions; ``path`` is below the URL of a server."""

    name: FormatName
    path: str
    decoder: type[Decoder]
    write: Callable[[Prompt, Generation], dict[str, Any]]
    takes_model: bool = False

    def body(self, prompt: Prompt, generation: Generation, model: str | None) -> bytes:
        """The body of a request."""
        named = {"model": model} if model and self.takes_model else {}
        return json.dumps(named | self.write(prompt, generation), separators=(",", ":")).encode()


CHAT = Format(FormatName.OPENAI, "/chat/completions", ChatDecoder, _chat_body, takes_model=True)
"""OpenAI's chat completions; the server is asked to count tokens."""
LMI = Format(FormatName.LMI, "/invocations", TokenDecoder, _token_body)
"""``inputs`` and ``parameters``, as LMI containers take them."""
TGI = Format(FormatName.TGI, "/invocations", TokenDecoder, _token_body)
"""The same, as Text Generation Inference takes them."""


def candidate_formats(name: FormatName, *, sagemaker: bool, as_text: bool) -> tuple[Format, ...]:
    """The formats to try: containers of SageMaker endpoints understand several, and a chat wraps ``inputs``."""
    if name is not FormatName.AUTO:
        return tuple(known for known in (CHAT, LMI, TGI) if known.name is name)
    if not sagemaker:
        return (CHAT,)
    return (LMI, CHAT) if as_text else (CHAT, LMI)


def refusal(exchange: Exchange) -> tuple[ErrorKind, str] | None:
    """The kind and message of an HTTP status other than 200; None where it is 200, or where no response came."""
    if exchange.status in (0, 200):
        return None
    message = exchange.body.decode(errors="replace").strip()
    code = exchange.headers.get("x-amzn-errortype", "").partition(":")[0]
    status = exchange.status
    try:
        data = json.loads(message)
    except ValueError:
        data = None
    if isinstance(data, dict):
        message = _error_message(data)
        # The runtime's ModelError (424) carries the status of the container's response.
        original = data.get("OriginalStatusCode")
        status = original if isinstance(original, int) and 400 <= original <= 599 else status
    described = " ".join(filter(None, [f"status {exchange.status}", code, message[:_LONGEST_MESSAGE]]))
    if status == 429 or "Throttl" in code:
        return ErrorKind.THROTTLED, described
    # 424: the model failed, and the runtime does not know how.
    return (ErrorKind.SERVER_ERROR if status >= 500 or status == 424 else ErrorKind.CLIENT_ERROR), described


def _token_count(value: object) -> int | None:
    """A number of tokens; None of anything else that a server may send."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tool_calls(delta: dict[str, Any]) -> str:
    """The tools that a piece calls: names and arguments are generated like any text."""
    calls = [call.get("function") for call in delta.get("tool_calls") or []]
    functions = [function for function in (*calls, delta.get("function_call")) if function]
    return "".join((function.get("name") or "") + (function.get("arguments") or "") for function in functions)


def _error_message(data: dict[str, Any]) -> str:
    error = data.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error
    message = error or data.get("OriginalMessage") or data.get("message") or data.get("Message") or data
    return message if isinstance(message, str) else json.dumps(message)
