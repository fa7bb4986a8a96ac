"""The HTTP interface of a served model.

Sources: OpenAI's API reference (chat completions, completions); vLLM, ``entrypoints/serve/sagemaker/api_router.py``
(``/invocations`` takes both) and ``entrypoints/openai`` (the format of errors, ``ignore_eos``, 16 tokens of a
completion by default); LMI documentation, "LMI handlers inference API schema" (``inputs``).
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from .llama import Llama, Sampling
from .text import RefusedPrompt, Text

_JSON, _EVENTS, _LINES = "application/json", "text/event-stream", "application/jsonlines"
_COMPLETION_TOKENS = 16
_ROUTES = Map(
    [
        Rule("/ping", endpoint="healthy", methods=["GET"]),
        Rule("/health", endpoint="healthy", methods=["GET"]),
        Rule("/v1/models", endpoint="models", methods=["GET"]),
        Rule("/v1/chat/completions", endpoint="chat", methods=["POST"]),
        Rule("/v1/completions", endpoint="completion", methods=["POST"]),
        Rule("/invocations", endpoint="any", methods=["POST"]),
    ]
)
_MEMBERS = {"chat": "messages", "completion": "prompt", "inputs": "inputs"}


class _Refused(Exception):
    """A request that is refused. The text is the reason."""


@dataclass(frozen=True)
class _Request:
    """The parameters of a request."""

    form: str
    prompt: list[int]
    sampling: Sampling
    most_tokens: int
    stops: tuple[str, ...]
    ignores_end: bool
    streams: bool
    with_usage: bool


class _Completion:
    """A completion in progress: its pieces, and at its end the tokens and the finish reason."""

    def __init__(self) -> None:
        self.tokens, self.reason = 0, "length"


class Application:
    """A WSGI application that serves one model.

    Args:
        folder: the model's folder.
        name: the model's name in responses.
        most_tokens: maximum length of a prompt plus its completion, in tokens. Default: the model's own.

    Raises:
        UnreadableModel: if the model cannot be served.
    """

    def __init__(self, folder: Path, name: str, *, most_tokens: int | None = None) -> None:
        self._model, self._text, self._name = Llama(folder), Text(folder), name
        self._length = min(most_tokens or self._model.length, self._model.length)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Serve one request."""
        request = Request(environ)
        try:
            route, _ = _ROUTES.bind_to_environ(environ).match()
            response = self._respond(route, request)
        except HTTPException as error:
            response = _error(str(error.description), error.code or 500)
        except (_Refused, RefusedPrompt) as error:
            response = _error(str(error), 400)
        return response(environ, start_response)

    def _respond(self, route: str, request: Request) -> Response:
        if route == "healthy":
            return Response(status=200)
        if route == "models":
            known = {"id": self._name, "object": "model", "owned_by": "local", "max_model_len": self._length}
            return _json_response({"object": "list", "data": [known]})
        parsed = self._parsed(route, request)
        completion = _Completion()
        pieces = self._pieces(parsed, completion)
        write = _as_generated_text if parsed.form == "inputs" else _as_openai
        if not parsed.streams:
            text = "".join(pieces)
            return _json_response(write(parsed, completion, self._name).whole(text))
        kind = _LINES if parsed.form == "inputs" else _EVENTS
        return Response(write(parsed, completion, self._name).stream(pieces), content_type=kind)

    def _parsed(self, route: str, request: Request) -> _Request:
        try:
            body = json.loads(request.get_data())
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise _Refused("the body is not a JSON object")
        forms = tuple(_MEMBERS) if route == "any" else (route,)
        form = next((each for each in forms if body.get(_MEMBERS[each])), None)
        if form is None:
            raise _Refused(f"the body has no {' or '.join(_MEMBERS[each] for each in forms)}")
        if body.get("n", 1) != 1:
            raise _Refused(f"n is {body['n']}, and this server makes one completion for a prompt")
        prompt = self._prompt(form, body[_MEMBERS[form]])
        settings = body.get("parameters") or {} if form == "inputs" else body
        room = self._length - len(prompt)
        if room < 1:
            raise _Refused(
                f"This model's maximum context length is {self._length} tokens, and the prompt has {len(prompt)}."
            )
        names = ("max_completion_tokens", "max_tokens", "max_new_tokens")
        most = next((settings[name] for name in names if settings.get(name) is not None), None)
        default = _COMPLETION_TOKENS if form == "completion" else room
        stops = settings.get("stop") or ()
        temperature = settings.get("temperature")
        if form == "inputs" and temperature is None and not settings.get("do_sample"):
            temperature = 0.0
        try:
            return _Request(
                form=form,
                prompt=prompt,
                sampling=Sampling(
                    temperature=1.0 if temperature is None else float(temperature),
                    top_p=float(settings.get("top_p") or 1.0),
                    seed=settings.get("seed"),
                ),
                most_tokens=min(default if most is None else int(most), room),
                stops=(stops,) if isinstance(stops, str) else tuple(stops),
                ignores_end=settings.get("ignore_eos") is True,
                streams=body.get("stream") is True,
                with_usage=(body.get("stream_options") or {}).get("include_usage") is True,
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise _Refused(f"a parameter is of the wrong type: {error}") from None

    def _prompt(self, form: str, given: Any) -> list[int]:
        if form == "chat":
            if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
                raise _Refused("messages is not a list of objects")
            return self._text.of_chat(given)
        if not isinstance(given, str):
            raise _Refused(f"{_MEMBERS[form]} is not a string")
        return self._text.of_prompt(given)

    def _pieces(self, request: _Request, completion: _Completion) -> Iterator[str]:
        """Yield the text, up to the end of the turn, a stop string or the maximum of tokens."""

        def tokens() -> Iterator[int]:
            made = self._model.tokens(request.prompt, request.sampling)
            for token in itertools.islice(made, request.most_tokens):
                completion.tokens += 1
                if token in self._text.ends and not request.ignores_end:
                    completion.reason = "stop"
                    return
                yield token

        held = ""
        longest = max((len(stop) for stop in request.stops), default=0)
        for piece in self._text.pieces(tokens()):
            held += piece
            found = [at for stop in request.stops if (at := held.find(stop)) >= 0]
            if found:
                completion.reason = "stop"
                yield held[: min(found)]
                return
            # Hold back text that may be the beginning of a stop string.
            ready = len(held) - max(0, longest - 1)
            yield held[: max(0, ready)]
            held = held[max(0, ready) :]
        yield held


class _as_openai:  # noqa: N801 - used as a function
    """Writes a chat completion or a completion."""

    def __init__(self, request: _Request, completion: _Completion, model: str) -> None:
        self._request, self._completion = request, completion
        self._is_chat = request.form == "chat"
        kind = "chatcmpl" if self._is_chat else "cmpl"
        self._head = {"id": f"{kind}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
        self._object = "chat.completion" if self._is_chat else "text_completion"

    def whole(self, text: str) -> dict[str, Any]:
        said = {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": self._completion.reason}
        return {"object": self._object, **self._head, "choices": [choice], "usage": self._usage()}

    def stream(self, pieces: Iterator[str]) -> Iterator[bytes]:
        role = {"role": "assistant"}
        for piece in pieces:
            if piece:
                yield self._chunk({"delta": {**role, "content": piece}} if self._is_chat else {"text": piece}, None)
                role = {}
        yield self._chunk({"delta": {}} if self._is_chat else {"text": ""}, self._completion.reason)
        if self._request.with_usage:
            yield _event({**self._named(), "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

    def _chunk(self, said: dict[str, Any], reason: str | None) -> bytes:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
        return _event({**self._named(), "choices": [choice]})

    def _named(self) -> dict[str, Any]:
        return {"object": f"{self._object}.chunk" if self._is_chat else self._object, **self._head}

    def _usage(self) -> dict[str, int]:
        asked, made = len(self._request.prompt), self._completion.tokens
        return {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}


class _as_generated_text:  # noqa: N801 - used as a function
    """Writes LMI's own schema."""

    def __init__(self, request: _Request, completion: _Completion, model: str) -> None:
        self._completion = completion

    def whole(self, text: str) -> dict[str, Any]:
        return {"generated_text": text}

    def stream(self, pieces: Iterator[str]) -> Iterator[bytes]:
        text = ""
        for index, piece in enumerate(each for each in pieces if each):
            text += piece
            yield json.dumps({"token": {"id": index, "text": piece}}).encode() + b"\n"
        reason = "length" if self._completion.reason == "length" else "eos_token"
        details = {"finish_reason": reason, "generated_tokens": self._completion.tokens}
        last = {"token": {"id": self._completion.tokens, "text": ""}, "generated_text": text, "details": details}
        yield json.dumps(last).encode() + b"\n"


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _json_response(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status=status, content_type=_JSON)


def _error(message: str, status: int) -> Response:
    kind = "BadRequestError" if status == 400 else "NotFoundError" if status == 404 else "Error"
    return _json_response({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)
