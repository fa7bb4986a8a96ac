"""SageMaker's instance quotas, and the error when a request would exceed one.

Source of the message: https://github.com/aws/amazon-sagemaker-feedback/issues/157. The API reference lists
ResourceLimitExceeded for CreateEndpoint, UpdateEndpoint, UpdateEndpointWeightsAndCapacities and CreateTrainingJob. AWS
does not document the quota of optimization jobs, so they count against none here.
"""

from __future__ import annotations

import threading

from constructs_optim_local.api.error import ApiError

ENDPOINT, TRAINING, SPOT = "endpoint usage", "training job usage", "spot training job usage"


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
        if value is None or more <= 0 or used + more <= value:
            return
        raise ApiError(
            "ResourceLimitExceeded",
            f"The account-level service limit '{name}' is {value:g} Instances, with current utilization of {used} "
            f"Instances and a request delta of {more} Instances. Please use AWS Service Quotas to request an increase "
            "for this quota. If AWS Service Quotas is not available, contact AWS support to request an increase for "
            "this quota.",
        )
