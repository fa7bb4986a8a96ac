"""The groups of an endpoint's settings: its production variant, and how it is monitored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Duration, Size
from constructs import Construct

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.monitoring.endpoint_alarms import AlarmAction, EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.stack.keywords import suggests_keywords
from constructs_optim.recipe.hosting import CapacityReservation, Observability, Routing
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.hosting.scaling import scaling_defaults

from .update_policy import watch_statements


@suggests_keywords
@dataclass(frozen=True)
class VariantOptions:
    """The endpoint's production variant, in the terms of SageMaker's ``ProductionVariant``.

    Attributes:
        name: name of the variant. Default: ``AllTraffic``.
        initial_instance_count: instances to start with. Default: 1, and with inference components as many as their
            copies take.
        min_instance_count: the fewest instances that SageMaker keeps for inference components. Default: what the fewest
            copies take.
        max_instance_count: the most that it launches for them. Default: what their copies take, and one more for
            updates.
        inference_ami_version: the instances' machine image. Default: the service's choice.
        capacity_reservation: a reservation that the instances are launched into. Default: none.
        container_startup_timeout: how long loading the model may take, 1 minute to 1 hour. Default: what the model's
            JumpStart document says; for other models 1 hour, and 45 minutes for an inference component.
        model_data_download_timeout: how long downloading the model may take, 1 minute to 1 hour. Default: as for
            ``container_startup_timeout``.
        instance_provision_timeout: how long SageMaker looks for an instance, 5 minutes to 1 hour. Default: the
            service's own.
        volume_size: size of each instance's volume, for types without NVMe disks. Default: the service's own.
        routing: how requests are spread. Default: to where the fewest requests wait.
    """

    name: str = "AllTraffic"
    initial_instance_count: int | None = None
    min_instance_count: int | None = None
    max_instance_count: int | None = None
    inference_ami_version: str | None = None
    capacity_reservation: CapacityReservation | None = None
    container_startup_timeout: Duration | None = None
    model_data_download_timeout: Duration | None = None
    instance_provision_timeout: Duration | None = None
    volume_size: Size | None = None
    routing: Routing | None = None


@suggests_keywords
@dataclass(frozen=True)
class MonitoringOptions:
    """What is alarmed about an endpoint, what is measured, and what its dashboard reckons costs with.

    Attributes:
        alarms: which alarms there are, and how they are tuned; the endpoint's own updates are rolled back by those on
            errors, latency and lost capacity. Default: all but the one on latency, which needs a threshold;
            ``Alarms.none()`` for none.
        alarm_actions: what alarms do when something is wrong, 5 at most. Default: they only show their state.
        ok_actions: what alarms do when all is right again, 5 at most. Default: nothing.
        observability: metrics beyond the usual ones. Default: none.
        instance_price_per_hour: what one instance costs in an hour, in US dollars, for the dashboard's costs. Default:
            no live costs, and the prices that an evaluation published.
        discount: what a savings plan takes off that price, as a share. Default: 0.
    """

    alarms: Alarms | None = None
    alarm_actions: Sequence[AlarmAction] = ()
    ok_actions: Sequence[AlarmAction] = ()
    observability: Observability | None = None
    instance_price_per_hour: float | None = None
    discount: float = 0


def declare_alarms(
    scope: Construct,
    options: MonitoringOptions,
    served: ServedModel,
    models: Sequence[HostedModel],
    *,
    label: str,
    accelerators: int | None = None,
    is_asynchronous: bool = False,
) -> EndpointAlarms:
    """Declare the alarms of an endpoint's variant, or of one of its inference components, below ``scope``.

    Of several models, the one that is sized for the fewest requests decides.

    Args:
        scope: the construct to create them in.
        options: which alarms there are, and their actions.
        served: what serves the model, by names that are known before it is there.
        models: the models, one for each instance type.
        label: the name in the alarms' descriptions.
        accelerators: accelerators of each copy. Default: the plan's tensor parallel degree.
        is_asynchronous: whether requests are queued. Default: they are not.
    """
    alarms = EndpointAlarms(
        scope,
        "Alarms",
        served=served,
        endpoint=label,
        capacity=min(scaling_defaults(model.plan, accelerators=accelerators).capacity for model in models),
        alarms=options.alarms,
        is_asynchronous=is_asynchronous,
        runs_jobs=any(model.runs_jobs for model in models),
        alarm_actions=options.alarm_actions,
        ok_actions=options.ok_actions,
        name_prefix=served.inference_component_name or served.endpoint_name,
    )
    for model in models:
        # By names that are known: the role is there before the model, and the alarms come after it.
        model.artifact.execution_role.permit(watch_statements(alarms.rollback_alarm_arns))
    return alarms
