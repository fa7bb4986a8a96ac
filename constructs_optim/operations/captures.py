"""What data capture kept of an endpoint's traffic, as prompts, as a workload for AIPerf, or as training data.

Sources: AIPerf 0.13, ``dataset/loader/sagemaker_data_capture.py`` (it takes records with ``messages`` alone, and fails
at the first that has none) and ``dataset/loader/single_turn.py``; SageMaker API reference,
ModelSpeculativeDecodingConfig (training data may be captures).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constructs_optim.runtime.documents import is_list, is_object, nested
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.redaction import Redactor
from constructs_optim.runtime.shadow.captures import Capture, read_captures
from constructs_optim.runtime.store.json_records import get_object

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_LIMITS = ("max_tokens", "max_completion_tokens")


class CaptureFormat(StrEnum):
    """What a file of captures is written for."""

    CAPTURES = "captures"
    """SageMaker's own records: AIPerf replays them with their times, and EAGLE heads are trained on them."""
    PROMPTS = "prompts"
    """The prompts of ``constructs-optim evaluate --prompts``, and of a gate on quality."""
    TEXT = "text"
    """The prompts of ``Workload(prompts=...)``: all messages of a chat as one text."""


@dataclass
class Written:
    """How many captures there were, and what became of them."""

    read: int = 0
    written: int = 0
    sampled_out: int = 0
    unusable: int = 0


def files_of(source: str, s3: Callable[[], S3Client]) -> Iterator[bytes]:
    """The contents of the capture files below a folder or an ``s3://`` prefix, by their names: by time.

    Raises:
        DeploymentError: where there is none.
    """
    found = False
    if source.startswith("s3://"):
        bucket, _, prefix = source.removeprefix("s3://").partition("/")
        pages = s3().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = (item.get("Key", "") for page in pages for item in page.get("Contents", []))
        for key in (key for key in keys if key.endswith(".jsonl")):
            if (read := get_object(s3(), bucket, key)) is not None:
                found = True
                yield read["Body"].read()
    else:
        path = Path(source)
        for file in [path] if path.is_file() else sorted(path.rglob("*.jsonl")):
            found = True
            yield file.read_bytes()
    if not found:
        raise DeploymentError(
            f"there are no captures below {source}: data capture writes "
            "<prefix>/<endpoint>/<variant>/yyyy/mm/dd/hh/<uuid>.jsonl, minutes after the requests"
        )


def exported(
    files: Iterable[bytes], form: CaptureFormat, counts: Written, *, sample: float = 1.0, redact: bool = False
) -> Iterator[str]:
    """The lines of a file in this form.

    Args:
        files: contents of capture files.
        form: what they are written for.
        counts: what is counted meanwhile.
        sample: the share that is taken, above 0, up to 1. The same captures are taken each time.
        redact: whether what looks like personal data and secrets is replaced, in requests and answers.
    """
    redacted = _Redaction() if redact else None
    for content in files:
        for capture in read_captures(content, answered=False):
            counts.read += 1
            if _share_of(capture) >= sample:
                counts.sampled_out += 1
                continue
            request: Any = redacted.value(capture.request) if redacted is not None else capture.request
            response: Any = redacted.value(capture.response) if redacted is not None else capture.response
            line = _line(form, capture, request, response)
            if line is None:
                counts.unusable += 1
                continue
            counts.written += 1
            yield json.dumps(line, ensure_ascii=False)


def _share_of(capture: Capture) -> float:
    """A number from 0 up to 1, which the capture alone decides."""
    text = capture.event_id or capture.digest + capture.inference_time
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def _line(form: CaptureFormat, capture: Capture, request: Any, response: Any) -> dict[str, Any] | None:
    """A capture in a form; None where it has no such form."""
    messages = request.get("messages")
    chat = messages if is_list(messages) and messages else None
    limit = next((request[name] for name in _LIMITS if isinstance(request.get(name), int)), None)
    match form:
        case CaptureFormat.CAPTURES:
            return _record(capture, request, response) if chat and capture.inference_time else None
        case CaptureFormat.PROMPTS:
            text = next((request[name] for name in ("prompt", "inputs") if isinstance(request.get(name), str)), None)
            prompt = {"messages": chat} if chat else {"inputs": text} if text and text.strip() else None
            return {**prompt, **({"max_tokens": limit} if limit else {})} if prompt is not None else None
        case CaptureFormat.TEXT:
            text = _text_of(chat) if chat else request.get("prompt") or request.get("inputs")
            return {"text": text} if isinstance(text, str) and text.strip() else None


def _record(capture: Capture, request: Any, response: Any) -> dict[str, Any]:
    """A record as data capture writes it, with its texts as JSON."""
    parts = {"endpointInput": ("INPUT", request), "endpointOutput": ("OUTPUT", response)}
    return {
        "captureData": {
            name: {
                "observedContentType": "application/json",
                "mode": mode,
                "data": json.dumps(body, ensure_ascii=False),
                "encoding": "JSON",
            }
            for name, (mode, body) in parts.items()
            if body is not None
        },
        "eventMetadata": {"eventId": capture.event_id, "inferenceTime": capture.inference_time},
        "eventVersion": "0",
    }


def _text_of(chat: Iterable[object]) -> str:
    """The messages of a chat that are text, one below the other."""
    contents = (nested(message, "content") for message in chat)
    return "\n".join(content for content in contents if isinstance(content, str))


# What looks like it; the first that matches decides.
_PERSONAL: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("EMAIL", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b")),
    ("IBAN", re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?\b")),
    ("IP", re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")),
    ("NUMBER", re.compile(r"(?<![\w.])\+?\(?\d(?:[ ().\-/]{0,2}\d){6,18}(?![\w])")),
)


class _Redaction:
    """Replaces what looks like personal data by its kind and a number, the same for the same text."""

    def __init__(self) -> None:
        self._secrets = Redactor()
        self._numbers: dict[tuple[str, str], int] = {}

    def value(self, value: object) -> object:
        """A JSON value without it; names of members stay."""
        if isinstance(value, str):
            return self._text(value)
        if is_list(value):
            return [self.value(item) for item in value]
        if is_object(value):
            return {name: self.value(item) for name, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        text = self._secrets.text(text)
        for kind, pattern in _PERSONAL:
            text = pattern.sub(lambda match, kind=kind: self._replacement(kind, match[0]), text)
        return text

    def _replacement(self, kind: str, found: str) -> str:
        # A hash would tell who knows the text whether it was there.
        number = self._numbers.setdefault((kind, found), len(self._numbers) + 1)
        return f"[{kind} {number}]"
