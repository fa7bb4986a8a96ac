"""What is alarmed about whatever serves a model: the same for an endpoint's variant and for each of its components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from constructs import Construct

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.monitoring.endpoint_alarms import AlarmAction, EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.hosting.scaling import scaling_defaults

from .update_policy import watch_statements


@dataclass(frozen=True)
class Alarming:
    """The alarms that a user wants, and what they do."""

    alarms: Alarms | None
    alarm_actions: tuple[AlarmAction, ...]
    ok_actions: tuple[AlarmAction, ...]

    def watch(
        self,
        scope: Construct,
        served: ServedModel,
        models: Sequence[HostedModel],
        *,
        label: str,
        accelerators: int | None = None,
        is_asynchronous: bool = False,
    ) -> EndpointAlarms:
        """Declare them below ``scope``, about what ``label`` names.

        Of several models, the one that is sized for the fewest requests decides.
        """
        alarms = EndpointAlarms(
            scope,
            "Alarms",
            served=served,
            endpoint=label,
            capacity=min(scaling_defaults(model.plan, accelerators=accelerators).capacity for model in models),
            alarms=self.alarms,
            is_asynchronous=is_asynchronous,
            runs_jobs=any(model.runs_jobs for model in models),
            alarm_actions=self.alarm_actions,
            ok_actions=self.ok_actions,
            name_prefix=served.inference_component_name or served.endpoint_name,
        )
        for model in models:
            # By names that are known: the role is there before the model, and the alarms come after it.
            model.artifact.execution_role.permit(watch_statements(alarms.rollback_alarm_arns))
        return alarms


def follow_scaling(alarms: EndpointAlarms | None) -> Callable[[EndpointScaling], None]:
    """What keeps alarms in step with how their endpoint scales."""

    def follow(scaling: EndpointScaling) -> None:
        if alarms is not None:
            alarms.watch(capacity=scaling.capacity, scales_to_zero=scaling.scales_to_zero)

    return follow
