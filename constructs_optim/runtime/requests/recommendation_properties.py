"""What a recommendation is asked for, read and checked.

It comes as the properties of ``Custom::ModelRecommendation``, and in the input of the execution that watches the job.

CloudFormation delivers every number and boolean of a custom resource as a string.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import InvalidEvent
from .properties import S3Source
from .property_reader import Reader, object_as_delivered
from .value_shapes import INSTANCE_TYPE, RESOURCE_NAME, S3_URI, is_object, object_in

# Patterns and limits are the API's (CreateAIRecommendationJob).
_METRIC = re.compile(r"[a-z][a-z-]{1,40}")
_FRAMEWORK = re.compile(r"[A-Z][A-Z0-9_]{1,40}")
_RESERVATION = re.compile(r"(?=.{1,256}\Z)arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:\d{12}:[a-z0-9-]{1,14}/\S+", re.ASCII)
_MOST_TYPES, _MOST_RESERVATIONS = 3, 20
_BOOLEANS = ("true", "false")


@dataclass(frozen=True)
class RecommendationRequest:
    """What to recommend instances and optimizations for.

    Attributes:
        source: the model's files.
        workload_config_name: of the AI workload configuration.
        workload: its specification.
        prompts: the prompts' S3 URI, where they are the user's own.
        metric: ``cost``, ``throughput`` or ``ttft-ms``.
        instance_types: those that are tried; the service's choice where there are none.
        framework: ``LMI`` or ``VLLM``; the service's choice where it is None.
        optimize_model: whether the model may be optimized.
        reservation_arns: capacity reservations, outside of which nothing is launched.
        role_arn: what the job assumes.
        bucket: the store.
        kms_key_arn: its key.
    """

    source: S3Source
    workload_config_name: str
    workload: Mapping[str, object]
    prompts: str | None
    metric: str
    instance_types: tuple[str, ...]
    framework: str | None
    optimize_model: bool
    reservation_arns: tuple[str, ...]
    role_arn: str
    bucket: str
    kms_key_arn: str | None

    def key(self, account: str, region: str) -> str:
        """SHA-256 of what is asked, whoever asks: within one store, the same is not paid for twice."""
        asked = {"where": [account, region, self.bucket], "what": self.asked}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    @property
    def asked(self) -> dict[str, object]:
        """What is asked, as the result has it."""
        return {
            "model": self.source.uri,
            "workload": dict(self.workload),
            **({"prompts": self.prompts} if self.prompts is not None else {}),
            "metric": self.metric,
            "instance_types": list(self.instance_types),
            **({"framework": self.framework} if self.framework is not None else {}),
            "optimize_model": self.optimize_model,
            "capacity_reservations": list(self.reservation_arns),
        }


@dataclass(frozen=True)
class RecommendationProperties:
    """What one ``Custom::ModelRecommendation`` asks for."""

    request: RecommendationRequest
    state_machine_arn: str
    wait_handle: str | None
    wait_seconds: int | None
    tags: tuple[tuple[str, str], ...]


def parse_recommendation_properties(properties: Mapping[str, object]) -> RecommendationProperties:
    """Read ``ResourceProperties`` of ``Custom::ModelRecommendation``.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    reader = Reader(properties)
    found, problems = _request(properties.get("Request"))
    reader.problems += [f"Request.{problem}" for problem in problems]
    parsed = RecommendationProperties(
        request=found,
        state_machine_arn=reader.state_machine_arn(),
        wait_handle=reader.wait_handle(),
        wait_seconds=reader.seconds("WaitSeconds"),
        tags=reader.tags(),
    )
    reader.finish()
    return parsed


def parse_recommendation_request(value: object) -> RecommendationRequest:
    """Read the ``Request`` of an execution's input.

    Raises:
        InvalidEvent: naming every member that is missing or malformed.
    """
    found, problems = _request(value)
    if problems:
        raise InvalidEvent(f"these members of Request are missing or malformed: {', '.join(sorted(set(problems)))}")
    return found


def _request(value: object) -> tuple[RecommendationRequest, list[str]]:
    given = object_in(value)
    reader = Reader(given)
    workload = given.get("Workload")
    if not is_object(workload) or not workload:
        reader.problems.append("Workload")
        workload = dict[str, object]()
    optimize = str(given.get("OptimizeModel", "true")).lower()
    if optimize not in _BOOLEANS:
        reader.problems.append("OptimizeModel")
    parsed = RecommendationRequest(
        source=_source(reader),
        workload_config_name=reader.text("WorkloadConfigName", RESOURCE_NAME),
        workload=object_as_delivered(workload),
        prompts=reader.optional("Prompts", S3_URI),
        metric=reader.text("Metric", _METRIC),
        instance_types=reader.texts("InstanceTypes", INSTANCE_TYPE, _MOST_TYPES),
        framework=reader.optional("Framework", _FRAMEWORK),
        optimize_model=optimize == "true",
        reservation_arns=reader.texts("ReservationArns", _RESERVATION, _MOST_RESERVATIONS),
        role_arn=reader.role_arn(),
        bucket=reader.bucket(),
        kms_key_arn=reader.kms_key_arn(),
    )
    return parsed, reader.problems


def _source(reader: Reader) -> S3Source:
    found = S3_URI.fullmatch(reader.text("ModelUri", S3_URI))
    path = (found[2] or "").strip("/") if found else ""
    # Without the slash the prefix "models/llama" would take in "models/llama-chat/" as well.
    return S3Source(found[1] if found else "", f"{path}/" if path else "", accept_eula=False)
