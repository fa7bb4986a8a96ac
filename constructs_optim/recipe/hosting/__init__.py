"""How an endpoint is hosted: what a user chooses, and all of it together for the rules to look at."""

from .hosting import COMPONENT_STARTUP_SECONDS, Hosting
from .options import Adapter, Adapters, CapacityReservation, Component, Observability, Routing, UpdateSettings
from .placement import instances_for_copies

__all__ = [
    "COMPONENT_STARTUP_SECONDS",
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
