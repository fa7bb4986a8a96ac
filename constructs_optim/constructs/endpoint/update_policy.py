"""How an endpoint is updated to a changed configuration, and when the update rolls back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, TypedDict, Unpack

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from pydantic import model_validator

from constructs_optim.constructs.stack.arguments import ALARM, DURATION
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.recipe.errors import Violation
from constructs_optim.recipe.hosting import UpdateSettings
from constructs_optim.recipe.settings import Settings

_BAKE_SECONDS = 600
_BATCH_PERCENT = 25
_DEFAULT_PERCENT = {"CANARY": 10, "LINEAR": _BATCH_PERCENT, "ROLLING": _BATCH_PERCENT}

_NO_STEPS = "an update all at once has no steps"
_WITH_STEPS = "leave it out, or UpdatePolicy.canary(), UpdatePolicy.linear() or UpdatePolicy.rolling()"
_NO_BATCHES = ("rollback_percent", "this update rolls back at once", "leave it out, or UpdatePolicy.rolling()")
# The options that SageMaker's policy for a strategy lacks (API reference, BlueGreenUpdatePolicy and
# RollingUpdatePolicy), why, and what to set instead.
_IGNORED = {
    "ALL_AT_ONCE": (
        ("percent", _NO_STEPS, _WITH_STEPS),
        ("instances", _NO_STEPS, _WITH_STEPS),
        ("termination_wait", "an update all at once keeps the old fleet for bake_time", "set bake_time instead"),
        _NO_BATCHES,
    ),
    "CANARY": (_NO_BATCHES,),
    "LINEAR": (_NO_BATCHES,),
    "ROLLING": (
        ("termination_wait", "a rolling update terminates old instances batch by batch", "set bake_time instead"),
    ),
}


class UpdateOptions(TypedDict, total=False):
    """The options of every update policy.

    Attributes:
        bake_time: how long SageMaker watches the alarms after each step, 0 s to 1 hour. Default: 10 minutes.
        timeout: the maximum duration of the update, 10 minutes to 8 hours. Default: SageMaker's default.
        rollback_alarms: alarms that roll the update back, in addition to the endpoint's own. For an imported composite
            alarm, grant the role permissions yourself, scoped to ``*``. Default: none.
    """

    bake_time: Duration | None
    timeout: Duration | None
    rollback_alarms: Sequence[cloudwatch.IAlarm]


class StepOptions(UpdateOptions, total=False):
    """The options of updates that shift traffic in steps.

    Attributes:
        percent: the size of a step, as a percentage of the instances.
        instances: the size of a step as a number of instances, instead of ``percent``.
        termination_wait: how long the old fleet is kept after the last step. Default: not at all.
        bake_time: how long SageMaker watches the alarms after each step, 0 s to 1 hour. Default: 10 minutes.
        timeout: the maximum duration of the update, 10 minutes to 8 hours. Default: SageMaker's default.
        rollback_alarms: alarms that roll the update back, in addition to the endpoint's own. Default: none.
    """

    percent: int | None
    instances: int | None
    termination_wait: Duration | None


class UpdatePolicy(Settings):
    """How an update moves the endpoint to new instances: all at once, as a canary, in linear steps, or rolling.

    With every policy, SageMaker watches the endpoint's alarms and ``rollback_alarms`` during an update. If one of them
    goes into ALARM, SageMaker rolls the endpoint back; the deployment fails, and the stack rolls back. Source: Amazon
    SageMaker developer guide, "Deployment guardrails for updating models in production".

    Raises:
        RecipeError: if both ``percent`` and ``instances`` are set, the strategy lacks an option, or an option has the
            wrong type.
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
        """Whether one of the rollback alarms is composite; for an imported alarm, this is unknown."""
        return any(isinstance(alarm, cloudwatch.CompositeAlarm) for alarm in self.rollback_alarms)

    @model_validator(mode="after")
    def _one_size(self) -> UpdatePolicy:
        if self.percent is not None and self.instances is not None:
            raise ValueError(f"percent is {self.percent} and instances {self.instances}: set one of the two")
        return self

    def _contradictions(self) -> Iterator[Violation]:
        for name, reason, fix in _IGNORED[self.strategy]:
            if (value := getattr(self, name)) is not None:
                if isinstance(value, Duration):
                    value = f"{seconds_of(value)} s"
                yield self._mistake(f".{name}", value, reason, fix)

    @staticmethod
    def all_at_once(**options: Unpack[UpdateOptions]) -> UpdatePolicy:
        """Create a second fleet of the same size, and shift all traffic once it is in service.

        This is the default, because it also works for a single instance. The old fleet is kept for ``bake_time``.

        Args:
            options: see ``UpdateOptions``.
        """
        return UpdatePolicy(strategy="ALL_AT_ONCE", **options)

    @staticmethod
    def canary(**options: Unpack[StepOptions]) -> UpdatePolicy:
        """Create a second fleet, and shift a part of the traffic first, then the rest.

        Args:
            options: see ``StepOptions``. ``percent`` is 1 to 50. Default: 10, without ``instances``.
        """
        return UpdatePolicy(strategy="CANARY", **options)

    @staticmethod
    def linear(**options: Unpack[StepOptions]) -> UpdatePolicy:
        """Create a second fleet, and shift the traffic in equal steps.

        Args:
            options: see ``StepOptions``. ``percent`` is 10 to 50. Default: 25, without ``instances``.
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
        """Replace instances batch by batch, which needs the least additional capacity.

        Args:
            percent: the size of a batch, 5 to 50% of the instances. Default: 25, without ``instances``.
            instances: the size of a batch as a number of instances.
            rollback_percent: the size of a batch when rolling back. Default: all at once.
            options: see ``UpdateOptions``.
        """
        return UpdatePolicy(
            strategy="ROLLING", percent=percent, instances=instances, rollback_percent=rollback_percent, **options
        )

    @cached_property
    def settings(self) -> UpdateSettings:
        """The policy in seconds, for rules and templates."""
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
    """Return the ``deploymentConfig`` property of an endpoint."""
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
    """Return the ``deploymentConfig`` property of an inference component, whose copies are replaced in batches.

    The batches of a rolling policy apply to copies as well. For any other policy, a batch is a quarter of the copies; a
    single copy is replaced at once. A fixed number of copies could be too large a share after scaling in.
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
    """Return the execution role's permissions for rollback alarms; ``composite`` if some are composite alarms.

    Source: Amazon SageMaker developer guide, "Auto-rollback configuration and monitoring" (prerequisites).
    """
    return [
        *statements_of("watch alarms", Alarms=tuple(alarm_arns) or None),
        *(statements_of("watch composite alarms") if composite else ()),
    ]


def seconds_of(duration: Duration | None) -> int | None:
    """Return a duration in whole seconds."""
    return int(duration.to_seconds()) if duration is not None else None
