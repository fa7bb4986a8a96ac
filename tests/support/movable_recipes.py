"""Recipes that an endpoint may move between: technique, draft, server, source, instance type and pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration, Stack

from constructs_optim import (
    JobOptions,
    Model,
    OptimizedEndpoint,
    Pool,
    Quantization,
    Server,
    SpeculativeDecoding,
    UpdatePolicy,
)

MODELS = "models-that-move"
G5, G6 = "ml.g5.12xlarge", "ml.g6.12xlarge"


def _model(name: str = "llama") -> Model:
    return Model.s3(f"s3://{MODELS}/{name}/")


def _draft() -> SpeculativeDecoding:
    return SpeculativeDecoding.custom_draft(uri=f"s3://{MODELS}/draft/")


RECIPES: Mapping[str, Mapping[str, Any]] = {
    "as_it_is": {"model": _model(), "techniques": [], "instance_type": G5},
    "quantized": {"model": _model(), "techniques": [Quantization.awq()], "instance_type": G5},
    "on_another_type": {"model": _model(), "techniques": [Quantization.fp8()], "instance_type": G6},
    "with_a_draft": {"model": _model(), "techniques": [_draft()], "instance_type": G5},
    "quantized_with_a_draft": {"model": _model(), "techniques": [Quantization.awq(), _draft()], "instance_type": G6},
    "by_another_server": {"model": _model(), "techniques": [], "instance_type": G5, "server": Server.lmi()},
    "of_another_source": {"model": _model("mistral"), "techniques": [Quantization.awq()], "instance_type": G5},
    "on_pools": {
        "model": _model(),
        "instance_pools": [Pool(G5, techniques=[Quantization.awq()]), Pool(G6, techniques=[Quantization.fp8()])],
    },
}
COMPONENT = "as_a_component"


def declare(scope: Stack, name: str) -> OptimizedEndpoint:
    """The endpoint Chat by a recipe, scaled; an inference component scales by its copies."""
    at_once = UpdatePolicy.all_at_once(bake_time=Duration.seconds(0))
    recipe = RECIPES["as_it_is"] if name == COMPONENT else RECIPES[name]
    declared = OptimizedEndpoint(
        scope,
        "Chat",
        update_policy=at_once,
        jobs=JobOptions(timeout=Duration.minutes(10)),
        **recipe,
        **({"inference_component": True} if name == COMPONENT else {}),
    )
    declared.auto_scale(max_capacity=2).on_concurrency(target=8)
    return declared
