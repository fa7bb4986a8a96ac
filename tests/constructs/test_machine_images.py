"""The machine image of an endpoint's instances: for its own model, for components, for pools, and for a shadow."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    AnswerCheck,
    DataCapture,
    Model,
    OptimizedEndpoint,
    Pool,
    RecipeError,
    Server,
    ShadowCandidate,
    VariantOptions,
)

from ..support.construct_stacks import resource, resources, stack, template_of

GPU_2, GPU_3_1 = "al2-ami-sagemaker-inference-gpu-2", "al2-ami-sagemaker-inference-gpu-3-1"
GPU_4_1 = "al2023-ami-sagemaker-inference-gpu-4-1"
CONFIG = "AWS::SageMaker::EndpointConfig"
LMI = Server.lmi(container_version="0.36.0-lmi24")
MODEL = Model.s3("s3://models/chat/")


def variant(scope: Stack) -> dict[str, Any]:
    return resource(template_of(scope), CONFIG)["ProductionVariants"][0]


def advised(scope: Stack, rule: str) -> int:
    """The number of a rule's warnings."""
    metadata = [entry for node in scope.node.find_all() for entry in node.node.metadata]
    return sum(f"constructs-optim:{rule}" in str(entry.data) for entry in metadata)


@pytest.mark.parametrize(
    ("instance_type", "server", "expected"),
    [
        ("ml.g5.12xlarge", LMI, GPU_3_1),
        ("ml.g6.12xlarge", LMI, None),
        ("ml.g5.12xlarge", Server.vllm(), GPU_4_1),
        ("ml.g7.12xlarge", Server.vllm(), None),
    ],
)
def test_an_endpoint_has_the_machine_image_that_its_container_needs(
    instance_type: str, server: Any, expected: str | None
) -> None:
    scope = stack()
    OptimizedEndpoint(scope, "Chat", model=MODEL, instance_type=instance_type, server=server)
    assert variant(scope).get("InferenceAmiVersion") == expected


def test_the_machine_image_of_components_follows_from_all_of_their_containers() -> None:
    found: list[str | None] = []
    for servers in ((), (LMI,), (Server.vllm(),), (LMI, Server.vllm())):
        scope = stack()
        endpoint = OptimizedEndpoint(scope, "Host", instance_type="ml.g4dn.12xlarge")
        for number, server in enumerate(servers):
            endpoint.add_component(f"Part{number}", model=MODEL, server=server, accelerators=1)
        found.append(variant(scope).get("InferenceAmiVersion"))
    assert found == [None, GPU_3_1, GPU_4_1, GPU_4_1]


def test_components_for_different_cuda_releases_on_one_endpoint_are_advised_against() -> None:
    scope, alike = stack(), stack()
    for each, servers in ((scope, (LMI, Server.vllm())), (alike, (LMI, LMI))):
        endpoint = OptimizedEndpoint(each, "Host", instance_type="ml.g5.12xlarge")
        for number, server in enumerate(servers):
            endpoint.add_component(f"Part{number}", model=MODEL, server=server, accelerators=1)
    assert advised(scope, "OPT241") == 1
    assert advised(alike, "OPT241") == 0


def test_pools_for_different_cuda_releases_are_advised_against() -> None:
    scope = stack()
    pools = [Pool("ml.g6e.12xlarge", server=Server.vllm()), Pool("ml.g5.12xlarge", server=LMI)]
    OptimizedEndpoint(scope, "Chat", model=MODEL, instance_pools=pools)
    assert variant(scope)["InferenceAmiVersion"] == GPU_4_1
    assert advised(scope, "OPT241") == 1


def test_a_machine_image_that_cannot_run_the_container_is_refused() -> None:
    old = VariantOptions(inference_ami_version=GPU_2)
    with pytest.raises(RecipeError, match=rf"(?s)OPT242.*NVIDIA driver 580.*leave it out to use {GPU_4_1}"):
        OptimizedEndpoint(stack(), "Chat", model=MODEL, instance_type="ml.g5.12xlarge", variant=old)
    host = OptimizedEndpoint(stack(), "Host", instance_type="ml.g5.12xlarge", variant=old)
    host.add_component("Lmi", model=MODEL, server=LMI, accelerators=1)
    with pytest.raises(RecipeError, match="OPT242"):
        host.add_component("Vllm", model=MODEL, server=Server.vllm(), accelerators=1)


def test_a_shadows_machine_image_is_its_own_and_must_run_its_container() -> None:
    def shadowed(scope: Stack, **options: Any) -> None:
        bucket = s3.Bucket.from_bucket_name(scope, "Captures", "captures")
        endpoint = OptimizedEndpoint(
            scope,
            "Chat",
            model=MODEL,
            instance_type="ml.g5.12xlarge",
            server=LMI,
            data_capture=DataCapture(bucket=bucket),
            **options,
        )
        candidate = ShadowCandidate(instance_type="ml.g6.12xlarge", server=Server.vllm())
        endpoint.shadow(candidate=candidate, checks=[AnswerCheck.answered()])

    scope = stack()
    shadowed(scope)
    (config,) = [each for each in resources(template_of(scope), CONFIG) if "ShadowProductionVariants" in each]
    assert config["ProductionVariants"][0]["InferenceAmiVersion"] == GPU_3_1
    assert config["ShadowProductionVariants"][0]["InferenceAmiVersion"] == GPU_4_1
    with pytest.raises(RecipeError, match="OPT242"):
        shadowed(stack(), variant=VariantOptions(inference_ami_version=GPU_3_1))
