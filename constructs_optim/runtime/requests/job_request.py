"""What a job's request may have besides what the handler fills in, and what its members look like.

Patterns and limits are those of CreateOptimizationJob and CreateTrainingJob, narrowed to what a deployment can mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

from .value_shapes import (
    COUNT,
    IMAGE,
    INSTANCE_TYPE,
    JOB_ENVIRONMENT,
    S3_URI,
    are_optimization_configs,
    is_environment,
    is_list,
    is_object,
    matches,
    object_in,
)

SECONDS = re.compile(r"\d{1,7}", re.ASCII)
_CHANNEL = re.compile(r"[A-Za-z0-9.\-_]{1,255}")
_BOOLEAN = re.compile(r"true|false")
_VOLUME = re.compile(r"\d{1,5}", re.ASCII)
_TRAINING_ENVIRONMENT = (100, 512)
_MOST_HYPERPARAMETERS, _LONGEST_NAME, _LONGEST_VALUE = 100, 256, 2500
_MOST_CHANNELS, _MOST_METRICS, _MOST_PARTS, _LONGEST_PART = 20, 40, 100, 256

_MEMBERS = {
    "OptimizationJob": frozenset(
        {
            "DeploymentInstanceType",
            "MaxInstanceCount",
            "OptimizationConfigs",
            "OptimizationEnvironment",
            "StoppingCondition",
            "VpcConfig",
        }
    ),
    "TrainingJob": frozenset(
        {
            "AlgorithmSpecification",
            "EnableInterContainerTrafficEncryption",
            "EnableManagedSpotTraining",
            "Environment",
            "HyperParameters",
            "InputDataConfig",
            "ResourceConfig",
            "StoppingCondition",
            "VpcConfig",
        }
    ),
}


def is_request(value: object, kind: str) -> TypeGuard[dict[str, object]]:
    """Whether ``value`` has members of such a request, and no others."""
    return is_object(value) and bool(value) and set(value) <= _MEMBERS[kind]


def malformed_members(request: Mapping[str, object], kind: str) -> list[str]:
    """The names of members that are not what they should be, the network aside."""
    checks = _optimization(request) if kind == "OptimizationJob" else _training(request)
    stopping = request.get("StoppingCondition", {})
    limits = {"MaxRuntimeInSeconds"} if kind == "OptimizationJob" else {"MaxRuntimeInSeconds", "MaxWaitTimeInSeconds"}
    checks["StoppingCondition"] = (
        is_object(stopping)
        and set(stopping) <= limits
        and all(matches(seconds, SECONDS) for seconds in stopping.values())
    )
    return [member for member, right in checks.items() if not right]


def _optimization(request: Mapping[str, object]) -> dict[str, bool]:
    return {
        "DeploymentInstanceType": matches(request.get("DeploymentInstanceType"), INSTANCE_TYPE),
        "MaxInstanceCount": matches(request.get("MaxInstanceCount", "1"), COUNT),
        "OptimizationConfigs": are_optimization_configs(request.get("OptimizationConfigs", [])),
        "OptimizationEnvironment": is_environment(request.get("OptimizationEnvironment", {}), JOB_ENVIRONMENT),
    }


def _training(request: Mapping[str, object]) -> dict[str, bool]:
    return {
        "AlgorithmSpecification": _is_algorithm(request.get("AlgorithmSpecification")),
        "EnableInterContainerTrafficEncryption": matches(
            request.get("EnableInterContainerTrafficEncryption", "true"), _BOOLEAN
        ),
        "EnableManagedSpotTraining": matches(request.get("EnableManagedSpotTraining", "false"), _BOOLEAN),
        "Environment": is_environment(request.get("Environment", {}), _TRAINING_ENVIRONMENT),
        "HyperParameters": _are_hyperparameters(request.get("HyperParameters", {})),
        "InputDataConfig": _are_channels(request.get("InputDataConfig", [])),
        "ResourceConfig": _are_resources(request.get("ResourceConfig")),
    }


def _is_algorithm(value: object) -> bool:
    if not is_object(value):
        return False
    known = {"ContainerArguments", "ContainerEntrypoint", "MetricDefinitions", "TrainingImage", "TrainingInputMode"}
    metrics = value.get("MetricDefinitions", [])
    return (
        set(value) <= known
        and matches(value.get("TrainingImage"), IMAGE)
        and value.get("TrainingInputMode") == "File"
        and all(_are_parts(value.get(member)) for member in ("ContainerArguments", "ContainerEntrypoint"))
        and is_list(metrics)
        and len(metrics) <= _MOST_METRICS
        and all(is_object(metric) and set(metric) == {"Name", "Regex"} for metric in metrics)
    )


def _are_parts(value: object) -> bool:
    """Whether ``value`` is a command, in parts."""
    return (
        is_list(value)
        and 0 < len(value) <= _MOST_PARTS
        and all(isinstance(part, str) and len(part) <= _LONGEST_PART for part in value)
    )


def _are_hyperparameters(value: object) -> bool:
    return (
        is_object(value)
        and len(value) <= _MOST_HYPERPARAMETERS
        and all(len(name) <= _LONGEST_NAME for name in value)
        and all(isinstance(text, str) and len(text) <= _LONGEST_VALUE for text in value.values())
    )


def _are_channels(value: object) -> bool:
    # One more is the model's.
    return is_list(value) and len(value) < _MOST_CHANNELS and all(_is_channel(channel) for channel in value)


def _is_channel(value: object) -> bool:
    if not is_object(value) or set(value) != {"ChannelName", "DataSource"}:
        return False
    source = object_in(value["DataSource"]).get("S3DataSource")
    return (
        matches(value["ChannelName"], _CHANNEL)
        and is_object(source)
        and set(source) == {"S3DataDistributionType", "S3DataType", "S3Uri"}
        and source["S3DataType"] == "S3Prefix"
        and source["S3DataDistributionType"] == "FullyReplicated"
        and matches(source["S3Uri"], S3_URI)
    )


def _are_resources(value: object) -> bool:
    return (
        is_object(value)
        and set(value) <= {"InstanceCount", "InstanceType", "KeepAlivePeriodInSeconds", "VolumeSizeInGB"}
        and matches(value.get("InstanceType"), INSTANCE_TYPE)
        and matches(value.get("InstanceCount"), COUNT)
        and matches(value.get("VolumeSizeInGB"), _VOLUME)
        and matches(value.get("KeepAlivePeriodInSeconds", "1"), SECONDS)
    )
