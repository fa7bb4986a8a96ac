"""Sequences of scaling that AWS documents: what metrics do, and what the capacity then does.

The expected capacities are worked out by hand from these documents, not taken from a run of the code that they check:

- TRACKING: Application Auto Scaling user guide, "How target tracking scaling works". The capacity changes in proportion
  to the metric, rounded up. The cool-down begins when a scale-out has succeeded; in it, only a larger scale-out is
  possible, and the added capacity is part of that one. A scale-in begins a cool-down without scale-in, which a
  scale-out stops. Of several policies, the largest capacity counts, and the capacity decreases only if all target
  tracking policies that can scale in are ready to.
- STEPS: the same guide, "How step scaling works": which step applies, rounding, and cool-downs, with AWS's examples of
  capacities 10, 11, 14, 13 and 10, and of steps of 2 and then 3 in the cool-down, which adds 1.
- ACTIVITIES: the same guide, "Scaling activities": a resource that is changing cannot be scaled; Application Auto
  Scaling tries again if its conditions are still met. SageMaker API reference, UpdateEndpointWeightsAndCapacities: the
  endpoint is Updating until the change is complete.
- SCHEDULES: the same guide, "How target tracking scaling works": a scheduled action does not wait for a cool-down.
- API: Application Auto Scaling API reference: TargetTrackingScalingPolicyConfiguration (ScaleInCooldown begins after a
  scale-in), PutScalingPolicy (of adding 3 and adding 200 percent to 10, the latter counts; a step policy's scale-in is
  not blocked by target tracking) and StepScalingPolicyConfiguration (MinAdjustmentMagnitude).
- ZERO: SageMaker developer guide, "Scale an endpoint to zero instances": a step policy adds the first copy.

The alarms: a target tracking policy's high alarm needs three periods above the target; its low alarm, 15 minutes below
90% of it (as seen in accounts). CloudWatch user guide, "Alarm actions": an alarm invokes a scaling policy when it goes
into ALARM, and then once a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CHANGE_SECONDS = 175
"""The duration of every change of the capacity. Both readings of when a period ends give the same decisions."""
CONCURRENCY, INVOCATIONS, REFUSED = "concurrency", "invocations", "refused"
PERIODS = {CONCURRENCY: 10, INVOCATIONS: 60, REFUSED: 60}
"""The metrics: requests in flight and requests a minute of an instance, and refused requests a minute of a component
without copies. With their periods in seconds."""


@dataclass(frozen=True)
class Tracking:
    """A target tracking policy. Cool-downs are in seconds."""

    target: float = 20.0
    metric: str = CONCURRENCY
    out_cooldown: int = 60
    in_cooldown: int = 600
    disable_scale_in: bool = False


@dataclass(frozen=True)
class Steps:
    """A step scaling policy, whose alarm needs one period, and its steps: lower bound, upper bound, adjustment."""

    threshold: float
    steps: Sequence[tuple[int | None, int | None, int]]
    metric: str = CONCURRENCY
    is_above: bool = True
    adjustment: str = "ChangeInCapacity"
    least_change: int | None = None
    cooldown: int = 300


@dataclass(frozen=True, kw_only=True)
class Documented:
    """A sequence of seconds ``until`` its end, with changes of the capacity at the seconds of their decisions.

    ``metrics`` has the seconds from which a metric has a value. ``schedule`` is the second and the new minimum capacity
    of a scheduled action.
    """

    capacity: int
    policies: Sequence[Tracking | Steps]
    metrics: Mapping[str, Sequence[tuple[int, float]]]
    changes: Sequence[tuple[int, int]]
    until: int
    least: int = 1
    most: int = 40
    schedule: tuple[int, int] | None = None
    is_component: bool = False


_SLOW = Steps(10, [(0, 10, 2), (10, None, 3)])
SEQUENCES: Mapping[str, Documented] = {
    # TRACKING: three periods above 20, and 1 x 50 / 20, rounded up.
    "a scale-out is in proportion to the metric": Documented(
        capacity=1,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 10), (300, 50), (330, 19)]},
        changes=[(330, 3)],
        until=600,
    ),
    # TRACKING: the change ends at 265; until 325, the copy that it added is part of 1 x 40 / 20.
    "a metric from before a copy is in service does not add another copy": Documented(
        capacity=1,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 5), (60, 40), (270, 20)]},
        changes=[(90, 2)],
        until=600,
    ),
    # TRACKING: a larger scale-out at 210, in the cool-down from 205 to 265: 1 x 80 / 20.
    "a larger metric in a cool-down adds what is missing": Documented(
        capacity=1,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 40), (200, 80), (380, 20)]},
        changes=[(30, 2), (210, 4)],
        until=600,
    ),
    # TRACKING: nothing larger than 2 until 265; at 270, 2 x 40 / 20.
    "the same metric adds capacity after the cool-down": Documented(
        capacity=1,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 40), (440, 20)]},
        changes=[(30, 2), (270, 4)],
        until=660,
    ),
    # TRACKING: the change ends at 205, and the cool-down at 505.
    "a cool-down may be longer than the change": Documented(
        capacity=1,
        policies=[Tracking(out_cooldown=300)],
        metrics={CONCURRENCY: [(0, 40), (620, 20)]},
        changes=[(30, 2), (510, 4)],
        until=780,
    ),
    # TRACKING: without a cool-down, what counts at 205 is the capacity of 2.
    "without a cool-down, the next scale-out follows the change": Documented(
        capacity=1,
        policies=[Tracking(out_cooldown=0)],
        metrics={CONCURRENCY: [(0, 40), (320, 20)]},
        changes=[(30, 2), (210, 4)],
        until=600,
    ),
    # ACTIVITIES: from 30 to 205, the resource is changing; afterwards, the metric is at its target.
    "a changing resource is not scaled": Documented(
        capacity=1,
        policies=[Tracking(out_cooldown=0)],
        metrics={CONCURRENCY: [(0, 40), (60, 100), (120, 20)]},
        changes=[(30, 2)],
        until=600,
    ),
    # TRACKING: 4 x 10 / 20; the change ends at 1075, and the cool-down at 1675; then 2 x 5 / 20.
    "a scale-in waits for the cool-down after the one before": Documented(
        capacity=4,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 10), (900, 5)]},
        changes=[(900, 2), (1680, 1)],
        until=1860,
    ),
    # TRACKING: the scale-in cool-down would end at 4675. At 1110, 2 x 40 / 20; at 2040, 15 minutes at 5: 4 x 5 / 20.
    "a scale-out does not wait for a scale-in cool-down, and stops it": Documented(
        capacity=4,
        policies=[Tracking(in_cooldown=3600)],
        metrics={CONCURRENCY: [(0, 10), (1080, 40), (1140, 5)]},
        changes=[(900, 2), (1110, 4), (2040, 1)],
        until=2160,
    ),
    # API (ScaleInCooldown): only a scale-in delays a scale-in. 1 x 80 / 20, and 4 x 5 / 20 after 15 minutes.
    "a scale-in does not wait for a scale-out cool-down": Documented(
        capacity=1,
        policies=[Tracking(out_cooldown=3600, in_cooldown=3600)],
        metrics={CONCURRENCY: [(0, 80), (60, 5)]},
        changes=[(30, 4), (960, 1)],
        until=1200,
    ),
    # STEPS (Cooldown period): 2, and in the cool-down from 185 to 485 a step of 3, of which 2 are there.
    "a larger step in a cool-down adds the difference": Documented(
        capacity=1,
        policies=[_SLOW],
        metrics={CONCURRENCY: [(0, 15), (180, 25), (190, 5)]},
        changes=[(10, 3), (190, 4)],
        until=600,
    ),
    # STEPS (Cooldown period): the same step adds nothing until 485.
    "the same step adds capacity after the cool-down": Documented(
        capacity=1,
        policies=[_SLOW],
        metrics={CONCURRENCY: [(0, 15), (500, 5)]},
        changes=[(10, 3), (490, 5)],
        until=720,
    ),
    # STEPS (Step adjustments): AWS's example: 60%, 70%, 40% and 30% of a metric whose threshold is 50%.
    "steps of ten and thirty percent change ten copies to 11, 14, 13 and 10": Documented(
        capacity=10,
        policies=[
            Steps(50, [(0, 10, 0), (10, 20, 10), (20, None, 30)], adjustment="PercentChangeInCapacity", cooldown=60),
            Steps(
                50,
                [(-10, 0, 0), (-20, -10, -10), (None, -20, -30)],
                is_above=False,
                adjustment="PercentChangeInCapacity",
                cooldown=60,
            ),
        ],
        metrics={
            CONCURRENCY: [(0, 60), (10, 55), (300, 70), (310, 55), (600, 40), (610, 45), (900, 30), (910, 45)],
        },
        changes=[(10, 11), (310, 14), (610, 13), (910, 10)],
        until=1140,
    ),
    # STEPS (Scaling adjustment types): AWS's examples of 5 for 3, and of 25 percent and a minimum of 2 for 4.
    "a step adds capacity": Documented(
        capacity=3,
        policies=[Steps(50, [(0, None, 5)])],
        metrics={CONCURRENCY: [(0, 60), (10, 40)]},
        changes=[(10, 8)],
        until=240,
    ),
    "a step sets the capacity": Documented(
        capacity=3,
        policies=[Steps(50, [(0, None, 5)], adjustment="ExactCapacity")],
        metrics={CONCURRENCY: [(0, 60), (10, 40)]},
        changes=[(10, 5)],
        until=240,
    ),
    "a percentage has a minimum": Documented(
        capacity=4,
        policies=[Steps(50, [(0, None, 25)], adjustment="PercentChangeInCapacity", least_change=2)],
        metrics={CONCURRENCY: [(0, 60), (10, 40)]},
        changes=[(10, 6)],
        until=240,
    ),
    # API (PutScalingPolicy): 10 + 3, and 10 + 200%.
    "of two step policies, the larger capacity counts": Documented(
        capacity=10,
        policies=[
            Steps(50, [(0, None, 3)]),
            Steps(50, [(0, None, 200)], adjustment="PercentChangeInCapacity"),
        ],
        metrics={CONCURRENCY: [(0, 60), (10, 40)]},
        changes=[(10, 30)],
        until=240,
    ),
    # TRACKING (Multiple scaling policies): at 180, 1 x 30 / 20, and 1 x 240 / 60.
    "of two tracking policies, the larger capacity counts": Documented(
        capacity=1,
        policies=[Tracking(), Tracking(target=60, metric=INVOCATIONS)],
        metrics={CONCURRENCY: [(0, 10), (150, 30), (180, 19)], INVOCATIONS: [(0, 240), (180, 58)]},
        changes=[(180, 4)],
        until=600,
    ),
    # TRACKING (Multiple scaling policies): the second is ready at 2100: 4 x 5 / 20, and 4 x 20 / 60.
    "capacity decreases when all tracking policies are ready, to the larger one": Documented(
        capacity=4,
        policies=[Tracking(), Tracking(target=60, metric=INVOCATIONS)],
        metrics={CONCURRENCY: [(0, 5)], INVOCATIONS: [(0, 58), (1200, 20)]},
        changes=[(2100, 2)],
        until=2340,
    ),
    # API (DisableScaleIn).
    "a policy that does not scale in leaves the capacity": Documented(
        capacity=4,
        policies=[Tracking(disable_scale_in=True)],
        metrics={CONCURRENCY: [(0, 1)]},
        changes=[],
        until=1200,
    ),
    # TRACKING (Multiple scaling policies): only policies that scale in have to be ready. 4 x 20 / 60.
    "a policy that does not scale in does not hold back another": Documented(
        capacity=4,
        policies=[Tracking(disable_scale_in=True), Tracking(target=60, metric=INVOCATIONS)],
        metrics={CONCURRENCY: [(0, 19)], INVOCATIONS: [(0, 20)]},
        changes=[(900, 2)],
        until=1200,
    ),
    # API (PutScalingPolicy): target tracking, which is not ready, does not block it.
    "a step policy scales in alone": Documented(
        capacity=3,
        policies=[Tracking(), Steps(10, [(None, 0, -1)], metric=INVOCATIONS, is_above=False)],
        metrics={CONCURRENCY: [(0, 19)], INVOCATIONS: [(0, 5), (60, 30)]},
        changes=[(60, 2)],
        until=420,
    ),
    # API (RegisterScalableTarget): 1 x 100 / 20, and at most 3.
    "the maximum capacity limits a scale-out": Documented(
        capacity=1,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 100), (30, 19)]},
        changes=[(30, 3)],
        until=420,
        most=3,
    ),
    # API (RegisterScalableTarget): 4 x 1 / 20, and at least 2.
    "the minimum capacity limits a scale-in": Documented(
        capacity=4,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 1)]},
        changes=[(900, 2)],
        until=1200,
        least=2,
    ),
    # SCHEDULES: the cool-down lasts from 205 to 805.
    "a scheduled action does not wait for a cool-down": Documented(
        capacity=1,
        policies=[Tracking(out_cooldown=600)],
        metrics={CONCURRENCY: [(0, 40), (180, 19)]},
        changes=[(30, 2), (300, 4)],
        until=600,
        schedule=(300, 4),
    ),
    # TRACKING: 1 x 50 / 20.
    "the copies of a component are in proportion to the metric": Documented(
        capacity=1,
        policies=[Tracking()],
        metrics={CONCURRENCY: [(0, 50), (30, 19)]},
        changes=[(30, 3)],
        until=420,
        is_component=True,
    ),
    # ZERO and STEPS (Cooldown period): requests are refused until 235; in the cool-down, a step of 1 is there already.
    "refused requests add the first copy, and one only": Documented(
        capacity=0,
        policies=[Steps(1, [(0, None, 1)], metric=REFUSED, cooldown=600)],
        metrics={REFUSED: [(0, 5), (240, 0)]},
        changes=[(60, 1)],
        until=600,
        least=0,
        is_component=True,
    ),
    # ZERO and STEPS: without a cool-down, the requests refused before 235 add another copy.
    "without a cool-down, refused requests add a second copy": Documented(
        capacity=0,
        policies=[Steps(1, [(0, None, 1)], metric=REFUSED, cooldown=0)],
        metrics={REFUSED: [(0, 5), (240, 0)]},
        changes=[(60, 1), (240, 2)],
        until=600,
        least=0,
        is_component=True,
    ),
}
