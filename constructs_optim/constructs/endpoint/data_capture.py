"""Requests and responses of an endpoint, kept in S3 for monitoring and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim.constructs.stack.keywords import suggests_keywords
from constructs_optim.constructs.stack.permissions import Statement
from constructs_optim.constructs.validation.argument_kinds import refuse_wrong_kinds

_JSON = ("application/json", "application/jsonlines")


@suggests_keywords
@dataclass(frozen=True)
class DataCapture:
    """What is captured, and where to.

    Attributes:
        bucket: the bucket it is written to. Prompts and answers are in it: keep it encrypted, and its readers few.
        prefix: where in it. Default: ``captures``.
        sampling_percentage: the share of requests, 0 to 100. Default: 100.
        requests: whether requests are captured. Default: they are.
        responses: whether responses are captured. Default: they are.
        encryption_key: the KMS key of the captured files. Default: the bucket's own encryption.
        json_content_types: content types that are kept as text; others are written in base64. Default:
            ``application/json`` and ``application/jsonlines``.
    """

    bucket: s3.IBucket
    prefix: str = "captures"
    sampling_percentage: int = 100
    requests: bool = True
    responses: bool = True
    encryption_key: kms.IKey | None = None
    json_content_types: Sequence[str] = _JSON

    def __post_init__(self) -> None:
        """Refuse to capture nothing, or to no bucket.

        Raises:
            RecipeError: when bucket or key are something else.
            ValueError: when neither requests nor responses are captured.
        """
        refuse_wrong_kinds(place="data_capture.", bucket=self.bucket, encryption_key=self.encryption_key)
        if not (self.requests or self.responses):
            raise ValueError("DataCapture(requests=False, responses=False) captures nothing: leave data_capture out")

    def to_property(self) -> dict[str, Any]:
        """The ``dataCaptureConfig`` property of an endpoint configuration."""
        modes = [mode for mode, wanted in (("Input", self.requests), ("Output", self.responses)) if wanted]
        return {
            "captureContentTypeHeader": {"jsonContentTypes": list(self.json_content_types)},
            "captureOptions": [{"captureMode": mode} for mode in modes],
            "destinationS3Uri": f"s3://{self.bucket.bucket_name}/{self.prefix}",
            "enableCapture": True,
            "initialSamplingPercentage": self.sampling_percentage,
            **({"kmsKeyId": self.encryption_key.key_arn} if self.encryption_key is not None else {}),
        }

    def statements(self) -> list[Statement]:
        """What the execution role may do for it."""
        keys = (self.encryption_key, self.bucket.encryption_key)
        arns = tuple(dict.fromkeys(key.key_arn for key in keys if key is not None))
        return [
            Statement(
                "WriteCaptures",
                ("s3:PutObject",),
                (f"{self.bucket.bucket_arn}/{self.prefix}/*",),
                wildcard="SageMaker names captured files after endpoint, variant and time",
            ),
            *([Statement("EncryptCaptures", ("kms:GenerateDataKey",), arns)] if arns else []),
        ]
