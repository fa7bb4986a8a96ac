"""Converts an endpoint's captured traffic to prompts, a workload for AIPerf, or training data.

Sources: AIPerf 0.13, ``dataset/loader/sagemaker_data_capture.py`` (it reads only records with ``messages``, and fails
at the first record without them) and ``dataset/loader/single_turn.py``; SageMaker API reference,
ModelSpeculativeDecodingConfig (training data can be captures).
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constructs_optim.runtime.documents import is_list, is_object, list_in, nested
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.redaction import Redactor
from constructs_optim.runtime.secret_shapes import HIDDEN, is_name_of_secret
from constructs_optim.runtime.shadow.captures import Capture, read_captures
from constructs_optim.runtime.store.json_records import get_object

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_LIMITS = ("max_tokens", "max_completion_tokens")
# Members of a request that change what is answered, and for which prompts have no place.
_FORMS = ("tools", "functions", "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice")


class CaptureFormat(StrEnum):
    """The purpose of an exported file."""

    CAPTURES = "captures"
    """SageMaker's own records, which AIPerf can replay with their times, and which can train EAGLE heads."""
    PROMPTS = "prompts"
    """Prompts for ``constructs-optim evaluate --prompts``, and for a quality requirement."""
    TEXT = "text"
    """Prompts for ``Workload(prompts=...)``: all messages of a chat as one text."""


@dataclass
class Written:
    """The number of captures: read, written, sampled out, and unusable; and written without their limit of tokens, or
    without their tools or the form of their answer.
    """

    read: int = 0
    written: int = 0
    sampled_out: int = 0
    unusable: int = 0
    unlimited: int = 0
    formless: int = 0


def files_of(source: str, s3: Callable[[], S3Client]) -> Iterator[bytes]:
    """Yield the contents of capture files under a folder or an ``s3://`` prefix, by name and so by time.

    Raises:
        DeploymentError: if there are no files.
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
            f"there are no captures under {source}: data capture writes "
            "<prefix>/<endpoint>/<variant>/yyyy/mm/dd/hh/<uuid>.jsonl minutes after the requests"
        )


def exported(
    files: Iterable[bytes], form: CaptureFormat, counts: Written, *, sample: float = 1.0, redact: bool = False
) -> Iterator[str]:
    """Yield the lines of an exported file.

    Args:
        files: contents of capture files.
        form: the purpose of the file.
        counts: the counts to update.
        sample: the share of captures to export, above 0, up to 1. Each call selects the same captures.
        redact: whether to replace apparent personal data and secrets in requests and responses.
    """
    redacted = _Redaction() if redact else None
    for content in files:
        file = read_captures(content, answered=False)
        counts.read += file.unusable
        counts.unusable += file.unusable
        for capture in file.captures:
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
            # Prompts have a limit of tokens only if it is one; servers refuse others anyway.
            asks = any(request.get(name) is not None for name in _LIMITS)
            counts.unlimited += form is CaptureFormat.PROMPTS and asks and "max_tokens" not in line
            counts.formless += form is not CaptureFormat.CAPTURES and any(request.get(name) for name in _FORMS)
            yield json.dumps(line, ensure_ascii=False)


def _share_of(capture: Capture) -> float:
    """Return a number of at least 0 and less than 1, which depends only on the capture."""
    text = capture.event_id or capture.digest + capture.inference_time
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def _line(form: CaptureFormat, capture: Capture, request: Any, response: Any) -> dict[str, Any] | None:
    """Return a capture in a form; None if it cannot have this form."""
    match form:
        case CaptureFormat.CAPTURES:
            return _record(capture, request, response) if _chat(request) and capture.inference_time else None
        case CaptureFormat.PROMPTS:
            text = next((request[name] for name in ("prompt", "inputs") if isinstance(request.get(name), str)), "")
            chat = _chat(request)
            prompt = {"messages": chat} if chat else {"inputs": text}
            limits = (request.get(name) for name in _LIMITS)
            limit = next((each for each in limits if type(each) is int and each > 0), None)
            # A chat that is none is not replaced by another member, because the server did not read that.
            is_usable = chat or (text.strip() and not request.get("messages"))
            return {**prompt, **({"max_tokens": limit} if limit else {})} if is_usable else None
        case CaptureFormat.TEXT:
            messages = list_in(request.get("messages"))
            text = _text_of(messages) if messages else request.get("prompt") or request.get("inputs")
            return {"text": text} if isinstance(text, str) and text.strip() else None


def _chat(request: Mapping[str, object]) -> list[dict[str, object]] | None:
    """Return the messages of a chat; None if they are not of OpenAI's form, without which no reader takes the file."""
    messages = list_in(request.get("messages"))
    # A message that only calls tools may have no content.
    chat = [{"content": None, **each} for each in messages if is_object(each) and isinstance(each.get("role"), str)]
    return chat if chat and len(chat) == len(messages) else None


