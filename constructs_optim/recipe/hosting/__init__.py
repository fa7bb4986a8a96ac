"""How an endpoint is hosted: what a user chooses, and all of it together for the rules to look at."""

from .hosting import Hosting
from .options import Adapter, Adapters, CapacityReservation, Component, Observability, Routing, UpdateSettings
from .placement import instances_for_copies

__all__ = [
    "Adapter",
    "Adapters",
    "CapacityReservation",
    "Component",
    "Hosting",
    "Observability",
    "Routing",
    "UpdateSettings",
    "instances_for_copies",
]
