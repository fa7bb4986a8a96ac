"""The simulated scaling and the local cloud's against sequences that AWS documents, which share no code with them."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim.replay.scaling import Policy, Scaling
from constructs_optim_local.cloud import LocalCloud

from ..support.hosting import make_config, make_model
from ..support.inference_components import ONE_GPU, needing
from ..support.local_cloud import ROLE
from ..support.scaled_variants import INSTANCES, target
from ..support.waiting import settled, until
from .documented_sequences import (
    CHANGE_SECONDS,
    CONCURRENCY,
    INVOCATIONS,
    PERIODS,
    REFUSED,
    SEQUENCES,
    Documented,
    Steps,
    Tracking,
)

COPIES = "sagemaker:inference-component:DesiredCopyCount"
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_VARIANT = {CONCURRENCY: "ConcurrentRequestsPerModel", INVOCATIONS: "InvocationsPerInstance"}
_COMPONENT = {
    CONCURRENCY: "ConcurrentRequestsPerCopy",
    INVOCATIONS: "InvocationsPerCopy",
    REFUSED: "NoCapacityInvocationFailures",
}
_PREDEFINED = {
    "ConcurrentRequestsPerModel": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    "InvocationsPerInstance": "SageMakerVariantInvocationsPerInstance",
    "ConcurrentRequestsPerCopy": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
    "InvocationsPerCopy": "SageMakerInferenceComponentInvocationsPerCopy",
}
# The local cloud decides in a thread, in real time.
_DECISION_SECONDS = 0.25


def metric_name(sequence: Documented, metric: str) -> str:
    return (_COMPONENT if sequence.is_component else _VARIANT)[metric]


def configuration(sequence: Documented, policy: Tracking | Steps) -> dict[str, Any]:
    """The policy as PutScalingPolicy takes it."""
    if isinstance(policy, Tracking):
        tracked = {"PredefinedMetricType": _PREDEFINED[metric_name(sequence, policy.metric)]}
        of_tracking = {
            "TargetValue": policy.target,
            "PredefinedMetricSpecification": tracked,
            "ScaleOutCooldown": policy.out_cooldown,
            "ScaleInCooldown": policy.in_cooldown,
            "DisableScaleIn": policy.disable_scale_in,
        }
        return {"TargetTrackingScalingPolicyConfiguration": of_tracking}
    bounds = ("MetricIntervalLowerBound", "MetricIntervalUpperBound")
    steps = [
        {name: value for name, value in zip(bounds, step, strict=False) if value is not None}
        | {"ScalingAdjustment": step[2]}
        for step in policy.steps
    ]
    of_steps: dict[str, Any] = {
        "AdjustmentType": policy.adjustment,
        "Cooldown": policy.cooldown,
        "StepAdjustments": steps,
    }
    if policy.least_change is not None:
        of_steps["MinAdjustmentMagnitude"] = policy.least_change
    return {"StepScalingPolicyConfiguration": of_steps}


def alarm(sequence: Documented, policy: Steps) -> dict[str, Any]:
    """The alarm of a step policy as PutMetricAlarm takes it."""
    side = "Greater" if policy.is_above else "Less"
    return {
        "MetricName": metric_name(sequence, policy.metric),
        "Namespace": "AWS/SageMaker",
        "Statistic": "Maximum",
        "Period": PERIODS[policy.metric],
        "EvaluationPeriods": 1,
        "Threshold": policy.threshold,
        "ComparisonOperator": f"{side}ThanOrEqualToThreshold",
    }


def datapoints(sequence: Documented, after: int, now: int) -> Iterator[tuple[str, int, float]]:
    """The metrics, beginnings and values of the periods that end after a second, up to another one."""
    for metric, levels in sequence.metrics.items():
        period = PERIODS[metric]
        for end in range(period * (after // period + 1), now + 1, period):
            begun = end - period
            yield metric, begun, next(value for since, value in reversed(levels) if since <= begun)


def by_replay(sequence: Documented) -> list[tuple[int, int]]:
    """What the simulated scaling decides in each period."""
    policies: list[Policy] = []
    for number, policy in enumerate(sequence.policies):
        name, of = f"policy-{number}", "inference-component/-" if sequence.is_component else "endpoint/-/variant/-"
        described = {"PolicyName": name, "PolicyARN": name, "ResourceId": of, **configuration(sequence, policy)}
        policies.append(
            Policy.tracking(described)
            if isinstance(policy, Tracking)
            else Policy(described, [{"AlarmName": f"alarm-{number}", **alarm(sequence, policy)}])
        )
    schedules = [scheduled(sequence, START)] if sequence.schedule else []
    scaling = Scaling(sequence.least, sequence.most, START, policies, schedules)
    changes: list[tuple[int, int]] = []
    capacity, changed_at = sequence.capacity, 0
    for now in range(10, sequence.until + 1, 10):
        for metric, begun, value in datapoints(sequence, now - 10, now):
            scaling.published(metric_name(sequence, metric), PERIODS[metric], begun, value)
        if now >= changed_at and (wanted := scaling.wanted(capacity, now)) != capacity:
            changes.append((now, wanted))
            capacity, changed_at = wanted, now + CHANGE_SECONDS
    return changes


def scheduled(sequence: Documented, began: dt.datetime) -> dict[str, Any]:
    second, least = sequence.schedule or (0, 0)
    moment = began + dt.timedelta(seconds=second)
    action = {"MinCapacity": least, "MaxCapacity": sequence.most}
    return {"Schedule": f"at({moment:%Y-%m-%dT%H:%M:%S})", "ScalableTargetAction": action}


class PlayedCloud:
    """A local cloud whose clock a test sets."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud, self._ahead = cloud, 0.0
        self.sagemaker, self.cloudwatch = cloud.client("sagemaker"), cloud.client("cloudwatch")
        self.scaling = cloud.client("application-autoscaling")

    @property
    def now(self) -> float:
        return time.time() + self._ahead

    def advance_to(self, moment: float) -> None:
        ahead = max(0.0, moment - self.now)
        self._cloud.advance(ahead)
        self._ahead += ahead


