"""The properties of ``Custom::ModelRecommendation``, which the execution that watches the job has in its input."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import Field

from .fields import (
    Bucket,
    Delivered,
    InstanceType,
    KeyArn,
    Properties,
    ResourceName,
    RoleArn,
    S3Uri,
    Seconds,
    StateMachineArn,
    Tag,
    Tags,
    WaitHandle,
    pattern,
)
from .properties import S3Prefix, S3Source

_Reservation = Annotated[
    str, pattern(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:[a-z0-9-]{1,14}/\S+", max_length=256)
]


class RecommendationRequest(Properties):
    """What to recommend instances and optimizations for.

    Attributes:
        model_uri: S3 prefix of the model's files.
        workload_config_name: of the AI workload configuration.
        workload: its specification.
        prompts: the prompts' S3 URI, where they are the user's own.
        metric: ``cost``, ``throughput`` or ``ttft-ms``.
        instance_types: those that are tried; the service's choice where there are none.
        framework: ``LMI`` or ``VLLM``; the service's choice where it is None.
        optimize_model: whether the model may be optimized.
        reservation_arns: capacity reservations, outside of which nothing is launched.
        role_arn: what the job assumes.
        bucket: the store.
        kms_key_arn: its key.
    """

    model_uri: S3Prefix
    workload_config_name: ResourceName
    workload: Delivered
    prompts: S3Uri | None = None
    metric: Annotated[str, pattern("[a-z][a-z-]{1,40}")]
    instance_types: Annotated[tuple[InstanceType, ...], Field(max_length=3)] = ()
    framework: Annotated[str, pattern("[A-Z][A-Z0-9_]{1,40}")] | None = None
    optimize_model: bool = True
    reservation_arns: Annotated[tuple[_Reservation, ...], Field(max_length=20)] = ()
    role_arn: RoleArn
    bucket: Bucket
    kms_key_arn: KeyArn | None = None

    @property
    def source(self) -> S3Source:
        """The model's files."""
        return S3Source(s3_uri=self.model_uri)

    def key(self, account: str, region: str) -> str:
        """SHA-256 of the question, whoever asks it: within one store, the same is not paid for twice."""
        question = {"where": [account, region, self.bucket], "what": self.asked}
        return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()

    @property
    def asked(self) -> dict[str, object]:
        """The question, as the result has it."""
        return {
            "model": self.model_uri,
            "workload": self.workload,
            **({"prompts": self.prompts} if self.prompts is not None else {}),
            "metric": self.metric,
            "instance_types": list(self.instance_types),
            **({"framework": self.framework} if self.framework is not None else {}),
            "optimize_model": self.optimize_model,
            "capacity_reservations": list(self.reservation_arns),
        }


class RecommendationProperties(Properties):
    """One ``Custom::ModelRecommendation``."""

    request: RecommendationRequest
    state_machine_arn: StateMachineArn
    wait_handle: WaitHandle | None = None
    wait_seconds: Seconds | None = None
    tags: Tags = Field(default_factory=list[Tag])
