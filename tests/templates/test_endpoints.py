"""The endpoints of a template: their variants, serving resources and scaling."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.templates.endpoints import (
    components,
    endpoints_of,
    instance_limits,
    is_name_of,
    is_scaled,
    serving_resources,
    targets_of_component,
    targets_of_variant,
    variants,
)
from constructs_optim.templates.template import Template


def template(**resources: Any) -> Template:
    return Template({"Resources": resources})


def config(*variants: Any) -> dict[str, Any]:
    return {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": list(variants)}}


def target(resource_id: Any, **properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
        "Properties": {"ResourceId": resource_id, "MaxCapacity": 4, **properties},
    }


def component(name: str, **properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::SageMaker::InferenceComponent",
        "Properties": {"InferenceComponentName": name, "EndpointName": "chat", **properties},
    }


VARIANT = {"VariantName": "A", "ModelName": "m", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
SHARED = {"VariantName": "A", "InstanceType": "ml.g5.xlarge"}
ENDPOINT = {
    "Type": "AWS::SageMaker::Endpoint",
    "Properties": {"EndpointName": "chat", "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]}},
}
ADAPTER = component("adapter", Specification={"BaseInferenceComponentName": "base"})


@pytest.mark.parametrize(
    ("variant", "types"),
    [
        (VARIANT, [("Properties.ProductionVariants.0.InstanceType", "ml.g5.xlarge")]),
        (
            {"InstancePools": [{"InstanceType": "ml.g5.xlarge"}, {"InstanceType": {"Ref": "Other"}}]},
            [
                ("Properties.ProductionVariants.0.InstancePools.0.InstanceType", "ml.g5.xlarge"),
                ("Properties.ProductionVariants.0.InstancePools.1.InstanceType", {"Ref": "Other"}),
            ],
        ),
        ({"ServerlessConfig": {"MaxConcurrency": 1}}, []),
    ],
)
def test_a_variant_has_its_instance_types_with_their_locations(variant: Any, types: list[Any]) -> None:
    (found,) = variants(template(Config=config(variant)))
    assert found.instance_types == types


def test_conditional_variants_are_one_variant_with_unknown_instance_types() -> None:
    chosen = {"Fn::If": ["Large", [VARIANT], []]}
    resource = {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": chosen}}
    (found,) = variants(template(Config=resource))
    assert found.instance_types == [("Properties.ProductionVariants.InstanceType", chosen)]


@pytest.mark.parametrize(
    ("resource_id", "found"),
    [
        ({"Fn::Join": ["", ["endpoint/", {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, "/variant/A"]]}, True),
        ({"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/A"}, True),
        ({"Fn::Sub": ["endpoint/${Name}/variant/A", {"Name": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}}]}, True),
        ("endpoint/chat/variant/A", True),
        ("endpoint/other/variant/A", False),
        ({"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/B"}, False),
        ("inference-component/chat", False),
    ],
)
def test_a_variants_scalable_targets_are_matched_by_resource_id(resource_id: Any, found: bool) -> None:
    read = template(Config=config(VARIANT), Endpoint=ENDPOINT, Target=target(resource_id))
    (variant,) = variants(read)
    assert [one.logical_id for one in endpoints_of(read, variant.config)] == ["Endpoint"]
    assert [one.logical_id for one in targets_of_variant(read, variant)] == (["Target"] if found else [])


def test_serving_resources_are_model_endpoints_and_base_components() -> None:
    alone = template(Config=config(VARIANT), Endpoint=ENDPOINT)
    shared = template(Config=config(SHARED), Endpoint=ENDPOINT, Base=component("base"), Adapter=ADAPTER)
    assert [resource.logical_id for resource in serving_resources(alone)] == ["Endpoint"]
    (serving,) = serving_resources(shared)
    assert [serving] == components(shared)
    assert is_name_of(serving, "base")
    assert is_name_of(serving, {"Fn::GetAtt": ["Base", "InferenceComponentName"]})
    assert not is_name_of(serving, "chat")


def test_a_target_is_scaled_by_a_policy_or_a_schedule() -> None:
    policy = {
        "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
        "Properties": {"ScalingTargetId": {"Ref": "Moved"}},
    }
    read = template(
        Base=component("base"),
        Moved=target("inference-component/base"),
        Policy=policy,
        Scheduled=target({"Fn::Sub": "inference-component/${Base.InferenceComponentName}"}, ScheduledActions=[{}]),
        Fixed=target("inference-component/other"),
    )
    assert {name: is_scaled(read, read.resources[name]) for name in ("Moved", "Scheduled", "Fixed")} == {
        "Moved": True,
        "Scheduled": True,
        "Fixed": False,
    }
    found = targets_of_component(read, read.resources["Base"])
    assert [one.logical_id for one in found] == ["Moved", "Scheduled"]


def test_instance_limits_include_variants_scalable_targets_and_schedules() -> None:
    variant = {**VARIANT, "ManagedInstanceScaling": {"Status": "ENABLED", "MaxInstanceCount": 3}}
    scheduled = {"ScheduledActions": [{"ScalableTargetAction": {"MaxCapacity": 8}}, {}]}
    read = template(Config=config(variant), Endpoint=ENDPOINT, Target=target("endpoint/chat/variant/A", **scheduled))
    (found,) = variants(read)
    assert instance_limits(read, found) == [
        ("Properties.ProductionVariants.0.InitialInstanceCount", 1),
        ("Properties.ProductionVariants.0.ManagedInstanceScaling.MaxInstanceCount", 3),
        ("MaxCapacity of Target", 4),
        ("a schedule of Target", 8),
    ]
