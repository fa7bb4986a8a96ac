"""SageMaker's quotas of instances, and what it says when one would be exceeded.

The words: https://github.com/aws/amazon-sagemaker-feedback/issues/157. That CreateEndpoint, UpdateEndpoint,
UpdateEndpointWeightsAndCapacities and CreateTrainingJob are refused with ResourceLimitExceeded: their errors in the API
reference. Which quota an optimization job counts against is not documented, and none is counted here.
"""

from __future__ import annotations

import threading

from constructs_optim_local.api.error import ApiError

ENDPOINT, TRAINING, SPOT = "endpoint usage", "training job usage", "spot training job usage"


def quota_name(instance_type: str, usage: str) -> str:
    """A quota's name, for instance ``ml.g5.12xlarge for endpoint usage``."""
    return f"{instance_type} for {usage}"


class Quotas:
    """The quotas that were set, the same for every account and region. Nothing is refused for any other."""

    def __init__(self) -> None:
        self._lock, self._set = threading.Lock(), dict[str, float]()

    def set(self, name: str, value: float) -> None:
        """Set a quota by its name."""
        with self._lock:
            self._set[name] = float(value)

    def clear(self) -> None:
        """Let every quota be as it was at first."""
        with self._lock:
            self._set.clear()

    def to_json(self) -> dict[str, float]:
        """Those that were set."""
        with self._lock:
            return dict(self._set)

    def check(self, instance_type: str, usage: str, *, used: int, more: int) -> None:
        """Refuse ``more`` instances beside those that are ``used``.

        Raises:
            ApiError: ResourceLimitExceeded.
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
