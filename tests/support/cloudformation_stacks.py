"""Stacks of hand-written resources, driven through CloudFormation's API."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from .hosting import IMAGE
from .local_cloud import ROLE
from .waiting import until


class Stack:
    """A stack of resources that a test changes."""

    def __init__(self, cloud: LocalCloud, name: str) -> None:
        self.name, self.cloudformation = name, cloud.client("cloudformation")

    def deploy(self, resources: dict[str, Any], outputs: dict[str, Any] | None = None) -> str:
        """Create or update it; the status it ends in."""
        template = {
            "Resources": resources,
            "Outputs": {name: {"Value": value} for name, value in (outputs or {}).items()},
        }
        given = {"StackName": self.name, "TemplateBody": json.dumps(template)}
        if self.exists():
            self.cloudformation.update_stack(**given)
        else:
            self.cloudformation.create_stack(**given)
        return until(self.status, lambda status: not status.endswith("_IN_PROGRESS"))

    def drifted(self) -> dict[str, str]:
        """Detect drift; the statuses of the resources that drifted, by logical ID."""
        detection = self.cloudformation.detect_stack_drift(StackName=self.name)["StackDriftDetectionId"]
        until(
            lambda: self.cloudformation.describe_stack_drift_detection_status(StackDriftDetectionId=detection),
            lambda found: found["DetectionStatus"] == "DETECTION_COMPLETE",
        )
        found = self.cloudformation.describe_stack_resource_drifts(StackName=self.name)["StackResourceDrifts"]
        statuses = {each["LogicalResourceId"]: each["StackResourceDriftStatus"] for each in found}
        return {name: status for name, status in statuses.items() if status in ("DELETED", "MODIFIED")}

    def revert_drift(self, resources: dict[str, Any]) -> dict[str, str]:
        """Carry out a drift-aware change set to the end, as ``cdk deploy --revert-drift`` does.

        Returns the change set's actions by logical ID.
        """
        named = {"StackName": self.name, "ChangeSetName": "revert"}
        template = json.dumps({"Resources": resources})
        self.cloudformation.create_change_set(**named, TemplateBody=template, DeploymentMode="REVERT_DRIFT")
        found = until(
            lambda: self.cloudformation.describe_change_set(**named),
            lambda described: described["Status"] in ("CREATE_COMPLETE", "FAILED"),
        )
        self.cloudformation.execute_change_set(**named)
        until(self.status, lambda status: not status.endswith("_IN_PROGRESS"))
        return {
            each["ResourceChange"]["LogicalResourceId"]: each["ResourceChange"]["Action"] for each in found["Changes"]
        }

    def delete(self) -> None:
        self.cloudformation.delete_stack(StackName=self.name)
        until(self.exists, lambda exists: not exists)

    def exists(self) -> bool:
        try:
            return self.status() != "DELETE_COMPLETE"
        except ClientError:
            return False

    def status(self) -> str:
        return self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"]

    def physical_id(self, logical_id: str) -> str:
        (found,) = self.cloudformation.describe_stack_resources(StackName=self.name, LogicalResourceId=logical_id)[
            "StackResources"
        ]
        return found["PhysicalResourceId"]

    def outputs(self) -> dict[str, str]:
        stack = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def reasons(self) -> str:
        events = self.cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return "\n".join(event.get("ResourceStatusReason", "") for event in events)


def hosting(*, image: str = IMAGE, count: int = 1, tags: dict[str, str] | None = None) -> dict[str, Any]:
    tagged = {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]} if tags else {}
    return {
        "Model": {
            "Type": "AWS::SageMaker::Model",
            # CloudFormation templates often hold numbers and booleans as strings.
            "Properties": {
                "ExecutionRoleArn": ROLE,
                "PrimaryContainer": {"Image": image},
                "EnableNetworkIsolation": "true",
            },
        },
        "Config": {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {
                "ProductionVariants": [
                    {
                        "VariantName": "AllTraffic",
                        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
                        "InstanceType": "ml.g5.12xlarge",
                        "InitialInstanceCount": str(count),
                        "InitialVariantWeight": 1,
                    }
                ]
            },
        },
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {
                "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
                "RetainAllVariantProperties": True,
                **tagged,
            },
        },
    }


def scalable_target(*, most: int = 4, **more: Any) -> dict[str, Any]:
    """The target that scales the endpoint of ``hosting``, with ``more`` properties."""
    return {
        "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
        "Properties": {
            "MinCapacity": 1,
            "MaxCapacity": most,
            "ResourceId": {"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/AllTraffic"},
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "ServiceNamespace": "sagemaker",
            **more,
        },
    }
