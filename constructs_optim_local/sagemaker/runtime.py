"""SageMaker Runtime over HTTP: it recognizes invocations and formats responses.

It signs as ``sagemaker``, so SageMaker's handler gets its requests and recognizes them by their paths. Source:
botocore's models of ``sagemaker-runtime`` (rest-json) and of AWS event streams (messages of a length, headers and
checksums).
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from constructs_optim_local.access.authorization import Permission
from constructs_optim_local.api.error import ApiError

from .hosting.invocations import Completion, Invocation, StreamFailed
from .service import SageMaker

_PATH = re.compile(r"/endpoints/(?P<name>[^/]+)/invocations(?P<stream>-response-stream)?")
# Developer guide, "Invoke endpoints with OpenAI-compatible APIs", which lists no other path.
_CHAT = re.compile(
    r"/endpoints/(?P<name>[^/]+)(/inference-components/(?P<component>[^/]+))?/openai/v1/chat/completions"
)
_STRING = 7
# The API's headers that a container gets. Source: botocore's model ("Amazon SageMaker AI strips all POST headers except
# those supported by the API").
_PASSED_ON = ("content-type", "accept", "x-amzn-sagemaker-custom-attributes")
Response = tuple[int, dict[str, str], bytes | Iterator[bytes]]


@dataclass(frozen=True)
class SageMakerRuntime:
    """The invocations of a cloud's endpoints."""

    sagemaker: SageMaker

    def invocation(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Invocation | None:
        """Return the invocation that a request asks for; None if it is not for SageMaker Runtime."""
        found = _PATH.fullmatch(path)
        passed_on = {name: headers[name] for name in _PASSED_ON if name in headers}
        if method == "POST" and (chat := _CHAT.fullmatch(path)) is not None:
            return Invocation(
                endpoint=chat["name"], body=body, component=chat["component"], is_openai=True, headers=passed_on
            )
        if found is None or method != "POST":
            return None
        return Invocation(
            endpoint=found["name"],
            body=body,
            component=headers.get("x-amzn-sagemaker-inference-component"),
            variant=headers.get("x-amzn-sagemaker-target-variant"),
            streams=found["stream"] is not None,
            headers=passed_on,
        )

    def needed(self, invocation: Invocation, *, account: str, region: str) -> Iterator[Permission]:
        """Yield the permissions that the caller needs. Assumed: permission for an endpoint covers its components."""
        action = "InvokeEndpointWithResponseStream" if invocation.streams else "InvokeEndpoint"
        arn = f"arn:aws:sagemaker:{region}:{account}:endpoint/{invocation.endpoint.lower()}"
        yield Permission(f"sagemaker:{action}", arn)
        if invocation.is_openai:
            # "It does not support resource-level restrictions."
            yield Permission("sagemaker:CallWithBearerToken", "*")

    def respond(self, invocation: Invocation, *, account: str, region: str) -> Response:
        """Return the response to an invocation."""
        try:
            found = self.sagemaker.ask(invocation, account=account, region=region)
        except ApiError as error:
            return _of_container(error) if invocation.is_openai else error.to_response()
        return _streamed(found) if invocation.streams else _whole(found)


def _of_container(error: ApiError) -> Response:
    """Return a model's own error as its container writes it: "returns responses directly from the container"."""
    status, headers, content = error.to_response()
    document = json.loads(content)
    if "OriginalStatusCode" not in document:
        return status, headers, content
    status = int(document["OriginalStatusCode"])
    described = {"message": document["OriginalMessage"], "type": "BadRequestError", "param": None, "code": status}
    return status, {"Content-Type": "application/json"}, json.dumps({"error": described}).encode()


def _whole(completion: Completion) -> Response:
    # ministack changes the header unless its name is in lower case.
    headers = {"content-type": completion.content_type, "x-Amzn-Invoked-Production-Variant": completion.variant}
    # OpenAI's path passes on the container's stream without AWS's event messages.
    body = b"".join(completion.parts) if isinstance(completion.parts, tuple) else _cut(completion.parts)
    return completion.status, headers, body


def _cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts before the stream fails."""
    with contextlib.suppress(StreamFailed):
        yield from parts


def _streamed(completion: Completion) -> Response:
    headers = {
        "content-type": "application/vnd.amazon.eventstream",
        "X-Amzn-SageMaker-Content-Type": completion.content_type,
        "x-Amzn-Invoked-Production-Variant": completion.variant,
    }
    if isinstance(completion.parts, tuple):
        return 200, headers, b"".join(event_message("PayloadPart", part) for part in completion.parts)
    return 200, headers, _messages(completion.parts)


def _messages(parts: Iterator[bytes]) -> Iterator[bytes]:
    try:
        for part in parts:
            yield event_message("PayloadPart", part)
    except StreamFailed as error:
        content = json.dumps({"Message": error.message, "ErrorCode": error.code}).encode()
        yield event_message("ModelStreamError", content, kind="exception")


def event_message(event: str, payload: bytes, *, kind: str = "event") -> bytes:
    """Return a message of an event stream."""
    content = "application/octet-stream" if kind == "event" else "application/json"
    values = {":message-type": kind, f":{kind}-type": event, ":content-type": content}
    headers = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", _STRING, len(value)) + value.encode()
        for name, value in values.items()
    )
    # Two lengths and two checksums of four bytes each surround headers and payload.
    prelude = struct.pack("!II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))
