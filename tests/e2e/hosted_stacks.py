"""The endpoints that the end-to-end tests of hosting deploy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import RemovalPolicy, Size, Stack, Tags

from constructs_optim import (
    Adapters,
    ArtifactStore,
    ComponentOptions,
    Model,
    OptimizedEndpoint,
    Pool,
    Quantization,
    Server,
    VariantOptions,
)

MODELS = "models-of-hosting"


def _model() -> Model:
    return Model.s3(f"s3://{MODELS}/llama/")


def _store(scope: Stack) -> ArtifactStore:
    return ArtifactStore(scope, "Artifacts", removal_policy=RemovalPolicy.RETAIN)


def updated(group_size: int) -> Any:
    """An endpoint whose recipe changes with ``group_size``."""

    def build(scope: Stack) -> None:
        OptimizedEndpoint(
            scope,
            "Chat",
            model=_model(),
            techniques=[Quantization.awq(group_size=group_size)],  # type: ignore[arg-type]
            instance_type="ml.g5.12xlarge",
            artifact_store=_store(scope),
        ).auto_scale(min_capacity=1, max_capacity=4).on_concurrency()

    return build


def pooled(scope: Stack) -> None:
    """An endpoint that prefers one instance type and takes another."""
    OptimizedEndpoint(
        scope,
        "Pooled",
        model=_model(),
        instance_pools=[
            Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
            Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
        ],
        artifact_store=_store(scope),
    )


def components(group_size: int) -> Any:
    """Two models on one endpoint, one of them with an adapter, the other scaling to zero."""

    def build(scope: Stack) -> None:
        endpoint = OptimizedEndpoint(
            scope,
            "Shared",
            instance_type="ml.g5.12xlarge",
            artifact_store=_store(scope),
            variant=VariantOptions(max_instance_count=2),
        )
        chat = endpoint.add_component(
            "Chat",
            model=_model(),
            techniques=[Quantization.awq(tensor_parallel_degree=2)],
            server=Server.vllm(adapters=Adapters()),
        )
        chat.add_adapter("Sql", artifact_uri=f"s3://{MODELS}/adapters/sql.tar.gz")
        small = endpoint.add_component(
            "Small",
            model=_model(),
            techniques=[Quantization.awq(group_size=group_size, tensor_parallel_degree=1)],  # type: ignore[arg-type]
        )
        small.auto_scale(min_capacity=0, max_capacity=2).on_concurrency()

    return build


def partitioned(layout: Sequence[str], memory_gib: int, tag: str = "team") -> Any:
    """A model on a partition of a GPU, as many times as there are partitions of its type; it scales."""

    def build(scope: Stack) -> None:
        Tags.of(scope).add(tag, "chat")
        endpoint = OptimizedEndpoint(
            scope,
            "Divided",
            instance_type="ml.p5.4xlarge",
            artifact_store=_store(scope),
            variant=VariantOptions(accelerator_partitions=layout),
        )
        chat = endpoint.add_component(
            "Chat",
            model=_model(),
            memory=Size.gibibytes(memory_gib),
            options=ComponentOptions(accelerator_partition=layout[0]),
        )
        chat.auto_scale(min_capacity=1, max_capacity=layout.count(layout[0])).on_concurrency()

    return build
