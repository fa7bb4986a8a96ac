"""InvokeEndpoint and InvokeEndpointWithResponseStream: deterministic text in the API formats of the model's container.

The text depends only on the prompt, unless a test sets the model to respond differently (``performance``). The
image determines the formats:

- vLLM: ``messages`` and ``prompt``, that is, OpenAI's chat completions and completions (0.30,
  ``entrypoints/serve/sagemaker/api_router.py``, which tries the two request types of ``generate/factories.py``)
- SGLang: ``messages`` (0.5.20, ``srt/entrypoints/http_server.py``: ``/invocations`` is the chat completions route)
- all others, like LMI: ``inputs`` with ``parameters`` (LMI documentation, "LMI handlers inference API schema"; a stream
  is JSON lines) and ``messages`` (its "Chat completions API schema", which is OpenAI's). Text Generation Inference
  accepts these too (``router/src/sagemaker.rs``).

Streams in OpenAI's formats are server-sent events. Responses are immediate.

Sources: API reference of SageMaker Runtime. The messages about missing endpoints and inference components are from
users' reports.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.records import Record, Scope

from . import pooled_outputs
from .performance import Performances, Served, share_of, tokens_of
from .served_models import NoCapacity, NotServing, ServedModels

# fmt: off
_WORDS = (
    "a", "an", "and", "answer", "as", "at", "be", "because", "but", "by", "can", "each", "every", "first", "for",
    "from", "given", "has", "have", "in", "into", "is", "it", "last", "less", "like", "made", "many", "may",
    "model", "more", "most", "much", "must", "next", "no", "not", "of", "often", "on", "one", "only", "or", "other",
    "over", "part", "same", "second", "should", "since", "small", "so", "some", "such", "than", "that", "the",
    "their", "then", "there", "these", "they", "this", "time", "to", "under", "use", "very", "was", "way", "what",
    "when", "where", "which", "while", "who", "why", "will", "with", "word", "would",
)
# fmt: on
_SHORTEST, _LENGTHS = 24, 24


@dataclass(frozen=True)
class Invocation:
    """A request to a model.

    Attributes:
        endpoint: the endpoint's name.
        body: the request's body.
        component: the requested inference component, if any.
        variant: the requested variant, if any.
        streams: whether the completion is an event stream of parts.
        is_openai: whether the request used the OpenAI-compatible path, for chat completions only.
        headers: the headers that a container gets.
    """

    endpoint: str
    body: bytes
    component: str | None = None
    variant: str | None = None
    streams: bool = False
    is_openai: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Completion:
    """A model's completion in parts: one part, unless it is streamed.

    A model server's parts arrive as it writes them. Only on OpenAI's path can ``status`` differ from 200.
    """

    content_type: str
    parts: tuple[bytes, ...] | Iterator[bytes]
    variant: str
    status: int = 200


@dataclass(frozen=True)
class Forwarded:
    """A request to one of the model servers with the keys ``servers``; ``copies`` counts instances or copies."""

    invocation: Invocation
    servers: tuple[str, ...]
    variant: str
    copies: int = 1


class ModelError(ApiError):
    """A model's own error. ``model_status`` is the status of its response; None if it gave none."""

    def __init__(self, model_status: int | None, message: str, **more: Any) -> None:
        super().__init__("ModelError", message, 424, **more)
        self.model_status = model_status


