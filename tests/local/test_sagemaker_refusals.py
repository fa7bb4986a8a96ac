"""Requests that SageMaker refuses, or fails, beyond its service model."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.recipe.catalog import images as catalog
from constructs_optim_local.sagemaker.images import missing_image
from tests.support.in_process import InProcessCloud
from tests.support.waiting import by_the_clock, until

from ..support.hosting import IMAGE, deploy, make_config, make_model, settled
from ..support.inference_components import component
from ..support.local_cloud import BUCKET, ROLE
from ..support.optimization_jobs import ended, request

DLC = "763104351884.dkr.ecr.{}.amazonaws.com/djl-inference:0.29.0-neuronx-sdk2.19.1"
HAS, LACKS = "us-west-2", "us-west-1"


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


@pytest.fixture(scope="module")
def abroad() -> Iterator[InProcessCloud]:
    """A local cloud of a region that lacks an image."""
    cloud = InProcessCloud(region=LACKS)
    with by_the_clock(cloud.clock):
        yield cloud


def named(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:8]}"


def refused(call: Any, code: str = "ValidationException", **given: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**given)
    assert caught.value.response["Error"]["Code"] == code
    return caught.value.response["Error"]["Message"]


def sharding(name: str, source: str, **environment: str) -> dict[str, Any]:
    given = {"OPTION_TENSOR_PARALLEL_DEGREE": "4", "OPTION_LOAD_FORMAT": "sagemaker_fast_model_loader", **environment}
    config = {"ModelShardingConfig": {"Image": IMAGE, "OverrideEnvironment": given}}
    return request(name, ModelSource={"S3": {"S3Uri": source}}, OptimizationConfigs=[config])


QUANTIZED = (
    "AlgorithmError: ValueError: Sharding & Quantization are mutually exclusive. Please Quantize first & then Shard. "
    "Received load_format=sagemaker_fast_model_loader & quantize=awq."
)


@pytest.mark.parametrize("slash", ["/", ""])
def test_output_with_option_quantize_set_cannot_be_sharded(
    in_process: InProcessCloud, sagemaker: Any, slash: str
) -> None:
    quantized, sharded, plain = named("quantized"), named("sharded"), named("plain")
    sagemaker.create_optimization_job(**request(quantized))
    assert ended(sagemaker, quantized)["OptimizationJobStatus"] == "COMPLETED"
    sagemaker.create_optimization_job(**sharding(sharded, f"s3://{BUCKET}/{quantized}{slash}"))
    job = ended(sagemaker, sharded)
    assert (job["OptimizationJobStatus"], job["FailureReason"]) == ("FAILED", QUANTIZED)
    # Without the setting, the same weights can be.
    place = {"Bucket": BUCKET, "Key": f"{quantized}/serving.properties"}
    in_process.client("s3").put_object(**place, Body=b"option.tensor_parallel_degree=4\n")
    sagemaker.create_optimization_job(**sharding(plain, f"s3://{BUCKET}/{quantized}{slash}"))
    assert ended(sagemaker, plain)["OptimizationJobStatus"] == "COMPLETED"


def test_a_sharding_job_with_option_quantize_fails(sagemaker: Any) -> None:
    name = named("both")
    sagemaker.create_optimization_job(**sharding(name, "s3://models/llama/", OPTION_QUANTIZE="awq"))
    assert ended(sagemaker, name)["FailureReason"] == QUANTIZED


def test_a_job_with_a_maximum_runtime_above_28_days_is_refused(sagemaker: Any) -> None:
    longest = 28 * 86_400
    sagemaker.create_optimization_job(**request(named("long"), StoppingCondition={"MaxRuntimeInSeconds": longest}))
    words = refused(
        sagemaker.create_optimization_job,
        **request(named("longer"), StoppingCondition={"MaxRuntimeInSeconds": longest + 1}),
    )
    assert words == (
        "1 validation error detected: Value '2419201' at 'stoppingCondition.maxRuntimeInSeconds' failed to satisfy "
        "constraint: Member must have value less than or equal to 2419200"
    )


def test_deep_learning_container_images_exist_per_region() -> None:
    assert missing_image(DLC.format(LACKS))
    assert not missing_image(DLC.format(HAS))
    # A copy in an account of one's own, a tag that is not known, and what is no image of ECR.
    assert not missing_image(DLC.format(LACKS).replace("763104351884", "111122223333"))
    assert not missing_image(f"763104351884.dkr.ecr.{LACKS}.amazonaws.com/djl-inference:99")
    assert not missing_image("docker.io/library/python:3")
    assert not missing_image(None)


def test_every_catalog_image_is_known_to_the_local_cloud() -> None:
    for image in catalog.rows():
        assert missing_image(f"763104351884.dkr.ecr.nowhere-1.amazonaws.com/{image.repository}:{image.tag}"), image.tag


def served_by(
    sagemaker: Any, image: str, instance_type: str = "ml.g5.12xlarge", ami: str | None = None
) -> dict[str, Any]:
    """An endpoint with one container, when it has started or failed."""
    name = named("container")
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": image})
    variant = {"VariantName": "AllTraffic", "ModelName": name, "InstanceType": instance_type, "InitialInstanceCount": 1}
    variants = [{**variant, **({"InferenceAmiVersion": ami} if ami else {})}]
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    return settled(sagemaker, name)


def test_an_endpoint_whose_image_does_not_exist_in_its_region_fails(abroad: InProcessCloud) -> None:
    image = DLC.format(LACKS)
    found = served_by(abroad.client("sagemaker"), image)
    assert (found["EndpointStatus"], found["FailureReason"]) == ("Failed", f"The image '{image}' does not exist.")


GPU_2, GPU_3_1 = "al2-ami-sagemaker-inference-gpu-2", "al2-ami-sagemaker-inference-gpu-3-1"
GPU_4_1, NEURON_2 = "al2023-ami-sagemaker-inference-gpu-4-1", "al2-ami-sagemaker-inference-neuron-2"
VLLM = "vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
LMI = "djl-inference:0.36.0-lmi24.0.0-cu129"
NEURON = "djl-inference:0.29.0-neuronx-sdk2.19.1"
TGI = "huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
ON_DRIVERS = [
    (VLLM, "ml.g5.12xlarge", None, False),
    (VLLM, "ml.g5.12xlarge", GPU_2, False),
    (VLLM, "ml.g5.12xlarge", GPU_3_1, False),
    (VLLM, "ml.g5.12xlarge", GPU_4_1, True),
    (VLLM, "ml.g5.12xlarge", NEURON_2, False),
    (VLLM, "ml.p5.48xlarge", None, False),
    (VLLM, "ml.g7.2xlarge", GPU_4_1, False),
    (VLLM, "ml.g7.2xlarge", None, True),
    (TGI, "ml.g5.12xlarge", None, True),
    (TGI, "ml.g5.12xlarge", GPU_3_1, True),
    (TGI, "ml.g7.2xlarge", GPU_4_1, False),
    (TGI, "ml.g6.12xlarge", None, True),
    (NEURON, "ml.inf2.48xlarge", NEURON_2, True),
    (NEURON, "ml.inf2.48xlarge", GPU_4_1, False),
]


@pytest.mark.parametrize(("tag", "instance_type", "ami", "starts"), [*ON_DRIVERS, (LMI, "ml.g5.12xlarge", None, True)])
def test_a_container_starts_only_on_a_driver_that_runs_it(
    abroad: InProcessCloud, tag: str, instance_type: str, ami: str | None, starts: bool
) -> None:
    image = f"763104351884.dkr.ecr.us-west-2.amazonaws.com/{tag}"
    found = served_by(abroad.client("sagemaker"), image, instance_type, ami)
    assert found["EndpointStatus"] == ("InService" if starts else "Failed")
    assert starts or found["FailureReason"] == (
        "CannotStartContainerError. Please ensure the model container for variant AllTraffic starts correctly when "
        f"invoked with 'docker run {image} serve'"
    )


@pytest.mark.parametrize(
    ("tag", "instance_type", "ami", "starts"),
    # The configuration names no model, so that the label of LMI's image does not choose the driver.
    [*ON_DRIVERS, (LMI, "ml.g5.12xlarge", None, False), (LMI, "ml.g5.12xlarge", GPU_3_1, True)],
)
def test_a_components_container_starts_only_on_a_driver_that_runs_it(
    abroad: InProcessCloud, tag: str, instance_type: str, ami: str | None, starts: bool
) -> None:
    sagemaker, name = abroad.client("sagemaker"), named("parts")
    image = f"763104351884.dkr.ecr.us-west-2.amazonaws.com/{tag}"
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": image})
    variant = {
        "VariantName": "AllTraffic",
        "InstanceType": instance_type,
        "InitialInstanceCount": 1,
        "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 2},
        **({"InferenceAmiVersion": ami} if ami else {}),
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    settled(sagemaker, name)
    sagemaker.create_inference_component(
        InferenceComponentName=name,
        EndpointName=name,
        VariantName="AllTraffic",
        Specification={
            "ModelName": name,
            "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 1},
        },
        RuntimeConfig={"CopyCount": 1},
    )
    found = until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName=name),
        lambda component: component["InferenceComponentStatus"] in ("InService", "Failed"),
    )
    assert found["InferenceComponentStatus"] == ("InService" if starts else "Failed")
    assert starts or found["FailureReason"].startswith("CannotStartContainerError.")


@pytest.mark.parametrize(("channel", "status"), [("draft_model", "InService"), ("eagle", "Failed"), (None, "Failed")])
def test_a_container_whose_environment_names_missing_files_does_not_start(
    in_process: InProcessCloud, sagemaker: Any, channel: str | None, status: str
) -> None:
    name, source = named("channels"), {"S3Uri": f"s3://{BUCKET}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    channels = [{"ChannelName": channel, "S3DataSource": source}] if channel is not None else []
    folder = "/opt/ml/additional-model-data-sources/draft_model"
    container = {
        "Image": IMAGE,
        "Environment": {"SM_VLLM_SPECULATIVE_CONFIG": json.dumps({"model": folder})},
        **({"AdditionalModelDataSources": channels} if channels else {}),
    }
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=container)
    make_config(sagemaker, name, name)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, name)["EndpointStatus"] == status


@pytest.mark.parametrize(
    ("tag", "instance_type", "status"),
    [
        (NEURON, "ml.inf2.48xlarge", "InService"),
        (NEURON, "ml.g5.12xlarge", "Failed"),
        (NEURON, "ml.c5.xlarge", "Failed"),
        ("djl-inference:0.36.0-lmi24.0.0-cu128", "ml.trn1.32xlarge", "Failed"),
        (TGI, "ml.inf2.48xlarge", "Failed"),
        (VLLM, "ml.c5.xlarge", "Failed"),
        ("pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker", "ml.c5.xlarge", "InService"),
        ("pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker", "ml.c5.xlarge", "InService"),
    ],
)
def test_a_container_for_other_accelerators_than_the_instances_have_does_not_start(
    sagemaker: Any, tag: str, instance_type: str, status: str
) -> None:
    image = f"763104351884.dkr.ecr.us-west-2.amazonaws.com/{tag}"
    assert served_by(sagemaker, image, instance_type)["EndpointStatus"] == status


def test_variants_of_one_name_are_refused(sagemaker: Any) -> None:
    name = named("twins")
    make_model(sagemaker, name)
    variant = {"VariantName": "A", "ModelName": name, "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
    create = sagemaker.create_endpoint_config
    words = refused(create, EndpointConfigName=name, ProductionVariants=[variant, variant])
    assert words == "Variant A is given 2 times"
    create(EndpointConfigName=name, ProductionVariants=[variant, {**variant, "VariantName": "B"}])


@pytest.mark.parametrize(
    ("instance_type", "has_volume"),
    [("ml.g5.12xlarge", False), ("ml.p4d.24xlarge", False), ("ml.g6e.2xlarge", False), ("ml.inf2.xlarge", True)],
)
def test_a_variant_on_instances_with_local_storage_has_no_volume(
    sagemaker: Any, instance_type: str, has_volume: bool
) -> None:
    name = named("volume")
    make_model(sagemaker, name)
    variant = {"VariantName": "A", "ModelName": name, "InitialInstanceCount": 1, "VolumeSizeInGB": 100}
    pools = [{"InstanceType": instance_type, "Priority": 1}]
    for number, given in enumerate(({"InstanceType": instance_type}, {"InstancePools": pools})):
        config = {"EndpointConfigName": f"{name}-{number}", "ProductionVariants": [{**variant, **given}]}
        if has_volume:
            sagemaker.create_endpoint_config(**config)
            continue
        words = refused(sagemaker.create_endpoint_config, **config)
        assert words == f"VolumeSizeInGB of variant A is not supported for {instance_type}, which has local storage"


def test_a_prefix_of_model_data_ends_with_a_slash(sagemaker: Any) -> None:
    source = {"S3Uri": f"s3://{BUCKET}/models", "S3DataType": "S3Prefix", "CompressionType": "None"}
    for container in (
        {"ModelDataSource": {"S3DataSource": source}},
        {"AdditionalModelDataSources": [{"ChannelName": "draft_model", "S3DataSource": source}]},
    ):
        words = refused(
            sagemaker.create_model,
            ModelName=named("prefix"),
            ExecutionRoleArn=ROLE,
            PrimaryContainer={"Image": IMAGE, **container},
        )
        assert words == f"S3Uri s3://{BUCKET}/models must end with a forward slash for S3DataType S3Prefix."


def test_an_optimization_job_whose_image_does_not_exist_in_its_region_fails(abroad: InProcessCloud) -> None:
    sagemaker, name = abroad.client("sagemaker"), named("imageless")
    config = {
        "ModelQuantizationConfig": {"Image": DLC.format(LACKS), "OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}}
    }
    sagemaker.create_optimization_job(**request(name, OptimizationConfigs=[config]))
    assert ended(sagemaker, name)["FailureReason"] == (
        "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are "
        "incorrect."
    )


def test_managed_instance_scaling_is_refused_without_inference_components(sagemaker: Any) -> None:
    name = named("managed")
    make_model(sagemaker, name)
    variant: dict[str, Any] = {
        "VariantName": "AllTraffic",
        "InstanceType": "ml.g5.12xlarge",
        "InitialInstanceCount": 1,
        "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 2},
    }
    create = sagemaker.create_endpoint_config
    words = refused(create, EndpointConfigName=name, ProductionVariants=[{**variant, "ModelName": name}])
    assert words == "ManagedInstanceScaling is only supported for inference component endpoints."
    create(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])


def test_an_endpoint_for_inference_components_needs_a_role(sagemaker: Any) -> None:
    name = named("roleless")
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
    words = refused(sagemaker.create_endpoint_config, EndpointConfigName=name, ProductionVariants=[variant])
    assert "ExecutionRoleArn" in words
    make_model(sagemaker, name)
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[{**variant, "ModelName": name}])


@pytest.mark.parametrize(("region", "is_refused"), [("eu-west-3", True), ("us-east-1", False)])
def test_no_instance_is_not_enough_in_some_regions(region: str, is_refused: bool) -> None:
    sagemaker = InProcessCloud(region=region).client("sagemaker")

    def create(least: int, status: str = "ENABLED") -> None:
        scaling = {"Status": status, "MinInstanceCount": least, "MaxInstanceCount": 2}
        variant: dict[str, Any] = {"VariantName": "AllTraffic", "InstanceType": "ml.g6.xlarge"}
        variant |= {"InitialInstanceCount": 1, "ManagedInstanceScaling": scaling}
        sagemaker.create_endpoint_config(
            EndpointConfigName=named("asleep"), ExecutionRoleArn=ROLE, ProductionVariants=[variant]
        )

    create(1)
    if not is_refused:
        create(0)
        return
    words = "Min instance count needs to be greater than 0 for enabled managed instance scaling"
    assert refused(create, least=0) == words


def test_an_inference_component_is_created_with_a_copy_and_scaled_to_none(sagemaker: Any) -> None:
    name = named("cold")
    deploy(sagemaker, name, components=True)
    settled(sagemaker, name)
    needs = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
    given = {
        "InferenceComponentName": name,
        "EndpointName": name,
        "VariantName": "AllTraffic",
        "Specification": {"Container": {"Image": IMAGE}, "ComputeResourceRequirements": needs},
    }
    create = sagemaker.create_inference_component
    words = refused(create, **given, RuntimeConfig={"CopyCount": 0})
    assert words == "Inference components copy count an integer larger than 0"
    create(**given, RuntimeConfig={"CopyCount": 1})
    component(sagemaker, name)
    sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=name, DesiredRuntimeConfig={"CopyCount": 0}
    )


def test_an_isolated_model_is_refused_on_an_endpoint_without_isolation(sagemaker: Any) -> None:
    name = named("open")
    make_model(sagemaker, name)
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    settled(sagemaker, name)
    needs = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
    given = {"VariantName": "AllTraffic", "RuntimeConfig": {"CopyCount": 1}, "InferenceComponentName": name}
    specification = {"ModelName": name, "ComputeResourceRequirements": needs}
    words = refused(sagemaker.create_inference_component, **given, EndpointName=name, Specification=specification)
    assert words.startswith(
        f"Model {name} has EnableNetworkIsolation, and the configuration of endpoint {name} does not"
    )
    # On an isolated endpoint, and for a model that need not be, it works.
    isolated = named("isolated")
    deploy(sagemaker, isolated, components=True)
    settled(sagemaker, isolated)
    sagemaker.create_inference_component(**given, EndpointName=isolated, Specification=specification)
    open_model = named("model")
    sagemaker.create_model(ModelName=open_model, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE})
    sagemaker.create_inference_component(
        **{**given, "InferenceComponentName": open_model},
        EndpointName=name,
        Specification={**specification, "ModelName": open_model},
    )


def test_a_deployment_beyond_eight_hours_rolls_back(in_process: InProcessCloud) -> None:
    sagemaker, name = in_process.client("sagemaker"), named("rolling")
    make_model(sagemaker, name)
    make_config(sagemaker, name, name, count=20)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    settled(sagemaker, name)
    batch = {"Type": "CAPACITY_PERCENT", "Value": 5}
    rolling = {"MaximumBatchSize": batch, "WaitIntervalInSeconds": 3600}
    make_config(sagemaker, f"{name}-2", name, count=20)
    sagemaker.update_endpoint(
        EndpointName=name, EndpointConfigName=f"{name}-2", DeploymentConfig={"RollingUpdatePolicy": rolling}
    )
    # A second is a thousand here; 20 batches of an hour would be 20 hours.
    in_process.advance(28)
    assert sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] == "Updating"
    in_process.advance(2)
    found = settled(sagemaker, name)
    assert "The deployment exceeded its MaximumExecutionTimeoutInSeconds." in found["FailureReason"]
    assert found["EndpointConfigName"] == name


@pytest.mark.parametrize(("region", "there"), [("eu-west-1", True), ("eu-west-2", False)])
def test_ai_job_operations_exist_only_in_supported_regions(
    in_process: InProcessCloud, region: str, there: bool
) -> None:
    sagemaker = in_process.client("sagemaker", region=region)
    if there:
        assert sagemaker.list_ai_benchmark_jobs()["AIBenchmarkJobs"] == []
        return
    spec = {"WorkloadSpec": {"Inline": '{"benchmark": {"type": "aiperf"}}'}}
    words = refused(
        sagemaker.create_ai_workload_config,
        "UnknownOperationException",
        AIWorkloadConfigName="mine",
        AIWorkloadConfigs=spec,
    )
    assert words == "The operation CreateAIWorkloadConfig is not recognized"
    refused(sagemaker.list_ai_recommendation_jobs, "UnknownOperationException")
    assert sagemaker.list_optimization_jobs()["OptimizationJobSummaries"] == []


POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
                "Action": "sagemaker:InvokeEndpoint",
                "Resource": "*",
            }
        ],
    }
)


def test_an_endpoint_policy_is_kept_until_it_is_deleted(sagemaker: Any) -> None:
    name = named("shared")
    deploy(sagemaker, name)
    settled(sagemaker, name)
    assert "does not have a policy" in refused(sagemaker.get_endpoint_policy, EndpointName=name)
    sagemaker.delete_endpoint_policy(EndpointName=name)
    arn = sagemaker.put_endpoint_policy(EndpointName=name, ResourcePolicy=POLICY)["EndpointArn"]
    found = sagemaker.get_endpoint_policy(EndpointName=name)
    assert (found["EndpointName"], found["EndpointArn"], found["ResourcePolicy"]) == (name, arn, POLICY)
    assert "_policy" not in sagemaker.describe_endpoint(EndpointName=name)
    sagemaker.delete_endpoint_policy(EndpointName=name)
    refused(sagemaker.get_endpoint_policy, EndpointName=name)
    for text in ("no policy", "[]", '{"Version": "2012-10-17", "Id": "\u00e9"}'):
        assert "ASCII" in refused(sagemaker.put_endpoint_policy, EndpointName=name, ResourcePolicy=text)
    refused(sagemaker.get_endpoint_policy, "ResourceNotFound", EndpointName="another")


def test_a_failed_endpoint_refuses_a_policy(in_process: InProcessCloud, sagemaker: Any) -> None:
    name = named("failed")
    in_process.inject("endpoint_fails", count=1)
    deploy(sagemaker, name)
    assert settled(sagemaker, name)["EndpointStatus"] == "Failed"
    assert "whose status is Failed" in refused(sagemaker.put_endpoint_policy, EndpointName=name, ResourcePolicy=POLICY)
