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


def _as_texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _text_or_list(value: JsonValue) -> JsonValue:
    if value is not None and not isinstance(value, str | list):
        raise ValueError("the reference is neither a text nor a list of embeddings, scores, or classes")
    return value


class Prompt(BaseModel):
    """The prompt of a request: a user's message, a chat, or text without a template (``inputs``).

    ``turns`` make it a conversation, after ``messages`` if there are any: each turn is a request with all earlier
    messages, including the model's. ``input`` has texts to embed or classify, or one without a list, and a ``query``
    has ``documents`` to rerank. ``reference`` is a text that a correct completion contains, or the right embeddings,
    scores or classes. ``at_seconds`` is the time of the request, for a replay.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    prompt: _Text | None = None
    messages: tuple[Message, ...] | None = Field(default=None, min_length=1)
    inputs: _Text | None = None
    turns: tuple[Annotated[Turn, BeforeValidator(_as_turn)], ...] | None = Field(default=None, min_length=1)
    input: Annotated[tuple[_Text, ...], BeforeValidator(_as_texts), Field(min_length=1)] | None = None
    query: _Text | None = None
    documents: tuple[_Text, ...] | None = Field(default=None, min_length=1)
    reference: Annotated[JsonValue, AfterValidator(_text_or_list)] = None
    max_tokens: Annotated[PositiveInt, Strict()] | None = None
    at_seconds: Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        named = ("prompt", "messages", "inputs", "turns", "input", "query")
        present = [name for name in named if getattr(self, name) is not None]
        if present != ["messages", "turns"] and len(present) != 1:
            found = " and ".join(present) or f"none of {', '.join(named[:-1])} and {named[-1]}"
            raise ValueError(f"has {found}, but needs exactly one")
        if (self.query is None) != (self.documents is None):
            raise ValueError("has one of query and documents, but needs both or neither")
        return self

    @property
    def generates(self) -> bool:
        """Whether a model that generates text can respond."""
        return self.input is None and self.query is None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that a model reads: the inputs, or the query and the documents; otherwise one text."""
        if self.query is not None:
            return (self.query, *(self.documents or ()))
        if self.input is not None:
            return self.input
        chat = [_text_of(message.content) for message in self.messages or ()]
        said = "\n".join([*chat, *(turn.prompt for turn in self.turns or ())])
        return (said or self.inputs or self.prompt or "",)

    @property
    def text(self) -> str:
        """The whole text, without a chat template; for a conversation, the user's messages."""
        return "\n".join(self.texts)

    def as_messages(self) -> list[dict[str, Any]]:
        """Return the prompt as a chat; plain text becomes a user's message."""
        if self.messages is None:
            return [{"role": "user", "content": self.text}]
        return [message.model_dump() for message in self.messages]

    def beginning_with(self, text: str) -> Prompt:
        """Return the prompt with text before it, or before its first message, its query or each of its inputs."""
        if self.input is not None:
            return self.model_copy(update={"input": tuple(text + each for each in self.input)})
        if self.query is not None:
            return self.model_copy(update={"query": text + self.query})
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
        {"messages": prompt.as_messages() if prompt.inputs is None and prompt.generates else []}
        | prompt.model_dump(include={"inputs", "reference", "max_tokens"})
        | prompt.model_dump(include={"turns", "at_seconds", "input", "query", "documents"}, exclude_none=True)
        for prompt in prompts
    ]
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text_of(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
