"""What is kept of each request, a JSON object a line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from constructs_optim.recipe.evaluation.calculation import ErrorKind, Request

from .answers import Answer
from .connection import Exchange

_DIGITS = 6


@dataclass
class Record:
    """One request of an evaluation. Times are seconds since its segment began.

    Attributes:
        prompt: the place of its prompt among the prompts.
        segment: an evaluation that is resumed goes on with the next one.
        start: when it was sent.
        end: when its answer was complete, or when it failed.
        first_token: when the first token arrived.
        last_token: when the last one did.
        server_input_tokens: what the server counted.
        server_output_tokens: likewise.
        input_tokens: what counts: the tokenizer's count, or the server's.
        output_tokens: likewise.
        first_tokens: tokens that arrived with the first; counted as ``output_tokens`` are.
        first_length: characters that did.
        tokenizer_failed: whether the tokenizer could not parse the request or the answer.
        retried: whether it was sent a second time, because the server had closed the idle connection.
        error: the kind of error; None where there was none.
        message: the error in words.
        text: the answer.
        reasoning: what the model thought before it.
    """

    prompt: int
    segment: int
    start: float
    end: float
    first_token: float | None = None
    last_token: float | None = None
    server_input_tokens: int | None = None
    server_output_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_tokens: int = 1
    first_length: int = 0
    tokenizer_failed: bool = False
    retried: bool = False
    error: ErrorKind | None = None
    message: str = ""
    text: str = ""
    reasoning: str = ""

    @classmethod
    def of(cls, prompt: int, segment: int, exchange: Exchange, answer: Answer, began: float) -> Record:
        """What came of a request.

        Args:
            prompt: the place of its prompt.
            segment: in which it was made.
            exchange: the request and what came back.
            answer: what that means.
            began: when the segment did, seconds of ``time.perf_counter``.
        """

        def since(at: float | None) -> float | None:
            return None if at is None else round(at - began, _DIGITS)

        return cls(
            prompt,
            segment,
            round(exchange.start - began, _DIGITS),
            round(exchange.end - began, _DIGITS),
            since(answer.first_token),
            since(answer.last_token),
            answer.input_tokens,
            answer.output_tokens,
            first_tokens=max(answer.first_tokens, 1),
            first_length=answer.first_length,
            retried=exchange.retried,
            error=answer.error,
            message=answer.message,
            text=answer.text,
            reasoning=answer.reasoning,
        )

    @property
    def request(self) -> Request:
        """What metrics are calculated from."""
        return Request(
            self.start,
            self.end,
            self.first_token,
            self.last_token,
            self.input_tokens,
            self.output_tokens,
            self.error,
            self.tokenizer_failed,
            self.first_tokens,
        )

    def to_json(self) -> str:
        """One line, without what is not known and what is not so."""
        known = {name: value for name, value in asdict(self).items() if value not in (None, "") and value is not False}
        return json.dumps(known)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Record:
        """The record of a line.

        Raises:
            TypeError, ValueError: where it is none.
        """
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in data.items() if name in known}
        error = given.pop("error", None)
        return cls(**given, error=ErrorKind(error) if error else None)
