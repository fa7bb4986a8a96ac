"""Scaling by the local cloud in the place of a simulated one: it decides, and its clock is advanced."""

from __future__ import annotations

import datetime as dt
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from .hosting import make_config, make_model
from .scaled_variants import variant
from .waiting import until

_START_SECONDS = 600


def tracking_concurrency(target: float) -> dict[str, Any]:
    """A policy that holds the requests in flight of an instance near ``target``."""
    kind = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    return {
        "PredefinedMetricSpecification": {"PredefinedMetricType": kind},
        "TargetValue": target,
        "ScaleOutCooldown": 60,
        "ScaleInCooldown": 600,
    }


def tracking_policy(target: float) -> dict[str, Any]:
    """The same as DescribeScalingPolicies has it."""
    named = {"PolicyName": "OnConcurrency", "PolicyARN": "on-concurrency"}
    of = {"ResourceId": "endpoint/played/variant/AllTraffic"}
    return {**named, **of, "TargetTrackingScalingPolicyConfiguration": tracking_concurrency(target)}


class CloudScaling:
    """A variant with a target tracking policy on concurrency, as :class:`constructs_optim.replay.scaling.Scaling`."""

    def __init__(self, cloud: LocalCloud, name: str, *, least: int, most: int, target: float) -> None:
        self.least, self.most = least, most
        self._cloud, self._name = cloud, name
        self._sagemaker, self._scaling = cloud.client("sagemaker"), cloud.client("application-autoscaling")
        self._cloudwatch = cloud.client("cloudwatch")
        make_model(self._sagemaker, name)
        make_config(self._sagemaker, name, name, count=least)
        self._sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        # Its start, and the seconds of a later update.
        cloud.advance(_START_SECONDS)
        until(self._described, lambda described: described["EndpointStatus"] == "InService")
        of = variant(name)
        self._scaling.register_scalable_target(**of, MinCapacity=least, MaxCapacity=most)
        self._scaling.put_scaling_policy(
            **of,
            PolicyName="OnConcurrency",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=tracking_concurrency(target),
        )
        self._began, self._now = cloud.now(), 0.0

    def published(self, metric: str, period: int, at: float, value: float) -> None:
        """Publish a datapoint of the metric that the policy watches."""
        del period
        if metric != "ConcurrentRequestsPerModel":
            return
        self._let_pass(at)
        named = {"EndpointName": self._name, "VariantName": "AllTraffic"}
        dimensions = [{"Name": name, "Value": of} for name, of in named.items()]
        stamped = self._began + dt.timedelta(seconds=at)
        datum = {"MetricName": metric, "Value": value, "Dimensions": dimensions, "Timestamp": stamped}
        self._cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])

    def wanted(self, capacity: int, now: float) -> int:
        """What the cloud has decided by then."""
        self._let_pass(now)
        del capacity
        return self._described()["ProductionVariants"][0]["DesiredInstanceCount"]

    def _let_pass(self, now: float) -> None:
        # The machine's own seconds have passed already.
        ahead = now - self._now
        if ahead > 0:
            self._cloud.advance(ahead)
            self._now = now

    def _described(self) -> dict[str, Any]:
        return self._sagemaker.describe_endpoint(EndpointName=self._name)
