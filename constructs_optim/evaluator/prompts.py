"""The prompts of an evaluation: a file with a JSON object a line, or random words."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    Strict,
    ValidationError,
    model_validator,
)

from constructs_optim.recipe.evaluation.workload import Workload

from .options import EvaluationError

RANDOM_PROMPTS_NOTE = (
    "The prompts are random words (no --prompts): their length is usual, their content is not, and neither "
    "are acceptance rates of a draft."
)
_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father "
    "power hour game line end member law car city name team minute idea body back parent face level office door health"
)
_MOST_FAULTS = 20


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


class Prompt(BaseModel):
    """The prompt of a request: a user's message, a chat, or text without a template (``inputs``)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    prompt: _Text | None = None
    messages: tuple[Message, ...] | None = Field(default=None, min_length=1)
    inputs: _Text | None = None
    reference: str | None = None
    max_tokens: Annotated[PositiveInt, Strict()] | None = None

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        present = [name for name in ("prompt", "messages", "inputs") if getattr(self, name) is not None]
        if len(present) != 1:
            raise ValueError(f"has {' and '.join(present) or 'none of prompt, messages and inputs'}; one is needed")
        return self

    @property
    def text(self) -> str:
        """All its text, without a chat template."""
        if self.messages is None:
            return self.inputs or self.prompt or ""
        return "\n".join(_text_of(message.content) for message in self.messages)

    def as_messages(self) -> list[dict[str, Any]]:
        """The prompt as a chat; plain text is a user's message."""
        if self.messages is None:
            return [{"role": "user", "content": self.text}]
        return [message.model_dump() for message in self.messages]


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a JSON Lines file; empty lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f"the prompts cannot be read from {path}: {error}") from None
    prompts: list[Prompt] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            prompts.append(Prompt.model_validate_json(line))
        except ValidationError as error:
            faults.append(f"  line {number}: {describe_errors(error)}")
    if faults:
        more = [f"  and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
        listed = "\n".join([*faults[:_MOST_FAULTS], *more])
        raise EvaluationError(f"{path} has {len(faults)} faulty line{'s' if len(faults) > 1 else ''}:\n{listed}")
    if not prompts:
        raise EvaluationError(
            f'{path} holds no prompts: write one JSON object a line, for instance {{"prompt": "Hello"}}'
        )
    return prompts


def describe_errors(error: ValidationError) -> str:
    """All errors of a document in one line."""
    described = [
        (".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")) for problem in error.errors()
    ]
    return "; ".join(f"{location}: {message}" if location else message for location, message in described)


def random_prompts(count: int, count_tokens: Callable[[str], int] | None = None) -> str:
    """JSON Lines of prompts with a mean length of 622 tokens, always the same for the same count.

    The length is that of evaluations in the cloud (:class:`Workload`), drawn with their seed and a standard deviation
    of a tenth. The words are common, in random order, so that prompts share no prefix that a server could cache.
    Without ``count_tokens``, a word counts as one token.
    """
    shape = Workload()
    generator, words = random.Random(shape.seed), _WORDS.split()  # noqa: S311 - no secret
    lines: list[str] = []
    for _ in range(count):
        length = max(1, round(generator.gauss(shape.input_tokens, shape.input_tokens / 10)))
        chosen = generator.choices(words, k=length)
        if count_tokens is not None:
            # The number of tokens is nearly proportional to the number of words.
            tokens = max(1, count_tokens(" ".join(chosen)))
            chosen = (chosen * (length // tokens + 1))[: max(1, round(length * length / tokens))]
        lines.append(json.dumps({"prompt": " ".join(chosen)}))
    return "\n".join(lines) + "\n"


def digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of the prompts in their order: two evaluations with the same digest sent the same."""
    canonical = [
        {"messages": prompt.as_messages() if prompt.inputs is None else []}
        | prompt.model_dump(include={"inputs", "reference", "max_tokens"})
        for prompt in prompts
    ]
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text_of(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
