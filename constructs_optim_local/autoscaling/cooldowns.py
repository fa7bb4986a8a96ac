"""What one scalable target remembers of its scaling, and what its cooldowns allow.

Sources: Application Auto Scaling user guide, "Cooldown periods"; API reference, StepScalingPolicyConfiguration: what
was added during a cooldown "is calculated as part of the desired capacity for the next scale out".
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
    """When a target was scaled last, in seconds since any moment; None: not yet."""

    out_at: float | None = None
    out_to: int = 0
    """The capacity after the last scale-out."""
    before_out: int = 0
    """The capacity before it."""
    in_at: float | None = None

    def base(self, capacity: int, cooldown: float, now: float) -> int:
        """The capacity that a step counts from: during the cooldown after a scale-out, what there was before that.

        A step of 2 and then one of 3 add 3 in all.
        """
        if self.out_at is None or now - self.out_at >= cooldown:
            return capacity
        return min(capacity, self.before_out)

    def allow(self, capacity: int, limited: int, cooldowns: tuple[float, ...], now: float) -> bool:
        """Whether the capacity may change to another one now; ``cooldowns`` are those of scaling out and in."""
        if limited > capacity:
            return self.out_at is None or now - self.out_at >= cooldowns[0] or limited > self.out_to
        latest = [at for at in (self.in_at, self.out_at) if at is not None]
        return not any(now - at < cooldowns[1] for at in latest)

    def note(self, capacity: int, limited: int, cooldowns: tuple[float, ...], now: float) -> None:
        """Remember that the capacity changes."""
        if limited > capacity:
            # Within a cooldown, what is added is part of the same scale-out.
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
    """The capacity that a policy asks for when its alarm has gone off, and its cooldowns of scaling out and in.

    Args:
        policy: as DescribeScalingPolicies has it.
        alarm: as DescribeAlarms has it.
        value: the datapoint that set it off, if there was one.
        capacity: what there is.
        remembered: of the target.
        now: in seconds.
        scale: what a second of cooldowns lasts here.

    Returns:
        None for the capacity where no step is about such a breach.
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
    # Without a datapoint, one instance more or less is the least that the alarm asks for.
    asked = (
        tracked(config["TargetValue"], capacity, value)
        if value is not None
        else (capacity + (1 if above else -1) if capacity else None)
    )
    pauses = (config.get(name, DEFAULT_COOLDOWN) * scale for name in ("ScaleOutCooldown", "ScaleInCooldown"))
    out, into = pauses
    return asked, (out, into)
