"""A model server of exactly known timing: it says its tokens when it is told to, and fails when a prompt asks for it.

It speaks OpenAI's completions, of chats and of text, and what SageMaker's runtime makes of a container's stream:
completions, or the JSON lines of an LMI container, in frames of an AWS event stream. A prompt with ``fault:NAME`` in it
gets that fault; one with ``bend:NAME`` is answered in a way that servers and proxies have, and that is no fault; one
with ``vary`` in it another answer from a server with ``--variation``.

    python tests/support/timing_server.py --first-token 0.2 --inter-token 0.02 --tokens 50

prints the port it listens on (loopback only) and serves until its standard input is closed. ``GET /lateness`` tells how
late its own tokens were: what a client cannot be blamed for.
"""

from __future__ import annotations

import argparse
import asyncio
import binascii
import contextlib
import json
import ssl
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FAULTS = ("400", "429", "500", "refuse", "hang", "stall", "cut", "unfinished", "empty", "malformed", "error")
BENDS = ("whole", "ping", "choiceless", "lines", "tools", "refusal", "uncounted", "first", "pause", "cached", "special")
"""All in one piece; with pings; with chunks without choices; events of several data lines; output that is tool calls or
a refusal; a count of 0 tokens; half of the answer in the first piece; a pause of 0.1 s in the middle; half of the
prompt in the cache; every sixth token without text."""
_PAUSE = 0.1
_STATUS = {"400": "400 Bad Request", "429": "429 Too Many Requests", "500": "500 Internal Server Error"}
_FAR_AWAY = 3600.0


@dataclass
class Timing:
    """What the server does.

    Attributes:
        first_token: seconds from a whole request to the first token.
        inter_token: seconds from a token to the next.
        prefill: seconds in which the server reads a prompt, one prompt at a time, before all that.
        tokens: of an answer, where a request sets no lower limit.
        together: tokens that arrive in one piece, as with speculative decoding.
        accepted: tokens that each of ten drafts a request has accepted, counted as vLLM does; None without drafts.
        closes_next: whether the next request meets a connection that is being closed.
        breaks_after: requests, after which every one is answered with 500.
        counts_output: whether it counts output tokens, if it counts prompt tokens.
        of_others: requests of other clients that it says to have completed, for each of its own.
        variation: what the words of other answers begin with, for prompts with ``vary`` in them.
    """

    first_token: float = 0.2
    inter_token: float = 0.02
    tokens: int = 50
    together: int = 1
    counts_output: bool = True
    of_others: float = 0.0
    variation: str = ""
    accepted: float | None = None
    closes_next: bool = False
    breaks_after: int | None = None
    lateness: list[float] = field(default_factory=list)
    prefill: float = 0.0
    free: float = 0.0
    requests: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)