def _record(capture: Capture, request: Any, response: Any) -> dict[str, Any]:
    """Return a record as data capture writes it, with its texts as JSON."""
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
    """Return the text messages of a chat, one per line."""
    contents = (nested(message, "content") for message in chat)
    return "\n".join(content for content in contents if isinstance(content, str))


# Patterns of personal data; the first match decides. A full stop may end a sentence.
_PERSONAL: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("EMAIL", re.compile(r"\b[\w.+-]{1,64}(?:[@\uff20]|%40)[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b")),
    ("IBAN", re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?\b")),
    ("IP", re.compile(r"(?<!\w)(?<!\w\.)(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\w)")),
    # What may be version 6; times such as 10:30 are not.
    ("IP", re.compile(r"(?<![\w.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}(?:\.\d{1,3}){0,3}(?![\w:])")),
    # Spaces and hyphens of any kind: what breaks no line stands in many texts.
    (
        "NUMBER",
        re.compile(r"(?<!\w)(?<!\d\.)\+?\(?\d(?:(?:[^\S\r\n]|[().\-/\u2010-\u2015\u2212\uff0d]){0,2}\d){6,18}(?![\w])"),
    ),
)
# Numbers of the API, which its readers need, and which are nobody's.
_NUMBERS_OF_API = frozenset({"created", "created_at", "max_new_tokens", "seed", *_LIMITS})
# They have the text once more, in parts in which no pattern finds anything.
_SPELLING = frozenset({"logprobs", "prompt_logprobs", "prompt_token_ids", "token_ids"})
# What a JSON schema of a secret says without telling it: a tool may take a password.
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_OF_SCHEMA = frozenset({
    "$ref", "additionalProperties", "allOf", "anyOf", "description", "enum", "format", "items", "maxLength",
    "minLength", "nullable", "oneOf", "pattern", "properties", "required", "title", "type",
})  # fmt: skip


class _Redaction:
    """Replaces apparent personal data with its kind and a number, the same for the same text."""

    def __init__(self) -> None:
        self._secrets = Redactor()
        self._numbers: dict[tuple[str, str], int] = {}

    def value(self, value: object, name: str = "") -> object:
        """Return a JSON value, which may have a name, without personal data; names of members stay."""
        if is_name_of_secret(name, is_variable=name.isupper()):
            return self._hidden(value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if name in _NUMBERS_OF_API or name.endswith("_tokens") else self._number(value)
        if is_list(value):
            return None if name in _SPELLING else [self.value(item) for item in value]
        if is_object(value):
            return None if name in _SPELLING else self._members(value)
        return value

    def _members(self, value: Mapping[str, object]) -> dict[str, object]:
        # As in a list of variables: {"name": "HF_TOKEN", "value": "..."}.
        labels = (text for name, text in value.items() if name.lower() in ("key", "name") and isinstance(text, str))
        label = next((text for text in labels if is_name_of_secret(text, is_variable=text.isupper())), "")
        return {
            name: self.value(item, label if label and name.lower().endswith("value") else name)
            for name, item in value.items()
        }

    def _hidden(self, value: object) -> object:
        """Return the value of a secret's name without any text or number in it, but with its structure."""
        if is_list(value):
            return [self._hidden(item) for item in value]
        if is_object(value):
            kept = _OF_SCHEMA if _is_schema(value) else ()
            return {name: self.value(item) if name in kept else self._hidden(item) for name, item in value.items()}
        return value if value is None or isinstance(value, bool) else HIDDEN

    def _number(self, value: float) -> object:
        """Return a number, or what replaces it if it would be personal data in a text, such as one of a telephone."""
        # No telephone has a fraction.
        text = str(abs(int(value))) if value == int(value) else ""
        return self._text(text) if any(pattern.fullmatch(text) for _, pattern in _PERSONAL) else value

    def _text(self, text: str) -> str:
        text = self._secrets.text(text)
        for kind, pattern in _PERSONAL:
            text = pattern.sub(lambda match, kind=kind: self._replacement(kind, match[0]), text)
        return text

    def _replacement(self, kind: str, found: str) -> str:
        if kind == "IP" and ":" in found and not _is_version_6(found):
            return found
        # A hash would let anyone who knows a text check whether it occurred.
        number = self._numbers.setdefault((kind, found), len(self._numbers) + 1)
        return f"[{kind} {number}]"


def _is_schema(value: Mapping[str, object]) -> bool:
    kinds = value.get("type")
    named = kinds if is_list(kinds) else [kinds]
    return any(isinstance(kind, str) and kind in _TYPES for kind in named) or "$ref" in value or "anyOf" in value


def _is_version_6(text: str) -> bool:
    # C++ and Rust write a::b.
    if not any(map(str.isdecimal, text)):
        return False
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