class CloudSequence:
    """A sequence in the local cloud: its alarms, Application Auto Scaling and hosting decide, through boto3."""

    def __init__(self, cloud: PlayedCloud, name: str, sequence: Documented) -> None:
        self._cloud, self._name, self._sequence = cloud, name, sequence
        self._alarms: list[str] = []
        self._serve()
        dimension = COPIES if sequence.is_component else INSTANCES
        of = f"inference-component/{name}" if sequence.is_component else f"endpoint/{name}/variant/AllTraffic"
        self._target = target(of, dimension)
        cloud.scaling.register_scalable_target(**self._target, MinCapacity=sequence.least, MaxCapacity=sequence.most)
        # Periods begin with those of CloudWatch.
        self._began = 60.0 * math.ceil(cloud.now / 60 + 1)
        for number, policy in enumerate(sequence.policies):
            self._put(f"policy-{number}", policy)
        if sequence.schedule:
            action = scheduled(sequence, dt.datetime.fromtimestamp(self._began, dt.UTC))
            cloud.scaling.put_scheduled_action(**self._target, ScheduledActionName="scheduled", **action)

    def run(self) -> list[tuple[int, int]]:
        """The changes of the capacity: their seconds, to the nearest ten, and the capacities."""
        now = 0
        while now < self._sequence.until:
            before, now = now, min(self._next(now), self._sequence.until)
            self._cloud.advance_to(self._began + now)
            self._publish(before, now)
            if self._has_alarm():
                # As long as it is changing, nothing is decided.
                settled(self._is_changing, lambda is_changing: is_changing, seconds=_DECISION_SECONDS)
        found = self._cloud.scaling.describe_scaling_activities(**self._target)["ScalingActivities"]
        return [
            (
                10 * round((activity["StartTime"].timestamp() - self._began) / 10),
                int(activity["Description"].rstrip(".").rpartition(" ")[2]),
            )
            for activity in reversed(found)
        ]

    def _serve(self) -> None:
        sagemaker, sequence, name = self._cloud.sagemaker, self._sequence, self._name
        if sequence.is_component:
            managed = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": sequence.most}
            variant = {
                "VariantName": "AllTraffic",
                "InstanceType": ONE_GPU,
                "InitialInstanceCount": 1,
                "ManagedInstanceScaling": managed,
            }
            sagemaker.create_endpoint_config(
                EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant]
            )
        else:
            make_model(sagemaker, name)
            make_config(sagemaker, name, name, count=sequence.capacity)
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        self._cloud.advance_to(self._cloud.now + CHANGE_SECONDS + 5)
        until(lambda: sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"], "InService".__eq__)
        if sequence.is_component:
            sagemaker.create_inference_component(
                InferenceComponentName=name,
                EndpointName=name,
                VariantName="AllTraffic",
                Specification=needing(1),
                RuntimeConfig={"CopyCount": 1},
            )
            self._settle()
            # A component is created with at least one copy.
            sagemaker.update_inference_component_runtime_config(
                InferenceComponentName=name, DesiredRuntimeConfig={"CopyCount": sequence.capacity}
            )
            self._settle()

    def _put(self, name: str, policy: Tracking | Steps) -> None:
        kind = "TargetTrackingScaling" if isinstance(policy, Tracking) else "StepScaling"
        made = self._cloud.scaling.put_scaling_policy(
            **self._target, PolicyName=name, PolicyType=kind, **configuration(self._sequence, policy)
        )
        self._alarms += [each["AlarmName"] for each in made["Alarms"]]
        if isinstance(policy, Steps):
            named = f"{self._name}-{name}"
            self._cloud.cloudwatch.put_metric_alarm(
                AlarmName=named,
                AlarmActions=[made["PolicyARN"]],
                Dimensions=self._dimensions(),
                **alarm(self._sequence, policy),
            )
            self._alarms.append(named)

    def _next(self, now: int) -> int:
        """The next second to stop at: each period while something happens, otherwise each minute."""
        seconds = [second for levels in self._sequence.metrics.values() for second, _ in levels]
        is_busy = any(now - 60 <= second < now + 60 for second in seconds) or self._has_alarm()
        return now + 10 if is_busy else 60 * (now // 60 + 1)

    def _publish(self, after: int, now: int) -> None:
        """Publish periods in one request, after which all alarms are evaluated."""
        data = [
            {
                "MetricName": metric_name(self._sequence, metric),
                "Value": value,
                "Dimensions": self._dimensions(),
                "Timestamp": dt.datetime.fromtimestamp(self._began + begun, dt.UTC),
            }
            for metric, begun, value in datapoints(self._sequence, after, now)
        ]
        self._cloud.cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=data)

    def _dimensions(self) -> list[dict[str, str]]:
        if self._sequence.is_component:
            return [{"Name": "InferenceComponentName", "Value": self._name}]
        return [{"Name": "EndpointName", "Value": self._name}, {"Name": "VariantName", "Value": "AllTraffic"}]

    def _has_alarm(self) -> bool:
        found = self._cloud.cloudwatch.describe_alarms(AlarmNames=self._alarms, StateValue="ALARM")
        return bool(found["MetricAlarms"])

    def _settle(self) -> None:
        self._cloud.advance_to(self._cloud.now + CHANGE_SECONDS + 5)
        until(self._is_changing, lambda is_changing: not is_changing)

    def _is_changing(self) -> bool:
        sagemaker = self._cloud.sagemaker
        if self._sequence.is_component:
            found = sagemaker.describe_inference_component(InferenceComponentName=self._name)
            return found["InferenceComponentStatus"] != "InService"
        return sagemaker.describe_endpoint(EndpointName=self._name)["EndpointStatus"] != "InService"


@pytest.fixture(scope="module")
def played() -> Iterator[PlayedCloud]:
    with LocalCloud(job_seconds=(0.1, 0.1), endpoint_seconds=CHANGE_SECONDS, time_scale=1.0) as cloud:
        yield PlayedCloud(cloud)


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_simulation_scales_as_documented(name: str) -> None:
    assert by_replay(SEQUENCES[name]) == SEQUENCES[name].changes


FEW = [
    "a metric from before a copy is in service does not add another copy",
    "of two tracking policies, the larger capacity counts",
]


def by_cloud(played: PlayedCloud, name: str) -> list[tuple[int, int]]:
    """What the local cloud decides."""
    return CloudSequence(played, f"sequence-{list(SEQUENCES).index(name)}", SEQUENCES[name]).run()


@pytest.mark.local
@pytest.mark.parametrize("name", FEW)
def test_the_local_cloud_scales_as_documented(played: PlayedCloud, name: str) -> None:
    assert by_cloud(played, name) == SEQUENCES[name].changes


@pytest.mark.local
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in SEQUENCES if name not in FEW])
def test_the_local_cloud_scales_as_documented_in_every_sequence(played: PlayedCloud, name: str) -> None:
    assert by_cloud(played, name) == SEQUENCES[name].changes
