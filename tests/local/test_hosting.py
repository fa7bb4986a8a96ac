"""Models, endpoint configurations, endpoints and inference components."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.in_process import InProcessCloud

from ..support.hosting import IMAGE, deploy, gone, make_config, make_model, settled
from ..support.local_cloud import ROLE
from ..support.waiting import until


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


def test_a_created_endpoint_comes_into_service_with_the_image_of_its_model(sagemaker: Any) -> None:
    make_model(sagemaker, "first")
    make_config(sagemaker, "first", "first", count=2)
    sagemaker.create_endpoint(EndpointName="first", EndpointConfigName="first")
    assert sagemaker.describe_endpoint(EndpointName="first")["EndpointStatus"] == "Creating"
    (variant,) = settled(sagemaker, "first")["ProductionVariants"]
    assert variant["DeployedImages"][0]["SpecifiedImage"] == IMAGE
    assert variant["CurrentInstanceCount"] == 2


def test_an_updating_endpoint_serves_the_old_configuration_until_the_new_one_is_ready(sagemaker: Any) -> None:
    deploy(sagemaker, "updated")
    make_config(sagemaker, "updated-2", "updated", count=3)
    sagemaker.update_endpoint(EndpointName="updated", EndpointConfigName="updated-2")
    changing = sagemaker.describe_endpoint(EndpointName="updated")
    assert (changing["EndpointStatus"], changing["EndpointConfigName"]) == ("Updating", "updated")
    with pytest.raises(ClientError, match="in-progress"):
        sagemaker.update_endpoint(EndpointName="updated", EndpointConfigName="updated")
    done = settled(sagemaker, "updated")
    assert done["EndpointConfigName"] == "updated-2"
    assert done["ProductionVariants"][0]["DesiredInstanceCount"] == 3


def test_an_update_that_retains_variant_properties_keeps_the_scaled_instance_count(sagemaker: Any) -> None:
    deploy(sagemaker, "scaled")
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="scaled", DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 7}]
    )
    settled(sagemaker, "scaled")
    make_config(sagemaker, "scaled-2", "scaled")
    sagemaker.update_endpoint(EndpointName="scaled", EndpointConfigName="scaled-2", RetainAllVariantProperties=True)
    assert settled(sagemaker, "scaled")["ProductionVariants"][0]["DesiredInstanceCount"] == 7


def test_model_names_are_case_insensitive_and_keep_their_case(sagemaker: Any) -> None:
    make_model(sagemaker, "CamelCase")
    assert sagemaker.describe_model(ModelName="camelcase")["ModelName"] == "CamelCase"
    with pytest.raises(ClientError, match="already existing"):
        make_model(sagemaker, "camelCASE")


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("describe_model", {"ModelName": "nobody"}),
        ("delete_model", {"ModelName": "nobody"}),
        ("describe_endpoint_config", {"EndpointConfigName": "nobody"}),
        ("describe_endpoint", {"EndpointName": "nobody"}),
        ("delete_endpoint", {"EndpointName": "nobody"}),
        ("describe_inference_component", {"InferenceComponentName": "nobody"}),
        ("create_endpoint", {"EndpointName": "e", "EndpointConfigName": "nobody"}),
    ],
)
def test_missing_hosting_resources_are_a_validation_exception(
    sagemaker: Any, operation: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(ClientError, match="Could not find") as caught:
        getattr(sagemaker, operation)(**arguments)
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_an_endpoint_configuration_needs_existing_models(sagemaker: Any) -> None:
    with pytest.raises(ClientError, match="Could not find model"):
        make_config(sagemaker, "orphan", "no-such-model")


def test_a_model_needs_a_container(sagemaker: Any) -> None:
    with pytest.raises(ClientError, match="PrimaryContainer"):
        sagemaker.create_model(ModelName="hollow", ExecutionRoleArn=ROLE)


def test_an_inference_component_runs_its_copies_on_the_endpoint(sagemaker: Any) -> None:
    deploy(sagemaker, "shared", components=True)
    sagemaker.create_inference_component(
        InferenceComponentName="chat",
        EndpointName="shared",
        VariantName="AllTraffic",
        Specification={
            "Container": {"Image": IMAGE},
            "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 2},
        },
        RuntimeConfig={"CopyCount": 1},
    )

    def component() -> Any:
        return sagemaker.describe_inference_component(InferenceComponentName="chat")

    assert component()["InferenceComponentStatus"] == "Creating"
    until(component, lambda c: c["RuntimeConfig"]["CurrentCopyCount"] == 1)
    sagemaker.update_inference_component(InferenceComponentName="chat", RuntimeConfig={"CopyCount": 2})
    until(component, lambda c: c["RuntimeConfig"]["CurrentCopyCount"] == 2)
    (listed,) = sagemaker.list_inference_components(NameContains="chat")["InferenceComponents"]
    assert listed["InferenceComponentStatus"] == "InService"
    sagemaker.delete_inference_component(InferenceComponentName="chat")
    assert component()["InferenceComponentStatus"] == "Deleting"
    gone(component)