class StreamFailed(Exception):
    """A stream that breaks off. ``code`` is the code of the ModelStreamError."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


Observe = Callable[[Forwarded, Callable[[Forwarded], Completion]], Completion]
"""Forwards a request, and returns its completion."""


class Invocations:
    """The invocations of the endpoints of an account and Region."""

    def __init__(
        self,
        scope: Scope,
        served: ServedModels,
        performances: Performances,
        objects: Objects | None = None,
        *,
        observe: Observe = lambda forwarded, forward: forward(forwarded),
        without_capacity: Callable[[str], None] = lambda component: None,
    ) -> None:
        """``observe`` forwards a request; ``without_capacity`` is told of a request to a component without copies."""
        self._scope, self._served, self._performances, self._objects = scope, served, performances, objects
        self._observe, self._without_capacity = observe, without_capacity
        self._replicated: dict[str, float] = {}

    def invoke(self, invocation: Invocation) -> Completion:
        """Invoke a model, and its shadow variant if the request is replicated.

        Raises:
            ApiError: ValidationError if no model can respond, ModelError if the model refuses.
        """
        served, variant = self._target(invocation)
        completion = self._observed(invocation, served, variant)
        endpoint = self._served.endpoint(invocation.endpoint)
        if endpoint is not None:
            self._capture(endpoint, invocation, completion)
            if (shadow := self._shadow_of(endpoint)) is not None:
                with contextlib.suppress(ApiError):
                    name = shadow["VariantName"]
                    copied = self._observed(invocation, self._served.by_variant(endpoint, shadow), name)
                    self._capture(endpoint, invocation, copied)
        return completion

    def _observed(self, invocation: Invocation, served: Served, variant: str) -> Completion:
        forwarded = Forwarded(invocation, (), variant, served.copies)
        return self._observe(forwarded, lambda each: self._completion(each.invocation, served, each.variant))

    def routes(self, invocation: Invocation) -> list[Forwarded]:
        """Return where to send a request: to production, and to the shadow if it is replicated.

        Raises:
            ApiError: ValidationError if no model can respond.
        """
        _, variant = self._target(invocation)
        endpoint = self._served.endpoint(invocation.endpoint)
        if endpoint is None:
            return []
        servers = self._served.servers(endpoint, variant, invocation.component)
        found = [Forwarded(invocation, servers, variant, len(servers))]
        if (shadow := self._shadow_of(endpoint)) is not None:
            name = shadow["VariantName"]
            servers = self._served.servers(endpoint, name)
            found.append(Forwarded(invocation, servers, name, len(servers)))
        return found

    def _shadow_of(self, endpoint: Record) -> Record | None:
        """Return the shadow variant for an evenly spread share of the requests, and None for the others.

        AWS documents neither the share nor the choice of requests. The share is the ratio of the shadow's weight to
        production's, as users describe it.
        """
        shadows = endpoint["_config"].get("ShadowProductionVariants", [])
        if not shadows:
            return None
        weights, production = endpoint["_weights"], endpoint["_config"]["ProductionVariants"][0]
        name, shadow = endpoint["EndpointName"], shadows[0]
        share = weights[shadow["VariantName"]] / (weights[production["VariantName"]] or 1)
        # The small addend keeps rounding from losing a request.
        self._replicated[name] = self._replicated.get(name, 0.0) + min(1.0, share) + 1e-9
        if self._replicated[name] < 1:
            return None
        self._replicated[name] -= 1
        return shadow

    def captured(self, invocation: Invocation, completion: Completion) -> None:
        """Write a request and a model server's response to the endpoint's data capture, if it is on."""
        if (endpoint := self._served.endpoint(invocation.endpoint)) is not None:
            self._capture(endpoint, invocation, completion)

    def _capture(self, endpoint: Record, invocation: Invocation, completion: Completion) -> None:
        """Write a request and its response to a file, as the endpoint's data capture does.

        Source: developer guide, "Capture data from real-time endpoint". Assumed: the captured share is evenly spread.
        Streams are not captured, because no source says how.
        """
        config, parts = endpoint["_config"].get("DataCaptureConfig", {}), completion.parts
        if self._objects is None or not config or config.get("EnableCapture") is False:
            return
        if not isinstance(parts, tuple) or len(parts) != 1:
            return
        share = config["InitialSamplingPercentage"] / 100
        if share_of(invocation.body.decode(errors="replace"), about="capture") >= share:
            return
        modes = {option["CaptureMode"] for option in config["CaptureOptions"]}
        kept = config.get("CaptureContentTypeHeader", {}).get("JsonContentTypes", [])
        data = dict[str, Any]()
        texts = (("Input", "endpointInput", invocation.body), ("Output", "endpointOutput", parts[0]))
        for mode, name, text in texts:
            if modes & {mode, "InputAndOutput"}:
                is_kept = "application/json" in kept
                data[name] = {
                    "observedContentType": "application/json",
                    "mode": mode.upper(),
                    "data": text.decode() if is_kept else base64.b64encode(text).decode(),
                    "encoding": "JSON" if is_kept else "BASE64",
                }
        at, event = self._scope.now(), str(uuid.uuid4())
        record = {
            "captureData": data,
            "eventMetadata": {"eventId": event, "inferenceTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")},
            "eventVersion": "0",
        }
        folder = f"{config['DestinationS3Uri'].rstrip('/')}/{endpoint['EndpointName']}/{completion.variant}"
        uri = f"{folder}/{at:%Y/%m/%d/%H}/{at:%M-%S}-000-{event}.jsonl"
        self._objects.put(endpoint["EndpointName"], {uri: json.dumps(record).encode() + b"\n"})

    def _completion(self, invocation: Invocation, served: Served, variant: str) -> Completion:
        try:
            request = json.loads(invocation.body)
        except ValueError:
            raise model_error(400, "the request is not JSON") from None
        if not isinstance(request, dict):
            raise model_error(400, "the request is not an object")
        repository = (served.image or "").rpartition("/")[2].partition(":")[0]
        if pooled_outputs.RUNNER in served.texts:
            return self._pooled(request, served, variant)
        for form in (_chat,) if invocation.is_openai else _FORMS.get(repository, (_chat, _generation)):
            if (parsed := form(request)) is not None:
                break
        else:
            refusal = _REFUSALS.get(repository) if not invocation.is_openai else None
            raise model_error(400, refusal or "the request has neither inputs nor messages")
        numbers = self._performances.of(served, tokens_of(parsed.prompt))
        if share_of(parsed.prompt, about="error") < numbers.error_rate:
            raise model_error(500, "the model server answered 500")
        otherwise = share_of(parsed.prompt, about="answer") < numbers.answers_differently
        words = text_for(parsed.prompt, "otherwise" if otherwise else "").split()
        kept = words[: parsed.most_tokens] if parsed.most_tokens is not None else words
        streams = invocation.streams or parsed.streams
        content_type, parts = parsed.written(kept, len(kept) < len(words), streams, served.name)
        return Completion(content_type, parts if streams else (b"".join(parts),), variant)

    def _pooled(self, request: Mapping[str, Any], served: Served, variant: str) -> Completion:
        text = "\n".join(pooled_outputs.texts_of(request))
        tokens = tokens_of(text)
        numbers = self._performances.of(served, tokens)
        if share_of(text, about="error") < numbers.error_rate:
            raise model_error(500, "the model server answered 500")
        salt = "otherwise" if share_of(text, about="answer") < numbers.answers_differently else ""
        answer = pooled_outputs.pooled(request, served.texts, salt, tokens)
        if answer is None:
            raise model_error(400, "Cannot find suitable handler for request")
        return Completion("application/json", (_json(answer),), variant)

    def _target(self, invocation: Invocation) -> tuple[Served, str]:
        endpoint = self._served.endpoint(invocation.endpoint)
        if endpoint is None:
            raise _refused(f"Endpoint {invocation.endpoint} of account {self._scope.account} not found.")
        if endpoint["EndpointStatus"] in ("Creating", "Failed"):
            raise _refused(f"Endpoint {invocation.endpoint} of account {self._scope.account} is not in service.")
        hosts = self._served.hosts_components(endpoint)
        if hosts and invocation.component is None:
            raise _refused(
                "Inference Component Name header is required for endpoints to which you plan to deploy inference "
                "components. Please include Inference Component Name header or consider using SageMaker models."
            )
        try:
            served = (
                self._served.by_component(endpoint, invocation.component)
                if invocation.component is not None
                else self._served.by_endpoint(endpoint, invocation.variant)
            )
        except NoCapacity as error:
            self._without_capacity(error.component)
            raise _refused(str(error)) from None
        except NotServing as error:
            raise _refused(str(error)) from None
        variants = endpoint["_config"]["ProductionVariants"]
        return served, invocation.variant or variants[0]["VariantName"]


@dataclass(frozen=True)
class _Prompt:
    """The content of a request in any format."""

    prompt: str
    most_tokens: int | None
    streams: bool
    form: Literal["chat.completion", "text_completion", "generated_text"]
    details: bool = False

    def written(self, words: list[str], cut: bool, streams: bool, model: str) -> tuple[str, tuple[bytes, ...]]:
        """Return the completion in the request's format, as content type and parts."""
        write = _generated_text if self.form == "generated_text" else _openai_completion
        parts = tuple(write(self, words, "length" if cut else "stop", streams, model))
        streamed = "application/jsonlines" if self.form == "generated_text" else "text/event-stream"
        return streamed if streams else "application/json", parts


