"""The scaling history of one scalable target, and the changes that its cool-downs allow.

Sources: Application Auto Scaling user guide, "Cooldown periods"; API reference, StepScalingPolicyConfiguration:
capacity added during a cool-down "is calculated as part of the desired capacity for the next scale out".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .decisions import stepped, tracked

DEFAULT_COOLDOWN = 300
"""Seconds."""


@dataclass
class Cooldowns:
    """The times of a target's last scaling, in seconds of a monotonic clock; None before the first."""

    out_at: float | None = None
    out_to: int = 0
    """The capacity after the last scale-out."""
    before_out: int = 0
    """The capacity before the last scale-out."""
    in_at: float | None = None

    def base(self, capacity: int, cooldown: float, now: float) -> int:
        """Return the capacity to which a step adds: during a scale-out cool-down, the capacity before the last step.

        A step of 2 followed by one of 3 adds 3 in total.
        """
        if self.out_at is None or now - self.out_at >= cooldown:
            return capacity
        return min(capacity, self.before_out)

    def allow(self, capacity: int, limited: int, cooldowns: tuple[float, ...], now: float) -> bool:
        """Return whether the capacity may change now; ``cooldowns`` are for scaling out and in."""
        if limited > capacity:
            return self.out_at is None or now - self.out_at >= cooldowns[0] or limited > self.out_to
        latest = [at for at in (self.in_at, self.out_at) if at is not None]
        return not any(now - at < cooldowns[1] for at in latest)

    def note(self, capacity: int, limited: int, cooldowns: tuple[float, ...], now: float) -> None:
        """Record a change of the capacity."""
        if limited > capacity:
            # During a cool-down, added capacity is part of the same scale-out.
            is_first = self.out_at is None or now - self.out_at >= cooldowns[0]
            self.before_out = capacity if is_first else self.before_out
            self.out_at, self.out_to = now, limited
        else:
            self.in_at = now


def requested(
    policy: Mapping[str, Any],
    alarm: Mapping[str, Any],
    value: float | None,
    capacity: int,
    remembered: Cooldowns,
    now: float,
    scale: float = 1.0,
) -> tuple[int | None, tuple[float, float]]:
    """Return the capacity that a policy requests when its alarm goes into ALARM, and its cool-downs for out and in.

    Args:
        policy: the policy, as DescribeScalingPolicies returns it.
        alarm: the alarm, as DescribeAlarms returns it.
        value: the breaching datapoint, if there is one.
        capacity: the current capacity.
        remembered: the target's history.
        now: the time in seconds.
        scale: real seconds for each second of a cool-down.

    Returns:
        The capacity, None if no step applies to the breach, and the cool-downs.
    """
    above = str(alarm.get("ComparisonOperator", "Greater")).startswith("Greater")
    config = policy.get("StepScalingPolicyConfiguration")
    if config is not None:
        breach = 0.0 if value is None else value - alarm["Threshold"]
        pause = config.get("Cooldown", DEFAULT_COOLDOWN) * scale
        asked = stepped(config, capacity, breach, above)
        if asked is not None and asked > capacity:
            asked = max(capacity, stepped(config, remembered.base(capacity, pause, now), breach, above) or 0)
        return asked, (pause, pause)
    config = policy["TargetTrackingScalingPolicyConfiguration"]
    # Without a datapoint, change by one instance, the smallest change.
    asked = (
        tracked(config["TargetValue"], capacity, value)
        if value is not None
        else (capacity + (1 if above else -1) if capacity else None)
    )
    pauses = (config.get(name, DEFAULT_COOLDOWN) * scale for name in ("ScaleOutCooldown", "ScaleInCooldown"))
    out, into = pauses
    return asked, (out, into)
