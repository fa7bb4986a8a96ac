"""Instance pools: which instance type a variant gets when another is out of capacity."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.in_process import InProcessCloud

from ..support.hosting import make_model, settled

FIRST, SECOND = "ml.g6e.2xlarge", "ml.g5.2xlarge"


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


def pool(name: str, priority: int, model: str | None = None) -> dict[str, Any]:
    override = {"ModelNameOverride": model} if model else {}
    return {"InstanceType": name, "Priority": priority, **override}


def make_config(sagemaker: Any, name: str, model: str, *pools: dict[str, Any], count: int = 2, **more: Any) -> None:
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InitialInstanceCount": count,
        "InstancePools": list(pools),
        **more,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])


def serving(sagemaker: Any, name: str, *pools: dict[str, Any], **more: Any) -> dict[str, Any]:
    make_model(sagemaker, name)
    make_config(sagemaker, name, name, *(pools or (pool(FIRST, 1), pool(SECOND, 2))), **more)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    return settled(sagemaker, name)


def counts(endpoint: dict[str, Any]) -> dict[str, int]:
    (variant,) = endpoint["ProductionVariants"]
    return {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in variant["InstancePools"]}


def test_instances_are_launched_from_the_highest_priority_pool(sagemaker: Any) -> None:
    endpoint = serving(sagemaker, "pooled", pool(SECOND, 2), pool(FIRST, 1))
    assert counts(endpoint) == {FIRST: 2, SECOND: 0}
    assert endpoint["ProductionVariants"][0]["CurrentInstanceCount"] == 2


def test_a_pool_without_capacity_falls_back_to_the_next_pool_and_its_model(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    sagemaker.create_model(ModelName="for-second", PrimaryContainer={"Image": "lmi:second"})
    in_process.inject("no_capacity", instance_type=FIRST)
    endpoint = serving(sagemaker, "fallen-over", pool(FIRST, 1), pool(SECOND, 2, "for-second"))
    assert endpoint["EndpointStatus"] == "InService"
    assert counts(endpoint) == {FIRST: 0, SECOND: 2}
    images = [image["SpecifiedImage"] for image in endpoint["ProductionVariants"][0]["DeployedImages"]]
    assert images == ["lmi:second"]


def test_capacity_that_runs_out_midway_mixes_both_instance_types(in_process: InProcessCloud, sagemaker: Any) -> None:
    in_process.inject("no_capacity", instance_type=FIRST, skip=2)
    assert counts(serving(sagemaker, "mixed", count=3)) == {FIRST: 2, SECOND: 1}


def test_an_endpoint_fails_only_when_every_pool_lacks_capacity(in_process: InProcessCloud, sagemaker: Any) -> None:
    in_process.inject("no_capacity", instance_type=FIRST)
    in_process.inject("no_capacity", instance_type=SECOND)
    endpoint = serving(sagemaker, "exhausted")
    assert endpoint["EndpointStatus"] == "Failed"
    assert "InsufficientInstanceCapacity" in endpoint["FailureReason"]


def test_a_capacity_fault_of_one_instance_type_does_not_affect_others(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    in_process.inject("no_capacity", instance_type="ml.p5.48xlarge")
    assert serving(sagemaker, "unconcerned")["EndpointStatus"] == "InService"


def test_provisioning_is_retried_until_its_timeout(in_process: InProcessCloud) -> None:
    sagemaker = in_process.client("sagemaker")
    make_model(sagemaker, "patient")
    pools = (pool(FIRST, 1), pool(SECOND, 2))
    make_config(sagemaker, "patient", "patient", *pools, VariantInstanceProvisionTimeoutInSeconds=3600)
    make_config(sagemaker, "hasty", "patient", *pools, VariantInstanceProvisionTimeoutInSeconds=300)
    in_process.inject("no_capacity")
    for name in ("patient", "hasty"):
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, "hasty")["EndpointStatus"] == "Failed"
    in_process.clear_faults()
    assert settled(sagemaker, "patient")["EndpointStatus"] == "InService"


def test_scaling_out_uses_available_pools_and_scaling_in_removes_the_lowest_priority_first(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    serving(sagemaker, "elastic", count=1)

    def scale(count: int) -> dict[str, int]:
        desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": count}]
        sagemaker.update_endpoint_weights_and_capacities(EndpointName="elastic", DesiredWeightsAndCapacities=desired)
        return counts(settled(sagemaker, "elastic"))

    in_process.inject("no_capacity", instance_type=FIRST)
    assert scale(3) == {FIRST: 1, SECOND: 2}
    in_process.clear_faults()
    assert scale(2) == {FIRST: 1, SECOND: 1}
    assert scale(3) == {FIRST: 2, SECOND: 1}
    assert scale(2) == {FIRST: 2, SECOND: 0}


def test_a_scale_out_without_capacity_keeps_the_running_instances(in_process: InProcessCloud, sagemaker: Any) -> None:
    serving(sagemaker, "stuck", count=1)
    in_process.inject("no_capacity")
    desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName="stuck", DesiredWeightsAndCapacities=desired)
    endpoint = settled(sagemaker, "stuck")
    assert (endpoint["EndpointStatus"], counts(endpoint)) == ("InService", {FIRST: 1, SECOND: 0})
    assert "InsufficientInstanceCapacity" in endpoint["FailureReason"]
    assert endpoint["ProductionVariants"][0]["DesiredInstanceCount"] == 1


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ({"InstanceType": FIRST}, "exactly one of InstanceType, InstancePools and ServerlessConfig"),
        ({"InstancePools": [pool(FIRST, 1), pool(FIRST, 2)]}, "different instance types"),
        ({"InstancePools": [pool(FIRST, 1), pool(SECOND, 1)]}, "different priorities"),
        ({"InstancePools": [pool(FIRST, 6)]}, "less than or equal to 5"),
        ({"InstancePools": [pool(FIRST, 1, "no-such-model")]}, "Could not find model"),
        ({"VariantInstanceProvisionTimeoutInSeconds": 299}, "valid min value: 300"),
        ({"RoutingConfig": {"RoutingStrategy": "PREFIX_AWARE"}}, "PrefixAwareRoutingConfig"),
        (
            {"RoutingConfig": {"RoutingStrategy": "PREFIX_AWARE", "PrefixAwareRoutingConfig": {"PrefixLength": 1024}}},
            "ConcurrencyThreshold",
        ),
        ({"ManagedInstanceScaling": {"MinInstanceCount": 3, "MaxInstanceCount": 2}}, "must not exceed"),
    ],
)
def test_an_invalid_instance_pool_configuration_is_refused(
    in_process: InProcessCloud, variant: dict[str, Any], said: str
) -> None:
    client = in_process.client("sagemaker", parameter_validation=False)
    if not client.list_models(NameContains="pool-model")["Models"]:
        make_model(client, "pool-model")
    with pytest.raises(ClientError, match=said) as caught:
        make_config(client, "forbidden", "pool-model", pool(FIRST, 1), **variant)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
