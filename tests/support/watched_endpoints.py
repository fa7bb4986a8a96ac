"""Stacks of an endpoint with all that somebody may remove by hand: scaling, alarms, a dashboard, permissions."""

from __future__ import annotations

import itertools
import json
from functools import partial
from typing import Any

from constructs_optim.operations.stacks import DeployedStack, DeployedTemplates
from constructs_optim_local.cloud import LocalCloud

from .cloudformation_stacks import Stack, hosting, scalable_target
from .hosting import make_config, make_model
from .operator_stores import client
from .waiting import until

_numbers = itertools.count()
INSTANCES = "sagemaker:variant:DesiredInstanceCount"
ALARM: dict[str, Any] = {
    "Type": "AWS::CloudWatch::Alarm",
    "Properties": {
        "AlarmDescription": "Chat fails. First: read the log.",
        "AlarmActions": ["arn:aws:sns:us-west-2:000000000000:pages"],
        "ComparisonOperator": "GreaterThanThreshold",
        "Dimensions": [{"Name": "EndpointName", "Value": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}}],
        "EvaluationPeriods": 1,
        "MetricName": "Invocation5XXErrors",
        "Namespace": "AWS/SageMaker",
        "Period": 60,
        "Statistic": "Sum",
        "Threshold": 8,
        "TreatMissingData": "notBreaching",
    },
}
RATE: dict[str, Any] = {
    "Type": "AWS::CloudWatch::Alarm",
    "Properties": {
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": 1,
        "Metrics": [
            {
                "Id": "failed",
                "MetricStat": {
                    "Metric": {"Namespace": "AWS/SageMaker", "MetricName": "InvocationModelErrors"},
                    "Period": 300,
                    "Stat": "Sum",
                },
                "ReturnData": False,
            },
            {"Id": "filled", "Expression": "FILL(failed, 0)"},
        ],
        "Threshold": 0.5,
    },
}
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def policy(*actions: str, resource: Any = "*") -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": [*actions], "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


def tracking(name: str, target: float = 8) -> dict[str, Any]:
    return {
        "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
        "Properties": {
            "PolicyName": name,
            "PolicyType": "TargetTrackingScaling",
            "ScalingTargetId": {"Ref": "Target"},
            "TargetTrackingScalingPolicyConfiguration": {
                "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
                "TargetValue": target,
            },
        },
    }


def watched(most: int = 4) -> dict[str, Any]:
    """The resources of a stack."""
    resources = hosting()
    del resources["Endpoint"]["Properties"]["RetainAllVariantProperties"]
    role = {
        "AssumeRolePolicyDocument": _TRUST,
        "Policies": [{"PolicyName": "pull", "PolicyDocument": policy("ecr:Get*")}],
    }
    more = policy("s3:GetObject", "s3:ListBucket", resource={"Fn::Sub": "arn:${AWS::Partition}:s3:::models/*"})
    return {
        **resources,
        "Target": scalable_target(most=most),
        "Policy": tracking("OnInvocations"),
        "ErrorRate": ALARM,
        "Outage": {
            "Type": "AWS::CloudWatch::CompositeAlarm",
            "Properties": {
                # As the CDK writes it.
                "AlarmRule": {"Fn::Join": ["", ['ALARM("', {"Fn::GetAtt": ["ErrorRate", "Arn"]}, '")']]}
            },
        },
        "Rate": RATE,
        "Dashboard": {
            "Type": "AWS::CloudWatch::Dashboard",
            "Properties": {"DashboardBody": json.dumps({"widgets": []})},
        },
        "Role": {"Type": "AWS::IAM::Role", "Properties": role},
        "Grant": {
            "Type": "AWS::IAM::Policy",
            "Properties": {"PolicyName": "grant", "PolicyDocument": more, "Roles": [{"Ref": "Role"}]},
        },
    }