def text_for(prompt: str, salt: str = "") -> str:
    """Return the completion of a prompt, which a salt changes."""
    seed = f"{salt}\n{prompt}" if salt else prompt
    digest = hashlib.sha512(seed.encode()).digest()
    count = _SHORTEST + digest[0] % _LENGTHS
    return " ".join(_WORDS[byte % len(_WORDS)] for byte in digest[1 : count + 1])


def _generation(request: Mapping[str, Any]) -> _Prompt | None:
    inputs, parameters = request.get("inputs"), request.get("parameters") or {}
    if not isinstance(inputs, str) or not isinstance(parameters, dict):
        return None
    most = _whole(parameters.get("max_new_tokens", parameters.get("max_tokens")))
    details = parameters.get("details") is True
    return _Prompt(inputs, most, request.get("stream") is True, "generated_text", details)


def _completion(request: Mapping[str, Any]) -> _Prompt | None:
    prompt = request.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        return None
    # The default is 16 tokens (vLLM, ``openai/completion/protocol.py``; OpenAI's API reference).
    return _Prompt(prompt, _whole(request.get("max_tokens", 16)), request.get("stream") is True, "text_completion")


def _chat(request: Mapping[str, Any]) -> _Prompt | None:
    messages = request.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    # The role counts: the same text with another role is another prompt.
    prompt = "\n".join(f"{message.get('role', 'user')}: {_content(message.get('content'))}" for message in messages)
    most = _whole(request.get("max_completion_tokens", request.get("max_tokens")))
    return _Prompt(prompt, most, request.get("stream") is True, "chat.completion")


