"""How an endpoint is updated to a changed configuration, and when the update is rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, TypedDict, Unpack

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from pydantic import model_validator

from constructs_optim.constructs.stack.arguments import ALARM, DURATION
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.recipe.hosting import UpdateSettings
from constructs_optim.recipe.settings import Settings

_BAKE_SECONDS = 600
_BATCH_PERCENT = 25
_DEFAULT_PERCENT = {"CANARY": 10, "LINEAR": _BATCH_PERCENT, "ROLLING": _BATCH_PERCENT}


class UpdateOptions(TypedDict, total=False):
    """The options of every update policy.

    Attributes:
        bake_time: how long alarms are watched after each step, 0 s to 1 hour. Default: 10 minutes.
        timeout: how long the update takes at most, 10 minutes to 8 hours. Default: the service's own.
        rollback_alarms: alarms that are watched besides the endpoint's own; a composite alarm that is imported needs
            permissions of your own, scoped to ``*``. Default: none.
    """

    bake_time: Duration | None
    timeout: Duration | None
    rollback_alarms: Sequence[cloudwatch.IAlarm]


class StepOptions(UpdateOptions, total=False):
    """The options of updates that move the traffic in steps.

    Attributes:
        percent: a step as a share of the instances.
        instances: a step as a number of instances, instead.
        termination_wait: how long the old fleet stays after the last step. Default: not at all.
        bake_time: as of every policy: how long alarms are watched after each step, 0 s to 1 hour. Default: 10 minutes.
        timeout: likewise: how long the update takes at most, 10 minutes to 8 hours. Default: the service's own.
        rollback_alarms: likewise: alarms that are watched besides the endpoint's own. Default: none.
    """

    percent: int | None
    instances: int | None
    termination_wait: Duration | None


class UpdatePolicy(Settings):
    """How an update moves the endpoint to new instances: all at once, as a canary, in linear steps, or rolling.

    In every one, the endpoint's alarms and ``rollback_alarms`` are watched while an update goes on, and one of them
    brings the endpoint back to where it was: the deployment fails then, and the stack rolls back. Source: Amazon
    SageMaker developer guide, "Deployment guardrails for updating models in production".

    Raises:
        RecipeError: when both ``percent`` and ``instances`` are set, or an option is of another type.
    """

    strategy: Literal["ALL_AT_ONCE", "CANARY", "LINEAR", "ROLLING"]
    percent: int | None = None
    instances: int | None = None
    bake_time: Annotated[Duration, DURATION] | None = None
    termination_wait: Annotated[Duration, DURATION] | None = None
    timeout: Annotated[Duration, DURATION] | None = None
    rollback_percent: int | None = None
    rollback_alarms: Sequence[Annotated[cloudwatch.IAlarm, ALARM]] = ()

    @property
    def rolls_back_on_composite_alarms(self) -> bool:
        """Whether one of the rollback alarms is composite; one that is imported does not tell."""
        return any(isinstance(alarm, cloudwatch.CompositeAlarm) for alarm in self.rollback_alarms)

    @model_validator(mode="after")
    def _one_size(self) -> UpdatePolicy:
        if self.percent is not None and self.instances is not None:
            raise ValueError(f"percent is {self.percent} and instances {self.instances}: set one of the two")
        return self

    @staticmethod
    def all_at_once(**options: Unpack[UpdateOptions]) -> UpdatePolicy:
        """A second fleet of the same size, which takes all traffic once it is in service.

        The default: it works for one instance as well. The old fleet is kept for ``bake_time``.

        Args:
            options: see :class:`UpdateOptions`.
        """
        return UpdatePolicy(strategy="ALL_AT_ONCE", **options)

    @staticmethod
    def canary(**options: Unpack[StepOptions]) -> UpdatePolicy:
        """A second fleet that takes a share of the traffic first, and the rest when that went well.

        Args:
            options: see :class:`StepOptions`. ``percent`` is 1 to 50. Default: 10, without ``instances``.
        """
        return UpdatePolicy(strategy="CANARY", **options)

    @staticmethod
    def linear(**options: Unpack[StepOptions]) -> UpdatePolicy:
        """A second fleet that takes the traffic in equal steps.

        Args:
            options: see :class:`StepOptions`. ``percent`` is 10 to 50. Default: 25, without ``instances``.
        """
        return UpdatePolicy(strategy="LINEAR", **options)

    @staticmethod
    def rolling(
        *,
        percent: int | None = None,
        instances: int | None = None,
        rollback_percent: int | None = None,
        **options: Unpack[UpdateOptions],
    ) -> UpdatePolicy:
        """Batches of instances replaced one after the other: the least additional capacity.

        Args:
            percent: each batch, 5 to 50 % of the instances. Default: 25, without ``instances``.
            instances: each batch as a number of instances.
            rollback_percent: each batch on the way back. Default: all at once.
            options: see :class:`UpdateOptions`.
        """
        return UpdatePolicy(
            strategy="ROLLING", percent=percent, instances=instances, rollback_percent=rollback_percent, **options
        )

    @cached_property
    def settings(self) -> UpdateSettings:
        """The same in seconds, for rules and templates."""
        at_once = self.strategy == "ALL_AT_ONCE"
        bake, wait = seconds_of(self.bake_time), seconds_of(self.termination_wait)
        bake = _BAKE_SECONDS if bake is None else bake
        percent = _DEFAULT_PERCENT.get(self.strategy) if self.percent is None else self.percent
        return UpdateSettings(
            self.strategy,
            percent if self.instances is None else self.instances,
            "CAPACITY_PERCENT" if self.instances is None else "INSTANCE_COUNT",
            bake_seconds=0 if at_once else bake,
            termination_wait_seconds=bake if at_once else wait or 0,
            timeout_seconds=seconds_of(self.timeout),
            rollback_size=self.rollback_percent,
        )


def deployment_config(settings: UpdateSettings, alarm_names: Sequence[str]) -> dict[str, Any]:
    """The ``deploymentConfig`` property of an endpoint."""
    alarms = [{"alarmName": name} for name in alarm_names]
    rollback = {"autoRollbackConfiguration": {"alarms": alarms}} if alarms else {}
    size = {"type": settings.size_unit, "value": settings.size}
    if settings.strategy == "ROLLING":
        back = settings.rollback_size
        rolling = drop_none(
            maximumBatchSize=size,
            maximumExecutionTimeoutInSeconds=settings.timeout_seconds,
            rollbackMaximumBatchSize={"type": "CAPACITY_PERCENT", "value": back} if back is not None else None,
            waitIntervalInSeconds=settings.bake_seconds,
        )
        return {**rollback, "rollingUpdatePolicy": rolling}
    step = {"CANARY": "canarySize", "LINEAR": "linearStepSize"}.get(settings.strategy)
    blue_green = drop_none(
        maximumExecutionTimeoutInSeconds=settings.timeout_seconds,
        terminationWaitInSeconds=settings.termination_wait_seconds,
        trafficRoutingConfiguration={
            **({step: size} if step is not None else {}),
            "type": settings.strategy,
            "waitIntervalInSeconds": settings.bake_seconds,
        },
    )
    return {**rollback, "blueGreenUpdatePolicy": blue_green}


def component_deployment_config(settings: UpdateSettings, alarm_names: Sequence[str]) -> dict[str, Any]:
    """The ``deploymentConfig`` property of an inference component, whose copies are replaced in batches.

    Batches of a rolling policy apply to copies as well. For any other policy they are a quarter of the copies, and
    so of a single copy all of it: a number of copies may be too large a share of what scaling has left of them.
    """
    if settings.strategy != "ROLLING":
        bake = max(settings.bake_seconds, settings.termination_wait_seconds)
        settings = UpdateSettings(
            "ROLLING", _BATCH_PERCENT, bake_seconds=bake, timeout_seconds=settings.timeout_seconds
        )
    elif settings.size_unit == "INSTANCE_COUNT":
        settings = replace(settings, size_unit="COPY_COUNT")
    return deployment_config(settings, alarm_names)


def watch_statements(alarm_arns: Sequence[str], *, composite: bool = False) -> list[Statement]:
    """The permissions of the execution role for alarms that roll an update back, some of them ``composite``.

    Source: Amazon SageMaker developer guide, "Auto-rollback configuration and monitoring" (prerequisites).
    """
    return [
        *statements_of("watch alarms", Alarms=tuple(alarm_arns) or None),
        *(statements_of("watch composite alarms") if composite else ()),
    ]


def seconds_of(duration: Duration | None) -> int | None:
    """A duration in whole seconds."""
    return int(duration.to_seconds()) if duration is not None else None
