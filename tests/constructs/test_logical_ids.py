"""A logical id keeps its resource type: CloudFormation refuses a change set that changes the type of a resource."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_applicationautoscaling as scaling

from constructs_optim import (
    Alarms,
    FineTune,
    Medusa,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    Quantization,
    RecipeError,
    Sharding,
    SpeculativeDecoding,
)
from constructs_optim.recipe.techniques import Technique

from ..support.construct_stacks import ENVIRONMENT, STACKS, endpoint, llama
from ..support.endpoint_options import ON, grouped
from .conftest import Synthesized

_MISTRAL = Model.s3("s3://models/mistral/7b")
# Recipes that one endpoint may change between.
_RECIPES: dict[str, tuple[Model | None, list[Technique]]] = {
    "awq": (None, [Quantization.awq()]),
    "awq_and_draft": (None, [Quantization.awq(), SpeculativeDecoding.sagemaker_draft()]),
    "awq_and_shards": (None, [Quantization.awq(), Sharding.fast_load()]),
    "heads": (_MISTRAL, [SpeculativeDecoding.eagle()]),
    "medusa": (_MISTRAL, [Medusa(training_data="s3://prompts/sql/train")]),
    "tuned": (_MISTRAL, [FineTune(training_data="s3://prompts/sql/train")]),
    "tuned_then_heads": (
        _MISTRAL,
        [Medusa(training_data="s3://prompts/sql/train", base=FineTune(training_data="s3://prompts/sql/train"))],
    ),
    "tuned_then_awq": (_MISTRAL, [FineTune(training_data="s3://prompts/sql/train"), Quantization.awq()]),
}


def _scaled(scope: Stack) -> None:
    scale = endpoint(scope).auto_scale(max_capacity=4).on_concurrency(target=8)
    scale.on_schedule("Night", schedule=scaling.Schedule.cron(hour="20"), min_capacity=1)


def _scaled_component(scope: Stack) -> None:
    endpoint(scope, inference_component=True).auto_scale(min_capacity=0, max_capacity=2).on_concurrency(target=8)


def _evaluated(scope: Stack) -> None:
    endpoint(scope).evaluate(schedule="rate(1 day)").require(p99_ttft_ms=500)


def _all_alarms(scope: Stack) -> None:
    endpoint(scope, monitoring=MonitoringOptions(alarms=Alarms(failed_job=False)))


def _cases() -> dict[str, Callable[[Stack], object]]:
    cases: dict[str, Callable[[Stack], object]] = {}
    for name, (model, techniques) in _RECIPES.items():
        cases[f"recipe_{name}"] = lambda scope, model=model, techniques=techniques: endpoint(
            scope, model=model or llama(), techniques=techniques
        )
    for name, props in ON.items():
        cases[f"option_{name}"] = lambda scope, props=props: endpoint(scope, **grouped(props(scope)))
    for build in (_scaled, _scaled_component, _evaluated, _all_alarms):
        cases[f"declared{build.__name__}"] = build
    cases["of_components"] = lambda scope: OptimizedEndpoint(
        scope, "Llama70B", instance_type="ml.g5.12xlarge"
    ).add_component("Component", model=llama(), techniques=[Quantization.awq()])
    return cases


def _templates(folder: Path) -> dict[str, dict[str, Any]]:
    app = App(outdir=str(folder))
    declared: list[str] = []
    for name, build in _cases().items():
        scope = Stack(app, re.sub("[_.]", "-", name), env=ENVIRONMENT)
        try:
            build(scope)
            declared.append(scope.stack_name)
        except RecipeError:
            # An option that a rule refuses for this endpoint is not deployed.
            assert name.startswith("option_")
    app.synth()
    return {name: json.loads((folder / f"{name}.template.json").read_text()) for name in declared}


@pytest.mark.exhaustive
def test_a_logical_id_keeps_its_resource_type_across_recipes_and_options(
    synthesized: Synthesized, tmp_path: Path
) -> None:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, template in ({name: synthesized(name) for name in STACKS} | _templates(tmp_path)).items():
        for logical_id, resource in template["Resources"].items():
            found[logical_id][resource["Type"]].append(name)
    assert {logical_id: dict(types) for logical_id, types in found.items() if len(types) > 1} == {}
    both_ways = {"AWS::SageMaker::Model", "Custom::OptimizedModel", "Custom::OptimizationJob", "Custom::TrainingJob"}
    assert both_ways <= {kind for types in found.values() for kind in types}
