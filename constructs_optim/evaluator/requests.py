"""One request of an evaluation: its times and tokens, or its error. ``summary`` calculates metrics from requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class ErrorKind(StrEnum):
    """How a request can fail; ``meaning`` is for reports."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> ErrorKind:
        """Create a kind, whose value is its name in results."""
        kind = str.__new__(cls, value)
        kind._value_, kind.meaning = value, meaning
        return kind

    TIMEOUT = "timeout", "The response was not complete before the timeout."
    CONNECTION = "connection", "No connection could be opened."
    BROKEN_CONNECTION = (
        "broken_connection",
        "The connection broke after the request was sent, before any part of a response.",
    )
    THROTTLED = (
        "throttled",
        "The endpoint throttled the request because there were too many (status 429, or throttling).",
    )
    CLIENT_ERROR = "client_error", "The endpoint rejected the request (status 4xx)."
    SERVER_ERROR = "server_error", "The endpoint failed before it responded (status 5xx)."
    MODEL_ERROR = "model_error", "The model's server reported an error in the middle of its response."
    CUT_STREAM = "cut_stream", "The response broke off before its end."
    MALFORMED_RESPONSE = "malformed_response", "Part of the response violates the format."


@dataclass(slots=True)
class Request:
    """One request, with times in seconds of a monotonic clock; None if a value is not known.

    ``end`` is when the response was complete or the request failed; ``last_token`` is ``end`` by default.
    ``first_tokens`` arrived in the first piece of the response, after ``unseen_tokens`` that the server generated but
    did not send. ``gaps`` are the milliseconds between one piece and the next. ``inputs`` is the number of texts or
    documents of a request for embeddings, scores or classes, whose response has no tokens.
    """

    start: float
    end: float
    first_token: float | None = None
    last_token: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: ErrorKind | None = None
    tokenizer_failed: bool = False
    first_tokens: int = 1
    unseen_tokens: int = 0
    gaps: list[float] = field(default_factory=list)
    inputs: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the request for text succeeded without any token that the tokenizer can count."""
        if self.error is not None or self.inputs is not None:
            return False
        return self.first_token is None or self.output_tokens == 0 or (self.tokenizer_failed and not self.output_tokens)

    @property
    def is_measured(self) -> bool:
        """Whether the request contributes to latencies, rates and token counts."""
        return self.error is None and not self.is_empty

    @property
    def client_latency(self) -> float:
        """Milliseconds from sending the request to the end of its response."""
        return (self.end - self.start) * 1000

    @property
    def time_to_first_token(self) -> float | None:
        """Milliseconds from sending the request to its first token."""
        return None if self.first_token is None else (self.first_token - self.start) * 1000

    @property
    def inter_token_latency(self) -> float | None:
        """Milliseconds per token after the first piece; None for a response that arrived in one piece."""
        if self.first_token is None or self.output_tokens is None or self.arrived_whole:
            return None
        last = self.end if self.last_token is None else self.last_token
        timed = self.output_tokens - self.unseen_tokens - self.first_tokens
        return (last - self.first_token) * 1000 / timed if timed > 0 else None

    @property
    def arrived_whole(self) -> bool:
        """Whether several tokens arrived in one piece."""
        last = self.end if self.last_token is None else self.last_token
        return self.first_token is not None and (self.output_tokens or 0) > 1 and last <= self.first_token


def errors_by_kind(requests: Iterable[Request]) -> dict[str, int]:
    """Return the number of failed requests by kind of error."""
    counted = Counter(request.error for request in requests if request.error is not None)
    return {kind.value: counted[kind] for kind in ErrorKind if kind in counted}
