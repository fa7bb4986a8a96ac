"""How an endpoint is hosted: what a user chooses, and all of it together for the rules to look at."""

from .hosting import COMPONENT_STARTUP_SECONDS, Hosting, instances_for_copies
from .options import Adapter, Adapters, CapacityReservation, Component, Observability, Routing, UpdateSettings

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
