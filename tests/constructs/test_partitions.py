"""GPUs that are divided into partitions (Multi-Instance GPU), and the inference components that take one each."""

from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest
from aws_cdk import Stack
from botocore.validate import ParamValidator

from constructs_optim import (
    Adapters,
    ComponentOptions,
    Model,
    OptimizedEndpoint,
    Quantization,
    RecipeError,
    Server,
    VariantOptions,
)

from ..support.construct_stacks import resource, resources, stack, template_of

CONFIG, COMPONENT = "Custom::OptimizedEndpointConfig", "Custom::OptimizedInferenceComponent"
HALVES = ["mig-3g.40gb", "mig-3g.40gb"]


def small() -> Model:
    return Model.s3("s3://models/small/")


def divided(partitions: list[str] = HALVES, scope: Stack | None = None, **overrides: Any) -> OptimizedEndpoint:
    options = {"instance_type": "ml.p5.48xlarge", "variant": VariantOptions(accelerator_partitions=partitions)}
    return OptimizedEndpoint(scope or stack(), "Shared", **{**options, **overrides})


def template(created: OptimizedEndpoint) -> dict[str, Any]:
    return template_of(Stack.of(created))


def test_a_layout_is_written_into_a_configuration_that_the_api_takes() -> None:
    created = divided()
    created.add_component("Chat", model=small())
    made = template(created)
    assert resources(made, "AWS::SageMaker::EndpointConfig") == []
    config = resource(made, CONFIG)
    assert config["ProductionVariants"][0]["AcceleratorPartitionLayouts"] == [{"AcceleratorPartitionTypes": HALVES}]
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("CreateEndpointConfigInput")
    request = {"EndpointConfigName": "config", "ProductionVariants": config["ProductionVariants"]}
    assert ParamValidator().validate(request, shape).generate_report() == ""


def test_a_component_takes_one_partition_and_a_share_of_the_host() -> None:
    created = divided()
    component = created.add_component("Chat", model=small(), copies=2)
    made = template(created)
    assert resources(made, "AWS::SageMaker::InferenceComponent") == []
    properties = resource(made, COMPONENT)
    requirements = properties["Specification"]["ComputeResourceRequirements"]
    assert requirements == {
        "AcceleratorPartitionType": "mig-3g.40gb",
        # Half of a GPU of eight has a sixteenth of 2 TiB, and a copy half of that.
        "MinMemoryRequiredInMb": 65536,
        "NumberOfAcceleratorDevicesRequired": 1,
    }
    assert component.plan.tensor_parallel_degree == 1
    model = resource(made, "Custom::OptimizedModel")
    assert model["Environment"]["SM_VLLM_TENSOR_PARALLEL_SIZE"] == "1"
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("CreateInferenceComponentInput")
    request = {name: properties[name] for name in ("VariantName", "RuntimeConfig")}
    request |= {"InferenceComponentName": "chat", "EndpointName": "shared"}
    request["Specification"] = {**properties["Specification"], "ModelName": "model"}
    assert ParamValidator().validate(request, shape).generate_report() == ""
    assert properties["ServiceTimeout"] == 3600
    assert properties["Specification"]["StartupParameters"] == {
        "ContainerStartupHealthCheckTimeoutInSeconds": 1500,
        "ModelDataDownloadTimeoutInSeconds": 1500,
    }


def test_the_handlers_may_change_these_components_and_no_others() -> None:
    created = divided()
    created.add_component("Chat", model=small())
    made = template(created)
    roles = {name: r["Properties"] for name, r in made["Resources"].items() if r["Type"] == "AWS::IAM::Role"}
    allowed: dict[str, dict[str, Any]] = {}
    for name, role in roles.items():
        if "Components" in name:
            for policy in role.get("Policies", ()):
                for statement in policy["PolicyDocument"]["Statement"]:
                    allowed[statement["Sid"]] = statement
    name = resource(made, COMPONENT)["InferenceComponentName"]
    assert set(allowed) >= {"CreateComponents", "ManageComponents", "StartWatching", "ListRequests", "EndRequests"}
    assert f":inference-component/{name[:-6]}*" in json.dumps(allowed["ManageComponents"]["Resource"])
    endpoint_name = resource(made, "AWS::SageMaker::Endpoint")["EndpointName"]
    assert f":endpoint/{endpoint_name}" in json.dumps(allowed["CreateComponents"]["Resource"])


