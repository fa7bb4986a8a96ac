"""The endpoints that the end-to-end tests of evaluations deploy."""

from __future__ import annotations

from typing import Any

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_kms as kms

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, QualityRequirement, Quantization, Workload
from constructs_optim.recipe.tasks import TaskName

MODELS = "models-of-evaluations"
SECRET = "arn:aws:secretsmanager:us-west-2:000000000000:secret:hub-token"
PROMPTS = f"s3://{MODELS}/prompts.jsonl"


def everything(p99_ttft_ms: float) -> Any:
    """An encrypted store, prompts of one's own, a gated tokenizer, a component, tags, a schedule: all that needs
    permissions.
    """

    def build(scope: Stack) -> None:
        _everything(scope, p99_ttft_ms)

    return build


def _everything(scope: Stack, p99_ttft_ms: float) -> None:
    Tags.of(scope).add("team", "chat")
    key = kms.Key(scope, "Key", removal_policy=RemovalPolicy.DESTROY)
    endpoint = OptimizedEndpoint(
        scope,
        "Chat",
        model=_model(),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
        artifact_store=ArtifactStore(scope, "Artifacts", encryption_key=key),
        inference_component=True,
    )
    workload = Workload(concurrency=[2], requests=20, prompts=PROMPTS, token_secret_arn=SECRET)
    endpoint.evaluate(workload=workload, schedule="rate(1 hour)").require(
        p99_ttft_ms=p99_ttft_ms, quality=QualityRequirement(prompts=PROMPTS)
    )


def gated(group_size: int, **required: Any) -> Any:
    """An endpoint whose recipe changes with ``group_size``, and which has to come up to something."""

    def build(scope: Stack) -> None:
        endpoint = _endpoint(scope, group_size)
        endpoint.evaluate(workload=Workload(concurrency=[1, 8], requests=60)).require(
            p99_ttft_ms=2000,
            **{"max_regression": 0.1, "quality": QualityRequirement(prompts=PROMPTS, most_prompts=12), **required},
        )

    return build


def of_component(scope: Stack) -> None:
    """A model beside others on one endpoint, evaluated by itself."""
    store = ArtifactStore(scope, "Artifacts", removal_policy=RemovalPolicy.RETAIN)
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.12xlarge", artifact_store=store)
    chat = shared.add_component(
        "Chat", model=_model(), techniques=[Quantization.awq(tensor_parallel_degree=2)], copies=1
    )
    chat.evaluate(workload=Workload(concurrency=[2], requests=40), instance_price_per_hour=8.0).require()


def _endpoint(scope: Stack, group_size: int) -> OptimizedEndpoint:
    return OptimizedEndpoint(
        scope,
        "Chat",
        model=_model(),
        techniques=[Quantization.awq(group_size=group_size)],  # type: ignore[arg-type]
        instance_type="ml.g5.12xlarge",
        artifact_store=ArtifactStore(scope, "Artifacts", removal_policy=RemovalPolicy.RETAIN),
    )


def _model() -> Model:
    return Model.s3(f"s3://{MODELS}/llama/")


def embedding(folder: str, task: TaskName = "embed", **required: Any) -> Any:
    """An endpoint that computes embeddings, scores or classes, whose answers must stay those of the version before."""

    def build(scope: Stack) -> None:
        endpoint = OptimizedEndpoint(
            scope,
            "Search",
            model=Model.s3(f"s3://{MODELS}/{folder}/", task=task),
            instance_type="ml.g5.xlarge",
            artifact_store=ArtifactStore(scope, "Artifacts", removal_policy=RemovalPolicy.RETAIN),
        )
        workload = Workload(concurrency=[1, 4], input_tokens=20, inputs_per_request=3, requests=120)
        quality = QualityRequirement(prompts=f"s3://{MODELS}/{task}.jsonl", min_agreement=0.99)
        endpoint.evaluate(workload=workload).require(**{"min_inputs_per_second": 1, "quality": quality, **required})

    return build