class _Connection(asyncio.Protocol):
    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._received = b""
        self._streams: set[_Stream] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        for stream in list(self._streams):
            stream.stop()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].decode("latin-1")
            lines = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            if len(self._received) < end + 4 + length:
                return
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            method, path, _ = lines[0].split(" ", 2)
            self._answer(method, path, headers, body)

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        if method == "GET" and path == "/metrics" and self._timing.accepted is not None:
            drafts = 10.0 * self._timing.requests
            labels = '{engine="0",model_name="timed"}'
            page = (
                "# TYPE vllm:spec_decode_num_drafts_total counter\n"
                f"vllm:spec_decode_num_drafts_total{labels} {drafts}\n"
                f"vllm:spec_decode_num_drafts_created{labels} 1.79e+09\n"
                f"vllm:spec_decode_num_accepted_tokens_total{labels} {self._timing.accepted * drafts}\n"
                f"vllm:request_success_total{labels} {self._timing.requests * (1 + self._timing.of_others)}\n"
            )
            self.plain("200 OK", page.encode())
            return
        if method == "GET":
            late = sorted(self._timing.lateness) or [0.0]
            told = {
                "requests": self._timing.requests,
                "mean": sum(late) / len(late),
                "p99": late[len(late) * 99 // 100 - 1],
                "object": "list",
                "data": [{"id": "timed", "object": "model"}],
            }
            if path.startswith("/reset"):
                self._timing.lateness.clear()
            self.plain("200 OK", json.dumps(told).encode())
            return
        self._timing.requests += 1
        try:
            asked = json.loads(body)
        except ValueError:
            self.plain(_STATUS["400"], b'{"message": "no JSON"}', "ValidationError")
            return
        self._timing.bodies.append({"path": path, "headers": headers, "body": asked})
        del self._timing.bodies[:-1000]
        fault = next((name for name in FAULTS if f"fault:{name}" in _prompt(asked)), None)
        if self._timing.breaks_after is not None and self._timing.requests > self._timing.breaks_after:
            fault = "500"
        if fault == "refuse" or self._timing.closes_next:
            self._timing.closes_next = False
            self.transport.close()
        elif fault in _STATUS:
            # As the runtime answers: the error's code is in a header.
            code = {"400": "ValidationError", "429": "ThrottlingException", "500": "ModelError"}[fault]
            self.plain(_STATUS[fault], json.dumps({"message": f"asked for {fault}"}).encode(), code)
        elif fault != "hang":
            stream = _Stream(self, self._timing, asked, fault, framed=path.startswith("/endpoints/"))
            self._streams.add(stream)
            stream.ended = self._streams.discard
            stream.start()

    def plain(self, status: str, body: bytes, code: str = "") -> None:
        error = f"x-amzn-ErrorType: {code}\r\n" if code else ""
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{error}Content-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


class _Stream:
    """One answer, a timer for each piece of it."""

    ended: Callable[[_Stream], None]

    def __init__(
        self, connection: _Connection, timing: Timing, asked: dict[str, Any], fault: str | None, *, framed: bool
    ) -> None:
        self._connection, self._timing, self._fault, self._framed = connection, timing, fault, framed
        self._chat = "messages" in asked
        self._openai = self._chat or "prompt" in asked
        parameters = asked if self._openai else asked.get("parameters", {})
        limit = (
            parameters.get("max_tokens") or parameters.get("max_completion_tokens") or parameters.get("max_new_tokens")
        )
        self._tokens = 0 if fault == "empty" else min(timing.tokens, limit or timing.tokens)
        self._usage = bool((asked.get("stream_options") or {}).get("include_usage"))
        prompt = _prompt(asked)
        self._bend = next((name for name in BENDS if f"bend:{name}" in prompt), None)
        self._kept = b""
        self._prompt_tokens = len(prompt.split())
        self._word = timing.variation if timing.variation and "vary" in prompt else "w"
        self._loop = asyncio.get_running_loop()
        self._said = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        kind = "application/vnd.amazon.eventstream" if self._framed else "text/event-stream"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._connection.transport.write(head.encode())
        if self._chat:
            # As OpenAI's servers do: a piece without a token, which is no first token.
            self._write(self._delta({"role": "assistant", "content": ""}))
        timing = self._timing
        timing.free = max(timing.free, self._loop.time()) + timing.prefill
        self._due = timing.free + timing.first_token if timing.prefill else self._loop.time() + timing.first_token
        self._timer = self._loop.call_at(self._due, self._token)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.ended(self)

    def _token(self) -> None:
        self._timing.lateness.append(self._loop.time() - self._due)
        if self._said >= self._tokens:
            self._end()
            return
        if self._said == 2 and self._fault in ("cut", "unfinished", "malformed", "error", "stall"):
            self._fail()
            return
        together = self._tokens // 2 if self._bend == "first" and not self._said else self._timing.together
        count = min(together, self._tokens - self._said)
        places = range(self._said, self._said + count)
        words = [f"{self._word}{place} " for place in places if self._bend != "special" or place % 6 != 5]
        self._said += count
        last = self._said >= self._tokens
        if self._openai:
            self._write(self._odd(self._said == count) + self._delta(self._output("".join(words))))
        else:
            self._write(b"".join(self._line(word, last=last and word is words[-1]) for word in words))
        if last:
            self._end()
            return
        self._due += self._timing.inter_token * count
        if self._bend == "pause" and self._said == self._tokens // 2:
            self._due += _PAUSE
        self._timer = self._loop.call_at(self._due, self._token)

    def _end(self) -> None:
        if self._openai:
            closing = self._delta({}, finish_reason="length")
            if self._usage:
                said = 0 if self._bend == "uncounted" else self._said
                counted: dict[str, Any] = {"prompt_tokens": self._prompt_tokens}
                if self._timing.counts_output:
                    counted["completion_tokens"] = said
                if self._bend == "cached":
                    counted["prompt_tokens_details"] = {"cached_tokens": self._prompt_tokens // 2}
                closing += _event({"id": "1", "object": "chat.completion.chunk", "choices": [], "usage": counted})
            self._write(closing + b"data: [DONE]\n\n", last=True)
        elif not self._tokens:
            self._write(b"")
        self._connection.transport.write(b"0\r\n\r\n")
        self.stop()

    def _fail(self) -> None:
        match self._fault:
            case "cut":
                self._connection.transport.close()
            case "unfinished":
                self._connection.transport.write(b"0\r\n\r\n")
            case "malformed":
                self._write(b'data: {"choices": [{"delta": {"cont\n\n' if self._openai else b'{"token": {"te\n')
                self._said, self._fault = self._said, None
                self._timer = self._loop.call_later(self._timing.inter_token, self._token)
                return
            case "error" if self._framed:
                raised = {":message-type": "exception", ":exception-type": "ModelStreamError"}
                said = {"Message": "the model broke", "ErrorCode": "StreamBroken"}
                self._chunk(frame(raised, json.dumps(said).encode()))
                self._connection.transport.write(b"0\r\n\r\n")
            case "error":
                self._write(_event({"error": {"message": "the model broke", "code": 500}}))
                self._connection.transport.write(b"0\r\n\r\n")
            case _:
                self._timer = self._loop.call_later(_FAR_AWAY, self.stop)
                return
        self.stop()

    def _output(self, words: str) -> dict[str, Any]:
        if self._bend == "tools":
            named = {"name": "look_up"} if words.startswith(f"{self._word}0 ") else {}
            return {"tool_calls": [{"index": 0, "function": {**named, "arguments": words}}]}
        return {"refusal" if self._bend == "refusal" else "content": words}

    def _odd(self, first: bool) -> bytes:
        """What is sent beside a token, and says nothing."""
        if self._bend == "ping":
            return b"event: ping\ndata: {}\n\nevent: ping\ndata: still here\n\n"
        if self._bend == "choiceless":
            return _event({"id": "1", "usage": None}) if first else _event({"id": "1", "choices": None})
        return b""

    def _delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        said = {"delta": delta} if self._chat else {"text": delta.get("content", "")}
        choice = {"index": 0, **said, "finish_reason": finish_reason}
        chunk = {"id": "1", "object": "chat.completion.chunk", "model": "timed", "choices": [choice]}
        if self._bend == "lines":
            return (
                b"".join(b"data: " + line.encode() + b"\n" for line in json.dumps(chunk, indent=1).split("\n")) + b"\n"
            )
        return _event(chunk)

    def _line(self, word: str, *, last: bool) -> bytes:
        line: dict[str, Any] = {"token": {"id": self._said, "text": word, "log_prob": -0.1}}
        if last:
            line["generated_text"] = None
            line["details"] = {"finish_reason": "length", "generated_tokens": self._said, "inputs": None}
        return json.dumps(line).encode() + b"\n"

    def _write(self, payload: bytes, *, last: bool = False) -> None:
        if self._bend == "whole" and not last:
            self._kept += payload
            return
        payload, self._kept = self._kept + payload, b""
        self._chunk(frame(_PART, payload) if self._framed else payload)

    def _chunk(self, payload: bytes) -> None:
        if payload:
            self._connection.transport.write(b"%x\r\n%b\r\n" % (len(payload), payload))


_PART = {":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"}


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """A message of an AWS event stream (Smithy, "Amazon Event Stream Specification")."""
    written = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(written) + len(payload), len(written))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + written + payload
    return message + struct.pack(">I", binascii.crc32(message))


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _prompt(asked: dict[str, Any]) -> str:
    if "messages" in asked:
        return "\n".join(str(message.get("content")) for message in asked["messages"])
    return str(asked.get("inputs", asked.get("prompt", "")))


async def serve(timing: Timing, port: int = 0, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    """Listen on loopback; the port is that of ``sockets[0]``."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(timing), "127.0.0.1", port, backlog=1024, ssl=tls)


async def _until_told(timing: Timing, port: int) -> None:
    server = await serve(timing, port)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--first-token", type=float, default=0.2, help="seconds")
    parser.add_argument("--inter-token", type=float, default=0.02, help="seconds")
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--variation", default="")
    given = parser.parse_args()
    timing = Timing(given.first_token, given.inter_token, given.tokens, given.together, given.variation)
    runner: Callable[[Any], Any] = asyncio.run
    with contextlib.suppress(ImportError):
        import uvloop

        runner = uvloop.run
    runner(_until_told(timing, given.port))


if __name__ == "__main__":
    main()
