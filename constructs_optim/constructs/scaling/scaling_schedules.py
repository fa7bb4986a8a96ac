"""Scaling by the clock: other ranges at other times, and an endpoint that is stopped at night."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from constructs_optim.recipe.hosting.scaling import ScheduleRequest
from constructs_optim.recipe.tokens import is_known

from .scaling_properties import ScheduleOptions

if TYPE_CHECKING:
    from aws_cdk import aws_applicationautoscaling as scaling


class ScalingSchedules:
    """The schedules of an endpoint's scaling. Mixed into whatever has a range."""

    @property
    def _declared_range(self) -> tuple[int, int]:
        raise NotImplementedError(f"{type(self).__name__} has to say its range")

    def _add_schedule(self, id: str, request: ScheduleRequest) -> None:
        raise NotImplementedError(f"{type(self).__name__} has to add schedules")

    def on_schedule(
        self,
        id: str,
        *,
        schedule: scaling.Schedule | str,
        min_capacity: int | None = None,
        max_capacity: int | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Self:
        """Change the range at certain times. Policies go on within the new one.

        Args:
            id: the scheduled action's name.
            schedule: when, as ``aws_applicationautoscaling.Schedule`` or as text: ``cron(0 7 ? * MON-FRI *)``.
            min_capacity: the fewest instances or copies from then on. Default: as before.
            max_capacity: the most from then on. Default: as before.
            options: time zone, start and end: see :class:`ScheduleOptions`.

        Raises:
            RecipeError: when the schedule cannot be kept, or the id is taken.
        """
        expression = schedule if isinstance(schedule, str) else getattr(schedule, "expression_string", schedule)
        place = f"on_schedule({id!r})"
        self._add_schedule(id, ScheduleRequest(place, expression, min_capacity, max_capacity, **options))
        return self

    def stop_on(
        self,
        *,
        schedule: scaling.Schedule | str,
        id: str = "Stop",
        **options: Unpack[ScheduleOptions],
    ) -> Self:
        """Stop the endpoint at certain times: no copies, and no request that starts one. Artifact and endpoint stay.

        Args:
            schedule: when, as ``aws_applicationautoscaling.Schedule`` or as text: ``cron(0 19 ? * MON-FRI *)``.
            id: the scheduled action's name. Default: ``Stop``.
            options: time zone, start and end: see :class:`ScheduleOptions`.

        Raises:
            RecipeError: for a variant, which keeps an instance, or when the schedule cannot be kept.
        """
        return self.on_schedule(id, schedule=schedule, min_capacity=0, max_capacity=0, **options)

    def start_on(
        self,
        *,
        schedule: scaling.Schedule | str,
        id: str = "Start",
        min_capacity: int | None = None,
        max_capacity: int | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Self:
        """Start the endpoint at certain times, after :meth:`stop_on`.

        Args:
            schedule: when, as ``aws_applicationautoscaling.Schedule`` or as text: ``cron(0 7 ? * MON-FRI *)``. A model
                takes minutes to load: be early.
            id: the scheduled action's name. Default: ``Start``.
            min_capacity: the fewest copies from then on. Default: the range's minimum, and at least 1.
            max_capacity: the most from then on. Default: the range's maximum.
            options: time zone, start and end: see :class:`ScheduleOptions`.

        Raises:
            RecipeError: when the schedule cannot be kept.
        """
        least, most = self._declared_range
        return self.on_schedule(
            id,
            schedule=schedule,
            min_capacity=min_capacity if min_capacity is not None else (max(1, least) if is_known(least) else least),
            max_capacity=max_capacity if max_capacity is not None else most,
            **options,
        )