# By the image's repository, in the order in which the server tries them.
_FORMS: Mapping[str, tuple[Callable[[Mapping[str, Any]], _Prompt | None], ...]] = {
    "vllm": (_chat, _completion),
    "sglang": (_chat,),
}
_REFUSALS: Mapping[str, str] = {
    # The server tries ``CompletionRequest`` last (``openai/completion/protocol.py``). Its VLLMValidationError is not a
    # ValueError, so pydantic does not wrap it, and it reaches the client through
    # ``exception_handling/error_response.py``. In releases where it is a ValueError, the message is "Cannot find
    # suitable handler for request".
    "vllm": json.dumps(
        {
            "error": {
                "message": "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
                "type": "BadRequestError",
                "param": "prompt",
                "code": 400,
            }
        }
    ),
    # ``validation_exception_handler`` of ``http_server.py`` formats pydantic's errors so, without the request.
    "sglang": json.dumps(
        {
            "object": "error",
            "message": "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]",
            "type": "Bad Request",
            "param": None,
            "code": 400,
        }
    ),
}


def _content(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _generated_text(parsed: _Prompt, words: list[str], reason: str, streams: bool, model: str) -> Iterator[bytes]:
    details = {"finish_reason": "length" if reason == "length" else "eos_token", "generated_tokens": len(words)}
    text = " ".join(words)
    if not streams:
        yield _json({"generated_text": text, **({"details": details} if parsed.details else {})})
        return
    for index, word in enumerate(words):
        token = {"id": index, "text": word if index == 0 else f" {word}", "log_prob": -0.1}
        last = {"generated_text": text, "details": details} if index == len(words) - 1 else {}
        yield _json({"token": token, **last}) + b"\n"


def _openai_completion(parsed: _Prompt, words: list[str], reason: str, streams: bool, model: str) -> Iterator[bytes]:
    name = hashlib.sha256(parsed.prompt.encode()).hexdigest()[:24]
    is_chat = parsed.form == "chat.completion"
    head = {"id": f"{'chatcmpl' if is_chat else 'cmpl'}-{name}", "created": int(time.time()), "model": model}
    prompt_tokens = tokens_of(parsed.prompt)
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(words),
        "total_tokens": prompt_tokens + len(words),
    }
    if not streams:
        text = " ".join(words)
        said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
        yield _json({"object": parsed.form, **head, "choices": [choice], "usage": usage})
        return
    # The parts of a streamed completion have the same object name as the whole.
    head = {"object": "chat.completion.chunk" if is_chat else parsed.form, **head}
    for index, word in enumerate(words):
        text = word if index == 0 else f" {word}"
        role = {"role": "assistant"} if index == 0 else {}
        said = {"delta": {**role, "content": text}} if is_chat else {"text": text}
        yield _event({**head, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": None}]})
    last: dict[str, Any] = {"delta": {}} if is_chat else {"text": ""}
    choice = {"index": 0, **last, "logprobs": None, "finish_reason": reason}
    yield _event({**head, "choices": [choice], "usage": usage})
    yield b"data: [DONE]\n\n"


def _event(value: Any) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _refused(message: str) -> ApiError:
    return ApiError("ValidationError", message)


def model_error(status: int, message: str, *, has_response: bool = True) -> ModelError:
    """Return the service's error for a model's own error. Without a response, the status is 0 after a timeout."""
    whose = "client" if 400 <= status < 500 else "server"
    return ModelError(
        status if has_response else None,
        f'Received {whose} error ({status}) from primary with message "{message}". See the endpoint\'s log group in '
        "CloudWatch for more information.",
        OriginalStatusCode=status,
        OriginalMessage=message,
    )
