"""The inference components of one endpoint, and the instances that their copies take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from aws_cdk import Token
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.endpoint.alarming import Alarming
from constructs_optim.constructs.endpoint.endpoint_configuration import EndpointOptions, startup_parameters
from constructs_optim.constructs.evaluation.endpoint_evaluation import EvaluationTarget
from constructs_optim.constructs.validation.refusal import refuse
from constructs_optim.recipe import Violation
from constructs_optim.recipe.hosting import (
    COMPONENT_STARTUP_SECONDS,
    Adapter,
    Component,
    Hosting,
    instances_for_copies,
)
from constructs_optim.recipe.rules import check

from .inference_component import InferenceComponent, Needs


@dataclass
class _Copies:
    """A component as the rules see it, and the range that its copies are in."""

    needs: tuple[Needs, ...]
    """One for each of the endpoint's instance types."""
    label: str
    least: int
    most: int

    def asked(self, place: int, copies: int) -> Component:
        return self.needs[place].asked_by(self.label, copies)


@dataclass
class ComponentHosting:
    """Keeps the components of an endpoint, checks that they fit, and says how many instances they take.

    Attributes:
        hosting: what the rules look at.
        options: how the endpoint is hosted.
        endpoint: the endpoint itself.
        literal_name: its name, known before the endpoint is there.
        alarming: what is alarmed about each component.
        rollback_alarm_names: alarms besides a component's own that roll its update back.
        evaluation_target: what of the endpoint is evaluated, given what serves the model there.
        on_change: called when the number of instances may have changed.
    """

    hosting: Hosting
    options: EndpointOptions
    endpoint: sagemaker.CfnEndpoint
    literal_name: str
    alarming: Alarming
    rollback_alarm_names: Sequence[str]
    evaluation_target: Callable[..., EvaluationTarget]
    on_change: Callable[[], None]
    _copies: dict[str, _Copies] = field(default_factory=dict[str, _Copies])
    _components: list[InferenceComponent] = field(default_factory=list[InferenceComponent])

    @property
    def endpoint_arn(self) -> str:
        """The endpoint's ARN (a token)."""
        return self.endpoint.ref

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name (a token)."""
        return self.endpoint.attr_endpoint_name

    def add(
        self,
        scope: Construct,
        id: str,
        *,
        label: str,
        models: Sequence[HostedModel],
        needs: Sequence[Needs],
        loads_adapters: bool,
    ) -> InferenceComponent:
        """Declare a component.

        Raises:
            RecipeError: when its copies do not fit.
        """
        asked = _Copies(tuple(needs), label, needs[0].copies, needs[0].copies)
        self._check({**self._copies, label: asked})
        self._copies[label] = asked
        component = InferenceComponent(
            scope,
            id,
            host=self,
            hosted=models,
            needs=needs,
            startup_parameters=[
                startup_parameters(self.options, model, longest=COMPONENT_STARTUP_SECONDS) for model in models
            ],
            loads_adapters=loads_adapters,
            on_scaling=lambda least, most: self._scale(label, least, most),
        )
        self._components.append(component)
        self.on_change()
        return component

    def rollback_alarm_names_of_all(self) -> list[str]:
        """The alarms of all components that say an update of the endpoint has broken them, in turns: the first of each
        component, then the second.
        """
        of_each = [component.alarms.rollback_alarm_names for component in self._components]
        return [name for turn in zip_longest(*of_each) for name in turn if name is not None]

    def managed_range(self) -> tuple[int, int]:
        """The fewest and the most instances: as given, or what the copies take, and one more for updates."""
        variant = self.options.variant
        least, most = variant.min_instance_count, variant.max_instance_count
        if least is None:
            given = variant.initial_instance_count
            fewest = self._taken(lambda copies: copies.least)
            least = fewest if given is None else min(given, fewest) if fewest == 0 else max(given, fewest)
        if most is None:
            given = variant.initial_instance_count or 0
            most = max(1, least, given, self._taken(lambda copies: copies.most) + 1)
        return least, most

    def _scale(self, label: str, least: int, most: int) -> None:
        if any(Token.is_unresolved(number) for number in (least, most)):
            raise ValueError(
                f"{label}.auto_scale(...): min_capacity or max_capacity is known only when the stack is deployed, and "
                "whether the copies fit the instances has to be known now: give numbers"
            )
        scaled = replace(self._copies[label], least=least, most=most)
        self._check({**self._copies, label: scaled})
        self._copies[label] = scaled
        self.on_change()

    def check_adapter(self, label: str, artifact_uri: str, *, loads: bool) -> None:
        """Refuse an adapter that cannot be loaded.

        Raises:
            RecipeError: where there is something wrong.
        """
        refuse(check(replace(self.hosting, adapters=(Adapter(label, artifact_uri, loads),))))

    def _check(self, copies: dict[str, _Copies]) -> None:
        found: list[Violation] = []
        for place, name in enumerate(self.hosting.instance_types):
            components = tuple(one.asked(place, one.most) for one in copies.values())
            found += check(replace(self.hosting, instance_types=(name,), components=components))
        refuse(found)

    def _taken(self, number: Callable[[_Copies], int]) -> int:
        """How many instances the copies take, of the type that they take most of."""
        taken = [
            instances_for_copies([one.asked(place, number(one)) for one in self._copies.values()], row)
            for place, row in enumerate(self.hosting.rows)
        ]
        return max(taken, default=1)
