"""The cool-downs of one scalable target.

Sources: Application Auto Scaling user guide, "How target tracking scaling works" (Define cooldown periods) and "How
step scaling works" (Cooldown period); API reference, TargetTrackingScalingPolicyConfiguration and
StepScalingPolicyConfiguration:

- A cool-down begins when a scaling activity has completed successfully.
- In a cool-down after a scale-out, only a larger scale-out is possible, and the capacity that was added is part of it.
- In a cool-down after a scale-in, no other scale-in is possible. A scale-out stops this cool-down.

Assumed, without a source: a cool-down is the target's, with the length that the policy of the activity has. A larger
scale-out in a cool-down counts from the same capacity as the one before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Change:
    """A change of the capacity by a policy: the capacity before and after it, and the seconds of its cool-down."""

    before: int
    after: int
    cooldown: float

    @property
    def is_out(self) -> bool:
        """Whether it adds capacity."""
        return self.after > self.before


@dataclass
class Cooldowns:
    """The cool-downs after a target's last changes. Times are seconds of a monotonic clock."""

    _in_progress: Change | None = None
    _last_out: Change | None = None
    _out_until: float = -math.inf
    _in_until: float = -math.inf

    def base(self, capacity: int, now: float) -> int:
        """Return the capacity from which a scale-out counts: in a scale-out cool-down, the one before the scale-out.

        A step of 2 followed by one of 3 adds 3 in total.
        """
        if self._last_out is None or now >= self._out_until:
            return capacity
        return min(capacity, self._last_out.before)

    def allow(self, capacity: int, wanted: int, now: float) -> bool:
        """Return whether a policy may change the capacity now."""
        if wanted < capacity:
            return now >= self._in_until
        return self._last_out is None or now >= self._out_until or wanted > self._last_out.after

    def begin(self, change: Change, now: float) -> None:
        """Record that the activity of a policy begins."""
        if change.is_out:
            self._in_until = -math.inf
            change = replace(change, before=self.base(change.before, now))
        self._in_progress = change

    def complete(self, capacity: int, at: float) -> None:
        """Record that no activity is in progress since ``at``: the cool-down of the last one begins.

        An activity that has not reached its capacity has no cool-down.
        """
        change, self._in_progress = self._in_progress, None
        if change is None or capacity != change.after:
            return
        if change.is_out:
            self._last_out, self._out_until = change, at + change.cooldown
        else:
            self._in_until = at + change.cooldown
