"""What CloudFormation does with a resource when one template follows another."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.explanation.report import Action
from constructs_optim.explanation.resources import compare
from constructs_optim.templates.template import Template

from ..support.handwritten_templates import attribute, chat, resource, template
from ..support.resource_schemas import FILE, create_only

SNAPSHOTS = Path(__file__).parent.parent / "constructs" / "__snapshots__"


def actions(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Action]:
    found = compare(Template({"Resources": before}), Template({"Resources": after}))
    return {name: change.action for name, change in found.items()}


def types_of_this_library() -> list[str]:
    found = {
        name for path in SNAPSHOTS.rglob("*.json") for name in re.findall(r'"Type": "(AWS::[\w:]+)"', path.read_text())
    }
    return sorted(found)


@pytest.mark.parametrize("type_name", types_of_this_library())
def test_recorded_create_only_properties_match_the_resource_schema(type_name: str) -> None:
    said = json.loads(FILE.read_text(encoding="utf-8"))[type_name]
    assert said == create_only(type_name), "python -m tests.support.resource_schemas writes the file anew"


def test_an_unchanged_template_has_no_resource_changes() -> None:
    assert actions(chat(), chat()) == {}


def test_numbers_and_booleans_are_the_same_as_text() -> None:
    before = {"Queue": resource("AWS::SQS::Queue", DelaySeconds=5, FifoQueue=True)}
    after = {"Queue": resource("AWS::SQS::Queue", DelaySeconds="5", FifoQueue="true")}
    assert actions(before, after) == {}


def test_metadata_and_dependencies_alone_change_no_resource() -> None:
    told = {"Queue": {**resource("AWS::SQS::Queue"), "Metadata": {"constructs-optim": {}}, "DependsOn": ["Other"]}}
    assert actions({"Queue": resource("AWS::SQS::Queue")}, told) == {}


@pytest.mark.parametrize(
    ("type_name", "before", "after", "action"),
    [
        ("AWS::SQS::Queue", {"DelaySeconds": 5}, {"DelaySeconds": 6}, "update"),
        ("AWS::SQS::Queue", {"QueueName": "a"}, {"QueueName": "b"}, "replace"),
        ("AWS::SQS::Queue", {}, {"QueueName": "b"}, "replace"),
        ("AWS::SageMaker::EndpointConfig", {"Tags": []}, {"Tags": [{"Key": "a", "Value": "b"}]}, "update"),
        ("AWS::SageMaker::InferenceComponent", {"VariantName": "a"}, {"VariantName": "b"}, "update"),
        ("Custom::OptimizationJob", {"RecipeKey": "a"}, {"RecipeKey": "b"}, "update"),
        ("Custom::OptimizedModel", {"Image": "a"}, {"Image": "b"}, "replace"),
        ("Custom::OptimizedEndpointConfig", {"KmsKeyId": "a"}, {"KmsKeyId": "b"}, "replace"),
        ("AWS::Lambda::Function", {"DurableConfig": {"a": 1}}, {"DurableConfig": {"a": 2}}, "may_replace"),
        # Only one property below NetworkConfiguration cannot be changed in place.
        (
            "AWS::EC2::Volume",
            {"AvailabilityZone": "a"},
            {"AvailabilityZone": "b"},
            "replace" if "AvailabilityZone" in create_only("AWS::EC2::Volume") else "update",
        ),
        ("AWS::CloudFormation::WaitCondition", {"Timeout": "1"}, {"Timeout": "2"}, "refuse"),
    ],
)
def test_a_changed_property_changes_in_place_or_replaces(
    type_name: str, before: dict[str, Any], after: dict[str, Any], action: Action
) -> None:
    assert actions({"It": resource(type_name, **before)}, {"It": resource(type_name, **after)}) == {"It": action}


def test_a_nested_create_only_property_alone_causes_replacement() -> None:
    def replicator(source: str, tag: str) -> dict[str, Any]:
        listed = [{"SourceKafkaClusterArn": source, "TopicReplication": {"TopicsToReplicate": [tag]}}]
        return {"It": resource("AWS::MSK::Replicator", ReplicationInfoList=listed)}

    assert actions(replicator("a", "x"), replicator("a", "y")) == {"It": "update"}
    assert actions(replicator("a", "x"), replicator("b", "x")) == {"It": "replace"}


def test_new_resources_are_created_and_missing_ones_removed_or_retained() -> None:
    kept = {**resource("AWS::S3::Bucket"), "DeletionPolicy": "Retain"}
    before = {"Gone": resource("AWS::SQS::Queue"), "Kept": kept}
    assert actions(before, {"New": resource("AWS::SQS::Queue")}) == {
        "New": "create",
        "Gone": "remove",
        "Kept": "keep",
    }


def test_a_resource_that_changes_its_type_is_refused() -> None:
    assert actions({"It": resource("AWS::SQS::Queue")}, {"It": resource("AWS::SNS::Topic")}) == {"It": "refuse"}


def test_a_replaced_model_replaces_its_configuration_and_updates_the_endpoint() -> None:
    found = compare(template(**chat()), template(**chat(generation="2")))
    assert {name: change.action for name, change in found.items()} == {
        "Handle2": "create",
        "Job": "update",
        "Ready2": "create",
        "Model": "replace",
        "Config": "replace",
        "Endpoint": "update",
        "Handle1": "remove",
        "Ready1": "remove",
    }
    assert found["Endpoint"].properties == ("EndpointConfigName",)
    assert found["Endpoint"].is_certain


def test_a_changed_custom_resource_may_change_its_attributes() -> None:
    def resources(recipe: str) -> dict[str, Any]:
        variant = {"ContainerStartupHealthCheckTimeoutInSeconds": attribute("Job", "ContainerStartupTimeout")}
        return {
            "Job": resource("Custom::OptimizationJob", RecipeKey=recipe),
            "Config": resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[variant]),
            "Endpoint": resource(
                "AWS::SageMaker::Endpoint", EndpointConfigName=attribute("Config", "EndpointConfigName")
            ),
        }

    found = compare(template(**resources("a")), template(**resources("b")))
    assert found["Config"].action == "may_replace"
    assert found["Endpoint"].action == "update"
    assert not found["Endpoint"].is_certain


def test_handler_settings_and_tags_change_no_attribute_of_a_custom_resource() -> None:
    def resources(tag: str) -> dict[str, Any]:
        tags = [{"Key": "team", "Value": tag}]
        variant = {"ContainerStartupHealthCheckTimeoutInSeconds": attribute("Job", "ContainerStartupTimeout")}
        return {
            "Job": resource("Custom::OptimizationJob", RecipeKey="a", Tags=tags),
            "Config": resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[variant]),
            "Model": resource("Custom::OptimizedModel", Image="lmi:1", Tags=tags),
            "Next": resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[attribute("Model", "ModelName")]),
        }

    assert actions(resources("a"), resources("b")) == {"Job": "update", "Model": "update"}


def test_cdk_metadata_is_no_change() -> None:
    assert actions({}, {"Notes": resource("AWS::CDK::Metadata", Analytics="v2")}) == {}


def test_a_changed_parameter_default_or_mapping_value_may_change_its_users() -> None:
    def of(default: str, account: str, **more: Any) -> Template:
        return Template(
            {
                "Parameters": {"Size": {"Type": "String", "Default": default}},
                "Mappings": {"Accounts": {"us-west-2": {"Account": account}, **more}},
                "Resources": {
                    "One": resource("AWS::SQS::Queue", DelaySeconds={"Ref": "Size"}),
                    "Two": resource(
                        "AWS::SQS::Queue", QueueName={"Fn::FindInMap": ["Accounts", "us-west-2", "Account"]}
                    ),
                },
            }
        )

    found = compare(of("1", "a"), of("2", "b"))
    assert {name: (change.action, change.is_certain) for name, change in found.items()} == {
        "One": ("update", False),
        "Two": ("may_replace", False),
    }
    assert compare(of("1", "a"), of("1", "a", **{"eu-west-1": {"Account": "c"}})) == {}


def test_question_marks_for_non_ascii_text_in_deployed_templates_are_no_change() -> None:
    before = template(Queue=resource("AWS::SQS::Queue", Tags=[{"Key": "team", "Value": "caf?"}]))
    after = template(Queue=resource("AWS::SQS::Queue", Tags=[{"Key": "team", "Value": "café"}]))
    assert compare(before, after, deployed=True) == {}
    assert list(compare(before, after)) == ["Queue"]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "b", "c"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["X", "Y"]), inner, max_size=2)
        | st.sampled_from([{"Ref": "One"}, {"Ref": "Two"}, {"Fn::GetAtt": ["Two", "Arn"]}, {"Fn::Sub": "${One}-x"}])
    ),
    max_leaves=4,
)
kinds = st.sampled_from(["AWS::SQS::Queue", "AWS::SNS::Topic", "Custom::OptimizationJob", "Custom::OptimizedModel"])
properties = st.dictionaries(st.sampled_from(["QueueName", "TopicName", "Tags", "Image"]), values, max_size=3)
templates = st.dictionaries(
    st.sampled_from(["One", "Two", "Three"]),
    st.builds(lambda kind, given: resource(kind, **given), kinds, properties),
    max_size=3,
)


@given(templates)
def test_no_template_differs_from_itself(resources: dict[str, Any]) -> None:
    assert actions(resources, json.loads(json.dumps(resources))) == {}


@given(templates, templates)
def test_every_difference_between_templates_is_reported(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = actions(before, after)
    assert {name for name, action in found.items() if action == "create"} == set(after) - set(before)
    assert {name for name, action in found.items() if action == "remove"} == set(before) - set(after)
    differing = {name for name in set(before) & set(after) if before[name]["Type"] != after[name]["Type"]}
    assert {name for name, action in found.items() if action == "refuse"} == differing
