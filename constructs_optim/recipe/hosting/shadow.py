"""A shadow of an endpoint: a candidate that answers copies of requests, what its answers are compared by, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings

from . import Hosting

SHADOW_VARIANT = "Shadow"
"""The name of a shadow variant."""
CheckKind = Literal["answered", "json_valid", "tool_calls", "reference", "judge", "exact_match", "top_token"]


class AnswerCheck(Settings):
    """What answers of a candidate are compared with those of production by. Use its class methods.

    Attributes:
        kind: the kind of check.
        at_least: the share of the pairs that have to agree, 0 to 1, for checks of agreement.
        reference_uri: JSON Lines in S3, ``{"prompt": ..., "answer": ...}`` each.
        function_arn: a Lambda function that judges answers (may be a token).
    """

    kind: CheckKind
    at_least: float | None = Field(default=None, gt=0, lt=1)
    reference_uri: str | None = None
    function_arn: str | None = None

    @classmethod
    def answered(cls) -> AnswerCheck:
        """There is an answer: text, or a call of a tool."""
        return cls(kind="answered")

    @classmethod
    def json_valid(cls) -> AnswerCheck:
        """The answer is JSON, where a request's ``response_format`` asks for it."""
        return cls(kind="json_valid")

    @classmethod
    def tool_calls(cls) -> AnswerCheck:
        """Where production calls tools, the candidate does, with arguments that fit the request's schema."""
        return cls(kind="tool_calls")

    @classmethod
    def reference(cls, uri: str) -> AnswerCheck:
        """The answer is the one of a file in S3, for the prompts that it has.

        Args:
            uri: JSON Lines, ``{"prompt": ..., "answer": ...}`` each.
        """
        return cls(kind="reference", reference_uri=uri)

    @classmethod
    def judge(cls, function_arn: str) -> AnswerCheck:
        """A Lambda function says of both answers whether they are right.

        It gets ``{"request": ..., "production": ..., "candidate": ...}`` and returns ``{"production": true,
        "candidate": false}``, or anything else where it has no opinion.

        Args:
            function_arn: the function's ARN; may be a token.
        """
        return cls(kind="judge", function_arn=function_arn)

    @classmethod
    def exact_match(cls, *, at_least: float) -> AnswerCheck:
        """The texts are the same, for requests with temperature 0, in a share of the pairs.

        Args:
            at_least: that share, 0 to 1.
        """
        return cls(kind="exact_match", at_least=at_least)

    @classmethod
    def top_token(cls, *, at_least: float) -> AnswerCheck:
        """The most likely first token is the same, where responses have ``top_logprobs``, in a share of the pairs.

        Args:
            at_least: that share, 0 to 1.
        """
        return cls(kind="top_token", at_least=at_least)


@dataclass(frozen=True)
class Shadow:
    """A shadow of an endpoint, for rules.

    ``announced_pairs`` is how many pairs the margin takes; None for more than a run reads. ``instance_quota`` is how
    many instances of its type the account may have, where that is known. ``is_restarted``: the endpoint has the cure
    that replaces its instances. ``captures`` says whether the endpoint's data
    capture has both requests and responses.
    """

    hosting: Hosting
    instance_type: str
    instance_count: int
    sample_percent: float
    duration_seconds: float
    margin: float
    latency_tolerance: float
    checks: Sequence[AnswerCheck]
    announced_pairs: int | None
    captures: bool
    promotes: bool = False
    is_scaled: bool = False
    instance_quota: int | None = None
    is_restarted: bool = False
