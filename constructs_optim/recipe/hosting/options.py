"""Hosting options: plain data that rules check and constructs translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings

API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_"
"""The beginning of links to the pages of SageMaker's API reference."""


class Routing(Settings):
    """How an endpoint chooses the instance, or the copy of an inference component, for a request."""

    strategy: Literal["LEAST_OUTSTANDING_REQUESTS", "RANDOM", "PREFIX_AWARE", "KV_AWARE"]
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

    @staticmethod
    def kv_aware() -> Routing:
        """To an instance or copy whose KV cache holds the start of the prompt and that is not too busy.

        For vLLM's container. CloudFormation has no such value: a custom resource makes the endpoint's configuration.
        """
        return Routing(strategy="KV_AWARE")


class ScaleIn(Settings):
    """How SageMaker releases the instances of inference components when their copies become fewer."""

    rule = "OPT125"
    rule_link = f"{API}ProductionVariantManagedInstanceScalingScaleInPolicy.html"

    strategy: Literal["IDLE_RELEASE", "CONSOLIDATION"]
    max_step_size: int | None = Field(default=None, ge=1, le=100)
    cooldown_minutes: int | None = Field(default=None, ge=5, le=1440)

    @staticmethod
    def idle_release() -> ScaleIn:
        """Only instances without a copy are released."""
        return ScaleIn(strategy="IDLE_RELEASE")

    @staticmethod
    def consolidation(*, max_step_size: int = 1, cooldown_minutes: int = 20) -> ScaleIn:
        """Copies are moved onto fewer instances, as far as their placement allows it, and the others are released.

        Args:
            max_step_size: the most instances that are released at a time, 1 to 100. Default: 1.
            cooldown_minutes: minutes after the endpoint's last change, 5 to 1,440. Default: 20.
        """
        return ScaleIn(strategy="CONSOLIDATION", max_step_size=max_step_size, cooldown_minutes=cooldown_minutes)


class Placement(Settings):
    """Which instances the copies of an inference component are placed on."""

    rule = "OPT126"
    rule_link = f"{API}InferenceComponentSchedulingConfig.html"

    strategy: Literal["SPREAD", "BINPACK"]
    max_zone_imbalance: int = Field(default=0, ge=0, le=100)

    @staticmethod
    def spread(*, max_zone_imbalance: int = 0) -> Placement:
        """Evenly over the instances: fewer copies are lost with one of them.

        Args:
            max_zone_imbalance: how many copies more than another an Availability Zone may have, 0 to 100; a limit that
                SageMaker keeps where capacity allows it. Default: 0.
        """
        return Placement(strategy="SPREAD", max_zone_imbalance=max_zone_imbalance)

    @staticmethod
    def binpack(*, max_zone_imbalance: int = 0) -> Placement:
        """On as few instances as possible.

        Args:
            max_zone_imbalance: as for :meth:`spread`.
        """
        return Placement(strategy="BINPACK", max_zone_imbalance=max_zone_imbalance)


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
        detailed: the metrics of the model's container (its Prometheus endpoint: tokens, time to first token), of each
            GPU and of each instance, and where copies are placed. Default: the service's own, which for new
            configurations is yes.
    """

    frequency_seconds: Literal[10, 30, 60, 120, 180, 240, 300] | None = None
    enhanced: bool = False
    detailed: bool | None = None


@dataclass(frozen=True)
class Component:
    """The resources of a copy of an inference component, and its maximum of copies; ``label`` is for messages.

    None: not set.
    """

    label: str
    accelerators: int
    memory_mib: int
    copies: int
    max_memory_mib: int | None = None
    cpu_cores: float | None = None
    partition: str | None = None


@dataclass(frozen=True)
class Adapter:
    """One LoRA adapter, its name where the user chose one; ``loads``: whether its model's container loads adapters."""

    label: str
    uri: str
    loads: bool
    name: str | None = None
