"""How many instances an endpoint has at the least and at the most, and what they cost in a month."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates.endpoints import Variant
from constructs_optim.templates.json_values import number
from constructs_optim.templates.template import Resource

from .hosted_endpoints import HostedEndpoint


@dataclass(frozen=True)
class Capacity:
    """A range of instances; None where a number is known only at deployment.

    ``types`` are those that an instance may be of, ``why`` says what holds the number in that range, and
    ``is_reserved`` whether the instances come out of a reservation, which is paid for apart.
    """

    types: tuple[str, ...]
    least: int | None
    most: int | None
    why: str
    is_reserved: bool = False

    @property
    def words(self) -> str:
        """For instance ``1 to 4 instances of ml.g5.12xlarge (scaling)``."""
        least, most = (str(bound) if bound is not None else "a number known at deployment" for bound in self.range)
        several = least if least == most else f"{least} to {most}"
        noun = "instance" if several == "1" else "instances"
        kinds = " or ".join(self.types) or "a type known at deployment"
        return f"{several} {noun} of {kinds} ({self.why})"

    @property
    def range(self) -> tuple[int | None, int | None]:
        """Least and most."""
        return self.least, self.most


@dataclass(frozen=True)
class MonthlyCost:
    """US dollars a month of 730 hours, at the least and the most capacity.

    None where a number of instances or the price of a type is not known; ``unpriced`` are such types.
    """

    least: float | None
    most: float | None
    unpriced: tuple[str, ...] = ()


def capacities(endpoint: HostedEndpoint) -> list[Capacity]:
    """The capacity of each production variant."""
    return [_capacity(endpoint, variant) for variant in endpoint.variants]


def monthly_cost(of: Sequence[Capacity], prices: Mapping[str, float]) -> MonthlyCost:
    """What the instances cost on demand, by prices in US dollars an hour.

    Of pools, the least is of the cheapest type alone and the most of the dearest.
    """
    unpriced = tuple(sorted({name for one in of for name in one.types if name not in prices}))
    least: float | None = 0.0
    most: float | None = 0.0
    for one in of:
        known = [prices[name] for name in one.types if name in prices]
        complete = len(known) == len(one.types) and bool(known)
        least = _plus(least, one.least, min(known) if complete else None)
        most = _plus(most, one.most, max(known) if complete else None)
    return MonthlyCost(least, most, unpriced)


def _plus(total: float | None, instances: int | None, price: float | None) -> float | None:
    if total is None or instances is None:
        return None
    # No instances cost nothing, whatever one would.
    if instances == 0:
        return total
    return total + instances * price * HOURS_A_MONTH if price is not None else None


def _capacity(endpoint: HostedEndpoint, variant: Variant) -> Capacity:
    types = tuple(name for _, name in variant.instance_types if isinstance(name, str))
    reservation = variant.properties.get("CapacityReservationConfig") or {}
    reserved = reservation.get("CapacityReservationPreference") == "capacity-reservations-only"
    managed = variant.properties.get("ManagedInstanceScaling") or {}
    if managed.get("Status") == "ENABLED":
        least, most = number(managed.get("MinInstanceCount")), number(managed.get("MaxInstanceCount"))
        return Capacity(types, least, most, "SageMaker launches them for the copies of its components", reserved)
    if endpoint.target is not None:
        least, most, why = scaled_range(endpoint.target)
        return Capacity(types, least, most, why, reserved)
    count = number(variant.properties.get("InitialInstanceCount"))
    return Capacity(types, count, count, "not scaled", reserved)


def scaled_range(target: Resource) -> tuple[int | None, int | None, str]:
    """The range of a scalable target with its schedules, and what sets it."""
    given = target.properties
    actions = [action.get("ScalableTargetAction") or {} for action in given.get("ScheduledActions") or ()]
    bounds: list[int | None] = []
    for member, choose in (("MinCapacity", min), ("MaxCapacity", max)):
        found = [number(each[member]) for each in (given, *actions) if member in each]
        known = [value for value in found if value is not None]
        bounds.append(choose(known) if known and len(known) == len(found) else None)
    named = [str(action.get("ScheduledActionName", "")) for action in given.get("ScheduledActions") or ()]
    why = f"scaling, with the schedules {', '.join(named)}" if named else "scaling"
    return bounds[0], bounds[1], why
