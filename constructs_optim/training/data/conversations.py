"""Training data: JSON Lines of conversations, read and checked line by line.

A line is one of

- ``{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}``: a chat, formatted
  with the tokenizer's chat template. Roles are system (first only), user and assistant; the last is assistant.
- ``{"instruction": "...", "input": "...", "output": "..."}``: a chat of one question and its answer; ``input`` is
  optional.
- ``{"prompt": "...", "completion": "..."}``: plain text, without a template.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..documents import json_value, kind_of
from ..errors import InvalidData

_SHAPES = '{"messages": [...]}, {"instruction": ..., "output": ...} or {"prompt": ..., "completion": ...}'
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Message:
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True)
class Conversation:
    """One line of data: either messages for the chat template, or plain text.

    Attributes:
        messages: the turns; the last is the assistant's. Empty for text.
        prompt: the text before the answer. Empty for a chat.
        completion: the answer. Empty for a chat.
        instruction: the prompt of an instruction, for tokenizers without a chat template. None for other formats.
    """

    messages: tuple[Message, ...] = ()
    prompt: str = ""
    completion: str = ""
    instruction: str | None = None


def read_conversations(path: Path) -> list[Conversation]:
    """Read a file, or all ``*.jsonl`` and ``*.json`` files below a folder, sorted by name.

    Args:
        path: a file, or a folder such as an input channel.

    Raises:
        InvalidData: if there is no file or no line, or if lines are unusable. Lists each with file, number and reason.
    """
    files = _files(path)
    conversations: list[Conversation] = []
    problems: list[str] = []
    for file in files:
        for number, line in enumerate(file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                conversations.append(_conversation(line))
            except ValueError as error:
                problems.append(f"{file.name} line {number}: {error}")
    if problems:
        raise InvalidData(f"{len(problems)} of {len(conversations) + len(problems)} lines cannot be used", problems)
    if not conversations:
        names = ", ".join(file.name for file in files)
        raise InvalidData("there is no data", [f"{names}: no line with content; a line is one of {_SHAPES}"])
    return conversations


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidData("there is no data", [f"{path}: no such file or folder"])
    files = sorted(file for file in path.rglob("*") if file.suffix in (".jsonl", ".json") and file.is_file())
    if not files:
        others = sorted(file.name for file in path.rglob("*") if file.is_file())[:5]
        there = f"only {', '.join(others)}" if others else "nothing"
        raise InvalidData("there is no data", [f"{path.name} has no *.jsonl file, {there}"])
    return files


def _conversation(line: bytes) -> Conversation:
    try:
        content = json_value(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {error.start} is {line[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(content, dict):
        raise ValueError(f"not a JSON object but {kind_of(content)}; use one of {_SHAPES}")
    if "messages" in content:
        return _chat(content["messages"])
    if "instruction" in content or "output" in content:
        question = _text(content, "instruction")
        if content.get("input") not in (None, ""):
            question = f"{question}\n\n{_text(content, 'input')}"
        answer = _text(content, "output")
        messages = (Message("user", question), Message("assistant", answer))
        return Conversation(messages=messages, instruction=f"{question}\n\n")
    if "prompt" in content or "completion" in content:
        return Conversation(prompt=_text(content, "prompt"), completion=_text(content, "completion"))
    keys = ", ".join(sorted(map(str, content))) or "none"
    raise ValueError(f"its keys are {keys}; use one of {_SHAPES}")


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if value is None:
        raise ValueError(f"it has no {key!r}")
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is not text but {kind_of(value)}")
    if not value.strip():
        raise ValueError(f"{key!r} is empty")
    return value


def _chat(messages: Any) -> Conversation:
    if not isinstance(messages, list) or not messages:
        raise ValueError("'messages' is not a list of messages")
    return Conversation(messages=tuple(_messages(messages)))


def _messages(messages: list[Any]) -> Iterator[Message]:
    before = None
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise ValueError(f"messages[{index}] is not a JSON object but {kind_of(message)}")
        role = message.get("role")
        if role not in _ROLES:
            raise ValueError(f"messages[{index}].role is {role!r}; use one of {', '.join(_ROLES)}")
        if role == "system" and index > 0:
            raise ValueError(f"messages[{index}].role is 'system'; only the first message can be a system message")
        if role == before:
            raise ValueError(
                f"messages[{index}].role is {role!r}, like the previous one; user and assistant must take turns"
            )
        if role == "assistant" and before not in ("user",):
            raise ValueError(f"messages[{index}].role is 'assistant', but no user message precedes it")
        content = message.get("content")
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"messages[{index}].content is not text: {content!r}")
        before = role
        yield Message(role, content)
    if before != "assistant":
        raise ValueError(f"the last message is from {before!r}; it must be the assistant's, the answer to learn")
