"""Requests that are queued, and answered in S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from constructs_optim.constructs.stack.keywords import suggests_keywords
from constructs_optim.constructs.stack.permissions import Statement
from constructs_optim.constructs.validation.argument_kinds import refuse_wrong_kinds


@suggests_keywords
@dataclass(frozen=True)
class AsyncInference:
    """Where requests come from and answers go to. Such an endpoint is invoked with ``InvokeEndpointAsync``.

    Attributes:
        bucket: the bucket that answers are written to.
        prefix: where in it; failures go to ``<prefix>-failures``. Default: ``async``.
        input_bucket: the bucket that requests are read from. Default: ``bucket``.
        max_concurrent_invocations_per_instance: requests that an instance is sent at once, 1 to 1,000. Default: the
            service's choice.
        success_topic: an SNS topic that is told of each answer. Default: none.
        error_topic: an SNS topic that is told of each failure. Default: none.
        include_responses_in: the topics whose messages carry the answer itself, ``SUCCESS_NOTIFICATION_TOPIC`` and
            ``ERROR_NOTIFICATION_TOPIC``. Default: none.
        encryption_key: the KMS key of the answers. Default: the bucket's own encryption.
    """

    bucket: s3.IBucket
    prefix: str = "async"
    input_bucket: s3.IBucket | None = None
    max_concurrent_invocations_per_instance: int | None = None
    success_topic: sns.ITopic | None = None
    error_topic: sns.ITopic | None = None
    include_responses_in: tuple[str, ...] = ()
    encryption_key: kms.IKey | None = None

    def __post_init__(self) -> None:
        """Refuse buckets and keys that are something else.

        Raises:
            RecipeError: where there are some.
        """
        refuse_wrong_kinds(
            place="async_inference.",
            bucket=self.bucket,
            input_bucket=self.input_bucket,
            encryption_key=self.encryption_key,
        )

    def to_property(self) -> dict[str, Any]:
        """The ``asyncInferenceConfig`` property of an endpoint configuration."""
        most = self.max_concurrent_invocations_per_instance
        topics: dict[str, Any] = {
            name: topic.topic_arn
            for name, topic in (("errorTopic", self.error_topic), ("successTopic", self.success_topic))
            if topic is not None
        }
        if self.include_responses_in:
            topics["includeInferenceResponseIn"] = list(self.include_responses_in)
        place = f"s3://{self.bucket.bucket_name}/{self.prefix}"
        return {
            **({"clientConfig": {"maxConcurrentInvocationsPerInstance": most}} if most is not None else {}),
            "outputConfig": {
                **({"kmsKeyId": self.encryption_key.key_arn} if self.encryption_key is not None else {}),
                **({"notificationConfig": topics} if topics else {}),
                "s3FailurePath": f"{place}-failures",
                "s3OutputPath": place,
            },
        }

    def statements(self) -> list[Statement]:
        """What the execution role may do for it."""
        source = self.input_bucket or self.bucket
        buckets = (self.bucket, *((self.input_bucket,) if self.input_bucket is not None else ()))
        keys = [self.encryption_key, *(bucket.encryption_key for bucket in buckets)]
        arns = tuple(dict.fromkeys(key.key_arn for key in keys if key is not None))
        topics = tuple(topic.topic_arn for topic in (self.success_topic, self.error_topic) if topic is not None)
        return [
            # Source of the actions: Amazon SageMaker developer guide, "Asynchronous inference", prerequisites.
            Statement(
                "WriteAnswers",
                ("s3:AbortMultipartUpload", "s3:PutObject"),
                tuple(f"{self.bucket.bucket_arn}/{self.prefix}{end}/*" for end in ("", "-failures")),
                wildcard="SageMaker names answers after their requests",
            ),
            *([self._listing()] if self.input_bucket is not None else []),
            Statement("ListRequests", ("s3:ListBucket",), (source.bucket_arn,)),
            Statement(
                "ReadRequests",
                ("s3:GetObject",),
                (f"{source.bucket_arn}/*",),
                wildcard="whoever invokes the endpoint names the request's object",
            ),
            *([Statement("EncryptAnswers", ("kms:Decrypt", "kms:GenerateDataKey"), arns)] if arns else []),
            *([Statement("NotifyOfAnswers", ("sns:Publish",), topics)] if topics else []),
        ]

    def _listing(self) -> Statement:
        return Statement(
            "ListAnswers",
            ("s3:ListBucket",),
            (self.bucket.bucket_arn,),
            prefixes=tuple(f"{self.prefix}{end}/*" for end in ("", "-failures")),
        )
