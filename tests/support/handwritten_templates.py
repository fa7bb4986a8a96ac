"""Templates by hand, as the CDK writes them for this library, and assemblies of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from constructs_optim.explanation.assembly import StackTemplate
from constructs_optim.templates.template import Template

KEY = "a" * 64
OTHER_KEY = "b" * 64
RECIPE = "llama 1.0.0: AWQ INT4, ml.g5.12xlarge, tensor parallel degree 4"


def attribute(logical_id: str, name: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [logical_id, name]}


def template(**resources: Any) -> Template:
    return Template({"Resources": resources})


def resource(type_name: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type_name, "Properties": properties}


def job(*, key: str | None = KEY, generation: str = "1", bucket: Any = "store", **changed: Any) -> dict[str, Any]:
    """A job with its wait condition; ``generation`` is what the ids of handle and condition carry."""
    told = {"Recipe": RECIPE, "Job": "awq", **({"ArtifactKey": key} if key is not None else {})}
    made = resource(
        "Custom::OptimizationJob",
        Description={"Model": "llama 1.0.0", "Techniques": ["AWQ INT4"], "InstanceType": "ml.g5.12xlarge"},
        RecipeKey=f"recipe of {key or generation}",
        Source={"Kind": "s3", "S3Uri": "s3://models/llama/"},
        Request={
            "DeploymentInstanceType": "ml.g5.12xlarge",
            "OptimizationConfigs": [{"ModelQuantizationConfig": {"Image": "lmi:1"}}],
            "StoppingCondition": {"MaxRuntimeInSeconds": 36_000},
        },
        Bucket=bucket,
        WaitHandle={"Ref": f"Handle{generation}"},
    )
    made["Properties"] |= changed
    return {
        f"Handle{generation}": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "Job": {**made, "Metadata": {"constructs-optim": told}},
        f"Ready{generation}": {
            **resource("AWS::CloudFormation::WaitCondition", Handle={"Ref": f"Handle{generation}"}, Timeout="43200"),
            "DependsOn": ["Job"],
        },
    }


def serving(*, generation: str = "1", **variant: Any) -> dict[str, Any]:
    """Model, configuration and endpoint on what the wait condition was signaled with."""
    told = {"constructs-optim": {"Recipe": RECIPE, "ArtifactKey": KEY}}
    return {
        "Model": {
            **resource(
                "AWS::SageMaker::Model",
                ExecutionRoleArn=attribute("Role", "Arn"),
                PrimaryContainer={
                    "Image": {"Fn::Select": [1, {"Fn::Split": ["|", attribute(f"Ready{generation}", "Data")]}]}
                },
            ),
            "Metadata": told,
        },
        "Config": {
            **resource(
                "AWS::SageMaker::EndpointConfig",
                ProductionVariants=[
                    {
                        "VariantName": "AllTraffic",
                        "ModelName": attribute("Model", "ModelName"),
                        "InstanceType": "ml.g5.12xlarge",
                        "InitialInstanceCount": 1,
                        **variant,
                    }
                ],
            ),
            "Metadata": told,
        },
        "Endpoint": {
            **resource(
                "AWS::SageMaker::Endpoint",
                EndpointConfigName=attribute("Config", "EndpointConfigName"),
                EndpointName="chat",
            ),
            "Metadata": told,
        },
        "Role": role(),
    }


def role(*statements: dict[str, Any]) -> dict[str, Any]:
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "sagemaker.amazonaws.com"}}
    return resource(
        "AWS::IAM::Role",
        AssumeRolePolicyDocument={"Statement": [trust]},
        Policies=[{"PolicyName": "Permissions", "PolicyDocument": {"Statement": list(statements)}}],
    )


def chat(**changed: Any) -> dict[str, Any]:
    """An endpoint with its job; ``changed`` are arguments of :func:`job`, and resources by their ids.

    A ``Target`` has a policy, ``Policy``, unless that is None.
    """
    if "Target" in changed:
        changed.setdefault("Policy", tracking(8))
    changed = {name: value for name, value in changed.items() if value is not None}
    generation = changed.get("generation", "1")
    of_job = {name: changed.pop(name) for name in ("key", "generation", "bucket") if name in changed}
    return {**job(**of_job), **serving(generation=generation), **changed}


def tracking(target: float, *, of: str = "Target") -> dict[str, Any]:
    """A policy that keeps the concurrency near a target."""
    return resource(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        PolicyName="OnConcurrency",
        PolicyType="TargetTrackingScaling",
        ScalingTargetId={"Ref": of},
        TargetTrackingScalingPolicyConfiguration={
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
            },
            "TargetValue": target,
        },
    )


def scaled(least: Any, most: Any, **more: Any) -> dict[str, Any]:
    return resource(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        MinCapacity=least,
        MaxCapacity=most,
        ResourceId={"Fn::Join": ["", ["endpoint/", attribute("Endpoint", "EndpointName"), "/variant/AllTraffic"]]},
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        ServiceNamespace="sagemaker",
        **more,
    )


def stack(resources: Mapping[str, Any], *, path: str = "Chat", region: str | None = "us-west-2") -> StackTemplate:
    return StackTemplate(path, path.replace("/", "-"), {"Resources": copy.deepcopy(dict(resources))}, region=region)


def written(folder: Path, *stacks: StackTemplate) -> Path:
    """An assembly of those stacks."""
    folder.mkdir(parents=True, exist_ok=True)
    artifacts: dict[str, Any] = {"Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}}}
    for each in stacks:
        file = f"{each.stack_name}.template.json"
        (folder / file).write_text(json.dumps(each.template))
        artifacts[each.stack_name] = {
            "type": "aws:cloudformation:stack",
            "environment": f"aws://{each.account or 'unknown-account'}/{each.region or 'unknown-region'}",
            "properties": {"templateFile": file, "stackName": each.stack_name},
            "displayName": each.path,
        }
    (folder / "manifest.json").write_text(json.dumps({"version": "55.0.0", "artifacts": artifacts}))
    return folder
