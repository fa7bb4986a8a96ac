"""A benchmark as the rules look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .requirements import Requirements
from .workload import Workload


@dataclass(frozen=True)
class Benchmark:
    """What is declared about one evaluation.

    Attributes:
        workload: what is sent.
        after_deployment: whether it runs when the endpoint has changed.
        schedule: when it runs besides; None for never.
        requirements: what must come of it; None where nothing depends on it.
        asynchronous: whether the endpoint queues requests, and so does not stream.
        instance_price_per_hour: what an instance costs, where that is stated.
        discount: what a savings plan takes off, as a share.
        region: where it runs; None where only the deployment knows.
    """

    workload: Workload
    after_deployment: bool = True
    schedule: Any = None
    requirements: Requirements | None = None
    asynchronous: bool = False
    instance_price_per_hour: Any = None
    discount: Any = 0
    region: str | None = None