class Watched:
    """A deployed stack of ``watched``."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud = cloud
        self.stack = Stack(cloud, f"watched-{next(_numbers)}")
        assert self.stack.deploy(watched()) == "CREATE_COMPLETE", self.stack.reasons()

    def client(self, service: str) -> Any:
        return client(self.cloud, service)

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.stack.physical_id("Target").split("/")[1]

    @property
    def deployed(self) -> DeployedStack:
        found = DeployedTemplates(lambda region: self.client("cloudformation")).stack(self.stack.name, None)
        assert found is not None
        return found

    @property
    def target(self) -> dict[str, str]:
        resource_id = self.stack.physical_id("Target").split("|")[0]
        return {"ServiceNamespace": "sagemaker", "ResourceId": resource_id, "ScalableDimension": INSTANCES}

    def deregister(self) -> None:
        self.client("application-autoscaling").deregister_scalable_target(**self.target)

    def narrow(self) -> None:
        """Change the scaling range."""
        self.client("application-autoscaling").register_scalable_target(**self.target, MaxCapacity=2)

    def suspend(self, *suspensions: str) -> None:
        """Suspend some of the scaling."""
        state = dict.fromkeys(suspensions, True)
        self.client("application-autoscaling").register_scalable_target(**self.target, SuspendedState=state)

    def delete_policy(self) -> None:
        self.client("application-autoscaling").delete_scaling_policy(**self.target, PolicyName="OnInvocations")

    def delete_tracking_alarms(self) -> None:
        cloudwatch = self.client("cloudwatch")
        prefix = f"TargetTracking-{self.target['ResourceId']}"
        found = cloudwatch.describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
        cloudwatch.delete_alarms(AlarmNames=[alarm["AlarmName"] for alarm in found])

    def delete_alarm(self, logical_id: str) -> None:
        self.client("cloudwatch").delete_alarms(AlarmNames=[self.stack.physical_id(logical_id)])

    def silence(self) -> None:
        self.client("cloudwatch").disable_alarm_actions(AlarmNames=[self.stack.physical_id("ErrorRate")])

    def empty(self) -> None:
        """Take the actions of an alarm away, and let it never go off."""
        alarm = {
            **{name: value for name, value in ALARM["Properties"].items() if name != "AlarmActions"},
            "Dimensions": [{"Name": "EndpointName", "Value": self.name}],
            "Threshold": 1_000.5,
        }
        self.client("cloudwatch").put_metric_alarm(AlarmName=self.stack.physical_id("ErrorRate"), **alarm)

    def change_rate(self) -> None:
        """Let an alarm on metric math look away."""
        properties = json.loads(json.dumps(RATE["Properties"]))
        properties["Metrics"][0]["MetricStat"]["Period"] = 60
        properties["Metrics"][1]["Expression"] = "0 * failed"
        self.client("cloudwatch").put_metric_alarm(AlarmName=self.stack.physical_id("Rate"), **properties)

    def change_rule(self) -> None:
        """Let a composite alarm watch nothing."""
        self.client("cloudwatch").put_composite_alarm(AlarmName=self.stack.physical_id("Outage"), AlarmRule="FALSE")

    def delete_dashboard(self) -> None:
        self.client("cloudwatch").delete_dashboards(DashboardNames=[self.stack.physical_id("Dashboard")])

    def delete_role_policy(self, name: str) -> None:
        self.client("iam").delete_role_policy(RoleName=self.stack.physical_id("Role"), PolicyName=name)

    def narrow_grant(self) -> None:
        """Take an action out of the policy that the stack grants."""
        document = json.dumps(policy("s3:ListBucket", resource="arn:aws:s3:::models/*"))
        role = self.stack.physical_id("Role")
        self.client("iam").put_role_policy(RoleName=role, PolicyName="grant", PolicyDocument=document)

    def move(self, config: str = "by-hand", model: str = "another-model") -> None:
        """Let the endpoint serve another model by another configuration."""
        sagemaker = self.client("sagemaker")
        config, model = f"{config}-{self.stack.name}", f"{model}-{self.stack.name}"
        make_model(sagemaker, model)
        make_config(sagemaker, config, model)
        sagemaker.update_endpoint(EndpointName=self.name, EndpointConfigName=config)
        until(
            partial(sagemaker.describe_endpoint, EndpointName=self.name),
            lambda found: found["EndpointStatus"] == "InService" and found["EndpointConfigName"] == config,
        )

    def delete_model(self) -> None:
        self.client("sagemaker").delete_model(ModelName=self.stack.physical_id("Model").rpartition("/")[2])
