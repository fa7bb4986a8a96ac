"""Optimized LLM endpoints on Amazon SageMaker, declared as AWS CDK constructs.

The names below are imported on first use: a program that only plans a recipe does not load the AWS CDK.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore
    from .constructs.artifacts.optimization_job import JobOptions, OptimizationJob
    from .constructs.artifacts.optimized_artifact import OptimizedArtifact
    from .constructs.components.inference_component import InferenceComponent, LoraAdapter
    from .constructs.endpoint.async_inference import AsyncInference
    from .constructs.endpoint.data_capture import DataCapture
    from .constructs.endpoint.endpoint_base import IOptimizedEndpoint
    from .constructs.endpoint.instance_pool import Pool
    from .constructs.endpoint.optimized_endpoint import OptimizedEndpoint
    from .constructs.endpoint.options import MonitoringOptions, VariantOptions
    from .constructs.endpoint.update_policy import UpdatePolicy
    from .constructs.evaluation.endpoint_evaluation import EndpointEvaluation
    from .constructs.monitoring.dashboard_evaluation import EvaluatedModel
    from .constructs.monitoring.endpoint_alarms import EndpointAlarms
    from .constructs.monitoring.endpoint_dashboard import EndpointDashboard
    from .constructs.monitoring.fleet_dashboard import FleetDashboard, FleetEndpoint
    from .constructs.monitoring.served_model import ServedModel
    from .constructs.recommendation.model_recommendation import ModelRecommendation
    from .constructs.scaling.endpoint_scaling import EndpointScaling
    from .constructs.stack.network import NetworkOptions
    from .constructs.validation.policy_validation import PolicyValidation
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
    from .recipe.evaluation import QualityRequirement, Workload
    from .recipe.hosting import Adapters, CapacityReservation, Observability, Routing
    from .recipe.hosting.alarms import Alarms, AlarmSettings
    from .recipe.hosting.scaling import ScalingStep

_HOMES = {
    "Adapters": ".recipe.hosting",
    "AlarmSettings": ".recipe.hosting.alarms",
    "Alarms": ".recipe.hosting.alarms",
    "ArtifactStore": ".constructs.artifacts.artifact_store",
    "AsyncInference": ".constructs.endpoint.async_inference",
    "CapacityReservation": ".recipe.hosting",
    "Compilation": ".recipe",
    "DataCapture": ".constructs.endpoint.data_capture",
    "EndpointAlarms": ".constructs.monitoring.endpoint_alarms",
    "EndpointDashboard": ".constructs.monitoring.endpoint_dashboard",
    "EndpointEvaluation": ".constructs.evaluation.endpoint_evaluation",
    "EndpointScaling": ".constructs.scaling.endpoint_scaling",
    "EvaluatedModel": ".constructs.monitoring.dashboard_evaluation",
    "FineTune": ".recipe",
    "FleetDashboard": ".constructs.monitoring.fleet_dashboard",
    "FleetEndpoint": ".constructs.monitoring.fleet_dashboard",
    "IArtifactStore": ".constructs.artifacts.artifact_store",
    "IOptimizedEndpoint": ".constructs.endpoint.endpoint_base",
    "InferenceComponent": ".constructs.components.inference_component",
    "JobOptions": ".constructs.artifacts.optimization_job",
    "LoraAdapter": ".constructs.components.inference_component",
    "Medusa": ".recipe",
    "Model": ".recipe",
    "ModelRecommendation": ".constructs.recommendation.model_recommendation",
    "MonitoringOptions": ".constructs.endpoint.options",
    "NetworkOptions": ".constructs.stack.network",
    "Observability": ".recipe.hosting",
    "OptimizationJob": ".constructs.artifacts.optimization_job",
    "OptimizedArtifact": ".constructs.artifacts.optimized_artifact",
    "OptimizedEndpoint": ".constructs.endpoint.optimized_endpoint",
    "Plan": ".recipe",
    "PlatformPolicy": ".policy",
    "PolicyError": ".policy",
    "PolicyValidation": ".constructs.validation.policy_validation",
    "Pool": ".constructs.endpoint.instance_pool",
    "PreOptimized": ".recipe",
    "QualityRequirement": ".recipe.evaluation",
    "Quantization": ".recipe",
    "RecipeError": ".recipe",
    "Routing": ".recipe.hosting",
    "ScalingStep": ".recipe.hosting.scaling",
    "ServedModel": ".constructs.monitoring.served_model",
    "Sharding": ".recipe",
    "SpeculativeDecoding": ".recipe",
    "TrainingCompute": ".recipe",
    "UpdatePolicy": ".constructs.endpoint.update_policy",
    "VariantOptions": ".constructs.endpoint.options",
    "Violation": ".recipe",
    "Workload": ".recipe.evaluation",
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
    "JobOptions",
    "LoraAdapter",
    "Medusa",
    "Model",
    "ModelRecommendation",
    "MonitoringOptions",
    "NetworkOptions",
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
    "VariantOptions",
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