def test_another_layout_is_another_endpoint_with_other_components() -> None:
    def names(partitions: list[str], partition: str | None = None) -> tuple[str, str, str]:
        created = divided(partitions)
        options = ComponentOptions(accelerator_partition=partition)
        created.add_component("Chat", model=small(), options=options)
        made = template(created)
        (logical_id,) = [name for name, found in made["Resources"].items() if found["Type"] == COMPONENT]
        component, endpoint = resource(made, COMPONENT), resource(made, "AWS::SageMaker::Endpoint")
        return endpoint["EndpointName"], component["InferenceComponentName"], logical_id

    first, other = names(HALVES), names(["mig-2g.20gb", "mig-2g.20gb"])
    assert first[0] != other[0]
    assert first[1] != other[1]
    assert first == names(HALVES)
    mixed = ["mig-3g.40gb", "mig-4g.40gb"]
    one, two = names(mixed, "mig-3g.40gb"), names(mixed, "mig-4g.40gb")
    assert (one[0], one[1] == two[1]) == (two[0], False), "a component cannot change its partition"
    whole = OptimizedEndpoint(stack(), "Shared", instance_type="ml.p5.48xlarge")
    whole.add_component("Chat", model=small())
    assert first[2] not in template(whole)["Resources"], "nor can a logical id change its type"


def test_the_own_model_of_an_endpoint_takes_a_partition_too_and_its_artifact_is_made_for_it() -> None:
    created = divided(model=small(), techniques=[Quantization.awq()], inference_component=True)
    assert created.component is not None
    assert resource(template(created), COMPONENT)["RuntimeConfig"] == {"CopyCount": 1}
    assert created.plan.tensor_parallel_degree == 1


def test_a_component_scales_to_as_many_copies_as_partitions() -> None:
    created = divided(variant=VariantOptions(accelerator_partitions=HALVES, max_instance_count=1))
    component = created.add_component("Chat", model=small())
    component.auto_scale(min_capacity=1, max_capacity=16).on_concurrency(target=4)
    with pytest.raises(RecipeError, match="OPT131"):
        created.add_component("More", model=small())
    made = template(created)
    (logical_id,) = [name for name, found in made["Resources"].items() if found["Type"] == COMPONENT]
    assert resource(made, "Custom::ComponentCapacity")["ComponentLogicalId"] == logical_id
    target = resource(made, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert target["ScalableDimension"] == "sagemaker:inference-component:DesiredCopyCount"


def test_adapters_live_on_a_component_with_a_partition() -> None:
    created = divided()
    component = created.add_component("Chat", model=small(), server=Server.vllm(adapters=Adapters()))
    component.add_adapter("Sql", artifact_uri="s3://adapters/sql.tar.gz")
    adapter = resource(template(created), "AWS::SageMaker::InferenceComponent")
    assert "AcceleratorPartitionType" not in json.dumps(adapter)


@pytest.mark.parametrize(
    ("partitions", "overrides", "message"),
    [
        (["mig-4g.40gb", "mig-4g.40gb"], {}, "8 compute and 8 memory slices, but a GPU of ml.p5.48xlarge has 7 and 8"),
        (["mig-3g.20gb"], {}, "do not support this partition"),
        (HALVES, {"instance_type": "ml.g5.12xlarge"}, "one of the instance types ml.p4d.24xlarge"),
        (HALVES, {"model": small(), "techniques": []}, "a variant that serves a model uses whole GPUs"),
    ],
)
def test_a_layout_that_no_gpu_can_have_is_refused(
    partitions: list[str], overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match="OPT138") as refused:
        divided(partitions, **overrides)
    assert message in str(refused.value)


def test_a_component_without_a_partition_of_the_layout_is_refused() -> None:
    created = divided(["mig-3g.40gb", "mig-4g.40gb"])
    with pytest.raises(RecipeError, match=r"(?s)OPT139.*one of the endpoint's partitions: mig-3g.40gb, mig-4g.40gb"):
        created.add_component("Chat", model=small())
    with pytest.raises(RecipeError, match="OPT139"):
        created.add_component("Chat", model=small(), options=ComponentOptions(accelerator_partition="mig-1g.10gb"))
    whole = OptimizedEndpoint(stack(), "Shared", instance_type="ml.p5.48xlarge")
    with pytest.raises(RecipeError, match=r"(?s)OPT139.*the endpoint's GPUs are not partitioned"):
        whole.add_component("Chat", model=small(), options=ComponentOptions(accelerator_partition="mig-3g.40gb"))


def test_a_model_that_is_larger_than_its_partition_is_refused() -> None:
    created = divided(["mig-1g.10gb"])
    with pytest.raises(RecipeError, match="OPT050"):
        created.add_component(
            "Chat", model=Model.jumpstart("meta-textgeneration-llama-3-8b-instruct", version="1.0.0", accept_eula=True)
        )
