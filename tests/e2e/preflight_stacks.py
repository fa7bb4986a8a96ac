"""The stacks that the end-to-end tests of preflight deploy."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, JobOptions, Model, OptimizationJob, OptimizedEndpoint, Quantization

MODELS, STORE = "models-of-preflight", "store-of-preflight"
LLAMA = "meta-textgeneration-llama-3-70b-instruct"
G5 = "ml.g5.12xlarge"


def _store(scope: Stack) -> Any:
    return ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Store", STORE))


def sound(group_size: int = 128, instances: str = G5) -> Any:
    """An endpoint with nothing wrong."""

    def build(scope: Stack) -> None:
        OptimizedEndpoint(
            scope,
            "Sound",
            model=Model.s3(f"s3://{MODELS}/mine/"),
            techniques=[Quantization.awq(group_size=group_size)],  # type: ignore[arg-type]
            instance_type=instances,
            artifact_store=_store(scope),
        )

    return build


def on_engine_metrics(scope: Stack) -> None:
    """An endpoint that scales on nothing but the metrics of its engine."""
    endpoint = OptimizedEndpoint(
        scope,
        "Scaled",
        model=Model.s3(f"s3://{MODELS}/mine/"),
        techniques=[],
        instance_type="ml.g6e.12xlarge",
        artifact_store=_store(scope),
    )
    endpoint.auto_scale(max_capacity=4).on_queue(target=2)


def wrong(scope: Stack) -> None:
    """A quota that is too small, a version that there is not, no files, and a role without permissions."""
    store = _store(scope)
    bare = iam.Role.from_role_arn(scope, "Bare", f"arn:aws:iam::{scope.account}:role/bare", mutable=False)
    OptimizationJob(
        scope,
        "Versionless",
        model=Model.jumpstart(LLAMA, version="99.0.0", accept_eula=True),
        techniques=[Quantization.awq()],
        instance_type=G5,
        artifact_store=store,
        jobs=JobOptions(role=bare),
    )
    OptimizedEndpoint(
        scope,
        "Wrong",
        model=Model.s3(f"s3://{MODELS}/nothing/"),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.24xlarge",
        artifact_store=store,
    )
