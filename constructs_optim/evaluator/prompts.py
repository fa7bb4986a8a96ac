"""The prompts of an evaluation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    Strict,
    model_validator,
)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return text


_Text = Annotated[str, AfterValidator(_not_blank)]


class Message(BaseModel):
    """One message of a chat, with any other members of OpenAI's API."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    role: str
    content: JsonValue


class Turn(BaseModel):
    """A user's next message in a conversation, after a delay. Plain text is also accepted."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    prompt: _Text
    delay_seconds: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.0
    max_tokens: Annotated[PositiveInt, Strict()] | None = None


def _as_turn(value: object) -> object:
    return {"prompt": value} if isinstance(value, str) else value


class Prompt(BaseModel):
    """The prompt of a request: a user's message, a chat, or text without a template (``inputs``).

    ``turns`` make it a conversation, after ``messages`` if there are any: each turn is a request with all earlier
    messages, including the model's. ``at_seconds`` is the time of the request, for a replay.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    prompt: _Text | None = None
    messages: tuple[Message, ...] | None = Field(default=None, min_length=1)
    inputs: _Text | None = None
    turns: tuple[Annotated[Turn, BeforeValidator(_as_turn)], ...] | None = Field(default=None, min_length=1)
    reference: str | None = None
    max_tokens: Annotated[PositiveInt, Strict()] | None = None
    at_seconds: Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        present = [name for name in ("prompt", "messages", "inputs", "turns") if getattr(self, name) is not None]
        if present != ["messages", "turns"] and len(present) != 1:
            found = " and ".join(present) or "none of prompt, messages, inputs and turns"
            raise ValueError(f"has {found}, but needs exactly one")
        return self

    @property
    def text(self) -> str:
        """The whole text, without a chat template; for a conversation, the user's messages."""
        chat = [_text_of(message.content) for message in self.messages or ()]
        return "\n".join([*chat, *(turn.prompt for turn in self.turns or ())]) or self.inputs or self.prompt or ""

    def as_messages(self) -> list[dict[str, Any]]:
        """Return the prompt as a chat; plain text becomes a user's message."""
        if self.messages is None:
            return [{"role": "user", "content": self.text}]
        return [message.model_dump() for message in self.messages]

    def beginning_with(self, text: str) -> Prompt:
        """Return the prompt with text before it, or before its first message."""
        if self.messages is None:
            named = "inputs" if self.inputs is not None else "prompt"
            return self.model_copy(update={named: text + (getattr(self, named) or "")})
        first = self.messages[0]
        content = text + first.content if isinstance(first.content, str) else first.content
        if isinstance(first.content, list):
            content = [{"type": "text", "text": text}, *first.content]
        changed = first.model_copy(update={"content": content})
        return self.model_copy(update={"messages": (changed, *self.messages[1:])})

    def request(self, responses: Sequence[str]) -> Prompt:
        """Return the prompt of a conversation's next request, after these responses; any other prompt is unchanged."""
        if self.turns is None:
            return self
        said: list[Message] = []
        for turn, response in zip(self.turns, responses, strict=False):
            said += [Message(role="user", content=turn.prompt), Message(role="assistant", content=response)]
        turn = self.turns[len(responses)]
        messages = (*(self.messages or ()), *said, Message(role="user", content=turn.prompt))
        return Prompt(messages=messages, max_tokens=turn.max_tokens or self.max_tokens)


def digest(prompts: Sequence[Prompt]) -> str:
    """Return the SHA-256 of the prompts in their order: evaluations with the same digest sent the same prompts."""
    canonical = [
        {"messages": prompt.as_messages() if prompt.inputs is None else []}
        | prompt.model_dump(include={"inputs", "reference", "max_tokens"})
        | prompt.model_dump(include={"turns", "at_seconds"}, exclude_none=True)
        for prompt in prompts
    ]
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text_of(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
