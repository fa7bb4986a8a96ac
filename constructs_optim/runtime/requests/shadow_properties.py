"""The properties of ``Custom::ShadowRun`` and the input of its execution."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from .properties import (
    Bucket,
    KeyArn,
    Properties,
    ResourceName,
    S3Uri,
    Sha256,
    StackId,
    Watch,
    WatchedProperties,
    pattern,
)

CheckKind = Literal["answered", "json_valid", "tool_calls", "reference", "judge", "exact_match", "top_token"]
"""The kinds of comparison; see ``shadow/checks.py``."""
_Share = Annotated[float, Field(ge=0, le=1)]
_FunctionArn = Annotated[str, pattern(r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:[A-Za-z0-9_:$-]{1,140}")]
_TopicArn = Annotated[str, pattern(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}")]


class CheckRequest(Properties):
    """A check of answers."""

    kind: CheckKind
    # For a check of agreement, the share of pairs that must agree.
    at_least: _Share | None = None
    # Prompts and their answers as JSON Lines.
    reference: S3Uri | None = None
    # A function that judges both answers.
    judge: _FunctionArn | None = None


class Compared(Properties):
    """A variant of the run, as known in advance."""

    variant_name: ResourceName
    artifact_key: Sha256
    instance_type: str


class ShadowRequest(Properties):
    """An endpoint with a shadow variant, and the criteria for its verdict."""

    label: Annotated[str, pattern(r"[^\x00-\x1f\x7f]{1,200}")]
    endpoint_name: ResourceName
    # The configurations during the run, after its end, and after a promotion.
    shadow_config_name: ResourceName
    ended_config_name: ResourceName
    promoted_config_name: ResourceName | None = None
    production: Compared
    candidate: Compared
    captures: S3Uri
    sample_percent: Annotated[float, Field(gt=0, le=100)]
    duration_seconds: Annotated[int, Field(ge=60, le=2_592_000)]
    margin: Annotated[float, Field(gt=0, lt=1)]
    latency_tolerance: Annotated[float, Field(ge=0, le=10)]
    checks: Annotated[tuple[CheckRequest, ...], Field(min_length=1, max_length=7)]
    topic_arn: _TopicArn | None = None
    bucket: Bucket
    kms_key_arn: KeyArn | None = None

    def key(self, account: str, region: str) -> str:
        """Return the SHA-256 of the compared variants and the criteria, so that no decision is made twice."""
        document = {
            "where": [account, region, self.endpoint_name],
            "what": [self.production.model_dump(), self.candidate.model_dump()],
            "how": [
                self.margin,
                self.latency_tolerance,
                self.sample_percent,
                [check.model_dump() for check in self.checks],
            ],
        }
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


class ShadowProperties(WatchedProperties):
    """One ``Custom::ShadowRun``."""

    request: ShadowRequest


class ShadowWatch(Watch):
    """The input of an execution.

    For a run, ``issued`` is when it was requested, in seconds since 1970. Without it, the endpoint came into service
    with the shadow variant, and ``run`` is the event's ID. In that case there may be no run, because CloudFormation may
    have returned to the configuration of a run that has ended.
    """

    request: ShadowRequest
    run: Annotated[str, pattern("[0-9a-f-]{16,36}")]
    issued: int | None = None
    stack_id: StackId | None = None
