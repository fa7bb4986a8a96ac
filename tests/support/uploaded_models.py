"""Models in S3, with the files that an engine reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from constructs_optim_local.sagemaker.optimization.artifacts import stand_in_model

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


def upload_model(s3: S3Client, bucket: str, folder: str, weights: bytes = b"weights") -> None:
    """Upload a configuration, a tokenizer, and weights that nothing can serve."""
    for name, body in {**stand_in_model(), "model.safetensors": weights}.items():
        s3.put_object(Bucket=bucket, Key=f"{folder}/{name}", Body=body)
