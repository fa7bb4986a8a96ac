"""Endpoints that keep what they were imported with: CloudFormation can import them, and the move is one update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aws_cdk import App, Environment, Size, Stack
from aws_cdk.assertions import Template

from constructs_optim import Model, OptimizedEndpoint, VariantOptions
from constructs_optim.recipe import RecipeError

_MODEL = Model.s3("s3://models/llama/")
_IMPORTED = (
    "AWS::SageMaker::Endpoint",
    "AWS::SageMaker::InferenceComponent",
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
)


def resources(*, with_component: bool, imported: bool) -> dict[str, Any]:
    stack = Stack(App(), "Adopted", env=Environment(account="111122223333", region="us-west-2"))
    kept = {"variant": VariantOptions(existing_configuration="by-hand")} if imported else {}
    own = {} if with_component else {"model": _MODEL}
    endpoint = OptimizedEndpoint(stack, "Endpoint", endpoint_name="chat", instance_type="ml.g5.12xlarge", **own, **kept)
    scaled: Any = endpoint
    if with_component:
        scaled = endpoint.add_component(
            "Llama",
            model=_MODEL,
            component_name="llama",
            memory=Size.gibibytes(8),
            **({"existing_model": "by-hand"} if imported else {}),
        )
    scaled.auto_scale(max_capacity=2).on_invocations(target=60, policy_name="by-hand")
    found: dict[str, Any] = Template.from_stack(stack).to_json()["Resources"]
    return {logical_id: each for logical_id, each in found.items() if each["Type"] in _IMPORTED}


def references(value: object) -> Iterator[str]:
    match value:
        case {"Ref": str(name)} if not name.startswith("AWS::"):
            yield name
        case {"Fn::GetAtt": [str(name), _]}:
            yield name
        case dict():
            for member in value.values():
                yield from references(member)
        case list():
            for item in value:
                yield from references(item)


@pytest.mark.parametrize("with_component", [False, True])
def test_what_is_imported_refers_to_nothing_else(with_component: bool) -> None:
    imported = resources(with_component=with_component, imported=True)
    assert len(imported) == (4 if with_component else 3)
    for resource in imported.values():
        assert set(references(resource["Properties"])) <= set(imported)
        assert "DependsOn" not in resource or set(resource["DependsOn"]) <= set(imported)
        assert resource["DeletionPolicy"] == "Retain", "CloudFormation demands one of what is imported"
    (endpoint,) = (each for each in imported.values() if each["Type"] == "AWS::SageMaker::Endpoint")
    assert endpoint["Properties"] == {"EndpointConfigName": "by-hand", "EndpointName": "chat"}


@pytest.mark.parametrize("with_component", [False, True])
def test_the_move_changes_the_same_resources(with_component: bool) -> None:
    before, after = (resources(with_component=with_component, imported=imported) for imported in (True, False))
    assert set(before) == set(after)
    assert not any("DeletionPolicy" in each for each in after.values())
    (policy,) = (each for each in after.values() if each["Type"].endswith("ScalingPolicy"))
    name = policy["Properties"]["PolicyName"]
    assert name == "by-hand" if with_component else name["Fn::Join"][1][0] == "by-hand"
    for name in ("EndpointName", "InferenceComponentName"):
        names = [
            {each["Properties"].get(name) for each in found.values() if isinstance(each["Properties"].get(name), str)}
            for found in (before, after)
        ]
        assert names[0] == names[1]


def test_an_endpoint_without_its_name_is_refused() -> None:
    stack = Stack(App(), "Adopted", env=Environment(account="111122223333", region="us-west-2"))
    with pytest.raises(RecipeError, match="OPT209"):
        OptimizedEndpoint(
            stack,
            "Endpoint",
            variant=VariantOptions(existing_configuration="by-hand"),
            model=_MODEL,
            instance_type="ml.g5.12xlarge",
        )
