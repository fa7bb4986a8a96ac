"""Inference components: placement of their copies, and the managed instances that scale with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.recipe.catalog import instances
from constructs_optim_local.sagemaker.hosting import fleets
from constructs_optim_local.sagemaker.hosting.fleets import hardware
from tests.support.in_process import InProcessCloud

from ..support.endpoint_updates import make_alarm, trip
from ..support.hosting import IMAGE, gone, settled
from ..support.inference_components import (
    FOUR_GPUS,
    ONE_GPU,
    adapter,
    component,
    create,
    endpoint,
    instance_count,
    needing,
    rolling,
)
from ..support.local_cloud import ROLE
from ..support.waiting import until


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


def scale(sagemaker: Any, name: str, copies: int) -> dict[str, Any]:
    sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=name, DesiredRuntimeConfig={"CopyCount": copies}
    )
    return component(sagemaker, name)


def delete(sagemaker: Any, name: str) -> None:
    sagemaker.delete_inference_component(InferenceComponentName=name)
    gone(lambda: sagemaker.describe_inference_component(InferenceComponentName=name))


def test_hardware_of_the_local_cloud_matches_the_instance_catalog() -> None:
    catalog = {item.name: (item.accelerator_count, item.vcpu, item.memory_mib) for item in instances.by_name().values()}
    assert {name: (room.accelerators, room.cores, room.memory) for name, room in hardware().items()} == catalog


def test_components_share_the_accelerators_until_none_are_free(sagemaker: Any) -> None:
    endpoint(sagemaker, "shared")
    assert create(sagemaker, "chat", "shared", needing(2))["RuntimeConfig"]["CurrentCopyCount"] == 1
    create(sagemaker, "code", "shared", needing(2))
    failed = create(sagemaker, "third", "shared", needing(1))
    assert failed["InferenceComponentStatus"] == "Failed"
    assert failed["FailureReason"].startswith(
        "There is not enough hardware resources on the instances for this endpoint"
    )
    delete(sagemaker, "code")
    delete(sagemaker, "third")
    assert create(sagemaker, "third", "shared", needing(1))["InferenceComponentStatus"] == "InService"


@pytest.mark.parametrize("specification", [needing(5), needing(1, memory=10_000_000)])
def test_a_component_that_fits_on_no_instance_fails(sagemaker: Any, specification: dict[str, Any]) -> None:
    name = f"giant-{specification['ComputeResourceRequirements']['MinMemoryRequiredInMb']}"
    endpoint(sagemaker, name, managed=(1, 4))
    assert create(sagemaker, name, name, specification)["InferenceComponentStatus"] == "Failed"
    assert instance_count(sagemaker, name) == 1


def test_copies_beyond_the_capacity_leave_the_running_copies_in_service(sagemaker: Any) -> None:
    endpoint(sagemaker, "full")
    create(sagemaker, "filling", "full", needing(2))
    found = scale(sagemaker, "filling", 3)
    assert found["InferenceComponentStatus"] == "InService"
    assert (found["RuntimeConfig"]["DesiredCopyCount"], found["RuntimeConfig"]["CurrentCopyCount"]) == (3, 2)
    assert "not enough hardware resources" in found["FailureReason"]


def test_managed_instances_scale_with_the_copies_down_to_zero_and_back(sagemaker: Any) -> None:
    endpoint(sagemaker, "breathing", ONE_GPU, managed=(0, 3))
    create(sagemaker, "breath", "breathing", needing(1))
    assert instance_count(sagemaker, "breathing") == 1
    scale(sagemaker, "breath", 3)
    assert instance_count(sagemaker, "breathing") == 3
    found = scale(sagemaker, "breath", 0)
    assert found["InferenceComponentStatus"] == "InService"
    assert found["RuntimeConfig"] == {"DesiredCopyCount": 0, "CurrentCopyCount": 0}
    assert instance_count(sagemaker, "breathing") == 0
    assert settled(sagemaker, "breathing")["EndpointStatus"] == "InService"
    assert scale(sagemaker, "breath", 1)["RuntimeConfig"]["CurrentCopyCount"] == 1
    assert instance_count(sagemaker, "breathing") == 1
    assert "not enough hardware" in scale(sagemaker, "breath", 4)["FailureReason"]
    delete(sagemaker, "breath")
    assert instance_count(sagemaker, "breathing") == 0


def test_managed_instances_keep_their_minimum_and_fall_back_to_another_pool(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    endpoint(sagemaker, "kept", "ml.g6e.2xlarge", ONE_GPU, managed=(1, 2))
    in_process.inject("no_capacity", instance_type="ml.g6e.2xlarge")
    found = create(sagemaker, "keeping", "kept", needing(1), copies=2)
    assert found["RuntimeConfig"]["PlacementStatus"] == [
        {"InstanceType": ONE_GPU, "CurrentCopyCount": 1},
        {"InstanceType": "ml.g6e.2xlarge", "CurrentCopyCount": 1},
    ]
    scale(sagemaker, "keeping", 0)
    assert instance_count(sagemaker, "kept") == 1


def test_a_component_may_have_a_specification_per_instance_type(in_process: InProcessCloud, sagemaker: Any) -> None:
    endpoint(sagemaker, "varied", FOUR_GPUS, ONE_GPU)
    both = [needing(4, InstanceType=FOUR_GPUS), needing(1, InstanceType=ONE_GPU)]
    found = create(sagemaker, "varying", "varied", both)
    assert "Specification" not in found
    assert [item["InstanceType"] for item in found["Specifications"]] == [FOUR_GPUS, ONE_GPU]
    assert found["RuntimeConfig"]["PlacementStatus"] == [{"InstanceType": FOUR_GPUS, "CurrentCopyCount": 1}]


@pytest.mark.parametrize(("strategy", "spread"), [("SPREAD", [1, 1]), ("BINPACK", [2])])
def test_copies_are_placed_by_their_placement_strategy(sagemaker: Any, strategy: str, spread: list[int]) -> None:
    name = strategy.lower()
    endpoint(sagemaker, name, managed=(1, 2), count=2)
    create(sagemaker, name, name, needing(1, SchedulingConfig={"PlacementStrategy": strategy}), copies=2)
    # Instances without a copy end.
    assert instance_count(sagemaker, name) == len(spread)


def test_an_adapter_runs_in_its_base_component_and_must_be_deleted_first(sagemaker: Any) -> None:
    endpoint(sagemaker, "adapted")
    create(sagemaker, "base", "adapted", needing(4), copies=1)
    found = create(sagemaker, "lora", "adapted", adapter("base"), copies=None)
    assert found["InferenceComponentStatus"] == "InService"
    assert found["RuntimeConfig"]["CurrentCopyCount"] == 1
    with pytest.raises(ClientError, match="lora"):
        sagemaker.delete_inference_component(InferenceComponentName="base")
    with pytest.raises(ClientError, match="is an adapter"):
        scale(sagemaker, "lora", 2)
    delete(sagemaker, "lora")
    delete(sagemaker, "base")


def test_an_adapter_needs_its_base_component_in_service(sagemaker: Any) -> None:
    endpoint(sagemaker, "baseless")
    with pytest.raises(ClientError, match="Could not find inference component"):
        create(sagemaker, "orphan", "baseless", adapter("nobody"))
    create(sagemaker, "too-large", "baseless", needing(8))
    with pytest.raises(ClientError, match="must be InService"):
        create(sagemaker, "orphan", "baseless", adapter("too-large"))


@pytest.mark.parametrize(
    ("specification", "said"),
    [
        ({"Container": {"Image": IMAGE}}, "ComputeResourceRequirements is required"),
        ({"ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128}}, "ModelName or an Image"),
        ([needing(1), needing(1)], "InstanceType of its own"),
        ([needing(1, InstanceType="ml.p5.48xlarge")], "no instances of type ml.p5.48xlarge"),
        ({**needing(1), "ModelName": "no-such-model"}, "Could not find model"),
        (
            {
                "Container": {"Image": IMAGE},
                "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024, "MaxMemoryRequiredInMb": 1023},
            },
            "must not be less than MinMemoryRequiredInMb",
        ),
        (needing(1, SchedulingConfig={"PlacementStrategy": "EVEN"}), "enum value set"),
        ({**adapter("steady"), **needing(1)}, "must be omitted"),
        ({"BaseInferenceComponentName": "steady"}, "ArtifactUrl"),
    ],
)
def test_an_invalid_component_specification_is_refused(sagemaker: Any, specification: Any, said: str) -> None:
    if not sagemaker.list_inference_components(NameContains="steady")["InferenceComponents"]:
        endpoint(sagemaker, "steadfast")
        create(sagemaker, "steady", "steadfast", needing(1))
    with pytest.raises(ClientError, match=said) as caught:
        create(sagemaker, "refused", "steadfast", specification)
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_an_endpoint_with_a_model_on_its_variant_refuses_components(sagemaker: Any) -> None:
    sagemaker.create_model(ModelName="own", PrimaryContainer={"Image": IMAGE})
    variant = {"VariantName": "AllTraffic", "InstanceType": FOUR_GPUS, "InitialInstanceCount": 1, "ModelName": "own"}
    sagemaker.create_endpoint_config(EndpointConfigName="own", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="own", EndpointConfigName="own")
    settled(sagemaker, "own")
    with pytest.raises(ClientError, match="Inference Components are not supported in this Endpoint"):
        create(sagemaker, "guest", "own", needing(1))


def test_a_component_in_a_transient_state_cannot_be_deleted(sagemaker: Any) -> None:
    endpoint(sagemaker, "transient")
    sagemaker.create_inference_component(
        InferenceComponentName="coming",
        EndpointName="transient",
        VariantName="AllTraffic",
        Specification=needing(1),
        RuntimeConfig={"CopyCount": 1},
    )
    with pytest.raises(ClientError, match="while it is in state CREATE_IN_PROGRESS"):
        sagemaker.delete_inference_component(InferenceComponentName="coming")
    component(sagemaker, "coming")


def test_a_rolling_update_replaces_the_copies_of_a_component_in_batches(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    endpoint(sagemaker, "renewed")
    create(sagemaker, "renewing", "renewed", needing(1), copies=2)
    update(sagemaker, "renewing", "lmi:2", rolling())
    found = component(sagemaker, "renewing")
    assert found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == "lmi:2"
    assert found["RuntimeConfig"]["CurrentCopyCount"] == 2
    assert found["LastDeploymentConfig"] == rolling()
    history = in_process.deployments("inference-component/renewing")[-1]["history"]
    baked = [(stage["new"]["copies"], stage["old"]["copies"]) for stage in history if stage["status"] == "Baking"]
    assert baked == [(1, 2), (2, 1)]


def test_a_rolling_update_needs_capacity_for_a_batch_beside_the_old_copies(sagemaker: Any) -> None:
    endpoint(sagemaker, "crowded")
    create(sagemaker, "crowd", "crowded", needing(2), copies=2)
    update(sagemaker, "crowd", "lmi:2", rolling())
    found = component(sagemaker, "crowd")
    assert "not enough hardware resources" in found["FailureReason"]
    assert found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == IMAGE
    # Without a rolling update, the old copies make way.
    update(sagemaker, "crowd", "lmi:2", {})
    found = component(sagemaker, "crowd")
    assert found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == "lmi:2"
    assert "FailureReason" not in found


def test_an_alarm_rolls_a_component_update_back(in_process: InProcessCloud, sagemaker: Any) -> None:
    cloudwatch = in_process.client("cloudwatch")
    make_alarm(cloudwatch, "copy-errors")
    endpoint(sagemaker, "tripping")
    create(sagemaker, "tripped", "tripping", needing(1), copies=2)
    update(sagemaker, "tripped", "lmi:2", rolling(wait=2000, alarms=("copy-errors",)))
    until(
        lambda: in_process.deployments("inference-component/tripped")[-1]["history"][-1]["status"],
        lambda status: status == "Baking",
    )
    trip(cloudwatch, "copy-errors")
    found = component(sagemaker, "tripped")
    assert found["InferenceComponentStatus"] == "InService"
    assert "copy-errors" in found["FailureReason"]
    assert found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == IMAGE
    assert found["RuntimeConfig"]["CurrentCopyCount"] == 2


def test_a_failed_component_update_keeps_the_old_version(in_process: InProcessCloud, sagemaker: Any) -> None:
    endpoint(sagemaker, "failing")
    create(sagemaker, "fails", "failing", needing(1))
    in_process.inject("update_fails", count=1, reason="The new container crashed.")
    update(sagemaker, "fails", "lmi:2", {})
    found = component(sagemaker, "fails")
    assert found["FailureReason"] == "The new container crashed."
    assert found["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == IMAGE


def test_component_copies_move_to_the_new_instances_of_an_endpoint(sagemaker: Any) -> None:
    endpoint(sagemaker, "moving", ONE_GPU)
    create(sagemaker, "mover", "moving", needing(1))
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g6e.2xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="moved", ExecutionRoleArn=ROLE, ProductionVariants=[variant])
    sagemaker.update_endpoint(EndpointName="moving", EndpointConfigName="moved")
    settled(sagemaker, "moving")
    placed = component(sagemaker, "mover")["RuntimeConfig"]["PlacementStatus"]
    assert placed == [{"InstanceType": "ml.g6e.2xlarge", "CurrentCopyCount": 1}]


def test_an_endpoint_with_listed_components_cannot_be_deleted(sagemaker: Any) -> None:
    endpoint(sagemaker, "occupied")
    create(sagemaker, "tenant", "occupied", needing(1))
    (listed,) = sagemaker.list_inference_components(EndpointNameEquals="occupied")["InferenceComponents"]
    assert listed["InferenceComponentName"] == "tenant"
    with pytest.raises(ClientError, match="Cannot delete endpoint with inference component associated"):
        sagemaker.delete_endpoint(EndpointName="occupied")
    assert component(sagemaker, "tenant")["InferenceComponentStatus"] == "InService"
    delete(sagemaker, "tenant")
    sagemaker.delete_endpoint(EndpointName="occupied")
    with pytest.raises(ClientError, match="Could not find endpoint"):
        sagemaker.describe_endpoint(EndpointName="occupied")


def update(sagemaker: Any, name: str, image: str, deployment: dict[str, Any]) -> None:
    before = sagemaker.describe_inference_component(InferenceComponentName=name)["Specification"]
    requirements = before["ComputeResourceRequirements"]
    sagemaker.update_inference_component(
        InferenceComponentName=name,
        Specification={"Container": {"Image": image}, "ComputeResourceRequirements": requirements},
        **({"DeploymentConfig": deployment} if deployment else {}),
    )


P5, HALVES = "ml.p5.4xlarge", ("mig-3g.40gb", "mig-3g.40gb")


def divided(sagemaker: Any, name: str, *partitions: str, instance_type: str = P5, **changed: Any) -> None:
    """A configuration whose GPUs have these partitions."""
    variant = {
        "VariantName": "AllTraffic",
        "InitialInstanceCount": 1,
        "InstanceType": instance_type,
        "AcceleratorPartitionLayouts": [{"AcceleratorPartitionTypes": list(partitions)}],
        **changed,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])


def on_partition(partition: str | None, accelerators: float = 1) -> dict[str, Any]:
    specification = needing(accelerators)
    if partition is not None:
        specification["ComputeResourceRequirements"]["AcceleratorPartitionType"] = partition
    return specification


def test_the_partitions_of_the_local_cloud_are_those_of_the_instance_catalog() -> None:
    written = json.loads((Path(fleets.__file__).parents[2] / "data" / "hardware.json").read_text())["partitions"]
    assert written == {row.family: list(row.partitions) for row in instances.by_name().values() if row.partitions}


@pytest.mark.parametrize(
    ("partitions", "changed", "message"),
    [
        (("mig-4g.40gb", "mig-4g.40gb"), {}, "needs 8 compute slices and 8 memory slices"),
        (("mig-1g.20gb",) * 5, {}, "needs 5 compute slices and 10 memory slices"),
        (("mig-1g.10gb+me",), {}, "is not valid for ml.p5.4xlarge"),
        (HALVES, {"instance_type": ONE_GPU}, "valid partition types: none"),
        ((), {}, "exactly 1 entry"),
    ],
)
def test_a_layout_that_fits_no_gpu_is_refused(
    sagemaker: Any, partitions: tuple[str, ...], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message.replace("+", r"\+")):
        divided(sagemaker, "impossible", *partitions, **changed)


def test_copies_take_the_partitions_of_their_type(sagemaker: Any) -> None:
    divided(sagemaker, "halves", *HALVES)
    sagemaker.create_endpoint(EndpointName="halves", EndpointConfigName="halves")
    assert settled(sagemaker, "halves")["EndpointStatus"] == "InService"
    found = create(sagemaker, "two", "halves", on_partition("mig-3g.40gb"), copies=2)
    assert found["RuntimeConfig"]["CurrentCopyCount"] == 2
    assert create(sagemaker, "no-room", "halves", on_partition("mig-3g.40gb"))["InferenceComponentStatus"] == "Failed"
    for specification, message in (
        (on_partition(None), "AcceleratorPartitionType is required"),
        (on_partition("mig-4g.40gb"), "not one that the endpoint's layout declares: mig-3g.40gb"),
        (on_partition("mig-3g.40gb", 2), "NumberOfAcceleratorDevicesRequired must be 1"),
    ):
        with pytest.raises(ClientError, match=message):
            create(sagemaker, "refused", "halves", specification)


def test_a_layout_and_a_partition_do_not_change(sagemaker: Any) -> None:
    divided(sagemaker, "mixed", "mig-3g.40gb", "mig-4g.40gb")
    divided(sagemaker, "reordered", "mig-4g.40gb", "mig-3g.40gb")
    sagemaker.create_endpoint(EndpointName="mixed", EndpointConfigName="mixed")
    settled(sagemaker, "mixed")
    with pytest.raises(ClientError, match="create a new endpoint"):
        sagemaker.update_endpoint(EndpointName="mixed", EndpointConfigName="reordered")
    create(sagemaker, "fixed", "mixed", on_partition("mig-3g.40gb"))
    with pytest.raises(ClientError, match="create a new inference component"):
        sagemaker.update_inference_component(InferenceComponentName="fixed", Specification=on_partition("mig-4g.40gb"))


def test_whole_gpus_have_no_partitions(sagemaker: Any) -> None:
    endpoint(sagemaker, "whole")
    with pytest.raises(ClientError, match="layout declares: none"):
        create(sagemaker, "refused", "whole", on_partition("mig-3g.40gb"))
