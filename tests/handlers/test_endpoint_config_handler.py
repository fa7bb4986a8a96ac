"""``Custom::OptimizedEndpointConfig`` against the local cloud's SageMaker: create, update and delete, repeated too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim.runtime.handlers import endpoint_config_handler
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.hosting import IMAGE
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import ROLE, Responses

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1234"
TAGS = [{"Key": "team", "Value": "chat"}]


@pytest.fixture(scope="module", autouse=True)
def model(sagemaker: Any) -> Iterator[None]:
    sagemaker.create_model(ModelName="routed", PrimaryContainer={"Image": IMAGE}, ExecutionRoleArn=ROLE)
    yield
    sagemaker.delete_model(ModelName="routed")


def properties(strategy: str = "KV_AWARE", **changed: Any) -> dict[str, Any]:
    """As CloudFormation sends them: numbers and booleans are text."""
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "routed",
        "InstanceType": "ml.g5.2xlarge",
        "InitialInstanceCount": "2",
        "InitialVariantWeight": "1.0",
        "RoutingConfig": {"RoutingStrategy": strategy},
    }
    metrics = {"EnableEnhancedMetrics": "true", "MetricPublishFrequencyInSeconds": "10"}
    given = {"ServiceToken": "arn:aws:lambda:us-west-2:000000000000:function:f", "ServiceTimeout": "900"}
    return {**given, "ProductionVariants": [variant], "MetricsConfig": metrics, "Tags": TAGS, **changed}


def send(responses: Responses, kind: str, physical_id: str | None = None, **of_event: Any) -> dict[str, Any]:
    event = {
        **custom_resource_event(
            kind,
            responses.url,
            stack_id=STACK,
            request_id=f"request-{len(responses.received)}",
            logical_id="ChatOptimizedConfig",
            properties=properties(),
            physical_id=physical_id,
        ),
        **of_event,
    }
    endpoint_config_handler.handler(event, LambdaContext())
    return responses.received[-1]


def exists(sagemaker: Any, name: str) -> bool:
    listed = sagemaker.list_endpoint_configs(NameContains=name)["EndpointConfigs"]
    return [config["EndpointConfigName"] for config in listed] == [name]


def test_a_created_configuration_has_the_values_in_their_types(responses: Responses, sagemaker: Any) -> None:
    first, repeated = send(responses, "Create"), send(responses, "Create")
    assert first["Status"] == "SUCCESS", first
    name = first["PhysicalResourceId"]
    assert repeated["PhysicalResourceId"] == name
    config = sagemaker.describe_endpoint_config(EndpointConfigName=name)
    assert first["Data"] == {"EndpointConfigName": name, "EndpointConfigArn": config["EndpointConfigArn"]}
    assert repeated["Data"] == first["Data"]
    (variant,) = config["ProductionVariants"]
    assert variant["RoutingConfig"] == {"RoutingStrategy": "KV_AWARE"}
    assert (variant["InitialInstanceCount"], variant["InitialVariantWeight"]) == (2, 1.0)
    assert config["MetricsConfig"] == {"EnableEnhancedMetrics": True, "MetricPublishFrequencyInSeconds": 10}
    assert sagemaker.list_tags(ResourceArn=config["EndpointConfigArn"])["Tags"] == TAGS
    assert send(responses, "Delete", name)["Status"] == "SUCCESS"
    assert not exists(sagemaker, name)
    assert send(responses, "Delete", name)["Status"] == "SUCCESS"


def test_a_configuration_is_created_of_all_properties_and_none_of_cloudformation_s(
    responses: Responses, cloud: LocalCloud
) -> None:
    shadow = {
        **properties()["ProductionVariants"][0],
        "VariantName": "Shadow",
        "ModelDataDownloadTimeoutInSeconds": "600",
    }
    name = send(responses, "Create", ResourceProperties=properties(ShadowProductionVariants=[shadow]))[
        "PhysicalResourceId"
    ]
    assert name.startswith("optim-chat-chatoptimizedconfig-"), responses.received[-1]
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "routed",
        "InstanceType": "ml.g5.2xlarge",
        "InitialInstanceCount": 2,
        "InitialVariantWeight": 1.0,
        "RoutingConfig": {"RoutingStrategy": "KV_AWARE"},
    }
    assert cloud.calls("CreateEndpointConfig")[-1]["request"] == {
        "EndpointConfigName": name,
        "ProductionVariants": [variant],
        "ShadowProductionVariants": [{**variant, "VariantName": "Shadow", "ModelDataDownloadTimeoutInSeconds": 600}],
        "MetricsConfig": {"EnableEnhancedMetrics": True, "MetricPublishFrequencyInSeconds": 10},
        "Tags": TAGS,
    }
    send(responses, "Delete", name)
    assert cloud.calls("DeleteEndpointConfig")[-1]["request"] == {"EndpointConfigName": name}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"InferenceAmiVersion": "default", "VolumeSizeInGB": "default"}, {}),
        (
            {"InferenceAmiVersion": "default|al2-ami-sagemaker-inference-gpu-3-1|default"},
            {"InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1"},
        ),
        ({"VolumeSizeInGB": "256|default|512", "InstanceType": "ml.inf2.8xlarge"}, {"VolumeSizeInGB": 512}),
        ({"VolumeSizeInGB": "64", "InstanceType": "ml.inf2.8xlarge"}, {"VolumeSizeInGB": 64}),
    ],
)
def test_a_variant_has_what_its_models_documents_say(
    responses: Responses, sagemaker: Any, given: dict[str, str], expected: dict[str, Any]
) -> None:
    sent = properties()
    sent["ProductionVariants"][0] |= given
    response = send(responses, "Create", ResourceProperties=sent)
    assert response["Status"] == "SUCCESS", response
    (variant,) = sagemaker.describe_endpoint_config(EndpointConfigName=response["PhysicalResourceId"])[
        "ProductionVariants"
    ]
    found = {name: variant[name] for name in ("InferenceAmiVersion", "VolumeSizeInGB") if name in variant}
    assert found == expected
    send(responses, "Delete", response["PhysicalResourceId"])


def test_pools_whose_documents_name_different_machine_images_are_refused(responses: Responses) -> None:
    sent = properties()
    sent["ProductionVariants"][0]["InferenceAmiVersion"] = (
        "al2-ami-sagemaker-inference-gpu-2|al2-ami-sagemaker-inference-gpu-3-1"
    )
    response = send(responses, "Create", ResourceProperties=sent)
    assert response["Status"] == "FAILED"
    assert "inference_ami_version=" in response["Reason"]


def test_a_change_makes_another_configuration_and_a_rollback_takes_the_old_one(
    responses: Responses, sagemaker: Any
) -> None:
    before, after = properties(), properties("RANDOM")
    old = send(responses, "Create")["PhysicalResourceId"]
    new = send(responses, "Update", old, ResourceProperties=after, OldResourceProperties=before)["PhysicalResourceId"]
    assert new != old
    assert exists(sagemaker, old), "the endpoint still has it"
    back = send(responses, "Update", new, ResourceProperties=before, OldResourceProperties=after)
    assert back["PhysicalResourceId"] == old
    for name in (new, old):
        send(responses, "Delete", name)
        assert not exists(sagemaker, name)


def test_a_rollback_deletes_what_an_update_without_a_response_has_made(responses: Responses, sagemaker: Any) -> None:
    before, after = properties(), properties("RANDOM")
    old = send(responses, "Create")["PhysicalResourceId"]
    lost = send(responses, "Update", old, ResourceProperties=after, OldResourceProperties=before)["PhysicalResourceId"]
    # CloudFormation knows the old one only.
    send(responses, "Update", old, ResourceProperties=before, OldResourceProperties=after)
    assert not exists(sagemaker, lost)
    assert exists(sagemaker, old)
    send(responses, "Delete", old)


def test_changed_tags_change_no_configuration(responses: Responses, sagemaker: Any) -> None:
    old = send(responses, "Create")["PhysicalResourceId"]
    tags = [{"Key": "stage", "Value": "test"}]
    updated = send(
        responses, "Update", old, ResourceProperties=properties(Tags=tags), OldResourceProperties=properties()
    )
    assert updated["PhysicalResourceId"] == old
    assert sagemaker.list_tags(ResourceArn=updated["Data"]["EndpointConfigArn"])["Tags"] == tags
    send(responses, "Delete", old)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ProductionVariants": []}, "ProductionVariants"),
        ({"ProductionVariants": [{**properties()["ProductionVariants"][0], "ModelName": "gone"}]}, "gone"),
        ({"Unknown": "value"}, "Unknown"),
    ],
)
def test_what_the_api_refuses_fails_with_its_reason(responses: Responses, changed: dict[str, Any], reason: str) -> None:
    response = send(responses, "Create", ResourceProperties=properties(**changed))
    assert response["Status"] == "FAILED"
    assert reason in response["Reason"]
    assert send(responses, "Delete", response["PhysicalResourceId"])["Status"] == "SUCCESS"
