"""How an endpoint moves to a changed configuration, and what makes it go back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import Duration

from constructs_optim.constructs.stack.permissions import Statement
from constructs_optim.constructs.validation.argument_kinds import refuse_wrong_kinds
from constructs_optim.recipe.hosting import UpdateSettings

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

_BAKE_SECONDS = 600
_BATCH_PERCENT = 25


@dataclass(frozen=True)
class UpdatePolicy:
    """Made by its factories: :meth:`all_at_once`, :meth:`canary`, :meth:`linear` and :meth:`rolling`.

    In every one, the endpoint's alarms and ``rollback_alarms`` are watched while an update goes on, and one of them
    brings the endpoint back to where it was: the deployment fails then, and the stack rolls back. Source: Amazon
    SageMaker developer guide, "Deployment guardrails for updating models in production".
    """

    settings: UpdateSettings
    rollback_alarms: tuple[cloudwatch.IAlarm, ...] = ()

    @staticmethod
    def all_at_once(
        *,
        bake_time: Duration | None = None,
        timeout: Duration | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> UpdatePolicy:
        """A second fleet of the same size, which takes all traffic once it is in service.

        The default: it works for one instance as well.

        Args:
            bake_time: how long the old fleet stays, while alarms are watched, 0 s to 1 hour. Default: 10 minutes.
            timeout: how long the update may take, 10 minutes to 8 hours. Default: the service's own.
            rollback_alarms: alarms besides the endpoint's own that roll the update back. Default: none.
        """
        _refuse_wrong_kinds(bake_time=bake_time, timeout=timeout, rollback_alarms=rollback_alarms)
        settings = UpdateSettings(
            "ALL_AT_ONCE",
            termination_wait_seconds=_seconds(bake_time, _BAKE_SECONDS),
            timeout_seconds=_seconds(timeout),
        )
        return UpdatePolicy(settings, tuple(rollback_alarms))

    @staticmethod
    def canary(
        *,
        percent: int | None = None,
        instances: int | None = None,
        bake_time: Duration | None = None,
        termination_wait: Duration | None = None,
        timeout: Duration | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> UpdatePolicy:
        """A second fleet that takes a share of the traffic first, and the rest when that went well.

        Args:
            percent: the share, 1 to 50 % of the instances. Default: 10, where no ``instances`` are given.
            instances: the share as a number of instances.
            bake_time: how long the canary is watched, 0 s to 1 hour. Default: 10 minutes.
            termination_wait: how long the old fleet stays after the last step. Default: not at all.
            timeout: how long the update may take, 10 minutes to 8 hours. Default: the service's own.
            rollback_alarms: alarms besides the endpoint's own that roll the update back. Default: none.

        Raises:
            ValueError: when both ``percent`` and ``instances`` are given.
        """
        size = _size(percent, instances, 10)
        return _in_steps("CANARY", size, bake_time, termination_wait, timeout, rollback_alarms)

    @staticmethod
    def linear(
        *,
        percent: int | None = None,
        instances: int | None = None,
        bake_time: Duration | None = None,
        termination_wait: Duration | None = None,
        timeout: Duration | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> UpdatePolicy:
        """A second fleet that takes the traffic in equal steps.

        Args:
            percent: each step, 10 to 50 % of the instances. Default: 25, where no ``instances`` are given.
            instances: each step as a number of instances.
            bake_time: how long each step is watched, 0 s to 1 hour. Default: 10 minutes.
            termination_wait: how long the old fleet stays after the last step. Default: not at all.
            timeout: how long the update may take, 10 minutes to 8 hours. Default: the service's own.
            rollback_alarms: alarms besides the endpoint's own that roll the update back. Default: none.

        Raises:
            ValueError: when both ``percent`` and ``instances`` are given.
        """
        size = _size(percent, instances, _BATCH_PERCENT)
        return _in_steps("LINEAR", size, bake_time, termination_wait, timeout, rollback_alarms)

    @staticmethod
    def rolling(
        *,
        percent: int | None = None,
        instances: int | None = None,
        bake_time: Duration | None = None,
        rollback_percent: int | None = None,
        timeout: Duration | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> UpdatePolicy:
        """Batches of instances replaced one after the other: the least capacity beyond what is there.

        Args:
            percent: each batch, 5 to 50 % of the instances. Default: 25, where no ``instances`` are given.
            instances: each batch as a number of instances.
            bake_time: how long each batch is watched, 0 s to 1 hour. Default: 10 minutes.
            rollback_percent: each batch on the way back. Default: all at once.
            timeout: how long the update may take, 10 minutes to 8 hours. Default: the service's own.
            rollback_alarms: alarms besides the endpoint's own that roll the update back. Default: none.

        Raises:
            ValueError: when both ``percent`` and ``instances`` are given.
        """
        _refuse_wrong_kinds(bake_time=bake_time, timeout=timeout, rollback_alarms=rollback_alarms)
        settings = UpdateSettings(
            "ROLLING",
            *_size(percent, instances, _BATCH_PERCENT),
            _seconds(bake_time, _BAKE_SECONDS),
            timeout_seconds=_seconds(timeout),
            rollback_size=rollback_percent,
        )
        return UpdatePolicy(settings, tuple(rollback_alarms))


def _in_steps(
    strategy: str,
    size: tuple[int, str],
    bake_time: Duration | None,
    termination_wait: Duration | None,
    timeout: Duration | None,
    rollback_alarms: Sequence[cloudwatch.IAlarm],
) -> UpdatePolicy:
    _refuse_wrong_kinds(
        bake_time=bake_time, termination_wait=termination_wait, timeout=timeout, rollback_alarms=rollback_alarms
    )
    waits = _seconds(bake_time, _BAKE_SECONDS), _seconds(termination_wait, 0)
    return UpdatePolicy(UpdateSettings(strategy, *size, *waits, _seconds(timeout)), tuple(rollback_alarms))


def _refuse_wrong_kinds(**settings: object) -> None:
    refuse_wrong_kinds(place="update_policy.", **settings)


def deployment_config(settings: UpdateSettings, alarm_names: list[str]) -> dict[str, Any]:
    """The ``deploymentConfig`` property of an endpoint."""
    timeout = _given(maximumExecutionTimeoutInSeconds=settings.timeout_seconds)
    rollback = {"autoRollbackConfiguration": {"alarms": [{"alarmName": name} for name in alarm_names]}}
    policy: dict[str, Any]
    if settings.strategy == "ROLLING":
        policy = {
            "rollingUpdatePolicy": {
                "maximumBatchSize": _capacity(settings.size_unit, settings.size),
                **timeout,
                **_given(rollbackMaximumBatchSize=_rollback_capacity(settings)),
                "waitIntervalInSeconds": settings.bake_seconds,
            }
        }
    else:
        step = {"CANARY": "canarySize", "LINEAR": "linearStepSize"}.get(settings.strategy)
        policy = {
            "blueGreenUpdatePolicy": {
                **timeout,
                "terminationWaitInSeconds": settings.termination_wait_seconds,
                "trafficRoutingConfiguration": {
                    **({step: _capacity(settings.size_unit, settings.size)} if step is not None else {}),
                    "type": settings.strategy,
                    "waitIntervalInSeconds": settings.bake_seconds,
                },
            }
        }
    return {**(rollback if alarm_names else {}), **policy}


def watch_statements(alarm_arns: Sequence[str]) -> list[Statement]:
    """What the execution role may do so that alarms roll an update back.

    Source: Amazon SageMaker developer guide, "Auto-rollback configuration and monitoring" (prerequisites).
    """
    if not alarm_arns:
        return []
    return [Statement("WatchAlarms", ("cloudwatch:DescribeAlarms",), tuple(alarm_arns))]


def component_deployment_config(settings: UpdateSettings, alarm_names: list[str]) -> dict[str, Any]:
    """The ``deploymentConfig`` property of an inference component, whose copies are replaced in batches.

    The batches of a rolling policy are the copies' as well. For any other policy they are a quarter of the copies, and
    so of a single copy all of it: a number of copies may be too large a share of what scaling has left of them.
    """
    rolling = settings.strategy == "ROLLING"
    unit = "COPY_COUNT" if rolling and settings.size_unit == "INSTANCE_COUNT" else "CAPACITY_PERCENT"
    bake = settings.bake_seconds if rolling else max(settings.bake_seconds, settings.termination_wait_seconds)
    return {
        **({"autoRollbackConfiguration": {"alarms": [{"alarmName": n} for n in alarm_names]}} if alarm_names else {}),
        "rollingUpdatePolicy": {
            "maximumBatchSize": _capacity(unit, settings.size if rolling else _BATCH_PERCENT),
            **_given(
                maximumExecutionTimeoutInSeconds=settings.timeout_seconds,
                rollbackMaximumBatchSize=_rollback_capacity(settings) if rolling else None,
            ),
            "waitIntervalInSeconds": bake,
        },
    }


def _rollback_capacity(settings: UpdateSettings) -> dict[str, Any] | None:
    size = settings.rollback_size
    return _capacity("CAPACITY_PERCENT", size) if size is not None else None


def _capacity(unit: str, value: int | None) -> dict[str, Any]:
    return {"type": unit, "value": value}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _seconds(duration: Duration | None, default: int | None = None) -> Any:
    return int(duration.to_seconds()) if duration is not None else default


def _size(percent: int | None, instances: int | None, default: int) -> tuple[int, str]:
    if percent is not None and instances is not None:
        raise ValueError(f"percent is {percent} and instances {instances}: a step is given as one of the two")
    if instances is not None:
        return instances, "INSTANCE_COUNT"
    return percent if percent is not None else default, "CAPACITY_PERCENT"
