"""Each technique and stack, deployed with the real CDK CLI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.hub_documents import DRAFT_FOLDER

MakeStack = Callable[..., DeployedStack]
LLAMA_3, LLAMA_31 = "meta-textgeneration-llama-3-8b", "meta-textgeneration-llama-3-1-8b"
G5 = "ml.g5.12xlarge"
DRAFT = "speculative_decoding=jumpstart_draft"
ENDPOINTS: dict[str, tuple[str, str, list[str]]] = {
    "Fp8": (LLAMA_3, G5, ["quantization=fp8"]),
    "Compiled": (LLAMA_3, G5, ["quantization=smoothquant", "compilation=tensorrt_llm"]),
    "Neuron": (LLAMA_3, "ml.inf2.48xlarge", ["compilation=neuron"]),
    "Drafted": (LLAMA_3, G5, ["quantization=awq", "speculative_decoding=sagemaker_draft"]),
    "DraftedByHub": (LLAMA_3, G5, [f"{DRAFT},model_id={LLAMA_31},version=9.0.0,accept_eula=true"]),
    "Heads": (LLAMA_31, G5, ["speculative_decoding=eagle"]),
    "Sharded": (LLAMA_3, G5, ["quantization=awq", "sharding=fast_load"]),
    "PreOptimized": (LLAMA_3, G5, ["pre_optimized,config=lmi-optimized"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def deployed(a_stack: MakeStack) -> Iterator[DeployedStack]:
    """All endpoints in one stack; destroying it leaves no model behind."""
    stack = a_stack("Techniques", endpoints=ENDPOINTS)
    stack.deploy()
    models = set(stack.resources["Custom::OptimizedModel"])
    assert models <= model_names(stack)
    yield stack
    stack.destroy()
    assert not models & model_names(stack)


def model_names(stack: DeployedStack) -> set[str]:
    pages = stack.client("sagemaker").get_paginator("list_models").paginate()
    return {model["ModelName"] for page in pages for model in page["Models"]}


def container(stack: DeployedStack, name: str) -> dict[str, Any]:
    """The container that the endpoint of that name serves."""
    sagemaker = stack.client("sagemaker")
    endpoint = sagemaker.describe_endpoint(EndpointName=stack.outputs[f"{name}Endpoint"])
    assert endpoint["EndpointStatus"] == "InService"
    config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    model = config["ProductionVariants"][0].get("ModelName")
    if model is None:
        component = sagemaker.describe_inference_component(InferenceComponentName=stack.outputs[f"{name}Component"])
        assert component["InferenceComponentStatus"] == "InService"
        model = component["Specification"]["ModelName"]
    return sagemaker.describe_model(ModelName=model)["PrimaryContainer"]


def channels(found: dict[str, Any]) -> dict[str, str]:
    return {c["ChannelName"]: c["S3DataSource"]["S3Uri"] for c in found.get("AdditionalModelDataSources", [])}


def uri(found: dict[str, Any]) -> str:
    return found["ModelDataSource"]["S3DataSource"]["S3Uri"]


@pytest.mark.parametrize("name", ["Fp8", "Compiled", "Neuron"])
def test_a_stack_of_one_job_serves_its_artifact(deployed: DeployedStack, name: str) -> None:
    found = container(deployed, name)
    assert uri(found).startswith(f"s3://{deployed.bucket}/artifacts/")
    assert not channels(found)


def test_quantized_weights_are_served_with_sagemakers_draft(deployed: DeployedStack) -> None:
    found = container(deployed, "Drafted")
    assert uri(found).startswith(f"s3://{deployed.bucket}/artifacts/")
    assert channels(found) == {"draft_model": "s3://sagemaker-sd-models-prod-us-west-2/llama/"}
    assert found["Environment"]["OPTION_SPECULATIVE_DRAFT_MODEL"].endswith("/draft_model")


def test_a_draft_of_the_hub_needs_no_job(deployed: DeployedStack) -> None:
    found = container(deployed, "DraftedByHub")
    assert uri(found).startswith("s3://jumpstart-cache-prod-us-west-2/")
    (draft,) = channels(found).values()
    assert draft.startswith("s3://jumpstart-cache-prod-us-west-2/")


def test_heads_are_served_beside_the_model_they_were_trained_on(deployed: DeployedStack) -> None:
    found = container(deployed, "Heads")
    assert uri(found).startswith("s3://jumpstart-cache-prod-us-west-2/")
    heads = channels(found)["eagle"]
    assert heads.endswith("/draft/")
    assert json.loads(found["Environment"]["SM_VLLM_SPECULATIVE_CONFIG"])["method"] == "eagle3"
    bucket, _, prefix = heads.removeprefix("s3://").partition("/")
    names = [o["Key"] for o in deployed.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]]
    assert f"{prefix}model.safetensors" in names


def test_shards_come_from_the_quantized_artifact_and_are_served_by_a_component(
    deployed: DeployedStack, cloud: LocalCloud
) -> None:
    shards = uri(container(deployed, "Sharded"))
    quantized = uri(container(deployed, "Drafted"))
    requests = [call["request"] for call in cloud.calls("CreateOptimizationJob") if call["outcome"] == "OK"]
    (sharding,) = [r for r in requests if r["OutputConfig"]["S3OutputLocation"] == shards]
    assert sharding["ModelSource"]["S3"]["S3Uri"] == quantized, "the quantized artifact is the drafted endpoint's own"
    targets = deployed.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    component = deployed.outputs["ShardedComponent"]
    assert f"inference-component/{component}" in [target["ResourceId"] for target in targets["ScalableTargets"]]


def test_a_pre_optimized_configuration_is_served_as_the_hub_describes_it(deployed: DeployedStack) -> None:
    found = container(deployed, "PreOptimized")
    assert found["Image"].endswith("djl-inference:0.32.0-lmi14.0.0-cu126")
    assert found["Environment"] == {"OPTION_ROLLING_BATCH": "auto", "OPTION_SPECULATIVE_DRAFT_MODEL": DRAFT_FOLDER}
    assert channels(found) == {"draft_model": "s3://sagemaker-sd-models-prod-us-west-2/llama/"}
    sagemaker = deployed.client("sagemaker")
    endpoint = sagemaker.describe_endpoint(EndpointName=deployed.outputs["PreOptimizedEndpoint"])
    config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    (variant,) = config["ProductionVariants"]
    assert variant["InferenceAmiVersion"] == "al2-ami-sagemaker-inference-gpu-3-1"
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 1200


def test_deploying_all_stacks_again_changes_nothing(deployed: DeployedStack, cloud: LocalCloud) -> None:
    jobs = len(cloud.jobs())
    assert "no changes" in deployed.deploy()
    assert len(cloud.jobs()) == jobs


@pytest.mark.exhaustive
def test_a_failing_second_job_rolls_back_and_keeps_the_first_ones_artifact(
    a_stack: MakeStack, cloud: LocalCloud
) -> None:
    quantized = "quantization=awq,ignored_layers=chain"
    first = a_stack("ChainFirst", endpoints={"Quantized": (LLAMA_3, G5, [quantized])})
    first.deploy()
    artifact = uri(container(first, "Quantized"))
    cloud.inject("job_fails", reason="ClientError: the shards are uneven")
    chain = a_stack("Chain", endpoints={"Sharded": (LLAMA_3, G5, [quantized, "sharding=fast_load"])})
    chain.deploy(fails=True)
    assert chain.status == "ROLLBACK_COMPLETE"
    assert "the shards are uneven" in chain.reasons
    bucket, _, prefix = artifact.removeprefix("s3://").partition("/")
    assert chain.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"] > 0
    assert first.artifact_key
