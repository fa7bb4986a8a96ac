"""The requests and responses that SageMaker captured, and those of both variants that belong together.

SageMaker writes ``<prefix>/<endpoint>/<variant>/yyyy/mm/dd/hh/<uuid>.jsonl``, a line for each request (developer guide,
"Capture data from real-time endpoint"). No source says that the captures of a shadow variant have the event id or the
inference id of the request they are a copy of. So pairs are found by what a copy is: the same request. Where one was
sent several times, the first capture of one variant goes with the first of the other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..documents import is_object, nested, object_in

Document = dict[str, object]


class Captured(Protocol):
    """A capture, or its place: ``digest`` is that of the request."""

    @property
    def digest(self) -> str:
        """SHA-256 of the request, shortened."""
        ...


_Captured = TypeVar("_Captured", bound=Captured)


@dataclass(frozen=True)
class Capture:
    """A request and what a variant answered; ``response`` is None where it is no JSON object."""

    digest: str
    request: Document
    response: Document | None


@dataclass(frozen=True)
class Pair:
    """The same request, and the answers of production and candidate."""

    request: Document
    production: Document | None
    candidate: Document | None


def read_captures(content: bytes) -> Iterator[Capture]:
    """The captures of a file; lines and requests that are no JSON objects are left out."""
    for line in content.splitlines():
        try:
            record: object = json.loads(line)
        except ValueError:
            continue
        data = nested(record, "captureData")
        sent, answered = _text(data, "endpointInput"), _text(data, "endpointOutput")
        request = _parsed(sent)
        if sent is None or answered is None or request is None:
            continue
        digest = hashlib.sha256(sent.encode()).hexdigest()[:24]
        yield Capture(digest, request, _parsed(answered))


def paired(
    production: Iterable[_Captured], candidate: Iterable[_Captured]
) -> tuple[list[tuple[_Captured, _Captured]], list[_Captured], list[_Captured]]:
    """The pairs of production and candidate, in the candidate's order, and what has no pair of each, in its order."""
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
    except (binascii.Error, UnicodeDecodeError):
        return None


def _parsed(text: str | None) -> Document | None:
    try:
        value: object = json.loads(text or "")
    except ValueError:
        return None
    return value if is_object(value) else None
