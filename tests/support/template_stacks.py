"""Stacks synthesized from constructs, driven through CloudFormation's API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from ..e2e.template_stack import Build, TemplateStack, synthesized, upload_assets


def made(cloud: LocalCloud, folder: Path, name: str, build: Build) -> TemplateStack:
    stack = TemplateStack(cloud, name, synthesized(build, folder))
    upload_assets(cloud, folder)
    return stack


def endpoint_of(stack: TemplateStack) -> dict[str, Any]:
    client = stack.cloud.client("sagemaker")
    return client.describe_endpoint(EndpointName=physical(stack, "AWS::SageMaker::Endpoint").rpartition("/")[2])


def physical(stack: TemplateStack, type_name: str, part: str = "") -> str:
    found = stack.cloud.client("cloudformation").describe_stack_resources(StackName=stack.name)["StackResources"]
    (one,) = [
        each["PhysicalResourceId"]
        for each in found
        if each["ResourceType"] == type_name and part in each["LogicalResourceId"]
    ]
    return one
