"""What counts as one outcome, and what outcomes may depend on: the conversation and the template of their prompt.

At temperature 0, a server answers a prompt in the same way each time, so that its repetitions, such as health probes,
show no more than one of them. Prompts are the same if their messages are. Parameters, such as a limit of tokens, and
dates and times in the messages make no difference.

Each turn of a conversation is a prompt of its own: a candidate may fail in late turns alone. But the turns of a
conversation may succeed or fail together. Requests belong to one conversation if they have the same messages up to the
first one of a user. First messages that many requests have in common are instructions or examples rather than a
conversation's beginning, which then extends to the user's next message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from ..documents import list_in, nested
from .captures import Document

# A beginning is common above this share of the requests and this number: a conversation can have that many turns.
_COMMON_SHARE, _COMMON_NUMBER = 0.1, 100
_MOST_BEGINNINGS = 64
_SYSTEM = ("system", "developer")
_MODEL = ("assistant", "model", "ai", "response")
_USER = ("user", "human", "instruction", "tool")
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)(?:s|nes|r|rs|ur)?(?:day)?\b\.?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\b\.?"
_DAY = r"\d\d?(?:[nrst][dht])?\b\.?"
# The lookaheads only make it faster.
_DATE_OR_TIME = re.compile(
    rf"\b(?:(?=[adfjmnostw][aceohpru])(?:{_WEEKDAY}|{_MONTH}(?: {_DAY})?(?:,? \d{{4}}\b)?)"
    rf"|(?=\d)(?:{_DAY} (?:of )?{_MONTH}(?:,? \d{{4}}\b)?"
    r"|\d{4}[-/.]\d\d?[-/.]\d\d?(?:t\d\d?:\d\d[\d:.,z+-]*|\b)"
    r"|\d\d?[-/.]\d\d?[-/.](?:\d\d)?\d\d\b"
    r"|\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]\.?m\b)?(?: ?(?:z|utc|gmt)\b|[+-]\d\d:?\d\d\b)?"
    # Seconds or milliseconds since 1970, in the years 2017 to 2033.
    r"|1[5-9]\d{8}(?:\d{3})?\b))"
)
_DIGIT = re.compile(r"\d")
# How chat templates mark whose turn it is: those of ChatML, Llama 3, Gemma, Phi and DeepSeek, of Alpaca and Vicuna, and
# of Llama 2 and Mistral.
_ROLES = "|".join(_SYSTEM + _MODEL + _USER)
_TURN = re.compile(
    rf"<(?:\|im_start\|>|\|start_header_id\|>|start_of_turn>|[|\uff5c])(?P<tag>(?i:{_ROLES}))"
    r"(?:<\|end_header_id\|>|[|\uff5c]>|\n)"
    rf"|\n[# ]*(?P<line>(?i:{_ROLES})) *:"
    r"|(?P<name>USER|ASSISTANT):"
    r"|\[(?P<closing>/?)INST\]"
)


class Beginnings(BaseModel):
    """How many requests began alike, for the most frequent beginnings of ``requests``.

    A beginning's count can be too low by a 64th of all counted ones. Source: Misra and Gries, "Finding repeated
    elements", Science of Computer Programming 2 (1982), 143-152.
    """

    requests: int = 0
    counts: dict[str, int] = {}

    def is_common(self, beginning: str) -> bool:
        """Count a beginning; return whether many requests have it."""
        if beginning in self.counts or len(self.counts) < _MOST_BEGINNINGS:
            self.counts[beginning] = self.counts.get(beginning, 0) + 1
        else:
            self.counts = {each: count - 1 for each, count in self.counts.items() if count > 1}
        return self.counts.get(beginning, 0) > _COMMON_NUMBER + _COMMON_SHARE * self.requests


@dataclass(frozen=True)
class Unit:
    """What a request has in common with others.

    ``key`` is a digest, of 80 bits, of the prompt, and ``conversation`` one of the conversation's beginning, in
    hexadecimal digits. ``template`` is the user's last text without the words that have digits: prompts with a number
    or an identifier of their own may have it in common.
    """

    key: int
    conversation: str
    template: str


def unit_of(request: Document, beginnings: Beginnings) -> Unit:
    """Return a request's unit, and count how the request begins."""
    beginnings.requests += 1
    messages = _messages(request)
    prompt, conversation, question, text = hashlib.blake2b(digest_size=10), "", "", ""
    for number, (role, message) in enumerate(messages, 1):
        text = _text_of(message)
        prompt.update(f"{role}\n{text}\0".encode())
        if role in _SYSTEM or role in _MODEL:
            continue
        question, beginning = text, prompt.hexdigest()
        if not conversation and number < len(messages) and not beginnings.is_common(beginning):
            conversation = beginning
    template = " ".join(word for word in (question or text).split() if not _DIGIT.search(word))
    return Unit(int.from_bytes(prompt.digest()), conversation or prompt.hexdigest(), template)


def _messages(request: Document) -> Sequence[tuple[str, object]]:
    """Return each message of a chat with its role, or each turn in a prompt; at least one."""
    if messages := list_in(request.get("messages")):
        return [(str(nested(message, "role")).casefold(), message) for message in messages]
    prompt = request.get("prompt", request.get("inputs"))
    return _turns(prompt) if isinstance(prompt, str) else [("", request if prompt is None else prompt)]


def _turns(prompt: str) -> Sequence[tuple[str, str]]:
    # A mark may be at the beginning of a line.
    prompt = f"\n{prompt}"
    marks = list(_TURN.finditer(prompt))
    roles = [
        mark["tag"] or mark["line"] or mark["name"] or (_MODEL[0] if mark["closing"] else _USER[0]) for mark in marks
    ]
    starts, ends = [0, *(mark.end() for mark in marks)], [*(mark.start() for mark in marks), len(prompt)]
    # Before the first mark are instructions.
    turns = zip([_SYSTEM[0] if marks else "", *roles], starts, ends, strict=True)
    spoken = [(role.casefold(), prompt[start:end]) for role, start, end in turns if prompt[start:end].strip()]
    return spoken or [("", prompt)]


def _text_of(message: object) -> str:
    """Return a message's text, with digests in the place of other content, such as images and calls."""
    content = nested(message, "content")
    if isinstance(content, str):
        return _normal(content)
    parts = list_in(content) or [message]
    texts = [part if isinstance(part, str) else nested(part, "text") for part in parts]
    return " ".join(
        _normal(text) if isinstance(text, str) else _digest(json.dumps(part, sort_keys=True))
        for part, text in zip(parts, texts, strict=True)
    )


def _normal(text: str) -> str:
    return " ".join(_DATE_OR_TIME.sub("", " ".join(text.casefold().split())).split())


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
