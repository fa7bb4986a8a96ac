"""SageMaker's quotas of instances and of training jobs' numbers, and the error when a request would exceed one.

Source of the message: https://github.com/aws/amazon-sagemaker-feedback/issues/157. The API reference lists
ResourceLimitExceeded for CreateEndpoint, UpdateEndpoint, UpdateEndpointWeightsAndCapacities and CreateTrainingJob. AWS
does not document the quota of optimization jobs, so they count against none here. Sources of the quotas of a training
job's own numbers, and of their defaults: developer guide, "Feature Processor restrictions, limits, and quotas"
(runtime, number of instances); the list of an account's Service Quotas (volume). Assumed, without a source: the units
in the message.
"""

from __future__ import annotations

import threading

from constructs_optim_local.api.error import ApiError

ENDPOINT, TRAINING, SPOT = "endpoint usage", "training job usage", "spot training job usage"
RUNTIME, INSTANCES, VOLUME = (
    "Longest run time for a training job",
    "Maximum number of instances per training job",
    "Size of EBS volume for a training job instance",
)
OF_A_TRAINING_JOB = {RUNTIME: (432_000.0, "Seconds"), INSTANCES: (20.0, "Instances"), VOLUME: (1_024.0, "Gigabytes")}
"""AWS's defaults, and the units."""


def quota_name(instance_type: str, usage: str) -> str:
    """Return a quota's name, for example ``ml.g5.12xlarge for endpoint usage``."""
    return f"{instance_type} for {usage}"


class Quotas:
    """The quotas that tests set, for every account and Region. Other quotas are unlimited."""

    def __init__(self) -> None:
        self._lock, self._set = threading.Lock(), dict[str, float]()

    def set(self, name: str, value: float) -> None:
        """Set a quota by its name."""
        with self._lock:
            self._set[name] = float(value)

    def clear(self) -> None:
        """Remove all quotas."""
        with self._lock:
            self._set.clear()

    def to_json(self) -> dict[str, float]:
        """Return the quotas that are set."""
        with self._lock:
            return dict(self._set)

    def check(self, instance_type: str, usage: str, *, used: int, more: int) -> None:
        """Refuse ``more`` instances in addition to the ``used`` ones, if they exceed the quota.

        Raises:
            ApiError: ResourceLimitExceeded if they exceed the quota.
        """
        name = quota_name(instance_type, usage)
        value = self.to_json().get(name)
        if value is not None and more > 0 and used + more > value:
            raise _exceeded(name, value, "Instances", used, more)

    def check_number(self, name: str, number: int) -> None:
        """Refuse a training job's number that exceeds its quota: the one that is set, or AWS's default.

        Raises:
            ApiError: ResourceLimitExceeded if it exceeds the quota.
        """
        default, unit = OF_A_TRAINING_JOB[name]
        if number > (value := self.to_json().get(name, default)):
            raise _exceeded(name, value, unit, 0, number)


def _exceeded(name: str, value: float, unit: str, used: int, more: int) -> ApiError:
    return ApiError(
        "ResourceLimitExceeded",
        f"The account-level service limit '{name}' is {value:.15g} {unit}, with current utilization of {used} {unit} "
        f"and a request delta of {more} {unit}. Please use AWS Service Quotas to request an increase for this quota. "
        "If AWS Service Quotas is not available, contact AWS support to request an increase for this quota.",
    )
