"""Hosting options: plain data that rules check and constructs translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings

API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_"
"""The prefix of links to SageMaker's API reference."""


class Routing(Settings):
    """The routing strategy: how an endpoint chooses an instance, or a copy of an inference component, for a request."""

    strategy: Literal["LEAST_OUTSTANDING_REQUESTS", "RANDOM", "PREFIX_AWARE", "KV_AWARE"]
    prefix_length: int | None = Field(default=None, ge=1024, le=65_536)
    concurrency_threshold: int | None = Field(default=None, ge=1, le=1024)

    @staticmethod
    def least_outstanding_requests() -> Routing:
        """Route to the instance or copy with the fewest outstanding requests. The default."""
        return Routing(strategy="LEAST_OUTSTANDING_REQUESTS")

    @staticmethod
    def random() -> Routing:
        """Route to a random instance or copy."""
        return Routing(strategy="RANDOM")

    @staticmethod
    def prefix_aware(*, prefix_length: int = 4096, concurrency_threshold: int = 64) -> Routing:
        """Route requests with the same prompt prefix to the same instance or copy, whose KV cache holds the prefix.

        Args:
            prefix_length: length of the compared prefix, 1,024 to 65,536: bytes of the body, or characters of the
                messages with the OpenAI-compatible API. Default: 4,096.
            concurrency_threshold: number of concurrent requests, 1 to 1,024, at which SageMaker chooses another
                instance or copy. Default: 64.
        """
        return Routing(
            strategy="PREFIX_AWARE", prefix_length=prefix_length, concurrency_threshold=concurrency_threshold
        )

    @staticmethod
    def kv_aware() -> Routing:
        """Route to an instance or copy whose KV cache holds the start of the prompt, and that is not too busy.

        Needs vLLM's container. CloudFormation does not support this value, so a custom resource creates the endpoint
        configuration.
        """
        return Routing(strategy="KV_AWARE")


class ScaleIn(Settings):
    """How SageMaker releases instances when inference components scale in."""

    rule = "OPT125"
    rule_link = f"{API}ProductionVariantManagedInstanceScalingScaleInPolicy.html"

    strategy: Literal["IDLE_RELEASE", "CONSOLIDATION"]
    max_step_size: int | None = Field(default=None, ge=1, le=100)
    cooldown_minutes: int | None = Field(default=None, ge=5, le=1440)

    @staticmethod
    def idle_release() -> ScaleIn:
        """Release only instances without a copy."""
        return ScaleIn(strategy="IDLE_RELEASE")

    @staticmethod
    def consolidation(*, max_step_size: int = 1, cooldown_minutes: int = 20) -> ScaleIn:
        """Move copies to fewer instances, as far as their placement allows, and release the others.

        Args:
            max_step_size: maximum number of instances to release at a time, 1 to 100. Default: 1.
            cooldown_minutes: cool-down after the endpoint's last change, in minutes, 5 to 1,440. Default: 20.
        """
        return ScaleIn(strategy="CONSOLIDATION", max_step_size=max_step_size, cooldown_minutes=cooldown_minutes)


class Placement(Settings):
    """How SageMaker places the copies of an inference component on instances."""

    rule = "OPT126"
    rule_link = f"{API}InferenceComponentSchedulingConfig.html"

    strategy: Literal["SPREAD", "BINPACK"]
    max_zone_imbalance: int = Field(default=0, ge=0, le=100)

    @staticmethod
    def spread(*, max_zone_imbalance: int = 0) -> Placement:
        """Spread copies evenly over the instances, so that the loss of an instance removes fewer copies.

        Args:
            max_zone_imbalance: maximum difference in copies between Availability Zones, 0 to 100. SageMaker keeps this
                limit if capacity allows it. Default: 0.
        """
        return Placement(strategy="SPREAD", max_zone_imbalance=max_zone_imbalance)

    @staticmethod
    def binpack(*, max_zone_imbalance: int = 0) -> Placement:
        """Place copies on as few instances as possible.

        Args:
            max_zone_imbalance: as for ``spread``.
        """
        return Placement(strategy="BINPACK", max_zone_imbalance=max_zone_imbalance)


class CapacityReservation(Settings):
    """An ML capacity reservation (a training plan). SageMaker launches the endpoint's instances only in it.

    Attributes:
        arn: the reservation's ARN.
    """

    arn: str


@dataclass(frozen=True)
class UpdateSettings:
    """How SageMaker updates an endpoint to a new configuration. Times are in seconds.

    ``strategy`` is ``ALL_AT_ONCE``, ``CANARY``, ``LINEAR`` (blue/green) or ``ROLLING``. ``size`` is the first step of a
    canary, or each step otherwise, in ``size_unit``: ``CAPACITY_PERCENT``, ``INSTANCE_COUNT`` or, for a component,
    ``COPY_COUNT``. SageMaker monitors alarms for ``bake_seconds`` after each step.
    """

    strategy: str = "ALL_AT_ONCE"
    size: int | None = None
    size_unit: str = "CAPACITY_PERCENT"
    bake_seconds: int = 0
    termination_wait_seconds: int = 0
    timeout_seconds: int | None = None
    rollback_size: int | None = None


@dataclass(frozen=True)
class StepOfFleet:
    """A step of an update as a number of instances, in the complete app. ``start``: the fleet's first size.

    ``fewest`` and ``most`` are the limits of its scaling; None: unknown.
    """

    strategy: str
    instances: int
    start: int
    fewest: int | None
    most: int | None


class Observability(Settings):
    """Additional metrics that SageMaker publishes, and their frequency.

    Attributes:
        frequency_seconds: the publishing interval: 10, 30, 60, 120, 180, 240 or 300. Default: 60.
        enhanced: whether to also publish invocations and utilization per instance and container. Default: no.
        detailed: whether to publish metrics of the model's container (from its Prometheus endpoint: tokens, time to
            first token), of each GPU and instance, and the placement of copies. Default: SageMaker's default, which is
            yes for new configurations.
    """

    frequency_seconds: Literal[10, 30, 60, 120, 180, 240, 300] | None = None
    enhanced: bool = False
    detailed: bool | None = None


@dataclass(frozen=True)
class Component:
    """The resources of a copy of an inference component, and the maximum number of copies; ``label`` is for messages.

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
class DependentOption:
    """An option that only has an effect with what it ``needs``, a call or a feature, which the complete app lacks."""

    location: str
    value: object
    needs: Literal["add_component", "add_adapter", "evaluate", "job", "real-time endpoint", "jobs"]


@dataclass(frozen=True)
class Adapter:
    """One LoRA adapter, with your name for it, if any; ``loads``: whether the base model's container loads adapters."""

    label: str
    uri: str
    loads: bool
    name: str | None = None
