"""Optimized LLM endpoints on Amazon SageMaker, declared as AWS CDK constructs.

The names below are imported on first use: a program that only plans a recipe does not load the AWS CDK.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .constructs.artifact_store import ArtifactStore, IArtifactStore
    from .constructs.async_inference import AsyncInference
    from .constructs.dashboard_evaluation import EvaluatedModel
    from .constructs.data_capture import DataCapture
    from .constructs.endpoint_alarms import EndpointAlarms
    from .constructs.endpoint_base import IOptimizedEndpoint
    from .constructs.endpoint_dashboard import EndpointDashboard
    from .constructs.endpoint_evaluation import EndpointEvaluation
    from .constructs.endpoint_scaling import EndpointScaling
    from .constructs.fleet_dashboard import FleetDashboard, FleetEndpoint
    from .constructs.inference_component import InferenceComponent, LoraAdapter
    from .constructs.instance_pool import Pool
    from .constructs.model_recommendation import ModelRecommendation
    from .constructs.optimization_job import OptimizationJob
    from .constructs.optimized_artifact import OptimizedArtifact
    from .constructs.optimized_endpoint import OptimizedEndpoint
    from .constructs.policy_validation import PolicyValidation
    from .constructs.served_model import ServedModel
    from .constructs.update_policy import UpdatePolicy
    from .policy import PlatformPolicy, PolicyError
    from .recipe import (
        Compilation,
        FineTune,
        Medusa,
        Model,
        Plan,
        PreOptimized,
        Quantization,
        RecipeError,
        Sharding,
        SpeculativeDecoding,
        TrainingCompute,
        Violation,
    )
    from .recipe.alarms import Alarms, AlarmSettings
    from .recipe.benchmark import QualityRequirement, Workload
    from .recipe.hosting import Adapters, CapacityReservation, Observability, Routing
    from .recipe.scaling import ScalingStep

_HOMES = {
    "Adapters": ".recipe.hosting",
    "AlarmSettings": ".recipe.alarms",
    "Alarms": ".recipe.alarms",
    "ArtifactStore": ".constructs.artifact_store",
    "AsyncInference": ".constructs.async_inference",
    "CapacityReservation": ".recipe.hosting",
    "Compilation": ".recipe",
    "DataCapture": ".constructs.data_capture",
    "EndpointAlarms": ".constructs.endpoint_alarms",
    "EndpointDashboard": ".constructs.endpoint_dashboard",
    "EndpointEvaluation": ".constructs.endpoint_evaluation",
    "EndpointScaling": ".constructs.endpoint_scaling",
    "EvaluatedModel": ".constructs.dashboard_evaluation",
    "FineTune": ".recipe",
    "FleetDashboard": ".constructs.fleet_dashboard",
    "FleetEndpoint": ".constructs.fleet_dashboard",
    "IArtifactStore": ".constructs.artifact_store",
    "IOptimizedEndpoint": ".constructs.endpoint_base",
    "InferenceComponent": ".constructs.inference_component",
    "LoraAdapter": ".constructs.inference_component",
    "Medusa": ".recipe",
    "Model": ".recipe",
    "ModelRecommendation": ".constructs.model_recommendation",
    "Observability": ".recipe.hosting",
    "OptimizationJob": ".constructs.optimization_job",
    "OptimizedArtifact": ".constructs.optimized_artifact",
    "OptimizedEndpoint": ".constructs.optimized_endpoint",
    "Plan": ".recipe",
    "PlatformPolicy": ".policy",
    "PolicyError": ".policy",
    "PolicyValidation": ".constructs.policy_validation",
    "Pool": ".constructs.instance_pool",
    "PreOptimized": ".recipe",
    "QualityRequirement": ".recipe.benchmark",
    "Quantization": ".recipe",
    "RecipeError": ".recipe",
    "Routing": ".recipe.hosting",
    "ScalingStep": ".recipe.scaling",
    "ServedModel": ".constructs.served_model",
    "Sharding": ".recipe",
    "SpeculativeDecoding": ".recipe",
    "TrainingCompute": ".recipe",
    "UpdatePolicy": ".constructs.update_policy",
    "Violation": ".recipe",
    "Workload": ".recipe.benchmark",
}

_TECHNIQUES = ("Compilation", "FineTune", "Medusa", "PreOptimized", "Quantization", "Sharding", "SpeculativeDecoding")

__all__ = [
    "Adapters",
    "AlarmSettings",
    "Alarms",
    "ArtifactStore",
    "AsyncInference",
    "CapacityReservation",
    "Compilation",
    "DataCapture",
    "EndpointAlarms",
    "EndpointDashboard",
    "EndpointEvaluation",
    "EndpointScaling",
    "EvaluatedModel",
    "FineTune",
    "FleetDashboard",
    "FleetEndpoint",
    "IArtifactStore",
    "IOptimizedEndpoint",
    "InferenceComponent",
    "LoraAdapter",
    "Medusa",
    "Model",
    "ModelRecommendation",
    "Observability",
    "OptimizationJob",
    "OptimizedArtifact",
    "OptimizedEndpoint",
    "Plan",
    "PlatformPolicy",
    "PolicyError",
    "PolicyValidation",
    "Pool",
    "PreOptimized",
    "QualityRequirement",
    "Quantization",
    "RecipeError",
    "Routing",
    "ScalingStep",
    "ServedModel",
    "Sharding",
    "SpeculativeDecoding",
    "TrainingCompute",
    "UpdatePolicy",
    "Violation",
    "Workload",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        problem = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(f"{problem}{_hint(name)}", name=name, obj=sys.modules[__name__])
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches

    by_lower = {public.lower(): public for public in _HOMES}
    if name.lower() in ("technique", "techniques"):
        return f"; the techniques are {', '.join(_TECHNIQUES)}"
    close = [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.7)]
    return f"; there is {' and '.join(close)}" if close else "; dir(constructs_optim) lists what there is"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
