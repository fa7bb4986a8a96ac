"""A calibration with plausible figures, which no fit to further measurements changes."""

from __future__ import annotations

from dataclasses import asdict

from constructs_optim.recipe.forecast import FIGURES, Calibration, Efficiency, Errors

PLAUSIBLE = Efficiency(
    bandwidth=0.8,
    cache_bandwidth=0.7,
    expert_bandwidth=0.8,
    compute=0.5,
    link=0.8,
    layer_seconds=40e-6,
    step_seconds=1e-3,
    request_seconds=10e-6,
    reduction_seconds=15e-6,
    server_seconds=10e-3,
    awaited_passes=1.0,
    together=0.1,
    overlap=2.0,
)
ERRORS = Errors(between=0.3, within=0.2, quantile=1.7)
CALIBRATION = Calibration(
    date="2026-11-20",
    source="a test",
    base=asdict(PLAUSIBLE),
    errors=dict.fromkeys(FIGURES, ERRORS),
)
