"""Endpoints that change behind CloudFormation's back: what the CDK CLI says of it, and how it reverts it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.hosting import settled


@pytest.mark.exhaustive
def test_an_endpoint_that_was_moved_by_hand_has_drifted_and_is_reverted(
    cloud: LocalCloud, a_stack: Callable[..., DeployedStack]
) -> None:
    stack: DeployedStack = a_stack("Drifted")
    stack.deploy()
    name, config = stack.endpoint["EndpointName"], stack.endpoint["EndpointConfigName"]
    sagemaker = cloud.client("sagemaker")
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=name, DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}]
    )
    settled(sagemaker, name)
    assert "Number of resources with drift: 0" in stack.cdk("drift"), "scaling is no drift"
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    sagemaker.create_endpoint_config(EndpointConfigName="by-hand", ProductionVariants=variants)
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName="by-hand", RetainAllVariantProperties=True)
    settled(sagemaker, name)

    drifted = stack.cdk("drift")
    assert re.search(rf"/EndpointConfigName\n.*{config}\n.*by-hand", drifted), drifted
    assert "(no changes)" in stack.deploy()
    assert stack.endpoint["EndpointConfigName"] == "by-hand"
    stack.cdk("deploy", "--revert-drift", "--require-approval", "never")
    assert stack.endpoint["EndpointConfigName"] == config
    assert stack.endpoint["ProductionVariants"][0]["DesiredInstanceCount"] == 2
    assert "Number of resources with drift: 0" in stack.cdk("drift")
    assert "Nothing to refactor" in stack.cdk("refactor", "--unstable=refactor", "--dry-run")
    stack.destroy()
