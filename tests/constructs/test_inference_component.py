"""Inference components: several models on one endpoint, adapters, separate scaling."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk import CfnParameter, Environment, RemovalPolicy, Size, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    Adapters,
    ComponentOptions,
    Model,
    NetworkOptions,
    OptimizedEndpoint,
    Placement,
    Pool,
    Quantization,
    RecipeError,
    ScaleIn,
    Server,
    Sharding,
    SpeculativeDecoding,
    UpdatePolicy,
    VariantOptions,
)

from ..support.construct_stacks import endpoint, llama, resource, resources, stack, template_of

COMPONENT = "AWS::SageMaker::InferenceComponent"
SMALL = Quantization.awq(tensor_parallel_degree=1)


def small() -> Model:
    return Model.s3("s3://models/small/")


def shared(**overrides: Any) -> OptimizedEndpoint:
    return OptimizedEndpoint(stack(), "Shared", **{"instance_type": "ml.g5.12xlarge", **overrides})


def variant_of(created: OptimizedEndpoint) -> dict[str, Any]:
    return resource(template_of(created.stack), "AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]  # type: ignore[arg-type]


def test_the_inference_component_option_serves_the_recipe_with_a_component() -> None:
    scope = stack()
    created = endpoint(scope, inference_component=True)
    template = template_of(scope)
    component = resource(template, COMPONENT)
    assert component["Specification"]["ComputeResourceRequirements"] == {
        "MinMemoryRequiredInMb": 98304,
        "NumberOfAcceleratorDevicesRequired": 4,
    }
    variant = resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]
    assert "ModelName" not in variant
    assert created.component is not None


ASKED = ComponentOptions(
    cpu_cores=2.5,
    max_memory=Size.gibibytes(192),
    caching=True,
    placement=Placement.binpack(max_zone_imbalance=2),
)


@pytest.mark.parametrize("is_own", [True, False])
def test_the_options_of_a_component_are_members_of_its_specification(is_own: bool) -> None:
    if is_own:
        created = endpoint(stack(), inference_component=ASKED)
    else:
        created = shared()
        created.add_component("Chat", model=small(), techniques=[Quantization.awq()], options=ASKED)
    specification = resource(template_of(created.stack), COMPONENT)["Specification"]  # type: ignore[arg-type]
    assert specification["ComputeResourceRequirements"] == {
        "MaxMemoryRequiredInMb": 196_608,
        "MinMemoryRequiredInMb": 98_304,
        "NumberOfAcceleratorDevicesRequired": 4,
        "NumberOfCpuCoresRequired": 2.5,
    }
    assert specification["DataCacheConfig"] == {"EnableCaching": True}
    assert specification["SchedulingConfig"] == {
        "AvailabilityZoneBalance": {"EnforcementMode": "PERMISSIVE", "MaxImbalance": 2},
        "PlacementStrategy": "BINPACK",
    }


def test_components_of_several_types_have_the_options_on_each() -> None:
    pools = [Pool(name, [Quantization.awq()]) for name in ("ml.g5.24xlarge", "ml.g5.12xlarge")]
    created = endpoint(stack(), inference_component=ASKED, instance_pools=pools, instance_type=None, techniques=None)
    specifications = resource(template_of(created.stack), COMPONENT)["Specifications"]  # type: ignore[arg-type]
    assert [each["DataCacheConfig"] for each in specifications] == [{"EnableCaching": True}] * 2


@pytest.mark.parametrize("types", [("ml.p5.48xlarge", "ml.g5.12xlarge"), ("ml.g5.12xlarge", "ml.p5.48xlarge")])
def test_an_endpoint_of_pools_begins_with_the_instances_that_the_smallest_type_needs(types: tuple[str, str]) -> None:
    pools = [Pool(each, []) for each in types]
    created = shared(instance_type=None, instance_pools=pools)
    created.add_component("Chat", model=small(), instance_pools=pools, accelerators=4, copies=3)
    variant = variant_of(created)
    assert variant["InitialInstanceCount"] == 3
    assert variant["ManagedInstanceScaling"] == {"MaxInstanceCount": 4, "MinInstanceCount": 3, "Status": "ENABLED"}


def test_copies_are_counted_by_the_vcpus_that_they_reserve() -> None:
    created = shared()
    greedy = ComponentOptions(cpu_cores=40)
    created.add_component("Chat", model=small(), techniques=[SMALL], copies=2, options=greedy)
    assert variant_of(created)["ManagedInstanceScaling"]["MinInstanceCount"] == 2
    with pytest.raises(RecipeError, match="48 vCPUs"):
        created.add_component("More", model=small(), techniques=[SMALL], options=ComponentOptions(cpu_cores=64))


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        (ScaleIn.idle_release(), {"Strategy": "IDLE_RELEASE"}),
        (
            ScaleIn.consolidation(max_step_size=3),
            {"CooldownInMinutes": 20, "MaximumStepSize": 3, "Strategy": "CONSOLIDATION"},
        ),
    ],
)
def test_managed_instances_are_released_by_the_policy(policy: ScaleIn, written: dict[str, Any]) -> None:
    created = shared(variant=VariantOptions(scale_in=policy))
    created.add_component("Chat", model=small(), techniques=[SMALL])
    assert variant_of(created)["ManagedInstanceScaling"]["ScaleInPolicy"] == written


@pytest.mark.parametrize(
    "options",
    [
        {"inference_component": True},
        {"techniques": [Quantization.awq(), Sharding.fast_load()]},
    ],
)
def test_a_region_without_inference_components_is_refused(options: dict[str, Any]) -> None:
    paris = stack(env=Environment(account="111122223333", region="eu-west-3"))
    with pytest.raises(RecipeError, match="OPT137"):
        endpoint(paris, **options)
    with pytest.raises(RecipeError, match="OPT137"):
        OptimizedEndpoint(paris, "Shared", instance_type="ml.g5.12xlarge")


def test_an_environment_agnostic_stack_may_declare_inference_components() -> None:
    assert endpoint(stack(env=None), inference_component=True).component is not None


def test_component_startup_timeouts_stay_within_cloudformations_two_hour_limit() -> None:
    created = shared()
    created.add_component("Small", model=small(), techniques=[SMALL])
    parameters = resource(template_of(created.stack), COMPONENT)["Specification"]["StartupParameters"]  # type: ignore[arg-type]
    assert parameters == {
        "ContainerStartupHealthCheckTimeoutInSeconds": 2700,
        "ModelDataDownloadTimeoutInSeconds": 2700,
    }


def test_each_component_has_its_own_model_job_and_dashboard_segments() -> None:
    created = shared()
    created.add_component("Chat", model=llama(), techniques=[Quantization.awq(tensor_parallel_degree=2)])
    created.add_component("Small", model=small(), techniques=[SMALL])
    template = template_of(created.stack)  # type: ignore[arg-type]
    assert len(resources(template, COMPONENT)) == 2
    assert len(resources(template, "AWS::SageMaker::Model")) == 2
    assert len(resources(template, "Custom::OptimizationJob")) == 2
    body = json.dumps(resource(template, "AWS::CloudWatch::Dashboard"))
    assert "Chat: Traffic and latency" in body
    assert "Small: Errors" in body


def test_explicit_component_resources_override_the_plan() -> None:
    created = shared()
    created.add_component(
        "Small", model=small(), techniques=[SMALL], accelerators=2, memory=Size.gibibytes(10), copies=2
    )
    component = resource(template_of(created.stack), COMPONENT)  # type: ignore[arg-type]
    assert component["RuntimeConfig"] == {"CopyCount": 2}
    assert component["Specification"]["ComputeResourceRequirements"] == {
        "MinMemoryRequiredInMb": 10240,
        "NumberOfAcceleratorDevicesRequired": 2,
    }


def test_managed_scaling_allows_one_more_instance_than_the_copies_need() -> None:
    created = shared()
    created.add_component("Small", model=small(), techniques=[SMALL]).auto_scale(min_capacity=2, max_capacity=9)
    scaling = variant_of(created)["ManagedInstanceScaling"]
    # Four copies an instance: two take one, nine take three.
    assert scaling == {"MaxInstanceCount": 4, "MinInstanceCount": 1, "Status": "ENABLED"}


def test_instances_scale_to_zero_when_every_component_does() -> None:
    created = shared()
    created.add_component("One", model=small(), techniques=[SMALL]).auto_scale(min_capacity=0, max_capacity=1)
    assert variant_of(created)["ManagedInstanceScaling"]["MinInstanceCount"] == 0


def test_instances_do_not_scale_to_zero_while_one_component_cannot() -> None:
    created = shared()
    created.add_component("One", model=small(), techniques=[SMALL]).auto_scale(min_capacity=0, max_capacity=1)
    created.add_component("Two", model=llama(), techniques=[Quantization.awq(tensor_parallel_degree=2)])
    assert variant_of(created)["ManagedInstanceScaling"]["MinInstanceCount"] == 1


def test_component_copies_beyond_the_instance_limit_are_refused() -> None:
    created = shared(variant=VariantOptions(max_instance_count=1))
    created.add_component("One", model=llama(), techniques=[Quantization.awq()])
    with pytest.raises(RecipeError) as caught:
        created.add_component("Two", model=small(), techniques=[SMALL])
    (violation,) = caught.value.violations
    assert violation.rule == "OPT131"
    assert "max_instance_count=2" in violation.suggestion


def test_scaling_a_component_beyond_the_instance_limit_is_refused() -> None:
    created = shared(variant=VariantOptions(max_instance_count=1))
    component = created.add_component("One", model=small(), techniques=[SMALL])
    with pytest.raises(RecipeError) as caught:
        component.auto_scale(max_capacity=5)
    assert [violation.rule for violation in caught.value.violations] == ["OPT131"]


@pytest.mark.parametrize("memory", [16, Size.bytes(16 * 2**20 + 1)])
def test_the_memory_of_a_copy_is_a_size_of_whole_mebibytes(memory: Any) -> None:
    with pytest.raises(ValueError, match=r"add_component\('One'\)\.memory"):
        shared().add_component("One", model=small(), techniques=[SMALL], memory=memory)


def test_a_copy_larger_than_an_instance_is_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        shared().add_component("One", model=small(), techniques=[SMALL], accelerators=8, memory=Size.gibibytes(500))
    assert [violation.location for violation in caught.value.violations] == [
        "add_component('One').accelerators",
        "add_component('One').memory",
    ]


def test_a_component_with_sagemakers_draft_and_other_violations_is_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        shared(instance_type="ml.g5.48xlarge").add_component(
            "One", model=llama(), techniques=[SpeculativeDecoding.sagemaker_draft()], copies=-1
        )
    assert [violation.rule for violation in caught.value.violations] == ["OPT132", "OPT253"]


def test_adding_a_component_to_an_endpoint_that_serves_a_model_is_refused() -> None:
    created = endpoint(stack())
    with pytest.raises(RecipeError) as caught:
        created.add_component("Small", model=small(), techniques=[SMALL])
    assert [violation.rule for violation in caught.value.violations] == ["OPT133"]
    assert "inference_component=True" in caught.value.violations[0].suggestion


def test_an_adapter_is_a_component_that_the_execution_role_may_read() -> None:
    created = shared()
    base = created.add_component(
        "Chat", model=llama(), techniques=[Quantization.awq()], server=Server.vllm(adapters=Adapters(max_loaded=2))
    )
    adapter = base.add_adapter("Sql", artifact_uri="s3://adapters/sql.tar.gz", adapter_name="sql")
    role = iam.Role(created.stack, "Caller", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    adapter.grant_invoke(role)
    template = template_of(created.stack)  # type: ignore[arg-type]
    (found,) = [each for each in resources(template, COMPONENT) if "Container" in each["Specification"]]
    assert found["InferenceComponentName"] == "sql"
    assert found["Specification"]["Container"] == {"ArtifactUrl": "s3://adapters/sql.tar.gz"}
    assert "RuntimeConfig" not in found
    environment = resource(template, "AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
    assert environment["SM_VLLM_ENABLE_LORA"] == "true"
    assert environment["SM_VLLM_MAX_LORAS"] == "2"
    statements = [
        statement
        for each in resources(template, "AWS::IAM::Role")
        for policy in each.get("Policies", [])
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    (reads,) = [statement for statement in statements if statement.get("Sid") == "ReadAdapters"]
    assert json.dumps(reads["Resource"]).endswith(':s3:::", "adapters/sql.tar.gz"]]}')


def test_an_adapter_on_a_component_without_adapters_enabled_is_refused() -> None:
    component = shared().add_component("Chat", model=llama(), techniques=[Quantization.awq()])
    with pytest.raises(RecipeError) as caught:
        component.add_adapter("Sql", artifact_uri="s3://adapters/sql/")
    assert [violation.rule for violation in caught.value.violations] == ["OPT134", "OPT135"]


def test_a_scaled_component_looks_up_its_copy_count_before_an_update() -> None:
    created = shared()
    created.add_component("Small", model=small(), techniques=[SMALL]).auto_scale(max_capacity=2)
    template = template_of(created.stack)  # type: ignore[arg-type]
    (name,) = [name for name, r in template["Resources"].items() if r["Type"] == "Custom::ComponentCapacity"]
    component, look_up = resource(template, COMPONENT), template["Resources"][name]["Properties"]["Component"]
    assert component["RuntimeConfig"] == {"CopyCount": {"Fn::GetAtt": [name, "CopyCount"]}}
    # Any change of the component also changes the look-up, which therefore runs first.
    assert {key: value for key, value in component.items() if key != "RuntimeConfig"} == look_up


def test_a_component_on_pools_has_a_specification_for_each_instance_type() -> None:
    pools = [
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8(tensor_parallel_degree=4)]),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
    ]
    created = shared(instance_type=None, instance_pools=[Pool(pool.instance_type, []) for pool in pools])
    created.add_component("Chat", model=llama(), instance_pools=pools)
    component = resource(template_of(created.stack), COMPONENT)  # type: ignore[arg-type]
    assert "Specification" not in component
    assert [
        (each["InstanceType"], each["ComputeResourceRequirements"]["NumberOfAcceleratorDevicesRequired"])
        for each in component["Specifications"]
    ] == [("ml.p5.48xlarge", 4), ("ml.g5.12xlarge", 4)]


def test_a_component_whose_pools_differ_from_its_endpoints_is_refused() -> None:
    created = shared(instance_type=None, instance_pools=[Pool("ml.p5.48xlarge", []), Pool("ml.g5.12xlarge", [])])
    with pytest.raises(ValueError, match="set one for each, in the same order"):
        created.add_component("Chat", model=llama(), instance_pools=[Pool("ml.g5.12xlarge", [Quantization.awq()])])


def test_a_rolling_update_policy_replaces_component_copies_in_batches() -> None:
    created = shared(update_policy=UpdatePolicy.rolling(percent=50), variant=VariantOptions(initial_instance_count=2))
    created.add_component("Small", model=small(), techniques=[SMALL])
    policy = resource(template_of(created.stack), COMPONENT)["DeploymentConfig"]["RollingUpdatePolicy"]  # type: ignore[arg-type]
    assert policy == {"MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50}, "WaitIntervalInSeconds": 600}


def test_at_most_ten_component_alarms_roll_back_an_endpoint_update() -> None:
    created = shared(instance_type="ml.g5.48xlarge")
    for number in range(6):
        created.add_component(f"Small{number}", model=small(), techniques=[SMALL])
    config = resource(template_of(created.stack), "AWS::SageMaker::Endpoint")["DeploymentConfig"]  # type: ignore[arg-type]
    names = [alarm["AlarmName"]["Ref"] for alarm in config["AutoRollbackConfiguration"]["Alarms"]]
    assert len(names) == 10
    assert sum("ErrorRate" in name for name in names) == 6


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({"min_instance_count": 1, "max_instance_count": 4}, 1, 4),
        ({"min_instance_count": 0, "initial_instance_count": 0}, 0, 1),
        ({}, 1, 1),
    ],
)
def test_an_endpoint_without_a_component_yet_has_the_range_that_is_set(
    options: dict[str, int], least: int, most: int
) -> None:
    scaling = variant_of(shared(variant=VariantOptions(**options)))["ManagedInstanceScaling"]
    assert (scaling["MinInstanceCount"], scaling["MaxInstanceCount"]) == (least, most)


def test_a_grant_to_an_endpoint_reaches_the_roles_of_its_components_jobs() -> None:
    created = shared()
    created.add_component("One", model=small(), techniques=[SMALL])
    bucket = s3.Bucket(created.stack, "Data")
    bucket.grant_read(created)
    granted = [
        policy["Roles"]
        for policy in resources(template_of(created.stack), "AWS::IAM::Policy")  # type: ignore[arg-type]
        if "Data" in str(policy["PolicyDocument"])
    ]
    roles = {role["Ref"] for of_policy in granted for role in of_policy}
    assert len(roles) == 2, "that of the models, and that of the jobs"


def test_an_endpoint_without_a_model_has_no_plan_no_alarms_and_no_techniques() -> None:
    created = shared()
    with pytest.raises(ValueError, match="no model of its own: the alarms of one of its components"):
        _ = created.alarms
    with pytest.raises(ValueError, match="no model of its own"):
        _ = created.plan
    with pytest.raises(ValueError, match="techniques cannot be set without a model"):
        OptimizedEndpoint(stack(), "Odd", instance_type="ml.g5.12xlarge", techniques=[SMALL])


def test_a_component_endpoint_has_the_vpc_and_isolation_of_its_model() -> None:
    scope = stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["a"], private_subnet_ids=["subnet-1"]
    )
    endpoint(scope, inference_component=True, network=NetworkOptions(vpc=vpc))
    template = template_of(scope)
    config, model = (resource(template, f"AWS::SageMaker::{name}") for name in ("EndpointConfig", "Model"))
    assert config["VpcConfig"] == model["VpcConfig"]
    assert config["EnableNetworkIsolation"] is model["EnableNetworkIsolation"] is True


def test_an_endpoint_with_added_components_has_their_network_isolation() -> None:
    created = shared()
    created.add_component("One", model=small(), techniques=[SMALL])
    template = template_of(Stack.of(created))
    config, model = (resource(template, f"AWS::SageMaker::{name}") for name in ("EndpointConfig", "Model"))
    assert config["EnableNetworkIsolation"] is model["EnableNetworkIsolation"] is True


def test_a_component_that_reads_s3_cannot_be_isolated() -> None:
    created = shared(network=NetworkOptions(isolation=True))
    with pytest.raises(ValueError, match=r"add_component\('One'\): .* leave network.isolation out"):
        created.add_component("One", model=small(), techniques=[SMALL, Sharding.fast_load()])
    created.add_component("Two", model=small(), techniques=[SMALL])


def test_components_with_different_network_isolation_cannot_share_an_endpoint() -> None:
    created = shared()
    created.add_component("One", model=small(), techniques=[SMALL])
    with pytest.raises(ValueError, match=r"add_component\('Two'\): .*NetworkOptions\(isolation=False"):
        created.add_component("Two", model=small(), techniques=[SMALL, Sharding.fast_load()])
    together = shared(network=NetworkOptions(isolation=False))
    together.add_component("One", model=small(), techniques=[SMALL])
    together.add_component("Two", model=small(), techniques=[SMALL, Sharding.fast_load()])
    template = template_of(Stack.of(together))
    found = [resource(template, "AWS::SageMaker::EndpointConfig"), *resources(template, "AWS::SageMaker::Model")]
    assert [each["EnableNetworkIsolation"] for each in found] == [False, False, False]


def test_a_larger_initial_instance_count_raises_the_managed_maximum() -> None:
    created = shared(variant=VariantOptions(initial_instance_count=5))
    created.add_component("One", model=small(), techniques=[SMALL]).auto_scale(min_capacity=0, max_capacity=1)
    variant = variant_of(created)
    assert variant["InitialInstanceCount"] == variant["ManagedInstanceScaling"]["MaxInstanceCount"] == 5


def test_a_component_starts_with_no_more_copies_than_scaling_allows() -> None:
    created = shared()
    created.add_component("One", model=small(), techniques=[SMALL], copies=4).auto_scale(max_capacity=2)
    look_up = resource(template_of(created.stack), "Custom::ComponentCapacity")  # type: ignore[arg-type]
    assert look_up["InitialCopyCount"] == 2


def test_a_dependency_between_components_creates_no_circular_dependency() -> None:
    created = shared()
    first = created.add_component("First", model=small(), techniques=[SMALL])
    second = created.add_component("Second", model=small(), techniques=[SMALL])
    second.node.add_dependency(first)
    found = template_of(created.stack)["Resources"]  # type: ignore[arg-type]
    (endpoint_id,) = [name for name, r in found.items() if r["Type"] == "AWS::SageMaker::Endpoint"]
    rolling_back = json.dumps(found[endpoint_id])
    alarms = {name for name, r in found.items() if r["Type"] == "AWS::CloudWatch::Alarm" and name in rolling_back}
    assert alarms
    assert not any("DependsOn" in found[name] for name in alarms)


def test_a_component_capacity_that_is_a_token_is_refused() -> None:
    created = shared()
    most = CfnParameter(created.stack, "Most", type="Number").value_as_number
    with pytest.raises(
        ValueError, match=r"synthesis must check whether the copies of add_component\('One'\) fit the instances"
    ):
        created.add_component("One", model=small(), techniques=[SMALL]).auto_scale(max_capacity=most)  # type: ignore[arg-type]


def test_explicit_rollback_alarms_come_first_among_the_ten_allowed() -> None:
    scope = stack()
    arn = "arn:aws:cloudwatch:us-west-2:111122223333:alarm:mine-"
    explicit_alarms = [cloudwatch.Alarm.from_alarm_arn(scope, f"Mine{number}", f"{arn}{number}") for number in range(9)]
    endpoint(scope, inference_component=True, update_policy=UpdatePolicy.all_at_once(rollback_alarms=explicit_alarms))
    template = template_of(scope)
    for name in ("Endpoint", "InferenceComponent"):
        config = resource(template, f"AWS::SageMaker::{name}")["DeploymentConfig"]
        alarms = config["AutoRollbackConfiguration"]["Alarms"]
        assert len(alarms) == 10
        assert alarms[0] == {"AlarmName": "mine-0"}


def test_a_retained_endpoint_retains_its_components_models_and_execution_role() -> None:
    scope = stack()
    created = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.12xlarge", removal_policy=RemovalPolicy.RETAIN)
    created.add_component("Small", model=small(), techniques=[SMALL])
    kept = {name for name, r in template_of(scope)["Resources"].items() if r.get("DeletionPolicy") == "Retain"}
    assert {"SharedSmallModel", "SharedSmallComponent", "OptimizationServiceExecutionRole"} <= {
        re.sub(r"[0-9A-F]{8}$", "", name) for name in kept
    }
