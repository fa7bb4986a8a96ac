"""Optimized LLM endpoints on Amazon SageMaker, declared as AWS CDK constructs.

The names below are imported on first use: a program that only plans a recipe does not load the AWS CDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .constructs.artifact_store import ArtifactStore, IArtifactStore
    from .constructs.dashboard_evaluation import EvaluatedModel
    from .constructs.endpoint_dashboard import EndpointDashboard
    from .constructs.endpoint_scaling import EndpointScaling
    from .constructs.fleet_dashboard import FleetDashboard, FleetEndpoint
    from .constructs.optimization_job import OptimizationJob
    from .constructs.optimized_artifact import OptimizedArtifact
    from .constructs.optimized_endpoint import OptimizedEndpoint
    from .constructs.served_model import ServedModel
    from .recipe import (
        Compilation,
        Model,
        Plan,
        PreOptimized,
        Quantization,
        RecipeError,
        Sharding,
        SpeculativeDecoding,
        Violation,
    )

_HOMES = {
    "ArtifactStore": ".constructs.artifact_store",
    "Compilation": ".recipe",
    "PreOptimized": ".recipe",
    "Sharding": ".recipe",
    "SpeculativeDecoding": ".recipe",
    "EndpointDashboard": ".constructs.endpoint_dashboard",
    "EndpointScaling": ".constructs.endpoint_scaling",
    "EvaluatedModel": ".constructs.dashboard_evaluation",
    "FleetDashboard": ".constructs.fleet_dashboard",
    "FleetEndpoint": ".constructs.fleet_dashboard",
    "IArtifactStore": ".constructs.artifact_store",
    "Model": ".recipe",
    "OptimizationJob": ".constructs.optimization_job",
    "OptimizedArtifact": ".constructs.optimized_artifact",
    "OptimizedEndpoint": ".constructs.optimized_endpoint",
    "Plan": ".recipe",
    "Quantization": ".recipe",
    "RecipeError": ".recipe",
    "ServedModel": ".constructs.served_model",
    "Violation": ".recipe",
}

__all__ = [
    "ArtifactStore",
    "Compilation",
    "EndpointDashboard",
    "EndpointScaling",
    "EvaluatedModel",
    "FleetDashboard",
    "FleetEndpoint",
    "IArtifactStore",
    "Model",
    "OptimizationJob",
    "OptimizedArtifact",
    "OptimizedEndpoint",
    "Plan",
    "PreOptimized",
    "Quantization",
    "RecipeError",
    "ServedModel",
    "Sharding",
    "SpeculativeDecoding",
    "Violation",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
