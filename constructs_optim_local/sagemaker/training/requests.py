"""Checks of CreateTrainingJob beyond the API's model: the service's own rules, and the local cloud's limits.

Sources: API reference, CreateTrainingJob, StoppingCondition, S3DataSource; developer guide, "Managed Spot Training in
Amazon SageMaker AI" and "SageMaker AI Managed Warm Pools". The messages about MaxWaitTimeInSeconds and missing inputs
are from users' reports. The wording of the other refusals is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from constructs_optim_local.api.error import validation_error
from constructs_optim_local.sagemaker.records import Record

from .host import CHECKPOINTS, TENSORBOARD, can_have_several

MAX_RUNTIME_SECONDS = 86_400
_LONGEST_RUNTIME_SECONDS = 28 * 86_400
_MOST_HOSTS = 8
_LOCAL = "The local cloud"


def check(request: Record) -> None:
    """Refuse a request that the service refuses or that the local cloud cannot run.

    Raises:
        ApiError: ValidationException, naming every problem.
    """
    problems = [*_service_problems(request), *_local_problems(request)]
    if problems:
        raise validation_error(" ".join(problems))


def keep_alive_seconds(request: Record) -> int:
    """Return how many seconds the job's instances stay in a warm pool."""
    return request.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds") or 0


def _service_problems(request: Record) -> Iterator[str]:
    algorithm, stopping = request.get("AlgorithmSpecification", {}), request.get("StoppingCondition", {})
    if len({"TrainingImage", "AlgorithmName"} & set(algorithm)) != 1:
        yield "AlgorithmSpecification must have exactly one of TrainingImage, AlgorithmName."
    resources = request.get("ResourceConfig", {})
    if not resources.get("InstanceType") or not resources.get("InstanceCount"):
        yield "ResourceConfig must have InstanceType, and InstanceCount of at least 1."
    if not resources.get("VolumeSizeInGB"):
        yield "ResourceConfig must have VolumeSizeInGB of at least 1."
    longest = stopping.get("MaxRuntimeInSeconds", MAX_RUNTIME_SECONDS)
    if longest > _LONGEST_RUNTIME_SECONDS:
        yield f"MaxRuntimeInSeconds is {longest}; the maximum is {_LONGEST_RUNTIME_SECONDS} (28 days)."
    wait, spot = stopping.get("MaxWaitTimeInSeconds"), request.get("EnableManagedSpotTraining", False)
    if spot and (wait is None or wait < longest):
        yield (
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds when "
            "EnableManagedSpotTraining is set to true."
        )
    if wait is not None and not spot:
        yield "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true."
    if spot and resources.get("TrainingPlanArn"):
        yield "TrainingPlanArn is not supported when EnableManagedSpotTraining is set to true."
    if spot and keep_alive_seconds(request):
        yield "KeepAlivePeriodInSeconds is not supported when EnableManagedSpotTraining is set to true."
    yield from _metric_problems(algorithm.get("MetricDefinitions", []))
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"InputDataConfig has more than one channel named {name}."
    for uri in _uris(request):
        if not re.fullmatch(r"s3://[^/]+(/.*)?", uri):
            yield f"{uri} is not an S3 URI."


def _metric_problems(definitions: list[Record]) -> Iterator[str]:
    for definition in definitions:
        try:
            re.compile(definition["Regex"])
        except re.error as error:
            yield f"The Regex of metric {definition['Name']} is not a regular expression: {error}."


def _local_problems(request: Record) -> Iterator[str]:
    algorithm = request.get("AlgorithmSpecification", {})
    if not algorithm.get("ContainerEntrypoint"):
        yield (
            f"{_LOCAL} runs no container image: AlgorithmSpecification must have ContainerEntrypoint, which it runs "
            "with the programs of this machine."
        )
    if "AlgorithmName" in algorithm:
        yield f"{_LOCAL} does not support AlgorithmName: AlgorithmSpecification must have TrainingImage."
    for member in ("ServerlessJobConfig", "MlflowConfig", "ModelPackageConfig"):
        if member in request:
            yield f"{_LOCAL} does not support {member}."
    resources = request.get("ResourceConfig", {})
    for member in ("InstanceGroups", "InstancePreferences"):
        if resources.get(member):
            yield f"{_LOCAL} does not support {member} of ResourceConfig: use InstanceType and InstanceCount."
    most = _MOST_HOSTS if can_have_several() else 1
    if resources.get("InstanceCount", 1) > most:
        yield f"{_LOCAL} runs up to {most} instance(s) for a job, and InstanceCount is {resources['InstanceCount']}."
    for channel in request.get("InputDataConfig", []):
        yield from _channel_problems(channel, algorithm)
    for member, default in (("CheckpointConfig", CHECKPOINTS), ("TensorBoardOutputConfig", TENSORBOARD)):
        path = request.get(member, {}).get("LocalPath", default)
        if not re.fullmatch(r"/opt/ml(/[^/]+)+/?", path) or "/../" in f"{path}/":
            yield f"{_LOCAL} provides only /opt/ml: LocalPath of {member} must be below it, and is {path}."


def _channel_problems(channel: Record, algorithm: Record) -> Iterator[str]:
    name, source = channel["ChannelName"], channel["DataSource"].get("S3DataSource")
    if source is None:
        yield f"{_LOCAL} reads channels from S3: the DataSource of channel {name} must have S3DataSource."
        return
    if source["S3DataType"] not in ("S3Prefix", "ManifestFile"):
        yield f"{_LOCAL} supports S3DataType S3Prefix and ManifestFile; channel {name} has {source['S3DataType']}."
    if channel.get("InputMode", algorithm.get("TrainingInputMode")) == "Pipe":
        yield f"{_LOCAL} supports input modes File and FastFile; channel {name} has Pipe."
    if channel.get("CompressionType", "None") != "None":
        yield f"CompressionType is for input mode Pipe only; channel {name} must omit it."


def _uris(request: Record) -> Iterator[str]:
    for channel in request.get("InputDataConfig", []):
        source: dict[str, Any] = channel["DataSource"].get("S3DataSource") or {}
        yield from ([source["S3Uri"]] if source else [])
    yield request["OutputDataConfig"]["S3OutputPath"]
    for member, uri in (("CheckpointConfig", "S3Uri"), ("TensorBoardOutputConfig", "S3OutputPath")):
        if member in request:
            yield request[member][uri]
