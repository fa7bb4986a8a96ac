"""The requests and responses that SageMaker captured, and the pairs of both variants' captures.

SageMaker writes ``<prefix>/<endpoint>/<variant>/yyyy/mm/dd/hh/<uuid>.jsonl``, a line for each request (developer guide,
"Capture data from real-time endpoint"). No source says that a shadow variant's captures have the event ID or inference
ID of the original request. So captures with the same request make a pair. If a request was sent several times, the
captures of both variants are paired in order.
"""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..documents import is_object, json_value, nested, object_in

Document = dict[str, object]


class Captured(Protocol):
    """A capture, or its place; ``digest`` is the request's digest."""

    @property
    def digest(self) -> str:
        """The shortened SHA-256 of the request."""
        ...


_Captured = TypeVar("_Captured", bound=Captured)


@dataclass(frozen=True)
class Capture:
    """A request and a variant's answer; ``response`` is None if it is not a JSON object.

    ``event_id`` and ``inference_time`` (ISO 8601) come from SageMaker and are empty if the record has none.
    """

    digest: str
    request: Document
    response: Document | None
    event_id: str = ""
    inference_time: str = ""


@dataclass(frozen=True)
class Pair:
    """A request and the answers of production and candidate."""

    request: Document
    production: Document | None
    candidate: Document | None


@dataclass(frozen=True)
class CaptureFile:
    """A file's captures, and the number of lines that are none: anyone who calls the endpoint decides what they say."""

    captures: Sequence[Capture]
    unusable: int


def read_captures(content: bytes, *, answered: bool = True) -> CaptureFile:
    """Return a file's captures. Unusable are lines and requests that cannot be read as a JSON object.

    ``answered``: captures without a response are unusable, too.
    """
    read = [_capture(line, answered=answered) for line in content.split(b"\n") if line.strip()]
    captures = [capture for capture in read if capture is not None]
    return CaptureFile(captures, len(read) - len(captures))


def _capture(line: bytes, *, answered: bool) -> Capture | None:
    record = _parsed(line)
    data = nested(record, "captureData")
    sent, answer = _text(data, "endpointInput"), _text(data, "endpointOutput")
    request = _parsed(sent)
    if sent is None or request is None or (answered and answer is None):
        return None
    digest = hashlib.sha256(sent.encode()).hexdigest()[:24]
    event, at = nested(record, "eventMetadata", "eventId"), nested(record, "eventMetadata", "inferenceTime")
    known = [text if isinstance(text, str) else "" for text in (event, at)]
    return Capture(digest, request, _parsed(answer), *known)


def paired(
    production: Iterable[_Captured], candidate: Iterable[_Captured]
) -> tuple[list[tuple[_Captured, _Captured]], list[_Captured], list[_Captured]]:
    """Return the pairs in the candidate's order, and the unpaired captures of production and candidate in order."""
    sent = list(production)
    waiting: dict[str, deque[int]] = {}
    for index, capture in enumerate(sent):
        waiting.setdefault(capture.digest, deque()).append(index)
    taken: set[int] = set()
    pairs: list[tuple[_Captured, _Captured]] = []
    left: list[_Captured] = []
    for capture in candidate:
        if others := waiting.get(capture.digest):
            index = others.popleft()
            taken.add(index)
            pairs.append((sent[index], capture))
        else:
            left.append(capture)
    return pairs, [capture for index, capture in enumerate(sent) if index not in taken], left


def _text(data: object, name: str) -> str | None:
    captured = object_in(nested(data, name))
    text, encoding = captured.get("data"), captured.get("encoding")
    if not isinstance(text, str):
        return None
    if encoding != "BASE64":
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


def _parsed(text: str | bytes | None) -> Document | None:
    try:
        value = json_value(text or "")
    except ValueError:
        return None
    return value if is_object(value) else None
