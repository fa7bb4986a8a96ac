"""Hosting options: plain data that rules check and constructs translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings


class Routing(Settings):
    """How an endpoint chooses the instance, or the copy of an inference component, for a request."""

    strategy: Literal["LEAST_OUTSTANDING_REQUESTS", "RANDOM", "PREFIX_AWARE"]
    prefix_length: int | None = Field(default=None, ge=1024, le=65_536)
    concurrency_threshold: int | None = Field(default=None, ge=1, le=1024)

    @staticmethod
    def least_outstanding_requests() -> Routing:
        """To the instance or copy with the fewest outstanding requests. The default."""
        return Routing(strategy="LEAST_OUTSTANDING_REQUESTS")

    @staticmethod
    def random() -> Routing:
        """To a random instance or copy."""
        return Routing(strategy="RANDOM")

    @staticmethod
    def prefix_aware(*, prefix_length: int = 4096, concurrency_threshold: int = 64) -> Routing:
        """Requests with the same prompt prefix go to the same instance or copy, whose KV cache holds the prefix.

        Args:
            prefix_length: how much of a request is compared, 1,024 to 65,536: bytes of the body, or characters of the
                messages with the OpenAI-compatible API. Default: 4,096.
            concurrency_threshold: concurrent requests, 1 to 1,024, from which on another is chosen. Default: 64.
        """
        return Routing(
            strategy="PREFIX_AWARE", prefix_length=prefix_length, concurrency_threshold=concurrency_threshold
        )


class CapacityReservation(Settings):
    """An ML capacity reservation (a training plan) that an endpoint's instances are launched into, and only there.

    Attributes:
        arn: the reservation's ARN.
    """

    arn: str


@dataclass(frozen=True)
class UpdateSettings:
    """How an endpoint is updated to a new configuration. Times are in seconds.

    ``strategy`` is ``ALL_AT_ONCE``, ``CANARY``, ``LINEAR`` (blue/green) or ``ROLLING``; ``size`` is the first step of a
    canary, or each step, in ``size_unit``: ``CAPACITY_PERCENT``, ``INSTANCE_COUNT`` or, of a component, ``COPY_COUNT``.
    Alarms are watched for ``bake_seconds`` after each step.
    """

    strategy: str = "ALL_AT_ONCE"
    size: int | None = None
    size_unit: str = "CAPACITY_PERCENT"
    bake_seconds: int = 0
    termination_wait_seconds: int = 0
    timeout_seconds: int | None = None
    rollback_size: int | None = None


class Observability(Settings):
    """Metrics that SageMaker publishes beyond the usual ones, and how often.

    Attributes:
        frequency_seconds: 10, 30, 60, 120, 180, 240 or 300. Default: 60.
        enhanced: invocations and utilization of each instance and container as well. Default: no.
        detailed: the metrics of the model's container (its Prometheus endpoint: tokens, time to first token) and of
            each GPU. Default: no.
    """

    frequency_seconds: Literal[10, 30, 60, 120, 180, 240, 300] | None = None
    enhanced: bool = False
    detailed: bool = False


@dataclass(frozen=True)
class Component:
    """The resources of a copy of an inference component, and its maximum of copies; ``label`` is for messages."""

    label: str
    accelerators: int
    memory_mib: int
    copies: int


@dataclass(frozen=True)
class Adapter:
    """One LoRA adapter, its name where the user chose one; ``loads``: whether its model's container loads adapters."""

    label: str
    uri: str
    loads: bool
    name: str | None = None
