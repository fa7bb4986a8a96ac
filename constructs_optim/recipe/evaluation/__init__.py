"""Benchmarks of an endpoint: what is sent to it, what must come of that, and how the results are read."""

from .requests import Benchmark, RecommendationRequest
from .requirements import Limits, QualityRequirement, Regression, Requirement, Requirements, requirements_of
from .workload import Workload

__all__ = [
    "Benchmark",
    "Limits",
    "QualityRequirement",
    "RecommendationRequest",
    "Regression",
    "Requirement",
    "Requirements",
    "Workload",
    "requirements_of",
]
