"""The shadow variant of an endpoint, which serves copies of requests, and the checks that compare its responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.tasks import GENERATE, TaskName

from . import Hosting

SHADOW_VARIANT = "Shadow"
"""The name of a shadow variant."""
CheckKind = Literal["answered", "json_valid", "tool_calls", "reference", "judge", "exact_match", "top_token"]


class AnswerCheck(Settings):
    """A check that compares a candidate's responses with production's.

    Attributes:
        kind: the kind of check.
        at_least: the share of pairs that must agree, 0 to 1, for checks of agreement.
        reference_uri: a JSON Lines file in S3, with ``{"prompt": ..., "answer": ...}`` on each line.
        function_arn: a Lambda function that judges responses (may be a token).
    """

    kind: CheckKind
    at_least: float | None = Field(default=None, gt=0, lt=1)
    reference_uri: str | None = None
    function_arn: str | None = None

    @classmethod
    def answered(cls) -> AnswerCheck:
        """The response has content: text, or a tool call."""
        return cls(kind="answered")

    @classmethod
    def json_valid(cls) -> AnswerCheck:
        """The response is JSON if the request's ``response_format`` requires it."""
        return cls(kind="json_valid")

    @classmethod
    def tool_calls(cls) -> AnswerCheck:
        """If production calls tools, the candidate also does, with arguments that match the request's schema."""
        return cls(kind="tool_calls")

    @classmethod
    def reference(cls, uri: str) -> AnswerCheck:
        """The response equals the reference answer in an S3 file, for the prompts in that file.

        Args:
            uri: the JSON Lines file, with ``{"prompt": ..., "answer": ...}`` on each line.
        """
        return cls(kind="reference", reference_uri=uri)

    @classmethod
    def judge(cls, function_arn: str) -> AnswerCheck:
        """A Lambda function decides whether each of the two responses is correct.

        It receives ``{"request": ..., "production": ..., "candidate": ...}`` and returns ``{"production": true,
        "candidate": false}``, or anything else if it cannot decide.

        Args:
            function_arn: the function's ARN; may be a token.
        """
        return cls(kind="judge", function_arn=function_arn)

    @classmethod
    def exact_match(cls, *, at_least: float) -> AnswerCheck:
        """For requests with temperature 0, a share of the pairs has identical texts.

        Args:
            at_least: the share, 0 to 1.
        """
        return cls(kind="exact_match", at_least=at_least)

    @classmethod
    def top_token(cls, *, at_least: float) -> AnswerCheck:
        """For responses with ``top_logprobs``, a share of the pairs has the same most likely first token.

        Args:
            at_least: the share, 0 to 1.
        """
        return cls(kind="top_token", at_least=at_least)


@dataclass(frozen=True)
class Shadow:
    """The shadow variant of an endpoint, for the rules to check.

    ``announced_pairs`` is the number of independent pairs that the margin needs; None if a run cannot read as many.
    ``instance_quota`` is the account's quota for the instance type, if known. ``is_restarted``: whether the endpoint
    has the cure that replaces its instances. ``task`` is what the model does. ``captures``: whether data capture
    records both requests and responses.
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
    task: TaskName = GENERATE
