"""Forecasts of a served model before deployment: latencies and throughput, with intervals.

``roofline`` computes the time of a forward pass, ``queueing`` the behavior under load, ``calibration`` the corrections
from measurements, and ``copies`` describes the model and its accelerators.
"""

from .calibration import CONFIDENCE, FIGURES, Calibration, Errors, Figure, Measured, clipped, published
from .copies import copy_of, engine_limit, group_of, operand_bits
from .forecast import Estimate, Forecast, Forecaster, TrackRecord, about, forecaster
from .queueing import Server, Steady
from .roofline import PHYSICS, Copy, Draft, Efficiency, ForwardPass

__all__ = [
    "CONFIDENCE",
    "FIGURES",
    "PHYSICS",
    "Calibration",
    "Copy",
    "Draft",
    "Efficiency",
    "Errors",
    "Estimate",
    "Figure",
    "Forecast",
    "Forecaster",
    "ForwardPass",
    "Measured",
    "Server",
    "Steady",
    "TrackRecord",
    "about",
    "clipped",
    "copy_of",
    "engine_limit",
    "forecaster",
    "group_of",
    "operand_bits",
    "published",
]
