"""Endpoints that boto3 made become stacks: imported and updated by the CDK CLI, and in service throughout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog import images, instances, machine_images
from constructs_optim_local.cloud import ACCOUNT, LocalCloud

from ..support.deployed_stack import CDK, CHECKOUT
from ..support.hosting import settled
from ..support.uploaded_models import upload_model
from ..support.waiting import until

pytestmark = pytest.mark.e2e

_INSTANCE = "ml.g5.12xlarge"
_ROW = next(row for row in images.rows() if row.server == "vllm")
_IMAGE = f"{images.registry_host('us-west-2')}/{_ROW.name}"
_MACHINE_IMAGE = machine_images.needed(_ROW.cuda, instances.by_name()[_INSTANCE])
_CHANGING = ("CreateEndpoint", "UpdateEndpoint", "DeleteEndpoint", "PutScalingPolicy", "RegisterScalableTarget")


class ByHand:
    """What a person made with boto3."""

    def __init__(self, cloud: LocalCloud, name: str) -> None:
        self.cloud, self.name = cloud, name
        self.sagemaker, self.scaling = cloud.client("sagemaker"), cloud.client("application-autoscaling")
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
        iam = cloud.client("iam")
        self.role: str = iam.create_role(RoleName=f"{name}-role", AssumeRolePolicyDocument=json.dumps(trust))["Role"][
            "Arn"
        ]
        reads = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_role_policy(RoleName=f"{name}-role", PolicyName="read", PolicyDocument=json.dumps(reads))
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket=f"{name}-models", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        upload_model(s3, f"{name}-models", "llama")
        source = {"S3Uri": f"s3://{name}-models/llama/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        self.sagemaker.create_model(
            ModelName=f"{name}-model",
            ExecutionRoleArn=self.role,
            PrimaryContainer={
                "Image": _IMAGE,
                "ModelDataSource": {"S3DataSource": source},
                "Environment": {"SM_VLLM_MAX_MODEL_LEN": "4096", "HF_TOKEN": "hf_secret"},
            },
        )

    def endpoint(self, **variant: Any) -> None:
        given = {"VariantName": "AllTraffic", "InstanceType": _INSTANCE, "InitialInstanceCount": 1, **variant}
        given |= {"InferenceAmiVersion": _MACHINE_IMAGE} if _MACHINE_IMAGE else {}
        components = {} if "ModelName" in variant else {"ExecutionRoleArn": self.role}
        self.sagemaker.create_endpoint_config(
            EndpointConfigName=f"{self.name}-config", ProductionVariants=[given], **components
        )
        self.sagemaker.create_endpoint(
            EndpointName=self.name,
            EndpointConfigName=f"{self.name}-config",
            Tags=[{"Key": "team", "Value": "chat"}],
        )
        endpoint = settled(self.sagemaker, self.name)
        assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason")

    def component(self) -> None:
        self.sagemaker.create_inference_component(
            InferenceComponentName=f"{self.name}-llama",
            EndpointName=self.name,
            VariantName="AllTraffic",
            Specification={
                "ModelName": f"{self.name}-model",
                "ComputeResourceRequirements": {"NumberOfAcceleratorDevicesRequired": 4, "MinMemoryRequiredInMb": 4096},
            },
            RuntimeConfig={"CopyCount": 1},
        )
        until(lambda: self.described_component["InferenceComponentStatus"], lambda status: status == "InService")

    def scaled(self, resource: str, dimension: str, metric: str) -> None:
        key = {"ServiceNamespace": "sagemaker", "ResourceId": resource, "ScalableDimension": dimension}
        self.scaling.register_scalable_target(**key, MinCapacity=1, MaxCapacity=2)
        self.scaling.put_scaling_policy(
            **key,
            PolicyName="by-hand",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": 600.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
                "ScaleInCooldown": 120,
            },
        )

    @property
    def described(self) -> dict[str, Any]:
        return self.sagemaker.describe_endpoint(EndpointName=self.name)

    @property
    def described_component(self) -> dict[str, Any]:
        return self.sagemaker.describe_inference_component(InferenceComponentName=f"{self.name}-llama")

    def policies(self) -> list[str]:
        found = self.scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
        return sorted(policy["PolicyARN"] for policy in found if self.name in policy["ResourceId"])

    @contextmanager
    def in_service_throughout(self, **request: str) -> Iterator[None]:
        """Invoke the endpoint until the block ends: every request is answered."""
        runtime, over, failures = self.cloud.client("sagemaker-runtime"), threading.Event(), list[str]()
        answered = 0

        def invoke() -> None:
            nonlocal answered
            while not over.wait(0.1):
                try:
                    body = json.dumps({"inputs": "Hello", "messages": [{"role": "user", "content": "Hello"}]})
                    runtime.invoke_endpoint(
                        EndpointName=self.name, ContentType="application/json", Body=body, **request
                    )
                    answered += 1
                except Exception as error:
                    failures.append(str(error))

        thread = threading.Thread(target=invoke)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert failures == []
        assert answered > 10


class Adopted:
    """The folder that ``constructs-optim adopt`` wrote, and the CDK CLI in it."""

    def __init__(self, cloud: LocalCloud, folder: Path) -> None:
        self.folder = folder
        environment = cloud.child_environment(ACCOUNT)
        self.environment = {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}

    def run(self, *command: str) -> str:
        process = subprocess.run(
            command,
            cwd=self.folder if self.folder.exists() else CHECKOUT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert process.returncode == 0, process.stdout
        return re.sub(r"\x1b\[[0-9;]*m", "", process.stdout)

    def adopt(self, name: str) -> str:
        return self.run(sys.executable, "-m", "constructs_optim", "adopt", name, "--output", str(self.folder))

    def cdk(self, command: str, *arguments: str) -> str:
        return self.run(str(CDK), command, *arguments)

    def deploy(self) -> str:
        return self.cdk("deploy", "--require-approval", "never")

    def without(self, *arguments: str) -> None:
        """Remove arguments of the declaration, as a person does."""
        source = (self.folder / "app.py").read_text()
        for argument in arguments:
            source, removed = re.subn(rf"^ *{argument}=.*\n", "", source, flags=re.MULTILINE)
            assert removed == 1
        (self.folder / "app.py").write_text(source)


def changes_in(diff: str) -> list[str]:
    """The resources of a diff that are not added."""
    return [line for line in diff.splitlines() if re.match(r"\[[-~]\] AWS::|\[[-~]\] Custom::", line)]


def test_an_endpoint_with_a_variant_is_adopted(cloud: LocalCloud, tmp_path: Path) -> None:
    made = ByHand(cloud, "hand-variant")
    made.endpoint(ModelName="hand-variant-model", InitialVariantWeight=1)
    resource = "endpoint/hand-variant/variant/AllTraffic"
    made.scaled(resource, "sagemaker:variant:DesiredInstanceCount", "SageMakerVariantInvocationsPerInstance")
    before, policies = made.described, made.policies()
    adopted = Adopted(cloud, tmp_path / "chat")
    with made.in_service_throughout():
        said = adopted.adopt("hand-variant")
        source = (adopted.folder / "app.py").read_text()
        assert "hf_secret" not in source
        formatted = subprocess.run(
            ["ruff", "format", "--diff", "--config", str(CHECKOUT / "pyproject.toml"), str(adopted.folder / "app.py")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert formatted.returncode == 0, formatted.stdout
        assert "SM_VLLM_MAX_MODEL_LEN" in source
        calls = len(cloud.calls())
        adopted.cdk("import", "--resource-mapping", "import.json")
        assert changes_in(adopted.cdk("diff")) == [], "all else is added"
        adopted.deploy()
        changing = [call for call in cloud.calls()[calls:] if call["operation"] in _CHANGING]
        assert changing == [], "neither import nor deployment changes the endpoint"
        assert "AWS::CloudWatch::Dashboard  1" in said
        after = made.described
        assert (after["EndpointArn"], after["CreationTime"]) == (before["EndpointArn"], before["CreationTime"])
        assert after["EndpointConfigName"] == "hand-variant-config"
        assert after["LastModifiedTime"] == before["LastModifiedTime"]
        assert made.policies() == policies

        adopted.without("existing_configuration")
        assert any("AWS::SageMaker::Endpoint " in line for line in changes_in(adopted.cdk("diff")))
        adopted.deploy()
        moved = made.described
    assert (moved["EndpointArn"], moved["CreationTime"]) == (before["EndpointArn"], before["CreationTime"])
    assert moved["EndpointConfigName"] != "hand-variant-config"
    assert moved["EndpointStatus"] == "InService"
    assert made.policies() == policies


@pytest.mark.exhaustive
def test_an_endpoint_with_an_inference_component_is_adopted(cloud: LocalCloud, tmp_path: Path) -> None:
    made = ByHand(cloud, "hand-parts")
    managed = {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 3}
    made.endpoint(ManagedInstanceScaling=managed)
    made.component()
    dimension = "sagemaker:inference-component:DesiredCopyCount"
    metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    made.scaled("inference-component/hand-parts-llama", dimension, metric)
    before, component, policies = made.described, made.described_component, made.policies()
    adopted = Adopted(cloud, tmp_path / "parts")
    with made.in_service_throughout(InferenceComponentName="hand-parts-llama"):
        adopted.adopt("hand-parts")
        calls = len(cloud.calls())
        adopted.cdk("import", "--resource-mapping", "import.json")
        assert changes_in(adopted.cdk("diff")) == []
        adopted.deploy()
        changing = (*_CHANGING, "CreateInferenceComponent", "UpdateInferenceComponent", "DeleteInferenceComponent")
        assert [call for call in cloud.calls()[calls:] if call["operation"] in changing] == []
        assert made.described_component["LastModifiedTime"] == component["LastModifiedTime"]

        adopted.without("existing_configuration", "existing_model")
        adopted.deploy()
    assert made.described["CreationTime"] == before["CreationTime"]
    assert made.described["EndpointConfigName"] != "hand-parts-config"
    moved = made.described_component
    assert moved["CreationTime"] == component["CreationTime"]
    assert moved["Specification"]["ModelName"] != "hand-parts-model"
    assert made.policies() == policies
