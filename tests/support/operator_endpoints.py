"""Endpoints in the states an operator encounters, on the local cloud."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from .local_cloud import ROLE
from .operator_stores import client
from .waiting import until

IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1"
COPIES = "sagemaker:inference-component:DesiredCopyCount"
_numbers = itertools.count()


@dataclass
class Served:
    """An endpoint, and the inference components on it."""

    cloud: LocalCloud
    name: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def sagemaker(self) -> Any:
        return client(self.cloud, "sagemaker")

    @property
    def autoscaling(self) -> Any:
        return client(self.cloud, "application-autoscaling")

    @staticmethod
    def by_components(cloud: LocalCloud, *, least_instances: int = 0, name: str | None = None) -> Served:
        made = Served(cloud, name or f"components-{next(_numbers)}")
        managed = {"Status": "ENABLED", "MinInstanceCount": least_instances, "MaxInstanceCount": 4}
        made._deploy({"ManagedInstanceScaling": managed}, ExecutionRoleArn=ROLE, EnableNetworkIsolation=True)
        return made

    @staticmethod
    def by_a_variant(cloud: LocalCloud, **environment: str) -> Served:
        made = Served(cloud, f"variant-{next(_numbers)}", environment)
        made._model()
        made._deploy({"ModelName": made.name, "InitialVariantWeight": 1})
        return made

    def component(self, suffix: str = "llama", copies: int = 2) -> str:
        """Add a component with that many copies; returns its name."""
        name = f"{self.name}-{suffix}"
        if suffix == "llama":
            self._model()
        self.sagemaker.create_inference_component(
            InferenceComponentName=name,
            EndpointName=self.name,
            VariantName="AllTraffic",
            Specification={
                "ModelName": self.name,
                "ComputeResourceRequirements": {
                    "MinMemoryRequiredInMb": 1024,
                    "NumberOfAcceleratorDevicesRequired": 1,
                },
            },
            RuntimeConfig={"CopyCount": copies},
        )
        self.settled(name)
        return name

    def settled(self, component: str) -> dict[str, Any]:
        """The component once no update of it is in progress."""
        return until(
            lambda: self.sagemaker.describe_inference_component(InferenceComponentName=component),
            lambda found: found["InferenceComponentStatus"] == "InService",
        )

    def copies(self, component: str) -> int:
        return self.settled(component)["RuntimeConfig"]["DesiredCopyCount"]

    def scale(self, component: str, least: int, most: int) -> None:
        self.autoscaling.register_scalable_target(**_target(component), MinCapacity=least, MaxCapacity=most)

    def track(self, component: str) -> None:
        """Let a component scale by its requests in flight."""
        metric = {"PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"}
        self.autoscaling.put_scaling_policy(
            **_target(component),
            PolicyName="OnConcurrency",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={"PredefinedMetricSpecification": metric, "TargetValue": 8},
        )

    def schedule(self, component: str, name: str, least: int, most: int) -> None:
        self.autoscaling.put_scheduled_action(
            **_target(component),
            ScheduledActionName=name,
            Schedule="cron(0 7 ? * MON-FRI *)",
            Timezone="Europe/Berlin",
            ScalableTargetAction={"MinCapacity": least, "MaxCapacity": most},
        )

    def _model(self) -> None:
        container = {"Image": IMAGE, "Environment": self.environment}
        self.sagemaker.create_model(
            ModelName=self.name, ExecutionRoleArn=ROLE, PrimaryContainer=container, EnableNetworkIsolation=True
        )

    def _deploy(self, variant: dict[str, Any], **config: Any) -> None:
        declared = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1, **variant}
        self.sagemaker.create_endpoint_config(EndpointConfigName=self.name, ProductionVariants=[declared], **config)
        self.sagemaker.create_endpoint(EndpointName=self.name, EndpointConfigName=self.name)
        until(
            lambda: self.sagemaker.describe_endpoint(EndpointName=self.name)["EndpointStatus"],
            lambda status: status == "InService",
        )


def _target(component: str) -> dict[str, str]:
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"inference-component/{component}",
        "ScalableDimension": COPIES,
    }
