"""How a prompt is written for a server, and how its answer is read: one format a schema that servers understand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .answers import ChatDecoder, Decoder, TokenDecoder
from .prompts import Prompt


class FormatName(StrEnum):
    """A format, by the name that a user gives."""

    AUTO = "auto"
    OPENAI = "openai"
    LMI = "lmi"
    TGI = "tgi"


@dataclass(frozen=True)
class Generation:
    """How answers are generated.

    Attributes:
        max_tokens: of an answer, where a prompt says nothing else.
        temperature: 0 chooses the likeliest token each time, so that answers can be compared.
        parameters: further ones, passed on as they are.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Format:
    """A schema of requests and answers."""

    name: FormatName

    def body(self, prompt: Prompt, generation: Generation, model: str | None) -> bytes:
        """What is sent."""
        raise NotImplementedError

    def decoder(self) -> Decoder:
        """What reads one answer."""
        raise NotImplementedError


class ChatFormat(Format):
    """OpenAI's chat completions, with the server's token counts asked for."""

    name = FormatName.OPENAI

    def body(self, prompt: Prompt, generation: Generation, model: str | None) -> bytes:
        """What is sent."""
        return _written(
            {
                **({"model": model} if model else {}),
                "messages": prompt.as_messages(),
                "max_tokens": prompt.max_tokens or generation.max_tokens,
                "temperature": generation.temperature,
                "stream": True,
                "stream_options": {"include_usage": True},
                **generation.parameters,
            }
        )

    def decoder(self) -> Decoder:
        """What reads one answer."""
        return ChatDecoder()


class TokenFormat(Format):
    """``inputs`` and ``parameters``, as LMI containers and Text Generation Inference take them."""

    def __init__(self, name: FormatName) -> None:
        self.name = name

    def body(self, prompt: Prompt, generation: Generation, model: str | None) -> bytes:
        """What is sent. There is no chat in this schema: of a chat, the text is sent without a template."""
        sampling = {"do_sample": False} if generation.temperature == 0 else {"temperature": generation.temperature}
        parameters = {
            "max_new_tokens": prompt.max_tokens or generation.max_tokens,
            **sampling,
            "details": True,
            **generation.parameters,
        }
        return _written({"inputs": prompt.text, "parameters": parameters, "stream": True})

    def decoder(self) -> Decoder:
        """What reads one answer."""
        return TokenDecoder()


def formats_to_try(name: FormatName, *, sagemaker: bool, as_text: bool) -> tuple[Format, ...]:
    """The formats to find one among that the server understands.

    Args:
        name: what the user chose.
        sagemaker: whether a SageMaker endpoint answers; its containers understand several.
        as_text: whether a prompt is ``inputs``, which a chat would wrap in its template.
    """
    match name:
        case FormatName.OPENAI:
            return (ChatFormat(),)
        case FormatName.LMI | FormatName.TGI:
            return (TokenFormat(name),)
        case _ if not sagemaker:
            return (ChatFormat(),)
        case _:
            both = (ChatFormat(), TokenFormat(FormatName.LMI))
            return both[::-1] if as_text else both


def _written(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
